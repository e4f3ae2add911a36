#include "tests/conformance/reference.h"

#include "kernels/backend.h"

#include <math.h>
#include <string.h>

void sc_reference_gemm(const sc_reference_gemm_args *a)
{
    for (int64_t i = 0; i < a->M; i++) {
        for (int64_t j = 0; j < a->N; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < a->K; k++) {
                double x = a->trans_a ? a->a[k * a->lda + i] : a->a[i * a->lda + k];
                double y = a->trans_b ? a->b[j * a->ldb + k] : a->b[k * a->ldb + j];
                sum += x * y;
            }
            double *c = &a->c[i * a->ldc + j];
            *c = sum + (a->beta == 0.0 ? 0.0 : a->beta * *c);
        }
    }
}

double sc_reference_gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

double sc_reference_gelu_slope(double x)
{
    double t = tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x));
    double du = sqrt(2.0 / M_PI) * (1.0 + 3.0 * 0.044715 * x * x);
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * du;
}

void sc_reference_linear_fwd(const sc_reference_linear *l, const double *x, const double *w,
                             const double *bias, const double *residual, double *y, double *y_act)
{
    for (int64_t i = 0; i < l->N; i++) {
        for (int64_t j = 0; j < l->M; j++) {
            double sum = bias != NULL ? bias[j] : 0.0;
            for (int64_t k = 0; k < l->K; k++) {
                sum += x[i * l->K + k] * (l->is_out_in ? w[j * l->K + k] : w[k * l->M + j]);
            }
            y[i * l->M + j] = sum + (residual != NULL ? residual[i * l->M + j] : 0.0);
            if (y_act != NULL) {
                y_act[i * l->M + j] = sc_reference_gelu(y[i * l->M + j]);
            }
        }
    }
}

void sc_reference_linear_bwd_input(const sc_reference_linear *l, const double *dy, const double *w,
                                   const double *pre_act, double *dx)
{
    for (int64_t i = 0; i < l->N; i++) {
        for (int64_t k = 0; k < l->K; k++) {
            double sum = 0.0;
            for (int64_t j = 0; j < l->M; j++) {
                sum += dy[i * l->M + j] * (l->is_out_in ? w[j * l->K + k] : w[k * l->M + j]);
            }
            double slope = pre_act != NULL ? sc_reference_gelu_slope(pre_act[i * l->K + k]) : 1.0;
            dx[i * l->K + k] = sum * slope;
        }
    }
}

void sc_reference_linear_bwd_weight(const sc_reference_linear *l, const double *x, const double *dy,
                                    double *dw, double *dbias)
{
    for (int64_t i = 0; i < l->N; i++) {
        for (int64_t j = 0; j < l->M; j++) {
            const double d = dy[i * l->M + j];
            for (int64_t k = 0; k < l->K; k++) {
                dw[l->is_out_in ? j * l->K + k : k * l->M + j] += x[i * l->K + k] * d;
            }
            if (dbias != NULL) {
                dbias[j] += d;
            }
        }
    }
}

static void moments(const sc_reference_norm *n, const double *x, double *mean, double *rstd)
{
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < n->C; i++) {
        sum += x[i];
    }
    *mean = sum / (double)n->C;
    for (int64_t i = 0; i < n->C; i++) {
        squares += (x[i] - *mean) * (x[i] - *mean);
    }
    *rstd = 1.0 / sqrt(squares / (double)n->C + n->epsilon);
}

void sc_reference_norm_fwd(const sc_reference_norm *n, const double *x, const double *gain,
                           const double *bias, double *y, double *mean, double *rstd)
{
    for (int64_t row = 0; row < n->N; row++) {
        const double *from = x + row * n->C;
        moments(n, from, &mean[row], &rstd[row]);
        for (int64_t i = 0; i < n->C; i++) {
            y[row * n->C + i] = (from[i] - mean[row]) * rstd[row] * gain[i] + bias[i];
        }
    }
}

void sc_reference_norm_bwd_input(const sc_reference_norm *n, const double *x, const double *gain,
                                 const double *dy, const double *residual, double *dx)
{
    for (int64_t row = 0; row < n->N; row++) {
        const double *from = x + row * n->C;
        const double *d = dy + row * n->C;
        double mean = 0.0;
        double rstd = 0.0;
        double sum_d = 0.0;
        double sum_dh = 0.0;
        moments(n, from, &mean, &rstd);
        for (int64_t i = 0; i < n->C; i++) {
            sum_d += gain[i] * d[i];
            sum_dh += gain[i] * d[i] * (from[i] - mean) * rstd;
        }
        for (int64_t i = 0; i < n->C; i++) {
            double hat = (from[i] - mean) * rstd;
            double v = rstd * (gain[i] * d[i] - (sum_d + hat * sum_dh) / (double)n->C);
            dx[row * n->C + i] = v + (residual != NULL ? residual[row * n->C + i] : 0.0);
        }
    }
}

void sc_reference_norm_bwd_weight(const sc_reference_norm *n, const double *x, const double *dy,
                                  double *dgain, double *dbias)
{
    for (int64_t row = 0; row < n->N; row++) {
        double mean = 0.0;
        double rstd = 0.0;
        moments(n, x + row * n->C, &mean, &rstd);
        for (int64_t i = 0; i < n->C; i++) {
            dgain[i] += dy[row * n->C + i] * (x[row * n->C + i] - mean) * rstd;
            dbias[i] += dy[row * n->C + i];
        }
    }
}

/* Row i of one head: where q, k or v (part 0, 1, 2) of position t begins. */
static int64_t part_at(const sc_reference_attention *a, int64_t b, int64_t t, int64_t h, int part)
{
    return (b * a->T + t) * 3 * a->C + part * a->C + h * (a->C / a->n_head);
}

