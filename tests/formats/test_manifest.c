/* What is written is read back, every field; every kind of fault in the text is refused by name. */
#include "formats/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sc_manifest_file FILES[] = {{"rank-0.safetensors", 1000}, {"rank-1.safetensors", 500}};
static sc_manifest_tensor TENSORS[] = {
    {"a \"quoted\" name", 0, SC_SAFETENSORS_F32, 2, {3, 5}, 0, 0, 3, 100, 60, 0xfedcba9876543210},
    {"half", 1, SC_SAFETENSORS_BF16, 2, {4, 6}, 1, 3, 3, 0, 24, 1},
    {"scalar", 1, SC_SAFETENSORS_F64, 0, {0}, 0, 0, 1, 24, 8, 2},
};

static sc_manifest make(void)
{
    sc_manifest m = {.program_version = "1.2.3", .step = 100, .optimizer = "adamw"};
    m.model = (sc_manifest_model){12, 3, 24, 96, 61, 16, 1.0000000000000002e-5, 0.1, true};
    m.data = (sc_manifest_data){"data/\"x\".bin", 9007199254740991, 16, 8};
    m.layout = (sc_manifest_layout){2, 1, 1, "1f1b"};
    m.files = FILES;
    m.n_files = 2;
    m.tensors = TENSORS;
    m.n_tensors = 3;
    return m;
}

static char *format(void)
{
    char *text = NULL;
    sc_manifest m = make();
    assert_int_equal(sc_manifest_format(&m, &text, NULL), SC_OK);
    return text;
}

static void expect_same_tensor(const sc_manifest_tensor *a, const sc_manifest_tensor *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->file, b->file);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->n_dims, b->n_dims);
    assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    assert_int_equal(a->shard_dim, b->shard_dim);
    assert_int_equal(a->shard_offset, b->shard_offset);
    assert_int_equal(a->shard_length, b->shard_length);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->n_bytes, b->n_bytes);
    assert_true(a->checksum == b->checksum);
}

static void every_field_comes_back(void **state)
{
    (void)state;
    sc_manifest m = make();
    sc_manifest *back = NULL;
    char *text = format();
    sc_err err = {.text = ""};
    if (sc_manifest_parse("m", text, strlen(text), &back, &err) != SC_OK) {
        fail_msg("%s: %s", err.text, text);
    }
    free(text); // nothing may point into it
    assert_string_equal(back->program_version, m.program_version);
    assert_int_equal(back->step, m.step);
    assert_string_equal(back->optimizer, m.optimizer);
    assert_int_equal(sc_manifest_check_model("m", &back->model, &m.model, &err), SC_OK);
    assert_string_equal(back->data.path, m.data.path);
    assert_true(back->data.seed == m.data.seed);
    assert_int_equal(back->data.global_batch_size, 16);
    assert_int_equal(back->data.sequence_length, 8);
    assert_int_equal(back->layout.pipeline_parallel, 2);
    assert_int_equal(back->layout.tensor_parallel, 1);
    assert_int_equal(back->layout.data_parallel, 1);
    assert_string_equal(back->layout.schedule, "1f1b");
    assert_int_equal(back->n_files, 2);
    assert_string_equal(back->files[1].name, FILES[1].name);
    assert_int_equal(back->files[1].n_bytes, 500);
    assert_int_equal(back->n_tensors, 3);
    for (size_t i = 0; i < 3; i++) {
        expect_same_tensor(&TENSORS[i], &back->tensors[i]);
    }
    assert_ptr_equal(sc_manifest_find(back, "half"), &back->tensors[1]);
    assert_null(sc_manifest_find(back, "hal"));
    sc_manifest_free(&back);
}

/* The text with its first `from` replaced by `to` must be refused with `what` in the message. */
static void expect_refused(const char *from, const char *to, const char *what)
{
    char *text = format();
    char *at = strstr(text, from);
    char *changed = NULL;
    sc_manifest *out = NULL;
    sc_err err = {.text = ""};
    assert_non_null(at);
    assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)) > 0);
    if (sc_manifest_parse("dir/manifest.json", changed, strlen(changed), &out, &err) == SC_OK ||
        strstr(err.text, what) == NULL || strncmp(err.text, "dir/manifest.json: ", 19) != 0) {
        fail_msg("%s -> %s: '%s' is not '%s'", from, to, err.text, what);
    }
    assert_null(out);
    free(changed);
    free(text);
}

