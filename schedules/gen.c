#include "schedules/gen.h"

#include "schedules/gen_1f1b.h"
#include "schedules/gen_chimera.h"
#include "schedules/gen_dualpipe.h"
#include "schedules/gen_gpipe.h"
#include "schedules/gen_hanayo.h"
#include "schedules/gen_interleaved.h"
#include "schedules/gen_looped_bfs.h"
#include "schedules/gen_vshape.h"
#include "schedules/gen_zb.h"
#include "schedules/gen_zb_auto.h"
#include "schedules/gen_zbv.h"

#include <stdio.h>
#include <string.h>

static const sc_gen_info GENERATORS[] = {
    {
        .name = "gpipe",
        .summary = "all forwards, then all backwards (Huang et al., arXiv 1811.06965)",
        .constraints = "v = 1; any p, m",
        .default_chunks = 1,
        .closed_bubble = sc_gen_gpipe_closed_bubble,
        .make = sc_gen_gpipe_make,
    },
    {
        .name = "1f1b",
        .summary = "warm-up, then one forward and one backward in turn (Narayanan et al., arXiv "
                   "2104.04473)",
        .constraints = "v = 1; any p, m",
        .default_chunks = 1,
        .closed_bubble = sc_gen_1f1b_closed_bubble,
        .make = sc_gen_1f1b_make,
    },
    {
        .name = "interleaved",
        .summary = "1F1B over several stages a rank (Narayanan et al., arXiv 2104.04473)",
        .constraints = "v >= 2; any p, m, group",
        .default_chunks = 2,
        .closed_bubble = sc_gen_interleaved_closed_bubble,
        .make = sc_gen_interleaved_make,
    },
    {
        .name = "looped-bfs",
        .summary = "all forwards stage by stage, then all backwards (Lamy-Poirier, arXiv "
                   "2211.05953)",
        .constraints = "any p, v, m",
        .default_chunks = 2,
        .closed_bubble = sc_gen_looped_bfs_closed_bubble,
        .make = sc_gen_looped_bfs_make,
    },
    {
        .name = "zb-h1",
        .summary = "1F1B with W's in the bubble, memory of 1F1B (Qi et al., arXiv 2401.10241)",
        .constraints = "v = 1; any p, m",
        .default_chunks = 1,
        .has_split = true,
        .closed_bubble = sc_gen_zb_closed_bubble_h1,
        .make = sc_gen_zb_make_h1,
    },
    {
        .name = "zb-h2",
        .summary = "twice the warm-up: no bubble but memory of 2p - 1 (Qi et al., arXiv "
                   "2401.10241)",
        .constraints = "v = 1; any p, m",
        .default_chunks = 1,
        .has_split = true,
        .closed_bubble = sc_gen_zb_closed_bubble_h2,
        .make = sc_gen_zb_make_h2,
    },
    {
        .name = "zb-auto",
        .summary = "ordered for given times within a memory limit (Qi et al., arXiv 2401.10241)",
        .constraints = "v = 1; any p, m; limit of 1 microbatch or more",
        .default_chunks = 1,
        .has_split = true,
        .make = sc_gen_zb_auto_make,
    },
    {
        .name = "zb-v",
        .summary = "V placement, no bubble at F = I = W (Qi et al., arXiv 2401.10241)",
        .constraints = "v = 2; any p, m",
        .default_chunks = 2,
        .has_split = true,
        .closed_bubble = sc_gen_zbv_closed_bubble,
        .make = sc_gen_zbv_make,
    },
    {
        .name = "v-half",
        .summary = "V placement, half of the memory of 1F1B (Qi et al., arXiv 2405.15362)",
        .constraints = "v = 2; any p, m",
        .default_chunks = 2,
        .has_split = true,
        .closed_bubble = sc_gen_vshape_closed_bubble_half,
        .make = sc_gen_vshape_make_half,
    },
    {
        .name = "v-min",
        .summary = "V placement, a third of the memory of 1F1B (Qi et al., arXiv 2405.15362)",
        .constraints = "v = 2; any p, m",
        .default_chunks = 2,
        .has_split = true,
        .closed_bubble = sc_gen_vshape_closed_bubble_min,
        .make = sc_gen_vshape_make_min,
    },
    {
        .name = "dualpipe-v",
        .summary = "DualPipe folded into a V, nothing replicated (DeepSeek-AI, DualPipe)",
        .constraints = "v = 2; any p, m",
        .default_chunks = 2,
        .has_split = true,
        .closed_bubble = sc_gen_dualpipe_closed_bubble_v,
        .make = sc_gen_dualpipe_make_v,
    },
    {
        .name = "dualpipe",
        .summary = "two directions that overlap (DeepSeek-AI, arXiv 2412.19437)",
        .constraints = "v = 1; p even; any m",
        .default_chunks = 1,
        .has_split = true,
        .is_replicated = true,
        .closed_bubble = sc_gen_dualpipe_closed_bubble,
        .make = sc_gen_dualpipe_make,
    },
    {
        .name = "chimera",
        .summary = "two pipelines in opposite directions (Li and Hoefler, arXiv 2107.06925)",
        .constraints = "v = 1; p even; any m",
        .default_chunks = 1,
        .is_replicated = true,
        .closed_bubble = sc_gen_chimera_closed_bubble,
        .make = sc_gen_chimera_make,
    },
    {
        .name = "hanayo",
        .summary = "v / 2 waves down the ranks and up again (Liu et al., arXiv 2308.15762)",
        .constraints = "v even; any p, m",
        .default_chunks = 2,
        .make = sc_gen_hanayo_make,
    },
};

enum {
    N_GENERATORS = sizeof GENERATORS / sizeof GENERATORS[0]
};

const sc_gen_info *sc_gen_list(size_t *n_out)
{
    *n_out = N_GENERATORS;
    return GENERATORS;
}

const sc_gen_info *sc_gen_find(const char *name)
{
    for (size_t i = 0; i < N_GENERATORS; i++) {
        if (strcmp(GENERATORS[i].name, name) == 0) {
            return &GENERATORS[i];
        }
    }
    return NULL;
}

static sc_status fail_unknown(const char *name, sc_err *err)
{
    char known[512] = "";
    for (size_t i = 0; i < N_GENERATORS; i++) {
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                       GENERATORS[i].name);
    }
    return sc_status_fail(err, SC_NOT_FOUND, "unknown schedule '%.64s'; the schedules are %s", name,
                          known);
}

sc_status sc_gen_make(const char *name, const sc_gen_params *params, sc_table **out, sc_err *err)
{
    const sc_gen_info *info = sc_gen_find(name);
    if (info == NULL) {
        return fail_unknown(name, err);
    }
    if (params->n_ranks < 1 || params->n_ranks > SC_STAGES_MAX) {
        return sc_status_fail(err, SC_INVALID, "%s: %d ranks; choose 1 to %d", name,
                              params->n_ranks, SC_STAGES_MAX);
    }
    if (params->n_mb < 1 || params->n_mb > SC_MICROBATCHES_MAX) {
        return sc_status_fail(err, SC_INVALID, "%s: %d microbatches; choose 1 to %d", name,
                              params->n_mb, SC_MICROBATCHES_MAX);
    }
    if (params->n_chunks < 0 || params->n_chunks > SC_STAGES_MAX / params->n_ranks) {
        return sc_status_fail(err, SC_INVALID,
                              "%s: %d stages a rank; choose 1 to %d, or 0 for the default", name,
                              params->n_chunks, SC_STAGES_MAX / params->n_ranks);
    }
    return info->make(params, out, err);
}
