/* Which saves are complete, which fail, what goes; and a manifest against a model. */
#include "coordinator/snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    RANKS = 3
};

static sc_snapshot make(uint64_t every)
{
    sc_snapshot s;
    sc_snapshot_init(
        &s, &(sc_snapshot_config){.n_ranks = RANKS, .every = every, .n_steps = 10, .n_keep = 2});
    return s;
}

static sc_status report(sc_snapshot *s, uint32_t rank, uint64_t step, sc_status status)
{
    sc_msg_saved msg = {.step = step, .rank = rank, .status = (uint32_t)status};
    msg.text = "disk full";
    msg.file = "f";
    return sc_snapshot_on_saved(s, &msg, NULL);
}

static void due_steps(void **state)
{
    (void)state;
    sc_snapshot s = make(0);
    for (uint64_t step = 0; step < 10; step++) {
        assert_false(sc_snapshot_is_due(&s, step));
    }
    s.config.is_at_end = true;
    assert_false(sc_snapshot_is_due(&s, 8));
    assert_true(sc_snapshot_is_due(&s, 9));
    s.config.is_at_end = false;
    s.config.every = 4;
    for (uint64_t step = 0; step < 10; step++) {
        assert_int_equal(sc_snapshot_is_due(&s, step), step == 3 || step == 7);
    }
}

static void a_save_is_committed_when_every_rank_has_reported(void **state)
{
    (void)state;
    static const int ORDERS[][RANKS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t k = 0; k < sizeof ORDERS / sizeof ORDERS[0]; k++) {
        sc_snapshot s = make(1);
        sc_snapshot_effect effect;
        assert_int_equal(sc_snapshot_begin(&s, 1, NULL), SC_OK);
        assert_true(sc_snapshot_is_busy(&s));
        for (int i = 0; i < RANKS; i++) {
            assert_false(sc_snapshot_next(&s, &effect));
            assert_int_equal(report(&s, (uint32_t)ORDERS[k][i], 1, SC_OK), SC_OK);
        }
        assert_true(sc_snapshot_next(&s, &effect));
        assert_int_equal(effect.type, SC_SNAPSHOT_COMMIT);
        assert_int_equal(effect.save->step, 1);
        sc_snapshot_end(&s, effect.save, NULL);
        assert_false(sc_snapshot_is_busy(&s));
        assert_int_equal(s.n_committed, 1);
        assert_int_equal(s.last_step, 1);
        sc_snapshot_done(&s);
    }
}

static void a_failed_part_drops_the_save_when_all_have_ended(void **state)
{
    (void)state;
    for (uint32_t bad = 0; bad < RANKS; bad++) {
        sc_snapshot s = make(1);
        sc_snapshot_effect effect;
        assert_int_equal(sc_snapshot_begin(&s, 1, NULL), SC_OK);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_false(sc_snapshot_next(&s, &effect)); // the others still write
            assert_int_equal(report(&s, r, 1, r == bad ? SC_IO : SC_OK), SC_OK);
        }
        assert_true(sc_snapshot_next(&s, &effect));
        assert_int_equal(effect.type, SC_SNAPSHOT_DROP);
        sc_snapshot_end(&s, effect.save, NULL);
        char text[64];
        snprintf(text, sizeof text, "rank %u: disk full", bad);
        assert_string_equal(s.last_err.text, text);
        assert_int_equal(s.n_failed, 1);
        assert_int_equal(s.n_committed, 0);
        sc_snapshot_done(&s);
    }
}

static void failures_in_a_row_are_counted(void **state)
{
    (void)state;
    sc_snapshot s = make(1);
    sc_err why = {.status = SC_IO, .text = "no folder"};
    sc_snapshot_effect effect;
    sc_snapshot_miss(&s, &why);
    sc_snapshot_miss(&s, &why);
    assert_int_equal(s.n_failed_row, 2);
    assert_int_equal(sc_snapshot_begin(&s, 3, NULL), SC_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(report(&s, r, 3, SC_OK), SC_OK);
    }
    assert_true(sc_snapshot_next(&s, &effect));
    sc_snapshot_end(&s, effect.save, NULL);
    assert_int_equal(s.n_failed_row, 0);
    assert_int_equal(s.n_failed, 2);
    sc_snapshot_done(&s);
}

/* Rank 0 is two saves ahead of rank 2. */
static void several_saves_are_under_way(void **state)
{
    (void)state;
    sc_snapshot s = make(1);
    sc_snapshot_effect effect;
    for (uint64_t step = 1; step <= 3; step++) {
        assert_int_equal(sc_snapshot_begin(&s, step, NULL), SC_OK);
    }
    assert_int_equal(report(&s, 0, 2, SC_OK), SC_PROTOCOL); // 1 comes first
    for (uint64_t step = 1; step <= 3; step++) {
        assert_int_equal(report(&s, 0, step, SC_OK), SC_OK);
        assert_int_equal(report(&s, 1, step, SC_OK), SC_OK);
    }
    assert_int_equal(report(&s, 0, 3, SC_OK), SC_PROTOCOL); // twice
    assert_int_equal(report(&s, 0, 4, SC_OK), SC_PROTOCOL); // was not asked
    assert_int_equal(report(&s, RANKS, 1, SC_OK), SC_PROTOCOL);
    assert_false(sc_snapshot_next(&s, &effect));
    for (uint64_t step = 1; step <= 3; step++) {
        assert_int_equal(report(&s, 2, step, SC_OK), SC_OK);
        assert_true(sc_snapshot_next(&s, &effect));
        assert_int_equal(effect.save->step, step);
        sc_snapshot_end(&s, effect.save, NULL);
    }
    assert_false(sc_snapshot_is_busy(&s));
    for (uint64_t step = 4; step < 4 + SC_SNAPSHOT_PENDING_MAX; step++) {
        assert_int_equal(sc_snapshot_begin(&s, step, NULL), SC_OK);
    }
    assert_int_equal(sc_snapshot_begin(&s, 100, NULL), SC_LIMIT);
    sc_snapshot_done(&s);
}

