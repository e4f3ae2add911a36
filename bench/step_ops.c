#include "bench/step_ops.h"

enum {
    LAYERS = 12,
    HEADS = 12,
    PARAM_PARTS = 8 // the optimizer's range is cut into this many calls to fit the pool
};

static const int64_t C = 768;
static const int64_t V = 50257;

/* n floats that were last used long ago. */
static float *take(sc_step_ops *b, int64_t n)
{
    const size_t want = ((size_t)n + 15) / 16 * 16;
    if (b->pool_at + want > b->pool_n) {
        b->pool_at = 0;
    }
    float *p = b->pool + b->pool_at;
    b->pool_at += want;
    return p;
}

static int64_t rows(const sc_step_ops *b)
{
    return b->B * b->T;
}

static sc_status run_linear_fwd(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    const int64_t N = rows(b);
    const sc_linear_fwd_args a = {
        .N = N,
        .K = it->K,
        .M = it->M,
        .x = take(b, N * it->K),
        .w = take(b, it->K * it->M),
        .is_out_in = it->is_out_in,
        .bias = it->has_bias ? take(b, it->M) : NULL,
        .residual = it->has_residual ? take(b, N * it->M) : NULL,
        .y = take(b, N * it->M),
        .y_act = it->has_act ? take(b, N * it->M) : NULL,
    };
    return b->be->linear_fwd(b->be, NULL, &a, err);
}

static sc_status run_linear_bwd_input(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    const int64_t N = rows(b);
    const sc_linear_bwd_input_args a = {
        .N = N,
        .K = it->K,
        .M = it->M,
        .dy = take(b, N * it->M),
        .w = take(b, it->K * it->M),
        .is_out_in = it->is_out_in,
        .pre_act = it->has_act ? take(b, N * it->K) : NULL,
        .dx = take(b, N * it->K),
    };
    return b->be->linear_bwd_input(b->be, NULL, &a, err);
}

static sc_status run_linear_bwd_weight(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    const int64_t N = rows(b);
    const sc_linear_bwd_weight_args a = {
        .N = N,
        .K = it->K,
        .M = it->M,
        .x = take(b, N * it->K),
        .dy = take(b, N * it->M),
        .is_out_in = it->is_out_in,
        .dw = take(b, it->K * it->M),
        .dbias = it->has_bias ? take(b, it->M) : NULL,
    };
    return b->be->linear_bwd_weight(b->be, NULL, &a, err);
}

/* The same three products without anything around them. */
static sc_status run_product_fwd(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    const int64_t N = rows(b);
    const sc_gemm_args a = {
        .trans_b = it->is_out_in,
        .M = N,
        .N = it->M,
        .K = it->K,
        .a = take(b, N * it->K),
        .lda = it->K,
        .b = take(b, it->K * it->M),
        .ldb = it->is_out_in ? it->K : it->M,
        .c = take(b, N * it->M),
        .ldc = it->M,
    };
    return b->be->gemm(b->be, NULL, &a, err);
}

static sc_status run_product_bwd_input(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    const int64_t N = rows(b);
    const sc_gemm_args a = {
        .trans_b = !it->is_out_in,
        .M = N,
        .N = it->K,
        .K = it->M,
        .a = take(b, N * it->M),
        .lda = it->M,
        .b = take(b, it->K * it->M),
        .ldb = it->is_out_in ? it->K : it->M,
        .c = take(b, N * it->K),
        .ldc = it->K,
    };
    return b->be->gemm(b->be, NULL, &a, err);
}

static sc_status run_product_bwd_weight(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    const int64_t N = rows(b);
    const int64_t m = it->is_out_in ? it->M : it->K;
    const int64_t n = it->is_out_in ? it->K : it->M;
    const sc_gemm_args a = {
        .trans_a = true,
        .M = m,
        .N = n,
        .K = N,
        .a = take(b, N * m),
        .lda = m,
        .b = take(b, N * n),
        .ldb = n,
        .beta = 1.0f,
        .c = take(b, m * n),
        .ldc = n,
    };
    return b->be->gemm(b->be, NULL, &a, err);
}

