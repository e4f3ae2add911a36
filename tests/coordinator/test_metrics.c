#include "coordinator/metrics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void a_step_is_one_line(void **state)
{
    (void)state;
    sc_metrics_step step = {.step = 41,
                            .loss = 2.5,
                            .grad_norm = 0.125,
                            .lr = 0.0009765625,
                            .step_ms = 55,
                            .tokens_per_second = 4096};
    for (int c = 0; c < SC_CAUSE_COUNT; c++) {
        step.causes.ns[c] = (int64_t)(c + 1) * 500000;
    }
    char *line = NULL;
    assert_int_equal(sc_metrics_format(&step, &line, NULL), SC_OK);
    assert_string_equal(line, "{\"step\":41,\"loss\":2.5,\"grad_norm\":0.125,\"lr\":0.0009765625,"
                              "\"step_ms\":55,\"tokens_per_second\":4096,\"causes_ms\":{"
                              "\"forward\":0.5,\"backward_input\":1,\"backward_weight\":1.5,"
                              "\"wait\":2,\"buffer\":2.5,\"transfer\":3,\"control\":3.5,"
                              "\"reduce\":4,\"optimizer\":4.5,\"idle\":5}}");
    free(line);
}

static void losses_keep_all_their_digits(void **state)
{
    (void)state;
    sc_metrics_step step = {.loss = 0.1 + 0.2, .grad_norm = 1.0 / 3};
    char *line = NULL;
    assert_int_equal(sc_metrics_format(&step, &line, NULL), SC_OK);
    const char *loss = strstr(line, "\"loss\":");
    assert_non_null(loss);
    assert_true(strtod(loss + strlen("\"loss\":"), NULL) == 0.1 + 0.2);
    const char *norm = strstr(line, "\"grad_norm\":");
    assert_non_null(norm);
    assert_true(strtod(norm + strlen("\"grad_norm\":"), NULL) == 1.0 / 3);
    free(line);
}

static void what_is_not_finite_is_null(void **state)
{
    (void)state;
    sc_metrics_step step = {.loss = NAN, .grad_norm = INFINITY};
    char *line = NULL;
    assert_int_equal(sc_metrics_format(&step, &line, NULL), SC_OK);
    assert_non_null(strstr(line, "\"loss\":null,\"grad_norm\":null"));
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_one_line),
        cmocka_unit_test(losses_keep_all_their_digits),
        cmocka_unit_test(what_is_not_finite_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
