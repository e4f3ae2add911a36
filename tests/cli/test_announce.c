/* The coordinator's announcement: whole, in pieces, broken. */
#include "cli/announce.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char GOOD[] = "{\"endpoint\":\"tcp://127.0.0.1:41233\",\"run_dir\":\"runs/x\","
                           "\"n_workers\":3,\"threads\":2,\"pin\":false}";

static void test_good_line(void **state)
{
    (void)state;
    sc_announce a;
    assert_int_equal(sc_announce_parse(GOOD, strlen(GOOD), &a, NULL), SC_OK);
    assert_string_equal(a.endpoint, "tcp://127.0.0.1:41233");
    assert_string_equal(a.run_dir, "runs/x");
    assert_int_equal(a.n_workers, 3);
    assert_int_equal(a.n_threads, 2);
    assert_false(a.is_pinned);
}

static void test_broken_lines_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *part; // of the message
    } CASES[] = {
        {"", "no JSON object"},
        {"[]", "no JSON object"},
        {"{\"endpoint\":\"x\"", "no JSON object"},
        {"{} trailing", "no JSON object"},
        {"{}", "\"endpoint\""},
        {"{\"endpoint\":\"\",\"run_dir\":\"x\",\"n_workers\":1,\"threads\":1,\"pin\":true}",
         "\"endpoint\""},
        {"{\"endpoint\":\"x\",\"run_dir\":7,\"n_workers\":1,\"threads\":1,\"pin\":true}",
         "\"run_dir\""},
        {"{\"endpoint\":\"x\",\"run_dir\":\"x\",\"n_workers\":0,\"threads\":1,\"pin\":true}",
         "\"n_workers\""},
        {"{\"endpoint\":\"x\",\"run_dir\":\"x\",\"n_workers\":1e9,\"threads\":1,\"pin\":true}",
         "\"n_workers\""},
        {"{\"endpoint\":\"x\",\"run_dir\":\"x\",\"n_workers\":1,\"threads\":1.5,\"pin\":true}",
         "\"threads\""},
        {"{\"endpoint\":\"x\",\"run_dir\":\"x\",\"n_workers\":1,\"threads\":1,\"pin\":1}",
         "\"pin\""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        sc_announce a = {.n_workers = 77};
        sc_err err;
        assert_int_equal(sc_announce_parse(CASES[i].line, strlen(CASES[i].line), &a, &err),
                         SC_PROTOCOL);
        if (strstr(err.text, CASES[i].part) == NULL) {
            fail_msg("%s: %s", CASES[i].line, err.text);
        }
        assert_int_equal(a.n_workers, 77);
    }
}

static void test_line_in_pieces(void **state)
{
    (void)state;
    int fds[2];
    sc_announce_reader reader = {0};
    sc_announce a = {0};
    bool is_whole = true;
    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    for (size_t i = 0; i < strlen(GOOD); i++) {
        assert_int_equal(write(fds[1], &GOOD[i], 1), 1);
        assert_int_equal(sc_announce_read(&reader, fds[0], &is_whole, &a, NULL), SC_OK);
        assert_false(is_whole);
        assert_false(reader.is_ended);
    }
    assert_int_equal(write(fds[1], "\n", 1), 1);
    assert_int_equal(sc_announce_read(&reader, fds[0], &is_whole, &a, NULL), SC_OK);
    assert_true(is_whole);
    assert_int_equal(a.n_workers, 3);
    close(fds[0]);
    close(fds[1]);
}

static void test_end_before_a_line_and_endless_line(void **state)
{
    (void)state;
    int fds[2];
    char block[SC_ANNOUNCE_LINE_MAX];
    sc_announce_reader reader = {0};
    sc_announce a = {0};
    sc_err err;
    bool is_whole = true;
    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    assert_int_equal(write(fds[1], "{", 1), 1);
    close(fds[1]);
    assert_int_equal(sc_announce_read(&reader, fds[0], &is_whole, &a, &err), SC_OK);
    assert_false(is_whole);
    assert_true(reader.is_ended);
    close(fds[0]);

    memset(block, ' ', sizeof block);
    memset(&reader, 0, sizeof reader);
    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    assert_int_equal(write(fds[1], block, sizeof block), (int)sizeof block);
    assert_int_equal(sc_announce_read(&reader, fds[0], &is_whole, &a, &err), SC_PROTOCOL);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_line),
        cmocka_unit_test(test_broken_lines_are_refused),
        cmocka_unit_test(test_line_in_pieces),
        cmocka_unit_test(test_end_before_a_line_and_endless_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
