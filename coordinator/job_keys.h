/*
 * job_keys - the one table of a job's keys: path, type, limits, default, help, place in sc_job.
 *
 * Parsing, defaults, the resolved copy and the documented list all come from it. Rules between keys
 * are job_check's.
 */
#ifndef SC_COORDINATOR_JOB_KEYS_H
#define SC_COORDINATOR_JOB_KEYS_H

#include "coordinator/job.h"
#include "coordinator/job_yaml.h"
#include "schedules/text.h"

typedef enum sc_job_key_type {
    SC_JOB_KEY_INT,           // int
    SC_JOB_KEY_COUNT,         // uint64_t
    SC_JOB_KEY_REAL,          // double
    SC_JOB_KEY_BOOL,          // bool
    SC_JOB_KEY_TEXT,          // const char *
    SC_JOB_KEY_CHOICE,        // an enum: index into choices
    SC_JOB_KEY_INTS,          // const int *, with its count at count_offset
    SC_JOB_KEY_CHOICE_OR_INTS // an enum as CHOICE, whose value after the last choice means a list:
                              // const int * at list_offset, its count at count_offset
} sc_job_key_type;

/* Which jobs must say the key. */
typedef enum sc_job_key_need {
    SC_JOB_NEED_NONE,
    SC_JOB_NEED_ALL,
    SC_JOB_NEED_CPU,
    SC_JOB_NEED_PACED
} sc_job_key_need;

enum {
    SC_JOB_CHOICES_MAX = 4,
    SC_JOB_TEXT_MAX = 4095 // bytes of a text value
};

typedef struct sc_job_key {
    const char *path; // "model.n_embd"
    sc_job_key_type type;
    sc_job_key_need need;
    size_t offset;       // in sc_job
    size_t count_offset; // of INTS and CHOICE_OR_INTS
    size_t list_offset;  // of CHOICE_OR_INTS
    double min;          // INT, COUNT, REAL; of the items of INTS
    double max;
    bool is_open_min; // min itself is not allowed
    bool is_open_max;
    const char *const choices[SC_JOB_CHOICES_MAX]; // CHOICE, ends with NULL
    const char *text; // default as it would stand in the file; NULL: empty
    const char *help; // one line
} sc_job_key;

/* All keys in the order of the documented list, sections together. */
const sc_job_key *sc_job_keys_list(size_t *n_out);
/* Index of a path, -1 when it is none. */
int sc_job_keys_find(const char *path);
/* True when the path is a section ("model"). */
bool sc_job_keys_is_section(const char *path);
/* The key or section that looks most like an unknown path; NULL when nothing is near. The text
   lives in out. */
const char *sc_job_keys_nearest(const char *path, char *out, size_t n);

/* Sets every key to its default. */
sc_status sc_job_keys_set_defaults(sc_job *job, sc_err *err);
/* Reads a node into the key's field. */
sc_status sc_job_keys_set(const sc_job_key *key, const sc_job_node *node, sc_job *job, sc_err *err);

/* Adds the value as YAML. */
void sc_job_keys_add_value(const sc_job_key *key, const sc_job *job, sc_text *text);
/* Adds the type and its limits in words: "whole number, 1 to 1024". */
void sc_job_keys_add_limits(const sc_job_key *key, sc_text *text);

#endif
