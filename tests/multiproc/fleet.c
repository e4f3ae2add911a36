#include "tests/multiproc/fleet.h"

#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum {
    ASK_EVERY_MS = 10,
    ANSWER_MS = 10000
};

static const char STAGE[] = SC_BIN_DIR "/stagecoach-stage";

int64_t sc_fleet_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void sc_fleet_open(const sc_fleet_job *job, sc_fleet *out)
{
    char text[1024];
    *out = (sc_fleet){.dir = sc_tmpdir_new()};
    int n = snprintf(text, sizeof text,
                     "name: x\ndevice: paced\nschedule: %s\nparallel:\n  pipeline_parallel: %d\n"
                     "batch:\n  num_microbatches: %d\ntrain:\n  steps: %d\npaced:\n"
                     "  forward_ms: %d\n  backward_input_ms: %d\n  backward_weight_ms: %d\n%s",
                     job->schedule, job->p, job->m, job->steps, job->f_ms, job->i_ms, job->w_ms,
                     job->more == NULL ? "" : job->more);
    assert_in_range(n, 1, sizeof text - 1);
    out->job = sc_tmpdir_write_text(out->dir, "job.yaml", text);
}

void sc_fleet_close(sc_fleet *fleet)
{
    sc_client_close(&fleet->client);
    for (int i = 0; i < SC_FLEET_WORKERS_MAX; i++) {
        sc_proc_free(&fleet->workers[i]);
    }
    sc_proc_free(&fleet->coordinator);
    sc_proc_free(&fleet->run);
    sc_proc_expect_none_left(SC_FLEET_PATIENCE_MS);
    free(fleet->job);
    sc_tmpdir_free(&fleet->dir);
}

static void open_client(sc_fleet *fleet)
{
    sc_err err;
    if (sc_client_open(fleet->endpoint, &fleet->client, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
}

char *sc_fleet_read(const sc_fleet *fleet, const char *name)
{
    char *path = sc_tmpdir_path(fleet->run_dir, name);
    char *text = sc_tmpdir_read(path, NULL);
    free(path);
    return text;
}

void sc_fleet_run(sc_fleet *fleet)
{
    const char *const argv[] = {SC_BIN_DIR "/stagecoach", "run", fleet->job, NULL};
    fleet->run = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = fleet->dir});
    // Its first line of progress is the coordinator's answer.
    sc_proc_expect_line(fleet->run, SC_PROC_OUT, "", SC_FLEET_PATIENCE_MS);
    snprintf(fleet->run_dir, sizeof fleet->run_dir, "%s/runs/x", fleet->dir);
    char *endpoint = sc_fleet_read(fleet, "endpoint");
    snprintf(fleet->endpoint, sizeof fleet->endpoint, "%.*s", (int)strcspn(endpoint, "\n"),
             endpoint);
    free(endpoint);
    open_client(fleet);
}

void sc_fleet_start_coordinator(sc_fleet *fleet)
{
    const char *const argv[] = {SC_BIN_DIR "/stagecoach-coordinator", fleet->job, NULL};
    fleet->coordinator = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = fleet->dir});
    const char *line =
        sc_proc_expect_line(fleet->coordinator, SC_PROC_ERR, "listening on ", SC_FLEET_PATIENCE_MS);
    char run_dir[256];
    if (sscanf(strstr(line, "listening on "), "listening on %127[^,], run folder %255[^,]",
               fleet->endpoint, run_dir) != 2) {
        fail_msg("no endpoint in '%s'", line);
    }
    snprintf(fleet->run_dir, sizeof fleet->run_dir, "%s/%s", fleet->dir, run_dir);
    open_client(fleet);
}

void sc_fleet_start_worker(sc_fleet *fleet, int slot)
{
    char device[32];
    assert_in_range(slot, 0, SC_FLEET_WORKERS_MAX - 1);
    snprintf(device, sizeof device, "cpu:%d", slot);
    const char *const argv[] = {STAGE, "--coordinator", fleet->endpoint, "--device", device, NULL};
    fleet->workers[slot] = sc_proc_start(&(sc_proc_config){.argv = argv, .dir = fleet->dir});
}

sc_proc *sc_fleet_main(sc_fleet *fleet)
{
    return fleet->run != NULL ? fleet->run : fleet->coordinator;
}

