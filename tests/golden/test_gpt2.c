/* The model equals PyTorch's GPT-2: gpt2_tiny.bin is what make_gpt2.py wrote. */
#include "tests/stage/slice_rig.h"

#include "kernels/backends.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    STEPS = 3,
    FILE_BYTES_MAX = 600000,
    HEADER_BYTES = 8 + 7 * 4
};

static const double TOLERANCE = 1e-5; // of a tensor's norm
static const float LR = 1e-3F;

static unsigned char *file;
static size_t file_bytes;
static sc_backend *cpu;
static sc_backend backend; // cpu, with the logits copied on their way into the cross entropy
static float logits[FILE_BYTES_MAX / 4]; // (n_mb,B,T,V) in the order of the calls
static size_t n_logits;                  // copied so far
static size_t logits_elems;              // of a whole step

static sc_status copy_logits(sc_backend *be, sc_stream *s, const sc_xent_args *a, sc_err *err)
{
    (void)be;
    size_t n = (size_t)(a->N * a->V);
    if (n_logits + n <= logits_elems) {
        memcpy(logits + n_logits, a->logits, n * sizeof *logits);
        n_logits += n;
    }
    return cpu->xent(cpu, s, a, err);
}

static uint32_t u32_at(size_t offset)
{
    uint32_t value;
    assert_true(offset + sizeof value <= file_bytes);
    memcpy(&value, file + offset, sizeof value);
    return value;
}

/* Copies a record's elements, of which there must be n. */
static void read_record(const char *prefix, const char *name, size_t n, void *out)
{
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, "%s%s", prefix, name);
    for (size_t at = HEADER_BYTES; at < file_bytes;) {
        size_t n_name = u32_at(at);
        const char *text = (const char *)file + at + 4;
        size_t n_elems = u32_at(at + 4 + n_name);
        size_t data = at + 8 + n_name;
        assert_true(data + n_elems * 4 <= file_bytes);
        if (n_name == strlen(wanted) && memcmp(text, wanted, n_name) == 0) {
            assert_int_equal(n_elems, n);
            memcpy(out, file + data, n * 4);
            return;
        }
        at = data + n_elems * 4;
    }
    fail_msg("gpt2_tiny.bin has no %s", wanted);
}

/* The norm of the difference over the norm of the truth. */
static void assert_close(const char *what, const char *name, const float *expected,
                         const float *found, size_t n)
{
    double difference = 0.0;
    double norm = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)found[i] - (double)expected[i];
        difference += d * d;
        norm += (double)expected[i] * (double)expected[i];
    }
    double relative = sqrt(difference / norm);
    assert_true(norm > 0);
    if (!(relative <= TOLERANCE)) {
        fail_msg("%s %s: relative error %.3g", what, name, relative);
    }
}

static void compare_record(const char *prefix, const char *name, const float *found, size_t n)
{
    float *expected = malloc(n * sizeof *expected);
    assert_non_null(expected);
    read_record(prefix, name, n, expected);
    assert_close(prefix, name, expected, found, n);
    free(expected);
}

static sc_rig_config make_config(int n_stages, int n_mb, sc_rig_order order)
{
    sc_rig_config config = {.n_stages = n_stages, .n_mb = n_mb, .order = order};
    config.spec = (sc_model_spec){.n_layer = (int)u32_at(8),
                                  .n_head = (int)u32_at(12),
                                  .n_embd = (int)u32_at(16),
                                  .vocab_size = (int)u32_at(20),
                                  .n_positions = (int)u32_at(24),
                                  .layer_norm_epsilon = 1e-5,
                                  .tie_word_embeddings = true};
    assert_int_equal(sc_spec_check(&config.spec, NULL), SC_OK);
    for (int s = 0; s < n_stages; s++) {
        config.blocks[s] = config.spec.n_layer / n_stages;
    }
    config.B = (int)u32_at(28) / n_mb;
    config.T = (int)u32_at(32);
    config.backend = &backend;
    return config;
}

