#include "coordinator/metrics.h"

#include "coordinator/bubble_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool sc_metrics_add_real(cJSON *object, const char *name, double value)
{
    if (!isfinite(value)) {
        return cJSON_AddNullToObject(object, name) != NULL;
    }
    char text[32];
    for (int digits = 15; digits <= 17; digits++) { // 17 always do, and mostly fewer look better
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    return cJSON_AddRawToObject(object, name, text) != NULL;
}

sc_status sc_metrics_format(const sc_metrics_step *step, char **out, sc_err *err)
{
    char *text = NULL;
    cJSON *line = cJSON_CreateObject();
    cJSON *causes = sc_bubble_report_causes(&step->causes);
    bool is_made = line != NULL && causes != NULL &&
                   cJSON_AddNumberToObject(line, "step", (double)step->step) != NULL &&
                   sc_metrics_add_real(line, "loss", step->loss) &&
                   sc_metrics_add_real(line, "grad_norm", step->grad_norm) &&
                   sc_metrics_add_real(line, "lr", step->lr) &&
                   sc_metrics_add_real(line, "step_ms", step->step_ms) &&
                   sc_metrics_add_real(line, "tokens_per_second", step->tokens_per_second);
    if (is_made && cJSON_AddItemToObject(line, "causes_ms", causes)) {
        causes = NULL; // the line's now
        text = cJSON_PrintUnformatted(line);
    }
    cJSON_Delete(causes);
    cJSON_Delete(line);
    if (text == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "metrics of step: out of memory");
    }
    *out = text;
    return SC_OK;
}
