#include "cli/schedulecompare.h"

#include "cli/contest.h"
#include "cli/standings.h"
#include "cli/sweep.h"

/* The contest that the arguments describe; sizes that are left out are the run's. */
static sc_contest_rules make_rules(const sc_scheduleargs *args, const sc_scheduleprofile *profile)
{
    sc_contest_rules rules = {.params = args->params,
                              .costs = args->costs,
                              .profile = profile,
                              .memory_cap = args->memory_cap,
                              .is_by_peak = args->is_by_peak};
    if (profile != NULL && rules.params.n_ranks == 0) {
        rules.params.n_ranks = profile->n_ranks;
    }
    if (profile != NULL && rules.params.n_mb == 0) {
        rules.params.n_mb = profile->n_mb;
    }
    return rules;
}

static sc_status run_once(const sc_scheduleargs *args, const sc_contest_rules *rules, sc_err *err)
{
    sc_contest contest = {0};
    sc_status status = SC_OK;
    SC_TRY(sc_contest_run(rules, &contest, err));
    if (args->is_json) {
        status = sc_standings_print_json(&contest, rules, args->profile, err);
    } else {
        sc_standings_print(&contest, rules, args->profile);
    }
    sc_contest_done(&contest);
    return status;
}

sc_status sc_schedulecompare_run(const sc_scheduleargs *args, sc_err *err)
{
    sc_scheduleprofile profile = {0};
    if (args->profile != NULL) {
        SC_TRY(sc_scheduleprofile_read(args->profile, &profile, err));
    }
    sc_contest_rules rules = make_rules(args, args->profile != NULL ? &profile : NULL);
    sc_status status =
        args->sweep.axis != 0 ? sc_sweep_run(args, &rules, err) : run_once(args, &rules, err);
    sc_scheduleprofile_done(&profile);
    return status;
}
