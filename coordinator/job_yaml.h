/*
 * job_yaml - YAML text -> a tree of nodes that know their line and column.
 *
 * Owns:     nothing; nodes live in the caller's arena.
 * Does not: know any key, or open a file.
 *
 * What a job file has no use for is refused: anchors, aliases, tags, several documents, keys that
 * are no plain names, one key twice in a mapping. Size, depth and number of nodes have limits.
 */
#ifndef SC_COORDINATOR_JOB_YAML_H
#define SC_COORDINATOR_JOB_YAML_H

#include "base/arena.h"

#include <stdbool.h>

enum {
    SC_JOB_YAML_BYTES_MAX = 256 * 1024,
    SC_JOB_YAML_DEPTH_MAX = 8,
    SC_JOB_YAML_NODES_MAX = 4096
};

/* Where a text stands. Lines and columns count from 1; line 0: the source alone. */
typedef struct sc_job_mark {
    const char *source; // file or "--set a.b=value"
    int line;
    int column;
} sc_job_mark;

typedef enum sc_job_node_kind {
    SC_JOB_NODE_SCALAR,
    SC_JOB_NODE_LIST,
    SC_JOB_NODE_MAP
} sc_job_node_kind;

typedef struct sc_job_node {
    sc_job_node_kind kind;
    const char *path;         // "model.n_embd"; a list's items have the list's path; root: ""
    const char *key;          // last part of the path, "" for the root
    const char *text;         // of a scalar; "" when empty
    bool is_quoted;           // the scalar stood in quotes or in a block
    sc_job_mark mark;         // of the value; of the key where there is no value
    sc_job_mark key_mark;     // of the key; of the value for items and the root
    struct sc_job_node *next; // sibling
    struct sc_job_node *first;
    struct sc_job_node *last;
    struct sc_job_node *parent;
    int n_children;
} sc_job_node;

/* Parses n bytes. Nodes and paths live in the arena; `source` is borrowed as long as the nodes. An
   empty text gives an empty mapping. */
sc_status sc_job_yaml_parse(const char *source, const char *text, size_t n, sc_arena *arena,
                            sc_job_node **out, sc_err *err);

/* "job.yaml:14:20: model.n_embd: " and the formatted text, as SC_INVALID. path may be "". */
sc_status sc_job_yaml_fail(const sc_job_mark *mark, const char *path, sc_err *err,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
