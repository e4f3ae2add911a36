/*
 * stagecoach-stage - the stage worker daemon: one process a GPU or CPU slot.
 */
#include "base/log.h"
#include "stage/io/stage_loop.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const char *argp_program_version = "stagecoach-stage " SC_VERSION;

enum {
    KEY_LOG = 256,
    KEY_PIN,
    KEY_HOST_ADDRESS,
    KEY_WAIT
};

typedef struct options {
    sc_stage_config stage;
    const char *pin;
    const char *log;
    int verbosity;
} options;

static const struct argp_option option_list[] = {
    {"coordinator", 'c', "ENDPOINT", 0, "where the coordinator listens, e.g. tcp://127.0.0.1:7000",
     0},
    {"device", 'd', "DEVICE", 0, "cpu, or cpu:N to claim slot N of this host (default cpu)", 0},
    {"pin", KEY_PIN, "CPUS", 0, "run on these CPUs only, e.g. 0 or 0,2-3", 0},
    {"host-address", KEY_HOST_ADDRESS, "ADDRESS", 0,
     "numeric IPv4 address by which other hosts reach this one (default 127.0.0.1)", 0},
    {"wait", KEY_WAIT, "SECONDS", 0, "longest wait for the coordinator (default 60)", 0},
    {"log", KEY_LOG, "FILE", 0, "append the log to FILE instead of writing it to stderr", 0},
    {"verbose", 'v', NULL, 0, "log more; twice for every message", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    options *o = state->input;
    char *end;
    switch (key) {
    case 'c':
        o->stage.coordinator = arg;
        return 0;
    case 'd':
        if (strcmp(arg, "cpu") != 0 &&
            (strncmp(arg, "cpu:", 4) != 0 || arg[4] == '\0' ||
             strspn(arg + 4, "0123456789") != strlen(arg + 4) || strlen(arg) > 10)) {
            argp_error(state, "--device %s: cpu and cpu:N are known in this build", arg);
        }
        o->stage.device = arg;
        return 0;
    case KEY_PIN:
        o->pin = arg;
        return 0;
    case KEY_HOST_ADDRESS:
        o->stage.host_address = arg;
        return 0;
    case KEY_WAIT:
        o->stage.wait_seconds = strtod(arg, &end);
        if (*end != '\0' || !(o->stage.wait_seconds > 0) || o->stage.wait_seconds > 1e6) {
            argp_error(state, "--wait %s: a number of seconds above 0 is needed", arg);
        }
        return 0;
    case KEY_LOG:
        o->log = arg;
        return 0;
    case 'v':
        o->verbosity++;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "%s: no argument is expected", arg);
        return 0;
    case ARGP_KEY_END:
        if (o->stage.coordinator == NULL) {
            argp_error(state, "--coordinator ENDPOINT is missing");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "0,2-3": before any thread starts, so that all inherit it. */
static sc_status pin_cpus(const char *list, sc_err *err)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const char *at = list;
    while (*at != '\0') {
        char *end;
        long first = strtol(at, &end, 10);
        long last = first;
        if (end != at && *end == '-') {
            at = end + 1;
            last = strtol(at, &end, 10);
        }
        if (end == at || first < 0 || last < first || last >= CPU_SETSIZE ||
            (*end != ',' && *end != '\0')) {
            return sc_status_fail(err, SC_USAGE, "--pin %s: a list such as 0 or 0,2-3 is needed",
                                  list);
        }
        for (long cpu = first; cpu <= last; cpu++) {
            CPU_SET((int)cpu, &set);
        }
        at = *end == ',' ? end + 1 : end;
    }
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        return sc_status_errno(err, errno, "--pin %s", list);
    }
    return SC_OK;
}

/* Every peer takes a socket and two connections: the usual 1024 end at some 300 ranks, and ZeroMQ
   then ends the process. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static sc_status open_log(const char *path, sc_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        return sc_status_errno(err, errno, "--log %s", path);
    }
    dup2(fd, STDERR_FILENO);
    close(fd);
    return SC_OK;
}

int main(int argc, char **argv)
{
    static const struct argp parser = {
        option_list,
        parse_option,
        NULL,
        "Holds one slice of a model and executes its row of the schedule that a coordinator "
        "gives it.",
        NULL,
        NULL,
        NULL};
    options o = {.stage = {.device = "cpu", .host_address = "127.0.0.1", .wait_seconds = 60}};
    sc_err err = {.status = SC_OK};
    argp_err_exit_status = sc_status_exit_code(SC_USAGE);
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    sc_log_set_name("stage");
    sc_log_set_level((sc_log_level)(SC_LOG_INFO + (o.verbosity > 2 ? 2 : o.verbosity)));
    sc_status status = SC_OK;
    raise_descriptor_limit();
    if (o.log != NULL) {
        status = open_log(o.log, &err);
    }
    if (status == SC_OK && o.pin != NULL) {
        status = pin_cpus(o.pin, &err);
    }
    if (status == SC_OK) {
        status = sc_stage_loop_run(&o.stage, &err);
    }
    if (status != SC_OK) {
        SC_LOG_ERROR("%s", err.text);
    }
    return sc_status_exit_code(status);
}
