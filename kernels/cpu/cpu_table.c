#include "kernels/cpu/cpu.h"

#define TEXT_OF_PASTED(x) #x
#define TEXT_OF(x) TEXT_OF_PASTED(x)

const sc_backend SC_CPU_FN(sc_cpu_table) = {
    .name = "cpu",
    .isa = TEXT_OF(SC_CPU_ISA),
    .gemm = sc_cpu_gemm,
    .linear_fwd = SC_CPU_FN(sc_cpu_linear_fwd),
    .linear_bwd_input = SC_CPU_FN(sc_cpu_linear_bwd_input),
    .linear_bwd_weight = SC_CPU_FN(sc_cpu_linear_bwd_weight),
    .gelu = SC_CPU_FN(sc_cpu_linear_gelu),
    .norm_fwd = SC_CPU_FN(sc_cpu_norm_fwd),
    .norm_bwd_input = SC_CPU_FN(sc_cpu_norm_bwd_input),
    .norm_bwd_weight = SC_CPU_FN(sc_cpu_norm_bwd_weight),
    .attention_scratch_bytes = SC_CPU_FN(sc_cpu_attention_scratch_bytes),
    .attention_fwd = SC_CPU_FN(sc_cpu_attention_fwd),
    .attention_bwd = SC_CPU_FN(sc_cpu_attention_bwd),
    .embed_fwd = SC_CPU_FN(sc_cpu_embed_fwd),
    .embed_bwd = SC_CPU_FN(sc_cpu_embed_bwd),
    .xent = SC_CPU_FN(sc_cpu_xent),
    .add = SC_CPU_FN(sc_cpu_reduce_add),
    .sum_squares = SC_CPU_FN(sc_cpu_reduce_sum_squares),
    .adamw = SC_CPU_FN(sc_cpu_optim_adamw),
    .sgd = SC_CPU_FN(sc_cpu_optim_sgd),
};
