#include "base/log.h"

#include <pthread.h>
#include <regex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

enum {
    N_THREADS = 4,
    N_LINES = 200,
    LINE_MAX_BYTES = 2048
};

/* Runs `body` with stderr in a file and returns what was written; caller frees. */
static char *capture(void (*body)(void))
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    body();
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long n = ftell(file);
    assert_true(n >= 0);
    rewind(file);
    char *text = calloc(1, (size_t)n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)n, file), n);
    fclose(file);
    return text;
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&regex, text, 0, NULL, 0) != 0) {
        fail_msg("'%s' does not match %s", text, pattern);
    }
    regfree(&regex);
}

static void write_all_levels(void)
{
    SC_LOG_ERROR("e %d", 1);
    SC_LOG_WARN("w");
    SC_LOG_INFO("i");
    SC_LOG_DEBUG("d");
    SC_LOG_TRACE("t");
}

static void line_format(void **state)
{
    (void)state;
    sc_log_set_level(SC_LOG_ERROR);
    sc_log_set_name("stage 3");
    char *text = capture(write_all_levels);
    assert_matches(text, "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "
                         "stage 3 error: e 1\n$");
    free(text);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++) {
        n++;
    }
    return n;
}

static void levels_filter(void **state)
{
    (void)state;
    for (int level = 0; level < SC_LOG_LEVEL_COUNT; level++) {
        sc_log_set_level((sc_log_level)level);
        for (int other = 0; other < SC_LOG_LEVEL_COUNT; other++) {
            assert_int_equal(sc_log_is_on((sc_log_level)other), other <= level);
        }
        char *text = capture(write_all_levels);
        assert_int_equal(count_lines(text), level + 1);
        free(text);
    }
    sc_log_set_level(SC_LOG_INFO);
}

static void level_names(void **state)
{
    (void)state;
    const char *const names[] = {"error", "warn", "info", "debug", "trace"};
    for (int i = 0; i < SC_LOG_LEVEL_COUNT; i++) {
        sc_log_level level = SC_LOG_LEVEL_COUNT;
        assert_true(sc_log_parse_level(names[i], &level));
        assert_int_equal(level, i);
    }
    sc_log_level level = SC_LOG_WARN;
    assert_false(sc_log_parse_level("", &level));
    assert_false(sc_log_parse_level("ERROR", &level));
    assert_false(sc_log_parse_level("info ", &level));
    assert_int_equal(level, SC_LOG_WARN); // only set on success
}

static void write_long_line(void)
{
    char big[3 * LINE_MAX_BYTES];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    SC_LOG_INFO("%s", big);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    sc_log_set_name("a name that is much longer than the thirty-one bytes it may have");
    char *text = capture(write_long_line);
    assert_int_equal(count_lines(text), 1);
    assert_true(strlen(text) < LINE_MAX_BYTES);
    assert_int_equal(text[strlen(text) - 1], '\n');
    assert_non_null(strstr(text, "Z a name that is much longer than info: xxx"));
    free(text);
    sc_log_set_name("stagecoach");
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < N_LINES; i++) {
        SC_LOG_INFO("thread %d line %d end", *(const int *)arg, i);
    }
    return NULL;
}

static void write_from_threads(void)
{
    pthread_t threads[N_THREADS];
    int numbers[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &numbers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void threads_do_not_mix(void **state)
{
    (void)state;
    char *text = capture(write_from_threads);
    int next[N_THREADS] = {0};
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        const char *at = strstr(line, "thread ");
        assert_non_null(at);
        char *end;
        long thread = strtol(at + strlen("thread "), &end, 10);
        assert_in_range(thread, 0, N_THREADS - 1);
        char expected[64];
        snprintf(expected, sizeof expected, " line %d end", next[thread]++);
        assert_string_equal(end, expected);
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(next[i], N_LINES);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_format),        cmocka_unit_test(levels_filter),
        cmocka_unit_test(level_names),        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(threads_do_not_mix),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