/* Caller frees. */
static cJSON *ask(sc_fleet *fleet)
{
    sc_err err;
    const sc_msg_reply *reply = NULL;
    if (sc_client_ask(fleet->client, "status", "", ANSWER_MS, &reply, &err) != SC_OK) {
        sc_proc_wait(sc_fleet_main(fleet), 0);
        fail_msg("status: %s: %s", err.text, sc_proc_text(sc_fleet_main(fleet), SC_PROC_ERR));
    }
    cJSON *status = cJSON_Parse(reply->text);
    if (!cJSON_IsObject(status)) {
        fail_msg("status: %s", reply->text);
    }
    return status;
}

/* Between two questions; the job must not end meanwhile. */
static void pause_asking(sc_fleet *fleet)
{
    sc_proc *proc = sc_fleet_main(fleet);
    if (fleet->actor != NULL) {
        sc_actor_beat(fleet->actor);
    }
    if (sc_proc_wait(proc, ASK_EVERY_MS)) {
        fail_msg("the job ended (%d): %s%s", sc_proc_exit_code(proc),
                 sc_proc_text(proc, SC_PROC_OUT), sc_proc_text(proc, SC_PROC_ERR));
    }
}

/* What the status tells of `who`, if it has `text` and not `but`. */
static bool find_doing(const cJSON *status, const char *who, const char *text, const char *but,
                       char out[512])
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(status, "doing");
    const cJSON *item = NULL;
    size_t n = strlen(who);
    cJSON_ArrayForEach(item, list)
    {
        const char *line = item->valuestring;
        if (strncmp(line, who, n) == 0 && line[n] == ' ' && strstr(line, text) != NULL &&
            (but == NULL || strstr(line, but) == NULL)) {
            snprintf(out, 512, "%s", line);
            return true;
        }
    }
    return false;
}

void sc_fleet_await(sc_fleet *fleet, const char *who, const char *text, const char *but,
                    char out[512])
{
    int64_t deadline_ms = sc_fleet_now_ms() + SC_FLEET_PATIENCE_MS;
    for (;;) {
        cJSON *status = ask(fleet);
        bool is_found = find_doing(status, who, text, but, out);
        cJSON_Delete(status);
        if (is_found) {
            return;
        }
        if (sc_fleet_now_ms() > deadline_ms) {
            fail_msg("%s never was '%s'", who, text);
        }
        pause_asking(fleet);
    }
}

void sc_fleet_await_workers(sc_fleet *fleet, int n)
{
    int64_t deadline_ms = sc_fleet_now_ms() + SC_FLEET_PATIENCE_MS;
    int n_now = -1;
    while (n_now != n) {
        cJSON *status = ask(fleet);
        n_now = cJSON_GetObjectItemCaseSensitive(status, "workers")->valueint;
        cJSON_Delete(status);
        if (sc_fleet_now_ms() > deadline_ms) {
            fail_msg("%d workers are there, not %d", n_now, n);
        }
        if (n_now != n) {
            pause_asking(fleet);
        }
    }
}

pid_t sc_fleet_pid_in(const char *text)
{
    const char *at = strstr(text, ", pid ");
    long pid = at == NULL ? 0 : strtol(at + 6, NULL, 10);
    if (pid <= 1) {
        fail_msg("no pid in '%s'", text);
    }
    return (pid_t)pid;
}

int sc_fleet_read_losses(const sc_fleet *fleet, double losses[SC_FLEET_STEPS_MAX])
{
    char *text = sc_fleet_read(fleet, "metrics.jsonl");
    char *rest = text;
    int n = 0;
    for (char *line = strsep(&rest, "\n"); rest != NULL; line = strsep(&rest, "\n")) {
        cJSON *json = cJSON_Parse(line);
        const cJSON *loss = cJSON_GetObjectItemCaseSensitive(json, "loss");
        assert_true(cJSON_IsNumber(loss));
        assert_in_range(n, 0, SC_FLEET_STEPS_MAX - 1);
        losses[n++] = loss->valuedouble;
        cJSON_Delete(json);
    }
    free(text);
    return n;
}

void sc_fleet_expect_losses(const sc_fleet *fleet, const sc_fleet_job *job)
{
    double expected[SC_FLEET_STEPS_MAX];
    double losses[SC_FLEET_STEPS_MAX];
    sc_fleet alone;
    sc_fleet_open(job, &alone);
    sc_fleet_run(&alone);
    sc_proc_expect_exit(alone.run, 0, SC_FLEET_PATIENCE_MS);
    assert_int_equal(sc_fleet_read_losses(&alone, expected), job->steps);
    assert_int_equal(sc_fleet_read_losses(fleet, losses), job->steps);
    assert_memory_equal(losses, expected, (size_t)job->steps * sizeof *losses);
    sc_proc_free(&alone.run);
    sc_fleet_close(&alone);
}
