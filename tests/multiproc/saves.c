#include "tests/multiproc/saves.h"

#include "tests/support/tmpdir.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char PROGRAM[] = SC_BIN_DIR "/stagecoach";

static sc_proc *start(const sc_jobs *jobs, const char *const *words, size_t n)
{
    const char *argv[SC_SAVES_WORDS_MAX + 2] = {PROGRAM};
    const char *const env[] = {"OMP_WAIT_POLICY=passive", NULL};
    assert_true(n <= SC_SAVES_WORDS_MAX);
    memcpy(argv + 1, words, n * sizeof *words);
    return sc_proc_start(&(sc_proc_config){.argv = argv, .env = env, .dir = jobs->dir});
}

static size_t count(const char *const *words)
{
    size_t n = 0;
    while (words[n] != NULL) {
        n++;
    }
    return n;
}

sc_proc *sc_saves_start(sc_jobs *jobs, const sc_jobs_layout *layout, const char *const *more)
{
    const char *words[SC_SAVES_WORDS_MAX] = {"run"};
    char *job = sc_jobs_write(jobs, layout);
    size_t n = count(more);
    assert_true(n + 2 < SC_SAVES_WORDS_MAX);
    words[1] = job;
    memcpy(words + 2, more, n * sizeof *more);
    sc_proc *proc = start(jobs, words, n + 2);
    free(job);
    return proc;
}

sc_proc *sc_saves_run(sc_jobs *jobs, const sc_jobs_layout *layout, const char *const *more,
                      int exit_code)
{
    sc_proc *proc = sc_saves_start(jobs, layout, more);
    sc_proc_expect_exit(proc, exit_code, SC_JOBS_PATIENCE_MS);
    return proc;
}

sc_proc *sc_saves_command(const sc_jobs *jobs, const char *const *words, int exit_code)
{
    sc_proc *proc = start(jobs, words, count(words));
    sc_proc_expect_exit(proc, exit_code, SC_JOBS_PATIENCE_MS);
    return proc;
}

char *sc_saves_run_dir(const sc_jobs *jobs)
{
    char name[48];
    snprintf(name, sizeof name, "runs/job-%d", jobs->n_runs);
    return sc_tmpdir_path(jobs->dir, name);
}

char *sc_saves_path(const char *run_dir, int step)
{
    char name[64];
    snprintf(name, sizeof name, "checkpoints/step-%08d", step);
    return sc_tmpdir_path(run_dir, name);
}

static int is_no_dot(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

char *sc_saves_list(const char *folder)
{
    struct dirent **entries = NULL;
    char *text = NULL;
    size_t n_text = 0;
    int n = scandir(folder, &entries, is_no_dot, alphasort);
    FILE *file = open_memstream(&text, &n_text);
    assert_non_null(file);
    for (int i = 0; i < n; i++) {
        fprintf(file, "%s ", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    assert_int_equal(fclose(file), 0);
    return text;
}

static void take_line(const char *path, const char *line, sc_saves_numbers *out)
{
    cJSON *json = cJSON_Parse(line);
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(json, "step");
    const cJSON *loss = cJSON_GetObjectItemCaseSensitive(json, "loss");
    const cJSON *norm = cJSON_GetObjectItemCaseSensitive(json, "grad_norm");
    if (!cJSON_IsNumber(step) || !cJSON_IsNumber(loss) || !cJSON_IsNumber(norm) ||
        step->valueint >= SC_SAVES_STEPS_MAX || (out->end > 0 && step->valueint != out->end)) {
        fail_msg("%s: '%s' after step %d", path, line, out->end - 1);
    }
    out->first = out->end == 0 ? step->valueint : out->first;
    out->end = step->valueint + 1;
    out->losses[step->valueint] = loss->valuedouble;
    out->norms[step->valueint] = norm->valuedouble;
    cJSON_Delete(json);
}

void sc_saves_read(const char *run_dir, sc_saves_numbers *out)
{
    char *path = sc_tmpdir_path(run_dir, "metrics.jsonl");
    char *text = sc_tmpdir_read(path, NULL);
    char *rest = text;
    out->first = out->end = 0;
    for (int i = 0; i < SC_SAVES_STEPS_MAX; i++) {
        out->losses[i] = out->norms[i] = NAN;
    }
    for (char *line; (line = strsep(&rest, "\n")) != NULL && rest != NULL;) {
        take_line(path, line, out); // one without a newline was cut off by a kill
    }
    free(text);
    free(path);
}

void sc_saves_expect_part(const sc_saves_numbers *whole, const sc_saves_numbers *part,
                          const char *text)
{
    assert_true(part->end > part->first);
    for (int i = part->first; i < part->end; i++) {
        if (memcmp(&whole->losses[i], &part->losses[i], sizeof(double)) != 0 ||
            memcmp(&whole->norms[i], &part->norms[i], sizeof(double)) != 0) {
            fail_msg(
                "[%s] step %d: loss %.17g and norm %.17g, without interruption %.17g and %.17g",
                text, i, part->losses[i], part->norms[i], whole->losses[i], whole->norms[i]);
        }
    }
}
