/*
 * manifest - what a checkpoint holds: manifest.json of its folder as a struct, and back.
 *
 * A checkpoint is a folder: rank-R.safetensors files and manifest.json, which names every tensor
 * with its file, shape, byte range and checksum, and the facts that a job must share to go on from
 * it. A tensor may be there in shards (a place for tensor parallelism: a dimension, an offset and a
 * length); now every shard is the whole tensor.
 *
 * manifest.c reads the text, manifest_format.c writes it, manifest_check.c compares;
 * io/checkpoint.c opens the folder and reads tensors.
 */
#ifndef SC_FORMATS_MANIFEST_H
#define SC_FORMATS_MANIFEST_H

#include "formats/safetensors.h"

enum {
    SC_MANIFEST_VERSION = 1, // format_version of what is written; no other is read
    SC_MANIFEST_BYTES_MAX = 256 * 1024 * 1024,
    SC_MANIFEST_FILES_MAX = 4096,
    SC_MANIFEST_TEXT_MAX = 4095 // bytes of a name or path
};

#define SC_MANIFEST_FILE "manifest.json"

/* In front of a parameter's name: AdamW's moments of it. */
#define SC_MANIFEST_MOMENT_1 "optimizer.m."
#define SC_MANIFEST_MOMENT_2 "optimizer.v."

/* A model's numbers: kind, field. Kinds: INT (int64_t), REAL (double), BOOL (bool). */
#define SC_MANIFEST_MODEL_MAP(X) \
    X(INT, n_layer) \
    X(INT, n_head) \
    X(INT, n_embd) \
    X(INT, n_inner) \
    X(INT, vocab_size) \
    X(INT, n_positions) \
    X(REAL, layer_norm_epsilon) \
    X(REAL, initializer_range) \
    X(BOOL, tie_word_embeddings)

/* The fields of model/spec.h, which this folder does not know. */
typedef struct sc_manifest_model {
    int64_t n_layer;
    int64_t n_head;
    int64_t n_embd;
    int64_t n_inner;
    int64_t vocab_size;
    int64_t n_positions;
    double layer_norm_epsilon;
    double initializer_range;
    bool tie_word_embeddings;
} sc_manifest_model;

/* What the order of the data depends on. */
typedef struct sc_manifest_data {
    const char *path; // as the job named it
    uint64_t seed;
    uint64_t global_batch_size; // samples
    uint64_t sequence_length;   // tokens
} sc_manifest_data;

/* Who wrote it; no need for the job that goes on to be the same. */
typedef struct sc_manifest_layout {
    uint64_t pipeline_parallel;
    uint64_t tensor_parallel;
    uint64_t data_parallel;
    const char *schedule;
} sc_manifest_layout;

typedef struct sc_manifest_file {
    const char *name; // in the folder
    uint64_t n_bytes;
} sc_manifest_file;

typedef struct sc_manifest_tensor {
    const char *name;
    size_t file; // index in files
    sc_safetensors_dtype dtype;
    int n_dims;
    int64_t shape[SC_SAFETENSORS_DIMS_MAX]; // of the whole tensor
    int shard_dim;                          // the dimension that is split
    int64_t shard_offset;
    int64_t shard_length;
    uint64_t offset; // of its first byte in the file
    uint64_t n_bytes;
    uint64_t checksum; // sc_checksum of these bytes
} sc_manifest_tensor;

typedef struct sc_manifest {
    sc_arena arena; // of a parsed one: owns what follows
    const char *program_version;
    uint64_t step; // optimizer updates done
    sc_manifest_model model;
    const char *optimizer; // "adamw", "sgd"
    sc_manifest_data data;
    sc_manifest_layout layout;
    sc_manifest_file *files;
    size_t n_files;
    sc_manifest_tensor *tensors;
    size_t n_tensors;
} sc_manifest;

/* Parses n bytes of text; `name` is for messages. Every key must be there once and no other;
   numbers, names, shapes, ranges and shards are checked. Caller frees. */
sc_status sc_manifest_parse(const char *name, const char *text, size_t n, sc_manifest **out,
                            sc_err *err);
void sc_manifest_free(sc_manifest **manifest);

/* The tensor of that name, from its first shard; NULL when there is none. */
const sc_manifest_tensor *sc_manifest_find(const sc_manifest *manifest, const char *tensor);

/* --- manifest_format.c --- */

/* The manifest as text, a line a tensor. malloc, caller frees. */
sc_status sc_manifest_format(const sc_manifest *manifest, char **out, sc_err *err);
/* "F32" */
const char *sc_manifest_format_dtype(sc_safetensors_dtype dtype);
/* "[2, 3]" into out, which it returns. */
const char *sc_manifest_format_shape(const int64_t *shape, int n_dims, char *out, size_t n);

/* --- manifest_check.c --- */

/* SC_INVALID, naming the first field that differs and both values, when models differ. `name` is
   whose manifest it is. */
sc_status sc_manifest_check_model(const char *name, const sc_manifest_model *theirs,
                                  const sc_manifest_model *ours, sc_err *err);
/* What a safetensors file's header says against the manifest's tensors of that file: each is there
   with its dtype, shape and place, and no other is. `path` is for messages. */
sc_status sc_manifest_check_head(const sc_manifest *manifest, size_t file, const char *path,
                                 const sc_safetensors *head, sc_err *err);

/* --- io/checkpoint.c --- */

/* A checkpoint's folder, open for reading. */
typedef struct sc_checkpoint sc_checkpoint;

/* Takes the next n bytes of a tensor. */
typedef sc_status (*sc_checkpoint_sink)(void *context, const void *bytes, size_t n, sc_err *err);

/* Reads the folder's manifest. Caller closes. */
sc_status sc_checkpoint_open(const char *folder, sc_checkpoint **out, sc_err *err);
void sc_checkpoint_close(sc_checkpoint **checkpoint);
const sc_manifest *sc_checkpoint_manifest(const sc_checkpoint *checkpoint);

/* Opens a file of the manifest, unless it is open, and checks its size and its head. Errors name
   the tensor, where it is one's fault, the file, and what is wrong. */
sc_status sc_checkpoint_check_file(sc_checkpoint *checkpoint, size_t file, sc_err *err);
/* Hands a tensor's bytes to the sink, piece by piece (sink NULL: only reads), and then checks the
   checksum: what the sink got counts only when SC_OK comes back. */
sc_status sc_checkpoint_read(sc_checkpoint *checkpoint, size_t tensor, sc_checkpoint_sink sink,
                             void *context, sc_err *err);

/* The newest complete checkpoint that a path leads to: the path itself, when manifest.json is in
   it; the one with the most steps in it or in its folder checkpoints/. SC_NOT_FOUND, saying where
   it looked, when there is none. malloc, caller frees. */
sc_status sc_checkpoint_find(const char *path, char **out, sc_err *err);
/* The same for the job NAME without a path: of the run folders RUNS_DIR/NAME, NAME-2, NAME-3 ...
   the last one that has a complete checkpoint. */
sc_status sc_checkpoint_find_run(const char *runs_dir, const char *name, char **out, sc_err *err);

#endif
