#include "tests/cli/fake_run.h"

#include <stdio.h>

enum {
    ARGS_MAX = 30
};

sc_proc *sc_fake_run_start(const sc_fake_run *run, const char *const *args)
{
    const char *argv[ARGS_MAX + 2] = {FAKE_DIR "/stagecoach"};
    char coordinator[64];
    char stage[64];
    for (size_t i = 0; i < ARGS_MAX && args[i] != NULL; i++) {
        argv[i + 1] = args[i];
    }
    snprintf(coordinator, sizeof coordinator, "FAKE_COORDINATOR=%s",
             run->coordinator != NULL ? run->coordinator : "ok");
    snprintf(stage, sizeof stage, "FAKE_STAGE=%s", run->stage != NULL ? run->stage : "ok");
    const char *env[] = {coordinator, stage, "TERM=xterm", NULL};
    const sc_proc_config config = {
        .argv = argv, .env = env, .dir = run->dir, .is_terminal = run->is_terminal};
    return sc_proc_start(&config);
}