/* q k^T and dy v^T, p v and ds k, p^T dy and ds^T q of one (sample, head). */
static sc_status products_of_head(const sc_step_ops *b, const float *q, void *scores, void *y,
                                  sc_err *err)
{
    const sc_gemm_args score = {.trans_b = true,
                                .M = b->T,
                                .N = b->T,
                                .K = C / HEADS,
                                .a = q,
                                .lda = 3 * C,
                                .b = q + C,
                                .ldb = 3 * C,
                                .c = scores,
                                .ldc = b->T};
    sc_gemm_args value = {.M = b->T,
                          .N = C / HEADS,
                          .K = b->T,
                          .a = scores,
                          .lda = b->T,
                          .b = q + 2 * C,
                          .ldb = 3 * C,
                          .c = y,
                          .ldc = C};
    SC_TRY(b->be->gemm(b->be, NULL, &score, err));
    SC_TRY(b->be->gemm(b->be, NULL, &score, err));
    SC_TRY(b->be->gemm(b->be, NULL, &value, err));
    SC_TRY(b->be->gemm(b->be, NULL, &value, err));
    value.trans_a = true;
    SC_TRY(b->be->gemm(b->be, NULL, &value, err));
    return b->be->gemm(b->be, NULL, &value, err);
}

/* Attention's products of one layer, forward and backward, without the causal saving. */
static sc_status run_product_attention(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const float *qkv = take(b, rows(b) * 3 * C);
    float *y = take(b, rows(b) * C);
    float *scores = take(b, b->T * b->T);
    for (int64_t i = 0; i < b->B * HEADS; i++) {
        const int64_t row = i / HEADS * b->T;
        const int64_t column = i % HEADS * (C / HEADS);
        SC_TRY(products_of_head(b, qkv + row * 3 * C + column, scores, y + row * C + column, err));
    }
    return SC_OK;
}

static sc_status run_attention_fwd(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const sc_attention_fwd_args a = {
        .B = b->B,
        .T = b->T,
        .C = C,
        .n_head = HEADS,
        .qkv = take(b, rows(b) * 3 * C),
        .y = take(b, rows(b) * C),
        .lse = take(b, rows(b) * HEADS),
        .scratch = b->scratch,
    };
    return b->be->attention_fwd(b->be, NULL, &a, err);
}

static sc_status run_attention_bwd(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const sc_attention_bwd_args a = {
        .B = b->B,
        .T = b->T,
        .C = C,
        .n_head = HEADS,
        .qkv = take(b, rows(b) * 3 * C),
        .y = take(b, rows(b) * C),
        .lse = take(b, rows(b) * HEADS),
        .dy = take(b, rows(b) * C),
        .dqkv = take(b, rows(b) * 3 * C),
        .scratch = b->scratch,
    };
    return b->be->attention_bwd(b->be, NULL, &a, err);
}

static sc_status run_norm_fwd(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const sc_norm_fwd_args a = {
        .N = rows(b),
        .C = C,
        .epsilon = 1e-5f,
        .x = take(b, rows(b) * C),
        .gain = take(b, C),
        .bias = take(b, C),
        .y = take(b, rows(b) * C),
        .mean = take(b, rows(b)),
        .rstd = take(b, rows(b)),
    };
    return b->be->norm_fwd(b->be, NULL, &a, err);
}

static sc_status run_norm_bwd_input(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    float *dx = take(b, rows(b) * C);
    const sc_norm_bwd_input_args a = {
        .N = rows(b),
        .C = C,
        .x = take(b, rows(b) * C),
        .gain = take(b, C),
        .mean = take(b, rows(b)),
        .rstd = take(b, rows(b)),
        .dy = take(b, rows(b) * C),
        .residual = dx,
        .dx = dx,
    };
    return b->be->norm_bwd_input(b->be, NULL, &a, err);
}

static sc_status run_norm_bwd_weight(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const sc_norm_bwd_weight_args a = {
        .N = rows(b),
        .C = C,
        .x = take(b, rows(b) * C),
        .mean = take(b, rows(b)),
        .rstd = take(b, rows(b)),
        .dy = take(b, rows(b) * C),
        .dgain = take(b, C),
        .dbias = take(b, C),
    };
    return b->be->norm_bwd_weight(b->be, NULL, &a, err);
}

static sc_status run_embed_fwd(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const sc_embed_fwd_args a = {
        .B = b->B,
        .T = b->T,
        .C = C,
        .V = V,
        .tokens = b->tokens,
        .wte = take(b, V * C),
        .wpe = take(b, b->T * C),
        .y = take(b, rows(b) * C),
    };
    return b->be->embed_fwd(b->be, NULL, &a, err);
}

