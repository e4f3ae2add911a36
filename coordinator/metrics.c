#include "coordinator/metrics.h"

#include "coordinator/bubble_report.h"

#include <cjson/cJSON.h>

sc_status sc_metrics_format(const sc_metrics_step *step, char **out, sc_err *err)
{
    char *text = NULL;
    cJSON *line = cJSON_CreateObject();
    cJSON *causes = sc_bubble_report_causes(&step->causes);
    bool is_made =
        line != NULL && causes != NULL &&
        cJSON_AddNumberToObject(line, "step", (double)step->step) != NULL &&
        cJSON_AddNumberToObject(line, "loss", step->loss) != NULL &&
        cJSON_AddNumberToObject(line, "grad_norm", step->grad_norm) != NULL &&
        cJSON_AddNumberToObject(line, "lr", step->lr) != NULL &&
        cJSON_AddNumberToObject(line, "step_ms", step->step_ms) != NULL &&
        cJSON_AddNumberToObject(line, "tokens_per_second", step->tokens_per_second) != NULL;
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
