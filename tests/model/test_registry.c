#include "model/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static sc_registry *open_registry(int n_layer, int n_embd, bool is_tied)
{
    sc_model_spec spec;
    sc_spec_defaults(&spec);
    spec.n_layer = n_layer;
    spec.n_embd = n_embd;
    spec.tie_word_embeddings = is_tied;
    assert_int_equal(sc_spec_check(&spec, NULL), SC_OK);
    sc_registry *registry = NULL;
    assert_int_equal(sc_registry_new(&spec, &registry, NULL), SC_OK);
    return registry;
}

/* The published sizes of GPT-2 and GPT-2 medium. */
static void counts_are_gpt2s(void **state)
{
    (void)state;
    sc_registry *registry = open_registry(12, 768, true);
    assert_int_equal(registry->n_elems, 124439808);
    assert_int_equal(registry->n_params, 2 + 12 * 12 + 2);
    sc_registry_free(&registry);
    assert_null(registry);
    sc_registry_free(&registry);

    registry = open_registry(12, 768, false);
    assert_int_equal(registry->n_elems, 124439808 + 50257 * 768);
    assert_string_equal(registry->params[registry->n_params - 1].name, "lm_head.weight");
    sc_registry_free(&registry);

    sc_model_spec medium;
    sc_spec_defaults(&medium);
    medium.n_layer = 24;
    medium.n_embd = 1024;
    medium.n_head = 16;
    assert_int_equal(sc_spec_check(&medium, NULL), SC_OK);
    assert_int_equal(sc_registry_new(&medium, &registry, NULL), SC_OK);
    assert_int_equal(registry->n_elems, 354823168);
    sc_registry_free(&registry);
}

static void names_are_hugging_faces(void **state)
{
    (void)state;
    static const char *const names[] = {
        "transformer.wte.weight",
        "transformer.wpe.weight",
        "transformer.h.0.ln_1.weight",
        "transformer.h.0.ln_1.bias",
        "transformer.h.0.attn.c_attn.weight",
        "transformer.h.0.attn.c_attn.bias",
        "transformer.h.0.attn.c_proj.weight",
        "transformer.h.0.attn.c_proj.bias",
        "transformer.h.0.ln_2.weight",
        "transformer.h.0.ln_2.bias",
        "transformer.h.0.mlp.c_fc.weight",
        "transformer.h.0.mlp.c_fc.bias",
        "transformer.h.0.mlp.c_proj.weight",
        "transformer.h.0.mlp.c_proj.bias",
        "transformer.ln_f.weight",
        "transformer.ln_f.bias",
    };
    sc_registry *registry = open_registry(1, 768, true);
    assert_int_equal(registry->n_params, sizeof names / sizeof names[0]);
    for (int i = 0; i < registry->n_params; i++) {
        assert_string_equal(registry->params[i].name, names[i]);
    }
    sc_registry_free(&registry);
    registry = open_registry(1024, 12, true);
    const sc_param *last = &registry->params[registry->n_params - 3];
    assert_string_equal(last->name, "transformer.h.1023.mlp.c_proj.bias");
    assert_int_equal(last->block, 1023);
    sc_registry_free(&registry);
}

static void offsets_are_dense_and_facts_agree(void **state)
{
    (void)state;
    sc_registry *registry = open_registry(3, 96, false);
    size_t offset = 0;
    for (int i = 0; i < registry->n_params; i++) {
        const sc_param *p = &registry->params[i];
        assert_int_equal(p->offset, offset);
        assert_int_equal(p->n_elems, p->shape[0] * p->shape[1]);
        assert_int_equal(p->has_decay, p->n_dims == 2);
        assert_int_equal(p->init == SC_INIT_NORMAL, p->n_dims == 2);
        assert_int_equal(p->tie_group, -1);
        assert_int_equal(sc_registry_find(registry, p->role, p->block), i);
        bool is_residual = p->role == SC_PARAM_ATTN_OUT_W || p->role == SC_PARAM_FC_OUT_W;
        float std = p->n_dims == 1 ? 0.0F : is_residual ? 0.02F / 2.449489743F : 0.02F;
        assert_float_equal(p->init_std, std, 1e-8);
        offset += p->n_elems;
    }
    assert_int_equal(registry->n_elems, offset);
    assert_int_equal(sc_registry_find(registry, SC_PARAM_FC_W, 3), -1);
    assert_int_equal(sc_registry_find(registry, SC_PARAM_WTE, 0), -1);
    sc_registry_free(&registry);
}

/* Counts into held (n_params) how many stages of a split hold each parameter; bit b of `cuts`: a
   stage ends after block b. */
static void count_held(const sc_registry *registry, unsigned cuts, int n_layer, int *held)
{
    int begin = 0;
    for (int block = 0; block < n_layer; block++) {
        bool is_last = block == n_layer - 1;
        if (!is_last && (cuts >> block & 1U) == 0) {
            continue;
        }
        sc_stage_range range = {begin, block + 1, begin == 0, is_last};
        for (int i = 0; i < registry->n_params; i++) {
            held[i] += sc_registry_is_held(registry, i, &range) ? 1 : 0;
        }
        begin = block + 1;
    }
}

/* Over every split into stages each parameter is held once, the tied embedding by both ends. */
static void every_split_holds_all(void **state)
{
    (void)state;
    const int n_layer = 5;
    for (unsigned i = 0; i < 2U << (n_layer - 1); i++) {
        bool is_tied = i % 2 == 1;
        unsigned cuts = i / 2;
        int held[SC_PARAM_ROLE_COUNT * 5] = {0};
        sc_registry *registry = open_registry(n_layer, 96, is_tied);
        count_held(registry, cuts, n_layer, held);
        assert_int_equal(held[0], is_tied && cuts != 0 ? 2 : 1);
        for (int p = 1; p < registry->n_params; p++) {
            assert_int_equal(held[p], 1);
        }
        sc_registry_free(&registry);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_gpt2s),
        cmocka_unit_test(names_are_hugging_faces),
        cmocka_unit_test(offsets_are_dense_and_facts_agree),
        cmocka_unit_test(every_split_holds_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