/* Tokens, targets and weights from the file. */
static void load(sc_rig *rig)
{
    size_t n_samples = (size_t)rig->config.n_mb * (size_t)rig->config.B;
    size_t n_tokens = n_samples * (size_t)rig->config.T;
    int n_valid = 0;
    read_record("", "tokens", n_tokens, rig->tokens);
    read_record("", "targets", n_tokens, rig->targets);
    for (size_t i = 0; i < n_tokens; i++) {
        n_valid += rig->targets[i] != SC_IGNORE_INDEX ? 1 : 0;
    }
    rig->loss_scale = 1.0F / (float)n_valid;
    for (int s = 0; s < rig->config.n_stages; s++) {
        for (int i = 0; i < rig->slices[s]->n_params; i++) {
            const sc_slice_param *p = &rig->slices[s]->params[i];
            read_record("w/", rig->registry->params[p->param].name, p->n_elems, p->w);
        }
    }
    logits_elems = n_tokens * (size_t)rig->config.spec.vocab_size;
    n_logits = 0;
    assert_true(logits_elems <= FILE_BYTES_MAX / 4);
}

static void compare_grads(const sc_rig *rig)
{
    for (int i = 0; i < rig->registry->n_params; i++) {
        const sc_param *param = &rig->registry->params[i];
        float *grad = sc_slice_rig_grad(rig, i);
        compare_record("grad/", param->name, grad, param->n_elems);
        free(grad);
    }
}

static void compare_weights(const sc_rig *rig)
{
    for (int s = 0; s < rig->config.n_stages; s++) {
        for (int i = 0; i < rig->slices[s]->n_params; i++) {
            const sc_slice_param *p = &rig->slices[s]->params[i];
            const char *name = rig->registry->params[p->param].name;
            compare_record("after/", name, p->w, p->n_elems);
        }
    }
}

static void train(int n_stages, int n_mb, sc_rig_order order)
{
    const sc_optim_config adamw = {.kind = SC_OPTIM_ADAMW,
                                   .beta1 = 0.9F,
                                   .beta2 = 0.95F,
                                   .epsilon = 1e-4F,
                                   .weight_decay = 0.1F};
    sc_rig_config config = make_config(n_stages, n_mb, order);
    sc_rig rig;
    sc_rig_optim optim;
    float losses[STEPS];
    float norms[STEPS];
    sc_slice_rig_open(&config, &rig);
    sc_slice_rig_optim_open(&rig, &adamw, &optim);
    load(&rig);
    for (uint64_t step = 0; step < STEPS; step++) {
        double loss = 0.0;
        sc_err err = {0};
        if (sc_slice_rig_step(&rig, step, &err) != SC_OK) {
            fail_msg("%s", err.text);
        }
        for (int mb = 0; mb < n_mb; mb++) {
            loss += rig.losses[mb];
        }
        losses[step] = (float)(loss * (double)rig.loss_scale);
        if (step == 0) {
            assert_int_equal(n_logits, logits_elems);
            compare_record("", "logits", logits, logits_elems);
            compare_grads(&rig);
        }
        norms[step] = (float)sc_slice_rig_optim_step(&rig, &optim, LR, step + 1, 0.0F);
    }
    compare_record("", "losses", losses, STEPS);
    compare_record("", "norms", norms, STEPS);
    compare_weights(&rig);
    sc_slice_rig_optim_close(&optim);
    sc_slice_rig_close(&rig);
}

static void one_stage_equals_pytorch(void **state)
{
    (void)state;
    train(1, 1, SC_RIG_GPIPE);
}

static void two_stages_equal_pytorch(void **state)
{
    (void)state;
    train(2, 2, SC_RIG_1F1B_SPLIT);
}

static int load_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    if (in == NULL) {
        perror(path);
        return 1;
    }
    file = malloc(FILE_BYTES_MAX);
    file_bytes = file == NULL ? 0 : fread(file, 1, FILE_BYTES_MAX, in);
    (void)fclose(in);
    if (file_bytes < HEADER_BYTES || memcmp(file, "SCGOLD1", 8) != 0) {
        (void)fprintf(stderr, "%s: not a golden file\n", path);
        return 1;
    }
    return 0;
}

int main(void)
{
    sc_err err = {0};
    if (load_file(SC_SOURCE_DIR "/tests/golden/gpt2_tiny.bin") != 0) {
        return 1;
    }
    if (sc_backends_open("cpu", 1, NULL, &cpu, &err) != SC_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    backend = *cpu;
    backend.xent = copy_logits;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stage_equals_pytorch),
        cmocka_unit_test(two_stages_equal_pytorch),
    };
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    cpu->free(&cpu);
    free(file);
    return n_failed;
}
