#include "coordinator/io/coord.h"
#include "coordinator/metrics.h"

#include <cjson/cJSON.h>
#include <math.h>

enum {
    DESCRIPTION_MAX = 512
};

static bool add_numbers(const sc_coord *c, cJSON *object)
{
    return cJSON_AddStringToObject(object, "job", c->job->name) != NULL &&
           cJSON_AddStringToObject(object, "phase", sc_steploop_phase_text(c->steps.phase)) !=
               NULL &&
           cJSON_AddNumberToObject(object, "step", (double)c->steps.n_done) != NULL &&
           cJSON_AddNumberToObject(object, "steps", c->job->steps) != NULL &&
           cJSON_AddNumberToObject(object, "workers", sc_coord_peers_count_workers(c)) != NULL &&
           cJSON_AddNumberToObject(object, "workers_needed", c->plan->n_ranks) != NULL &&
           sc_metrics_add_real(object, "loss", c->steps.n_done > 0 ? c->last_loss : NAN) &&
           cJSON_AddStringToObject(object, "run_dir", sc_store_path(c->config->store)) != NULL;
}

static bool add_worker(const sc_coord *c, int worker, int64_t now_ns, cJSON *list)
{
    char text[DESCRIPTION_MAX];
    const sc_coord_peer *peer = &c->peers[worker];
    if (!peer->is_used || peer->kind != SC_COORD_WORKER || peer->is_gone) {
        return true;
    }
    sc_membership_describe(c->membership, worker, now_ns, text, sizeof text);
    cJSON *item = cJSON_CreateString(text);
    if (item == NULL || !cJSON_AddItemToArray(list, item)) {
        cJSON_Delete(item);
        return false;
    }
    return true;
}

/* By rank once they are assigned, until then in the order they came. */
static bool add_workers(const sc_coord *c, int64_t now_ns, cJSON *list)
{
    bool is_whole = list != NULL;
    if (c->epoch > 0) {
        for (int r = 0; is_whole && r < c->plan->n_ranks; r++) {
            is_whole = add_worker(c, c->peer_of_rank[r], now_ns, list);
        }
        return is_whole;
    }
    for (int i = 0; is_whole && i < c->n_peers; i++) {
        is_whole = add_worker(c, i, now_ns, list);
    }
    return is_whole;
}

sc_status sc_coord_status_json(const sc_coord *c, int64_t now_ns, char **out, sc_err *err)
{
    char *text = NULL;
    cJSON *object = cJSON_CreateObject();
    if (object != NULL && add_numbers(c, object) && sc_coord_save_add_json(c, object) &&
        add_workers(c, now_ns, cJSON_AddArrayToObject(object, "doing"))) {
        text = cJSON_PrintUnformatted(object);
    }
    cJSON_Delete(object);
    if (text == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for the status");
    }
    *out = text;
    return SC_OK;
}
