#include "cli/cmd.h"
#include "formats/manifest.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_JSON = 0x200
};

typedef enum checkpoint_verb {
    NO_VERB,
    INFO,
    VERIFY
} checkpoint_verb;

typedef struct checkpoint_args {
    checkpoint_verb verb;
    const char *path;
    bool is_json;
} checkpoint_args;

static const struct argp_option OPTIONS[] = {
    {"json", KEY_JSON, NULL, 0, "info: print the manifest as JSON", 0},
    {0},
};

static void take_argument(struct argp_state *state, checkpoint_args *args, const char *text)
{
    if (args->verb != NO_VERB && args->path == NULL) {
        args->path = text;
    } else if (args->verb != NO_VERB) {
        argp_error(state, "one checkpoint at a time: '%s' is left over", text);
    } else if (strcmp(text, "info") == 0) {
        args->verb = INFO;
    } else if (strcmp(text, "verify") == 0) {
        args->verb = VERIFY;
    } else {
        argp_error(state, "unknown word '%s'; say info or verify", text);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    checkpoint_args *args = state->input;
    switch (key) {
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case ARGP_KEY_ARG:
        take_argument(state, args, arg);
        return 0;
    case ARGP_KEY_END:
        if (args->verb == NO_VERB) {
            argp_error(state, "say info or verify");
        } else if (args->path == NULL) {
            argp_error(state, "which one? give a checkpoint's folder or a run folder");
        } else if (args->is_json && args->verb != INFO) {
            argp_error(state, "--json goes with info");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static uint64_t sum_bytes(const sc_manifest *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n_files; i++) {
        sum += m->files[i].n_bytes;
    }
    return sum;
}

static size_t count_tensors(const sc_manifest *m, size_t file)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n_tensors; i++) {
        n += m->tensors[i].file == file;
    }
    return n;
}

static void print_info(const char *path, const sc_manifest *m)
{
    const sc_manifest_model *model = &m->model;
    (void)printf("checkpoint  %s\nstep        %" PRIu64 "\n", path, m->step);
    (void)printf("model       %" PRId64 " layers, %" PRId64 " heads, width %" PRId64
                 ", MLP %" PRId64 ", vocabulary %" PRId64 ", %" PRId64
                 " positions, embeddings %s\n",
                 model->n_layer, model->n_head, model->n_embd, model->n_inner, model->vocab_size,
                 model->n_positions, model->tie_word_embeddings ? "tied" : "not tied");
    (void)printf("optimizer   %s\n", m->optimizer);
    (void)printf("data        %s, seed %" PRIu64 ", %" PRIu64 " samples of %" PRIu64
                 " tokens a step\n",
                 m->data.path, m->data.seed, m->data.global_batch_size, m->data.sequence_length);
    (void)printf("written by  stagecoach %s, %s, pipeline_parallel %" PRIu64
                 ", tensor_parallel %" PRIu64 ", data_parallel %" PRIu64 "\n",
                 m->program_version, m->layout.schedule, m->layout.pipeline_parallel,
                 m->layout.tensor_parallel, m->layout.data_parallel);
    (void)printf("tensors     %zu in %zu files, %" PRIu64 " bytes\n", m->n_tensors, m->n_files,
                 sum_bytes(m));
    for (size_t i = 0; i < m->n_files; i++) {
        (void)printf("  %s  %zu tensors, %" PRIu64 " bytes\n", m->files[i].name,
                     count_tensors(m, i), m->files[i].n_bytes);
    }
}

static sc_status run_info(const char *path, bool is_json, sc_err *err)
{
    sc_status status = SC_OK;
    sc_checkpoint *checkpoint = NULL;
    char *text = NULL;
    SC_GOTO(sc_checkpoint_open(path, &checkpoint, err));
    if (is_json) {
        SC_GOTO(sc_manifest_format(sc_checkpoint_manifest(checkpoint), &text, err));
        (void)fputs(text, stdout);
    } else {
        print_info(path, sc_checkpoint_manifest(checkpoint));
    }
out:
    free(text);
    sc_checkpoint_close(&checkpoint);
    return status;
}

/* Faults of a checkpoint, the first one's text. */
typedef struct faults {
    size_t n;
    char first[SC_ERR_TEXT_MAX];
} faults;

static bool count_fault(faults *f, sc_status status, const sc_err *err)
{
    if (status != SC_OK && f->n++ == 0) {
        (void)snprintf(f->first, sizeof f->first, "%s", err->text);
    }
    return status != SC_OK;
}

/* A file whose size or head is wrong is one fault; its tensors are not read then. */
static void verify_file(sc_checkpoint *checkpoint, size_t file, faults *f)
{
    sc_err err;
    const sc_manifest *m = sc_checkpoint_manifest(checkpoint);
    if (count_fault(f, sc_checkpoint_check_file(checkpoint, file, &err), &err)) {
        return;
    }
    for (size_t i = 0; i < m->n_tensors; i++) {
        if (m->tensors[i].file == file) {
            (void)count_fault(f, sc_checkpoint_read(checkpoint, i, NULL, NULL, &err), &err);
        }
    }
}

static sc_status run_verify(const char *path, sc_err *err)
{
    faults f = {.n = 0};
    sc_checkpoint *checkpoint = NULL;
    if (!count_fault(&f, sc_checkpoint_open(path, &checkpoint, err), err)) {
        const sc_manifest *m = sc_checkpoint_manifest(checkpoint);
        for (size_t i = 0; i < m->n_files; i++) {
            verify_file(checkpoint, i, &f);
        }
        if (f.n == 0) {
            (void)printf("%s: step %" PRIu64 ", %zu tensors in %zu files, %" PRIu64
                         " bytes: all is as the manifest says\n",
                         path, m->step, m->n_tensors, m->n_files, sum_bytes(m));
        }
    }
    sc_checkpoint_close(&checkpoint);
    return f.n == 0 ? SC_OK
                    : sc_status_fail(err, SC_FAILED, "%.900s (%zu fault%s)", f.first, f.n,
                                     f.n == 1 ? "" : "s");
}

int sc_cmd_checkpoint_main(int argc, char **argv)
{
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "info PATH\nverify PATH",
        .doc = "Shows what is in a checkpoint, and checks it."
               "\vPATH is a checkpoint's folder, or a run folder: then its newest complete one is "
               "taken. `verify' reads every byte; with a fault it names the first, counts them "
               "and exits with 1.",
    };
    sc_err err = {0};
    checkpoint_args args = {.verb = NO_VERB};
    char *path = NULL;
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        (void)sc_status_fail(&err, SC_FAILED, "cannot read the arguments");
        return sc_cmd_fail(&err);
    }
    sc_status status = sc_checkpoint_find(args.path, &path, &err);
    if (status == SC_OK) {
        status = args.verb == INFO ? run_info(path, args.is_json, &err) : run_verify(path, &err);
    }
    free(path);
    return status == SC_OK ? 0 : sc_cmd_fail(&err);
}
