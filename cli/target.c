#include "cli/target.h"

#include "cli/announce.h"
#include "cli/client.h"
#include "cli/cmd.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REPLY_MS = 5000
};

bool sc_target_is_endpoint(const char *target)
{
    return strstr(target, "://") != NULL;
}

/* The target itself, or what the run folder's file says. */
static sc_status find_endpoint(const char *target, char *out, size_t n, sc_err *err)
{
    if (sc_target_is_endpoint(target)) {
        snprintf(out, n, "%s", target);
        return SC_OK;
    }
    char path[PATH_MAX];
    char *text = NULL;
    size_t n_text = 0;
    snprintf(path, sizeof path, "%s/summary.json", target);
    if (access(path, F_OK) == 0) {
        return sc_status_fail(err, SC_NOT_FOUND, "%s: the run is over, there is nobody to ask",
                              target);
    }
    snprintf(path, sizeof path, "%s/endpoint", target);
    SC_TRY(sc_cmd_read_file(path, SC_ANNOUNCE_ENDPOINT_MAX, &text, &n_text, err));
    snprintf(out, n, "%.*s", (int)strcspn(text, "\r\n"), text);
    free(text);
    return SC_OK;
}

static sc_status take_reply(const sc_msg_reply *reply, char **out_text, sc_err *err)
{
    if (reply->status != SC_OK) {
        return sc_status_fail(
            err, reply->status < SC_STATUS_COUNT ? (sc_status)reply->status : SC_FAILED, "%s",
            reply->text);
    }
    char *text = strdup(reply->text);
    if (text == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory");
    }
    *out_text = text;
    return SC_OK;
}

/* True for a run folder whose coordinator has begun and not ended its job. */
static bool is_under_way(const char *runs_dir, const char *name)
{
    char endpoint[PATH_MAX];
    char summary[PATH_MAX];
    int n = snprintf(endpoint, sizeof endpoint, "%s/%s/endpoint", runs_dir, name);
    int n_summary = snprintf(summary, sizeof summary, "%s/%s/summary.json", runs_dir, name);
    return n > 0 && (size_t)n < sizeof endpoint && n_summary > 0 &&
           (size_t)n_summary < sizeof summary && name[0] != '.' && access(endpoint, F_OK) == 0 &&
           access(summary, F_OK) != 0;
}

sc_status sc_target_find(const char *runs_dir, char *out, size_t n, sc_err *err)
{
    int n_found = 0;
    DIR *folder = opendir(runs_dir);
    if (folder == NULL) {
        return sc_status_errno(err, errno, "no endpoint and no run folder given, and %s", runs_dir);
    }
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (is_under_way(runs_dir, entry->d_name)) {
            n_found++;
            (void)snprintf(out, n, "%s/%s", runs_dir, entry->d_name);
        }
    }
    (void)closedir(folder);
    if (n_found != 1) {
        return sc_status_fail(err, SC_NOT_FOUND,
                              "no endpoint and no run folder given, and %d runs are under way in "
                              "%s: say which",
                              n_found, runs_dir);
    }
    return SC_OK;
}

sc_status sc_target_ask(const char *target, const char *verb, const char *argument, char **out_text,
                        sc_err *err)
{
    sc_status status = SC_OK;
    char endpoint[SC_ANNOUNCE_ENDPOINT_MAX + 1];
    sc_client *client = NULL;
    const sc_msg_reply *reply = NULL;
    SC_GOTO(find_endpoint(target, endpoint, sizeof endpoint, err));
    SC_GOTO(sc_client_open(endpoint, &client, err));
    status = sc_client_ask(client, verb, argument, REPLY_MS, &reply, err);
    if (status == SC_OK) {
        status = take_reply(reply, out_text, err);
    }
    if (status != SC_OK) {
        sc_status_prefix(err, status, "%s", endpoint);
    }
out:
    sc_client_close(&client);
    return status;
}