static void the_newest_ones_stay(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 6; n++) {
        for (uint64_t keep = 0; keep <= 7; keep++) {
            uint64_t steps[6];
            for (size_t i = 0; i < n; i++) {
                steps[i] = 10 * ((i * 5 + 3) % 6); // each of 0 .. 50 once, in no order
            }
            size_t n_stale = sc_snapshot_sort_stale(steps, n, keep);
            assert_int_equal(n_stale, keep == 0 || keep >= n ? 0 : n - keep);
            for (size_t i = 0; i < n_stale; i++) {
                for (size_t k = i + 1; k < n; k++) {
                    assert_true(steps[i] < steps[k]);
                }
            }
        }
    }
}

/* --- a manifest against a model --- */

typedef struct model {
    sc_registry *registry;
    sc_manifest manifest;
    char (*names)[128];
} model;

static void open_model(model *out)
{
    sc_model_spec spec = {.n_layer = 2, .n_head = 2, .n_embd = 8, .vocab_size = 11};
    spec.n_positions = 4;
    spec.layer_norm_epsilon = 1e-5;
    spec.tie_word_embeddings = true;
    assert_int_equal(sc_spec_check(&spec, NULL), SC_OK);
    assert_int_equal(sc_registry_new(&spec, &out->registry, NULL), SC_OK);
    size_t n = 3 * (size_t)out->registry->n_params;
    static const char *const PREFIXES[] = {"", SC_MANIFEST_MOMENT_1, SC_MANIFEST_MOMENT_2};
    out->names = calloc(n + 1, sizeof *out->names);
    out->manifest = (sc_manifest){.optimizer = "adamw", .n_tensors = n};
    out->manifest.tensors = calloc(n + 1, sizeof *out->manifest.tensors);
    for (size_t i = 0; i < n; i++) {
        const sc_param *param = &out->registry->params[i / 3];
        sc_manifest_tensor *tensor = &out->manifest.tensors[i];
        snprintf(out->names[i], sizeof *out->names, "%s%s", PREFIXES[i % 3], param->name);
        *tensor = (sc_manifest_tensor){.name = out->names[i], .n_dims = param->n_dims};
        tensor->dtype = SC_SAFETENSORS_F32;
        memcpy(tensor->shape, param->shape, (size_t)param->n_dims * sizeof *param->shape);
        tensor->shard_length = param->shape[0];
    }
}

static void close_model(model *m)
{
    sc_registry_free(&m->registry);
    free(m->manifest.tensors);
    free(m->names);
}

static void expect(const model *m, sc_status status, const char *what)
{
    sc_err err = {.text = ""};
    assert_int_equal(sc_snapshot_check("c", &m->manifest, m->registry, &err), status);
    if (strstr(err.text, what) == NULL) {
        fail_msg("'%s' is not '%s'", err.text, what);
    }
}

static void every_tensor_is_there_once(void **state)
{
    (void)state;
    model m;
    open_model(&m);
    size_t n = m.manifest.n_tensors;
    sc_manifest_tensor *tensors = m.manifest.tensors;
    expect(&m, SC_OK, "");
    for (size_t i = 0; i < n; i++) { // each one is missed
        sc_manifest_tensor kept = tensors[i];
        char text[256];
        snprintf(text, sizeof text, "c: tensor %s: missing, the model needs it", kept.name);
        tensors[i] = tensors[n - 1];
        m.manifest.n_tensors = n - 1;
        expect(&m, SC_INVALID, text);
        m.manifest.n_tensors = n;
        tensors[i] = kept;
    }
    m.manifest.n_tensors = n + 1;
    tensors[n] = tensors[4];
    expect(&m, SC_INVALID, "is there twice");
    tensors[n].name = "transformer.h.2.ln_1.weight";
    expect(&m, SC_INVALID, "tensor transformer.h.2.ln_1.weight: extra");
    m.manifest.n_tensors = n;
    m.manifest.optimizer = "sgd";
    expect(&m, SC_INVALID, "tensor optimizer.m.");
    close_model(&m);
}

static void dtype_shape_and_shard_are_checked(void **state)
{
    (void)state;
    model m;
    open_model(&m);
    sc_manifest_tensor *tensor = &m.manifest.tensors[7];
    tensor->dtype = SC_SAFETENSORS_BF16;
    expect(&m, SC_INVALID, ": dtype BF16, F32 is needed");
    tensor->dtype = SC_SAFETENSORS_F32;
    tensor->shape[0]++;
    tensor->shard_length++;
    expect(&m, SC_INVALID, ", the model needs [");
    tensor->shape[0]--;
    tensor->shard_length -= 2;
    expect(&m, SC_UNSUPPORTED, ": a shard of it");
    tensor->shard_length++;
    expect(&m, SC_OK, "");
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(due_steps),
        cmocka_unit_test(a_save_is_committed_when_every_rank_has_reported),
        cmocka_unit_test(a_failed_part_drops_the_save_when_all_have_ended),
        cmocka_unit_test(failures_in_a_row_are_counted),
        cmocka_unit_test(several_saves_are_under_way),
        cmocka_unit_test(the_newest_ones_stay),
        cmocka_unit_test(every_tensor_is_there_once),
        cmocka_unit_test(dtype_shape_and_shard_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