static sc_status run_embed_bwd(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const sc_embed_bwd_args a = {
        .B = b->B,
        .T = b->T,
        .C = C,
        .V = V,
        .tokens = b->tokens,
        .dy = take(b, rows(b) * C),
        .dwte = take(b, V * C),
        .dwpe = take(b, b->T * C),
    };
    return b->be->embed_bwd(b->be, NULL, &a, err);
}

static sc_status run_xent(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    double loss_sum;
    int64_t n_valid;
    const sc_xent_args a = {
        .N = rows(b),
        .V = V,
        .logits = take(b, rows(b) * V),
        .targets = b->tokens,
        .scale = 1.0f / (float)rows(b),
        .losses = take(b, rows(b)),
        .loss_sum = &loss_sum,
        .n_valid = &n_valid,
    };
    return b->be->xent(b->be, NULL, &a, err);
}

/* What memory gives: three streams. */
static sc_status run_memory(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const int64_t n = SC_STEP_OPS_PARAMS / PARAM_PARTS;
    float *dst = take(b, n);
    return b->be->add(b->be, NULL, dst, take(b, n), n, err);
}

static sc_status run_sum_squares(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const int64_t n = SC_STEP_OPS_PARAMS / PARAM_PARTS;
    return b->be->sum_squares(b->be, NULL, take(b, n), n, b->partials, err);
}

static sc_status run_adamw(sc_step_ops *b, const sc_step_op *it, sc_err *err)
{
    (void)it;
    const int64_t n = SC_STEP_OPS_PARAMS / PARAM_PARTS;
    const sc_adamw_args a = {
        .n = n,
        .w = take(b, n),
        .grad = take(b, n),
        .m = take(b, n),
        .v = take(b, n),
        .grad_scale = 1.0f,
        .lr = 0.0f,
        .beta1 = 0.9f,
        .beta2 = 0.95f,
        .correction1 = 0.1f,
        .correction2 = 0.05f,
        .epsilon = 1e-8f,
    };
    return b->be->adamw(b->be, NULL, &a, err);
}

/* A product stands right behind the operation that it is a part of, so that both are measured under
   the same conditions. */
#define LINE(op_name, op_run, n_calls, ...) \
    {.name = (op_name), .run = (op_run), .calls = (n_calls), __VA_ARGS__},
#define LINEAR(op_name, op_run, n_calls, k, m, ...) \
    {.name = (op_name), .run = (op_run), .calls = (n_calls), .K = (k), .M = (m), __VA_ARGS__},

