#include "cli/announce.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static sc_status take_text(const cJSON *object, const char *key, char *out, size_t n, sc_err *err)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    if (text == NULL || text[0] == '\0' || strlen(text) >= n) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "the coordinator's announcement has no usable \"%s\"", key);
    }
    memcpy(out, text, strlen(text) + 1);
    return SC_OK;
}

static sc_status take_count(const cJSON *object, const char *key, int max, int *out, sc_err *err)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    double value = cJSON_IsNumber(item) ? item->valuedouble : 0.0;
    if (!(value >= 1.0 && value <= max) || value != (double)(int)value) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "the coordinator's announcement: \"%s\" is not a number in 1..%d",
                              key, max);
    }
    *out = (int)value;
    return SC_OK;
}

static sc_status take_all(const cJSON *object, sc_announce *out, sc_err *err)
{
    SC_TRY(take_text(object, "endpoint", out->endpoint, sizeof out->endpoint, err));
    SC_TRY(take_text(object, "run_dir", out->run_dir, sizeof out->run_dir, err));
    SC_TRY(take_count(object, "n_workers", SC_ANNOUNCE_WORKERS_MAX, &out->n_workers, err));
    SC_TRY(take_count(object, "threads", SC_ANNOUNCE_THREADS_MAX, &out->n_threads, err));
    const cJSON *pin = cJSON_GetObjectItemCaseSensitive(object, "pin");
    if (!cJSON_IsBool(pin)) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "the coordinator's announcement: \"pin\" is neither true nor false");
    }
    out->is_pinned = cJSON_IsTrue(pin) != 0;
    return SC_OK;
}

sc_status sc_announce_parse(const char *line, size_t n, sc_announce *out, sc_err *err)
{
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithLengthOpts(line, n, &end, 0);
    sc_announce announce = {0};
    if (!cJSON_IsObject(object) || end != line + n) {
        cJSON_Delete(object);
        return sc_status_fail(err, SC_PROTOCOL, "the coordinator announced no JSON object: %.*s",
                              n < 80 ? (int)n : 80, line);
    }
    sc_status status = take_all(object, &announce, err);
    cJSON_Delete(object);
    if (status == SC_OK) {
        *out = announce;
    }
    return status;
}

/* Appends what one read gives; *got_p as read says, 0 also where there is nothing now. */
static sc_status read_more(sc_announce_reader *reader, int fd, size_t *got_p, sc_err *err)
{
    size_t room = sizeof reader->line - reader->n;
    ssize_t got = -1;
    if (room == 0) {
        return sc_status_fail(err, SC_PROTOCOL,
                              "the coordinator's announcement is longer than %d bytes",
                              (int)SC_ANNOUNCE_LINE_MAX);
    }
    do {
        got = read(fd, reader->line + reader->n, room);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && errno != EAGAIN) {
        return sc_status_errno(err, errno, "the coordinator's announcement");
    }
    reader->is_ended = got == 0;
    *got_p = got > 0 ? (size_t)got : 0;
    reader->n += *got_p;
    return SC_OK;
}

sc_status sc_announce_read(sc_announce_reader *reader, int fd, bool *is_whole_p, sc_announce *out,
                           sc_err *err)
{
    size_t got = 0;
    const char *newline = NULL;
    *is_whole_p = false;
    do {
        SC_TRY(read_more(reader, fd, &got, err));
        newline = memchr(reader->line, '\n', reader->n);
    } while (got > 0 && newline == NULL);
    if (newline == NULL) {
        return SC_OK;
    }
    SC_TRY(sc_announce_parse(reader->line, (size_t)(newline - reader->line), out, err));
    *is_whole_p = true;
    return SC_OK;
}