/* p[0..t] = the probabilities of query t; returns the log of the sum of exp of the scores. */
static double probabilities(const sc_reference_attention *a, const double *qkv, int64_t b,
                            int64_t h, int64_t t, double *p)
{
    const int64_t size = a->C / a->n_head;
    const double *q = qkv + part_at(a, b, t, h, 0);
    double top = -INFINITY;
    double sum = 0.0;
    for (int64_t u = 0; u <= t; u++) {
        const double *k = qkv + part_at(a, b, u, h, 1);
        p[u] = 0.0;
        for (int64_t i = 0; i < size; i++) {
            p[u] += q[i] * k[i] / sqrt((double)size);
        }
        top = fmax(top, p[u]);
    }
    for (int64_t u = 0; u <= t; u++) {
        p[u] = exp(p[u] - top);
        sum += p[u];
    }
    for (int64_t u = 0; u <= t; u++) {
        p[u] /= sum;
    }
    return top + log(sum);
}

enum {
    LENGTH_MAX = 512 // of a sequence in the tests
};

void sc_reference_attention_fwd(const sc_reference_attention *a, const double *qkv, double *y,
                                double *lse)
{
    const int64_t size = a->C / a->n_head;
    double p[LENGTH_MAX];
    for (int64_t row = 0; row < a->B * a->n_head * a->T; row++) {
        const int64_t b = row / (a->n_head * a->T);
        const int64_t h = row / a->T % a->n_head;
        const int64_t t = row % a->T;
        double *out = y + (b * a->T + t) * a->C + h * size;
        lse[row] = probabilities(a, qkv, b, h, t, p);
        memset(out, 0, (size_t)size * sizeof *out);
        for (int64_t u = 0; u <= t; u++) {
            for (int64_t i = 0; i < size; i++) {
                out[i] += p[u] * qkv[part_at(a, b, u, h, 2) + i];
            }
        }
    }
}

void sc_reference_attention_bwd(const sc_reference_attention *a, const double *qkv,
                                const double *dy, double *dqkv)
{
    const int64_t size = a->C / a->n_head;
    double p[LENGTH_MAX];
    double dp[LENGTH_MAX];
    memset(dqkv, 0, (size_t)(a->B * a->T * 3 * a->C) * sizeof *dqkv);
    for (int64_t row = 0; row < a->B * a->n_head * a->T; row++) {
        const int64_t b = row / (a->n_head * a->T);
        const int64_t h = row / a->T % a->n_head;
        const int64_t t = row % a->T;
        const double *d = dy + (b * a->T + t) * a->C + h * size;
        double average = 0.0;
        probabilities(a, qkv, b, h, t, p);
        for (int64_t u = 0; u <= t; u++) {
            dp[u] = 0.0;
            for (int64_t i = 0; i < size; i++) {
                dp[u] += d[i] * qkv[part_at(a, b, u, h, 2) + i];
                dqkv[part_at(a, b, u, h, 2) + i] += p[u] * d[i];
            }
            average += p[u] * dp[u];
        }
        for (int64_t u = 0; u <= t; u++) {
            const double ds = p[u] * (dp[u] - average) / sqrt((double)size);
            for (int64_t i = 0; i < size; i++) {
                dqkv[part_at(a, b, t, h, 0) + i] += ds * qkv[part_at(a, b, u, h, 1) + i];
                dqkv[part_at(a, b, u, h, 1) + i] += ds * qkv[part_at(a, b, t, h, 0) + i];
            }
        }
    }
}

void sc_reference_embed_fwd(int64_t B, int64_t T, int64_t C, const int32_t *tokens,
                            const double *wte, const double *wpe, double *y)
{
    for (int64_t i = 0; i < B * T * C; i++) {
        y[i] = wte[tokens[i / C] * C + i % C] + wpe[i / C % T * C + i % C];
    }
}

void sc_reference_embed_bwd(int64_t B, int64_t T, int64_t C, const int32_t *tokens,
                            const double *dy, double *dwte, double *dwpe)
{
    for (int64_t i = 0; i < B * T * C; i++) {
        dwte[tokens[i / C] * C + i % C] += dy[i];
        dwpe[i / C % T * C + i % C] += dy[i];
    }
}

double sc_reference_xent(int64_t N, int64_t V, const double *logits, const int32_t *targets,
                         double scale, double *losses, double *gradient)
{
    double total = 0.0;
    for (int64_t row = 0; row < N; row++) {
        const double *x = logits + row * V;
        double top = -INFINITY;
        double sum = 0.0;
        for (int64_t i = 0; i < V; i++) {
            top = fmax(top, x[i]);
        }
        for (int64_t i = 0; i < V; i++) {
            sum += exp(x[i] - top);
        }
        const bool is_ignored = targets[row] == SC_IGNORE_INDEX;
        losses[row] = is_ignored ? 0.0 : top + log(sum) - x[targets[row]];
        total += losses[row];
        for (int64_t i = 0; i < V; i++) {
            double p = exp(x[i] - top) / sum - (i == targets[row] ? 1.0 : 0.0);
            gradient[row * V + i] = is_ignored ? 0.0 : p * scale;
        }
    }
    return total;
}

void sc_reference_adamw(const sc_reference_adamw_args *a, int64_t n, const double *grad, double *w,
                        double *m, double *v)
{
    for (int64_t i = 0; i < n; i++) {
        const double g = grad[i] * a->grad_scale;
        m[i] = a->beta1 * m[i] + (1.0 - a->beta1) * g;
        v[i] = a->beta2 * v[i] + (1.0 - a->beta2) * g * g;
        const double root = sqrt(v[i] / a->correction2) + a->epsilon;
        w[i] -= a->lr * (m[i] / a->correction1 / root + a->decay * w[i]);
    }
}