// clang-format off
static const sc_step_op ops[] = {
    LINE("embed_fwd", run_embed_fwd, 1)
    LINE("embed_bwd", run_embed_bwd, 1)
    LINE("norm_fwd", run_norm_fwd, 2 * LAYERS + 1)
    LINE("norm_bwd_input", run_norm_bwd_input, 2 * LAYERS + 1)
    LINE("norm_bwd_weight", run_norm_bwd_weight, 2 * LAYERS + 1)
    LINEAR("linear_fwd qkv", run_linear_fwd, LAYERS, C, 3 * C, .has_bias = true)
    LINEAR("  product qkv", run_product_fwd, LAYERS, C, 3 * C, .is_product = true)
    LINEAR("linear_bwd_input qkv", run_linear_bwd_input, LAYERS, C, 3 * C)
    LINEAR("  product qkv", run_product_bwd_input, LAYERS, C, 3 * C, .is_product = true)
    LINEAR("linear_bwd_weight qkv", run_linear_bwd_weight, LAYERS, C, 3 * C, .has_bias = true)
    LINEAR("  product qkv", run_product_bwd_weight, LAYERS, C, 3 * C, .is_product = true)
    LINEAR("linear_fwd out", run_linear_fwd, LAYERS, C, C, .has_bias = true, .has_residual = true)
    LINEAR("  product out", run_product_fwd, LAYERS, C, C, .is_product = true)
    LINEAR("linear_bwd_input out", run_linear_bwd_input, LAYERS, C, C)
    LINEAR("  product out", run_product_bwd_input, LAYERS, C, C, .is_product = true)
    LINEAR("linear_bwd_weight out", run_linear_bwd_weight, LAYERS, C, C, .has_bias = true)
    LINEAR("  product out", run_product_bwd_weight, LAYERS, C, C, .is_product = true)
    LINEAR("linear_fwd up", run_linear_fwd, LAYERS, C, 4 * C, .has_bias = true, .has_act = true)
    LINEAR("  product up", run_product_fwd, LAYERS, C, 4 * C, .is_product = true)
    LINEAR("linear_bwd_input up", run_linear_bwd_input, LAYERS, C, 4 * C)
    LINEAR("  product up", run_product_bwd_input, LAYERS, C, 4 * C, .is_product = true)
    LINEAR("linear_bwd_weight up", run_linear_bwd_weight, LAYERS, C, 4 * C, .has_bias = true)
    LINEAR("  product up", run_product_bwd_weight, LAYERS, C, 4 * C, .is_product = true)
    LINEAR("linear_fwd down", run_linear_fwd, LAYERS, 4 * C, C, .has_bias = true, .has_residual = true)
    LINEAR("  product down", run_product_fwd, LAYERS, 4 * C, C, .is_product = true)
    LINEAR("linear_bwd_input down", run_linear_bwd_input, LAYERS, 4 * C, C, .has_act = true)
    LINEAR("  product down", run_product_bwd_input, LAYERS, 4 * C, C, .is_product = true)
    LINEAR("linear_bwd_weight down", run_linear_bwd_weight, LAYERS, 4 * C, C, .has_bias = true)
    LINEAR("  product down", run_product_bwd_weight, LAYERS, 4 * C, C, .is_product = true)
    LINEAR("linear_fwd head", run_linear_fwd, 1, C, V, .is_out_in = true)
    LINEAR("  product head", run_product_fwd, 1, C, V, .is_product = true, .is_out_in = true)
    LINEAR("linear_bwd_input head", run_linear_bwd_input, 1, C, V, .is_out_in = true)
    LINEAR("  product head", run_product_bwd_input, 1, C, V, .is_product = true, .is_out_in = true)
    LINEAR("linear_bwd_weight head", run_linear_bwd_weight, 1, C, V, .is_out_in = true)
    LINEAR("  product head", run_product_bwd_weight, 1, C, V, .is_product = true, .is_out_in = true)
    LINE("attention_fwd", run_attention_fwd, LAYERS)
    LINE("attention_bwd", run_attention_bwd, LAYERS)
    LINE("  product attention", run_product_attention, LAYERS, .is_product = true)
    LINE("xent", run_xent, 1)
    LINE("sum_squares", run_sum_squares, PARAM_PARTS)
    LINE("adamw", run_adamw, PARAM_PARTS)
    LINE("  memory", run_memory, 0)
};
// clang-format on

const sc_step_op *sc_step_ops_list(int *n)
{
    *n = (int)(sizeof ops / sizeof *ops);
    return ops;
}

double sc_step_ops_flops(const sc_step_ops *b, const sc_step_op *op)
{
    const double pairs = (double)(rows(b) * b->T); // per head and unit of width, all keys counted
    if (op->run == run_attention_fwd) {
        return 2.0 * 2.0 * pairs * (double)C;
    }
    if (op->run == run_attention_bwd) {
        return 2.0 * 4.0 * pairs * (double)C;
    }
    if (op->run == run_product_attention) {
        return 2.0 * 6.0 * pairs * (double)C;
    }
    return 2.0 * (double)rows(b) * (double)(op->K * op->M);
}

double sc_step_ops_bytes(const sc_step_ops *b, const sc_step_op *op)
{
    static const struct {
        sc_status (*run)(sc_step_ops *, const sc_step_op *, sc_err *);
        int floats; // read and written for each element
    } list[] = {
        {run_embed_fwd, 3},       {run_norm_fwd, 2},  {run_norm_bwd_input, 4},
        {run_norm_bwd_weight, 2}, {run_embed_bwd, 5}, {run_sum_squares, 1},
        {run_adamw, 8},           {run_memory, 3},    {run_xent, 2},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (list[i].run == op->run) {
            const int64_t n =
                op->run == run_xent ? rows(b) * V
                : op->run == run_adamw || op->run == run_sum_squares || op->run == run_memory
                    ? SC_STEP_OPS_PARAMS / PARAM_PARTS
                    : rows(b) * C;
            return 4.0 * list[i].floats * (double)n;
        }
    }
    return 0.0;
}
