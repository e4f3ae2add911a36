/*
 * examples: every job file loads, and reference.yaml and the help text have every key of the table.
 */
#include "coordinator/job.h"
#include "coordinator/job_table.h"
#include "coordinator/planner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_table_is_complete_and_help_has_every_key(void **state)
{
    (void)state;
    char *help = NULL;
    assert_int_equal(sc_job_help(&help, NULL), SC_OK);
    for (int i = 0; i < SC_JOB_TABLE_ROWS; i++) {
        const sc_job_key *key = &sc_job_table_rows[i];
        assert_non_null(key->path);
        assert_non_null(key->help);
        assert_non_null(strstr(help, key->path));
        assert_int_equal(sc_job_keys_find(key->path), i);
        // A key that no job must say has a default.
        assert_true(key->need == SC_JOB_NEED_ALL || key->text != NULL ||
                    key->type == SC_JOB_KEY_TEXT);
    }
    free(help);
}

static void test_examples_load(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"kjv-5m",    "paced-4",   "paced-16",  "gpt2-124m",
                                        "reference", "paced-csv", "paced-auto"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        char path[512];
        sc_job *job = NULL;
        sc_err err = {0};
        (void)snprintf(path, sizeof path, "%s/examples/%s.yaml", SC_SOURCE_DIR, NAMES[i]);
        if (sc_job_load(path, NULL, 0, &job, &err) != SC_OK) {
            fail_msg("%s", err.text);
        }
        assert_string_equal(job->name, NAMES[i]);
        sc_job_free(&job);
    }
}

/* Paths in a job are relative to the current folder: the repository's root, in the examples. */
static void test_example_of_a_file_is_for_its_job(void **state)
{
    (void)state;
    char path[512];
    char override[512];
    const char *overrides[] = {override};
    sc_job *job = NULL;
    sc_plan *plan = NULL;
    sc_err err = {0};
    (void)snprintf(path, sizeof path, "%s/examples/paced-csv.yaml", SC_SOURCE_DIR);
    assert_int_equal(sc_job_load(path, NULL, 0, &job, NULL), SC_OK);
    (void)snprintf(override, sizeof override, "schedule=\"file:%s/%s\"", SC_SOURCE_DIR,
                   sc_job_schedule_path(job->schedule));
    sc_job_free(&job);
    assert_int_equal(sc_job_load(path, overrides, 1, &job, NULL), SC_OK);
    if (sc_plan_load(job, job->schedule, NULL, &plan, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    sc_plan *named = NULL;
    assert_int_equal(sc_plan_load(job, "zb-v", NULL, &named, NULL), SC_OK);
    assert_true(sc_table_equals(plan->compute, named->compute));
    sc_planner_free(&named);
    sc_planner_free(&plan);
    sc_job_free(&job);
}

/* Leaf of a tree of two levels; NULL when there is none of that path. */
static const sc_job_node *find_node(const sc_job_node *root, const char *path)
{
    for (const sc_job_node *section = root->first; section != NULL; section = section->next) {
        if (strcmp(section->path, path) == 0) {
            return section;
        }
        for (const sc_job_node *node = section->first; node != NULL; node = node->next) {
            if (strcmp(node->path, path) == 0) {
                return node;
            }
        }
    }
    return NULL;
}

static void test_reference_has_every_key_with_its_default(void **state)
{
    (void)state;
    char path[512];
    sc_job *job = NULL;
    sc_err err = {0};
    char text[65536];
    (void)snprintf(path, sizeof path, "%s/examples/reference.yaml", SC_SOURCE_DIR);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    sc_arena arena;
    sc_arena_init(&arena, 0);
    sc_job_node *root = NULL;
    assert_int_equal(sc_job_yaml_parse(path, text, n, &arena, &root, &err), SC_OK);
    assert_int_equal(sc_job_load(path, NULL, 0, &job, &err), SC_OK);
    for (int i = 0; i < SC_JOB_TABLE_ROWS; i++) {
        const sc_job_key *key = &sc_job_table_rows[i];
        const sc_job_node *found = find_node(root, key->path);
        if (found == NULL) {
            fail_msg("reference.yaml lacks %s", key->path);
            continue;
        }
        bool has_default = key->need == SC_JOB_NEED_NONE && key->type != SC_JOB_KEY_INTS;
        if (has_default && strcmp(found->text, key->text) != 0) {
            fail_msg("reference.yaml has %s for %s, the default is %s", found->text, key->path,
                     key->text);
        }
    }
    sc_arena_done(&arena);
    sc_job_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_complete_and_help_has_every_key),
        cmocka_unit_test(test_examples_load),
        cmocka_unit_test(test_example_of_a_file_is_for_its_job),
        cmocka_unit_test(test_reference_has_every_key_with_its_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
