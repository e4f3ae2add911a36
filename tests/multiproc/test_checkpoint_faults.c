/* Every kind of damaged or foreign checkpoint is refused by name, by verify and by a run. */
#include "tests/multiproc/saves.h"
#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    STEPS = 2,
    FAILED = 1, // exit codes
    INVALID = 3,
    FILES = 3
};

static const sc_jobs_layout LAYOUT = {"1f1b", 2, {6, 6}};
static const char *const NAMES[FILES] = {"manifest.json", "rank-0.safetensors",
                                         "rank-1.safetensors"};
static const char TENSOR[] = "transformer.h.3.ln_1.weight";

/* A job, its checkpoint, and a damaged copy of that. */
typedef struct world {
    sc_jobs jobs;
    char *from;
    char *dir; // the copy's, which a fault has to itself
    char *bytes[FILES];
    size_t n[FILES];
} world;

static void open_world(world *w)
{
    static const char *const more[] = {"--set", "checkpoint.every=1", NULL};
    sc_jobs_config config = sc_jobs_small(2);
    config.optimizer = SC_JOBS_ADAMW;
    config.steps = STEPS;
    sc_jobs_open(&config, &w->jobs);
    sc_proc *proc = sc_saves_run(&w->jobs, &LAYOUT, more, 0);
    sc_proc_free(&proc);
    char *run_dir = sc_saves_run_dir(&w->jobs);
    w->from = sc_saves_path(run_dir, 1);
    free(run_dir);
}

static void close_world(world *w)
{
    free(w->from);
    sc_jobs_close(&w->jobs);
}

static void begin(world *w)
{
    w->dir = sc_tmpdir_new();
    for (int i = 0; i < FILES; i++) {
        char *path = sc_tmpdir_path(w->from, NAMES[i]);
        w->bytes[i] = sc_tmpdir_read(path, &w->n[i]);
        free(path);
    }
}

static char *find(world *w, int file, const char *text)
{
    char *at = memmem(w->bytes[file], w->n[file], text, strlen(text));
    if (at == NULL) {
        fail_msg("no %s in %s", text, NAMES[file]);
    }
    return at;
}

/* Replaces the text behind `mark` by one of the same length. */
static void replace(world *w, int file, const char *mark, const char *from, const char *to)
{
    char *at = find(w, file, mark);
    char *place = memmem(at, w->n[file] - (size_t)(at - w->bytes[file]), from, strlen(from));
    assert_non_null(place);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(place, to, strlen(to));
}

/* Takes the manifest's line of a tensor out. */
static void remove_line(world *w, const char *name)
{
    char mark[128];
    snprintf(mark, sizeof mark, "  {\"name\": \"%s\"", name);
    char *at = find(w, 0, mark);
    char *next = memchr(at, '\n', w->n[0] - (size_t)(at - w->bytes[0]));
    assert_non_null(next);
    w->n[0] -= (size_t)(next + 1 - at);
    memmove(at, next + 1, w->n[0] - (size_t)(at - w->bytes[0]));
}

static void expect_text(sc_proc *proc, const char *what)
{
    if (strstr(sc_proc_text(proc, SC_PROC_ERR), what) == NULL) {
        fail_msg("no '%s' in: %s", what, sc_proc_text(proc, SC_PROC_ERR));
    }
    sc_proc_free(&proc);
}

/* Writes the copy; verify and a run must both refuse it. by_run: NULL when it is the same text. */
static void expect_refused(world *w, const char *by_verify, const char *by_run)
{
    for (int i = 0; i < FILES; i++) {
        if (w->bytes[i] != NULL) {
            free(sc_tmpdir_write(w->dir, NAMES[i], w->bytes[i], w->n[i]));
            free(w->bytes[i]);
        }
    }
    const char *const verify[] = {"checkpoint", "verify", w->dir, NULL};
    const char *const more[] = {"--resume", w->dir, NULL};
    if (by_verify != NULL) {
        expect_text(sc_saves_command(&w->jobs, verify, FAILED), by_verify);
    }
    expect_text(sc_saves_run(&w->jobs, &LAYOUT, more, INVALID),
                by_run != NULL ? by_run : by_verify);
    sc_tmpdir_free(&w->dir);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    begin(&w); // one bit of the last tensor's data
    w.bytes[2][w.n[2] - 1] ^= 1;
    expect_refused(&w, ": corrupted: checksum xxh64:", NULL);
    begin(&w);
    w.n[1]--;
    expect_refused(&w, "rank-0.safetensors: ", "truncated");
    begin(&w);
    free(w.bytes[2]);
    w.bytes[2] = NULL;
    expect_refused(&w, "rank-1.safetensors: missing (1 fault)", "rank-1.safetensors: missing");
    begin(&w);
    w.n[0] /= 2;
    expect_refused(&w, "manifest.json: byte ", "malformed JSON, or cut off");
    begin(&w);
    memset(w.bytes[1], 0xff, 8); // the header's length
    expect_refused(&w, "rank-0.safetensors: byte 0: header length", NULL);
    close_world(&w);
}