static void faults_are_named(void **state)
{
    (void)state;
    expect_refused("\"format_version\": 1", "\"format_version\": 2", "format_version 2");
    expect_refused("\"step\": 100", "\"step\": -1", "step: no whole number");
    expect_refused("\"step\": 100", "\"step\": 1.5", "step: no whole number");
    expect_refused("\"step\": 100", "\"steps\": 100", "step: missing");
    expect_refused("\"step\": 100", "\"step\": 100, \"more\": 1", "keys that are not known");
    expect_refused("\"step\": 100", "\"step\": 100, \"step\": 101", "a key twice");
    expect_refused("\"n_embd\": 24", "\"n_embd\": \"24\"", "model.n_embd: no whole number");
    expect_refused("\"initializer_range\": 0", "\"initializer_range\": true, \"x\": 0",
                   "model: has keys");
    expect_refused("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1",
                   "model.tie_word_embeddings: neither");
    expect_refused("\"seed\": 9007199254740991", "\"seed\": 9007199254740992", "data.seed");
    expect_refused("rank-0.safetensors", "../rank-0.safetensors", "files[0].file: no plain name");
    expect_refused("rank-0.safetensors", ".x", "files[0].file: no plain name");
    expect_refused("rank-1.safetensors", "rank-0.safetensors", "files[1].file: a file that is");
    expect_refused("\"rank-1.safetensors\", \"dtype\"", "\"rank-2.safetensors\", \"dtype\"",
                   "tensor half.file");
    expect_refused("\"BF16\"", "\"F31\"", "tensor half.dtype: unknown");
    expect_refused("[4, 6]", "[4, -6]", "tensor half.shape");
    expect_refused("[4, 6]", "[4, 1, 1, 1, 1, 1, 1, 1, 6]", "tensor half.shape: too many");
    expect_refused("[4, 6]", "[1000000000, 1000000000]", "tensor half.shape: too many");
    expect_refused("\"dim\": 1", "\"dim\": 2", "tensor half.shard: a dimension");
    expect_refused("\"offset\": 3", "\"offset\": 4", "tensor half.shard: it ends outside");
    expect_refused("\"bytes\": 24", "\"bytes\": 25", "tensor half.bytes: they do not fit");
    expect_refused("\"bytes\": 24", "\"bytes\": 501", "tensor half.bytes: they end behind");
    expect_refused("xxh64:fedc", "xxh65:fedc", ".checksum: not xxh64:");
    expect_refused("xxh64:fedc", "xxh64:fed", ".checksum: not xxh64:");
    expect_refused("]}\n", "]", "malformed JSON");
    expect_refused("]}\n", "]} x", "malformed JSON");
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    char *text = format();
    for (size_t n = 0; n + 1 < strlen(text); n++) { // without the last newline it is whole
        sc_manifest *out = NULL;
        char *part = malloc(n + 1); // its own block, so that reading on is seen
        memcpy(part, text, n);
        assert_int_not_equal(sc_manifest_parse("m", part, n, &out, NULL), SC_OK);
        free(part);
    }
    free(text);
}

static void models_are_compared_field_by_field(void **state)
{
    (void)state;
    sc_manifest m = make();
    sc_manifest_model other = m.model;
    sc_err err = {.text = ""};
    other.n_head = 4;
    assert_int_equal(sc_manifest_check_model("c", &m.model, &other, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "c: model.n_head is 3, the job has 4"));
    other = m.model;
    other.layer_norm_epsilon = 1e-5;
    assert_int_equal(sc_manifest_check_model("c", &m.model, &other, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "model.layer_norm_epsilon is 1.000000000000000"));
    other = m.model;
    other.tie_word_embeddings = false;
    assert_int_equal(sc_manifest_check_model("c", &m.model, &other, &err), SC_INVALID);
    assert_non_null(strstr(err.text, "model.tie_word_embeddings is true, the job has false"));
}

static void heads_are_compared_with_the_manifest(void **state)
{
    (void)state;
    sc_manifest m = make();
    sc_err err = {.text = ""};
    sc_safetensors_entry entries[] = {
        {"half", SC_SAFETENSORS_BF16, 2, {4, 3}, 12, 0, 24},
        {"scalar", SC_SAFETENSORS_F64, 0, {0}, 1, 24, 8},
        {"more", SC_SAFETENSORS_F32, 1, {0}, 0, 32, 0},
    };
    sc_safetensors head = {.n_entries = 2, .entries = entries};
    assert_int_equal(sc_manifest_check_head(&m, 1, "f", &head, &err), SC_OK);
    head.n_entries = 3;
    assert_int_equal(sc_manifest_check_head(&m, 1, "f", &head, &err), SC_INVALID);
    assert_string_equal(err.text, "f: tensor more: extra, the manifest does not name it");
    head.n_entries = 1;
    assert_int_equal(sc_manifest_check_head(&m, 1, "f", &head, &err), SC_INVALID);
    assert_string_equal(err.text, "f: tensor scalar: missing, the manifest names it");
    head.n_entries = 2;
    entries[0].shape[1] = 6;
    assert_int_equal(sc_manifest_check_head(&m, 1, "f", &head, &err), SC_INVALID);
    assert_string_equal(err.text, "f: tensor half: shape [4, 6], the manifest says [4, 3]");
    entries[0].dtype = SC_SAFETENSORS_F16;
    assert_int_equal(sc_manifest_check_head(&m, 1, "f", &head, &err), SC_INVALID);
    assert_string_equal(err.text, "f: tensor half: dtype F16, the manifest says BF16");
    entries[0] = (sc_safetensors_entry){"half", SC_SAFETENSORS_BF16, 2, {4, 3}, 12, 8, 24};
    assert_int_equal(sc_manifest_check_head(&m, 1, "f", &head, &err), SC_INVALID);
    assert_string_equal(err.text, "f: tensor half: at byte 8, the manifest says 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(models_are_compared_field_by_field),
        cmocka_unit_test(heads_are_compared_with_the_manifest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