static void files_that_do_not_fit_the_manifest_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    begin(&w);
    replace(&w, 1, TENSOR, "ln_1", "ln_9");
    expect_refused(&w, "rank-0.safetensors: tensor transformer.h.3.ln_1.weight: missing", NULL);
    begin(&w);
    replace(&w, 1, TENSOR, "F32", "I32");
    expect_refused(&w, "tensor transformer.h.3.ln_1.weight: dtype I32, the manifest says F32",
                   NULL);
    begin(&w);
    replace(&w, 1, "transformer.h.3.mlp.c_fc.weight", "[24,96]", "[96,24]");
    expect_refused(&w, "c_fc.weight: shape [96, 24], the manifest says [24, 96]", NULL);
    begin(&w);
    remove_line(&w, TENSOR);
    expect_refused(&w, "rank-0.safetensors: tensor transformer.h.3.ln_1.weight: extra",
                   "tensor transformer.h.3.ln_1.weight: missing, the model needs it");
    close_world(&w);
}

static void manifests_that_do_not_fit_the_model_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    begin(&w);
    replace(&w, 0, TENSOR, "ln_1", "ln_9");
    expect_refused(&w, "tensor transformer.h.3.ln_9.weight: missing, the manifest names it",
                   "tensor transformer.h.3.ln_1.weight: missing, the model needs it");
    begin(&w);
    replace(&w, 0, "\"transformer.h.3.mlp.c_fc.weight", "[24, 96]", "[96, 24]");
    replace(&w, 0, "\"transformer.h.3.mlp.c_fc.weight", "\"length\": 24", "\"length\": 96");
    expect_refused(&w, NULL, "c_fc.weight: shape [96, 24], the model needs [24, 96]");
    begin(&w);
    replace(&w, 0, TENSOR, "F32", "I32");
    expect_refused(&w, NULL, "tensor transformer.h.3.ln_1.weight: dtype I32, F32 is needed");
    begin(&w);
    replace(&w, 0, "\"model\"", "\"n_head\": 3", "\"n_head\": 4");
    expect_refused(&w, NULL, "model.n_head is 4, the job has 3");
    begin(&w);
    replace(&w, 0, "format_version", "1", "2");
    char *path = sc_tmpdir_write(w.dir, NAMES[0], w.bytes[0], w.n[0]);
    const char *const info[] = {"checkpoint", "info", w.dir, NULL};
    expect_text(sc_saves_command(&w.jobs, info, 6), "this program reads version 1");
    free(path);
    for (int i = 0; i < FILES; i++) {
        free(w.bytes[i]);
    }
    sc_tmpdir_free(&w.dir);
    close_world(&w);
}

static void jobs_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    const char *const cases[][2] = {
        {"optimizer.name=sgd", "optimizer.name is adamw, the job has sgd"},
        {"train.steps=1", "1 steps are done, and train.steps is 1: raise it"},
        {"model.tie_word_embeddings=false", "model.tie_word_embeddings is true, the job has false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const more[] = {"--resume", w.from, "--set", cases[i][0], NULL};
        expect_text(sc_saves_run(&w.jobs, &LAYOUT, more, INVALID), cases[i][1]);
    }
    // without any: it says where it looked
    const char *const none[] = {"--resume", "--name", "other", NULL};
    expect_text(sc_saves_run(&w.jobs, &LAYOUT, none, INVALID),
                "no complete checkpoint in 0 run folders runs/other and other-N");
    const char *const empty[] = {"--resume", w.jobs.dir, NULL};
    expect_text(sc_saves_run(&w.jobs, &LAYOUT, empty, INVALID),
                ": no complete checkpoint: neither manifest.json nor");
    close_world(&w);
}

/* Other data is no error: it is told. */
static void other_data_is_told(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    const char *const more[] = {"--resume", w.from, "--set", "train.seed=8", NULL};
    sc_proc *proc = sc_saves_run(&w.jobs, &LAYOUT, more, 0);
    if (strstr(sc_proc_text(proc, SC_PROC_OUT), "other data order: train.seed was 7 and is 8") ==
        NULL) {
        fail_msg("%s", sc_proc_text(proc, SC_PROC_OUT));
    }
    sc_proc_free(&proc);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(files_that_do_not_fit_the_manifest_are_refused),
        cmocka_unit_test(manifests_that_do_not_fit_the_model_are_refused),
        cmocka_unit_test(jobs_that_do_not_fit_are_refused),
        cmocka_unit_test(other_data_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
