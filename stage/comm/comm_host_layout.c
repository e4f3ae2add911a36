#include "stage/comm/comm_host_layout.h"

#include "stage/comm/comm_host_chan.h"
#include "stage/comm/comm_host_group.h"

#include <errno.h>
#include <string.h>

enum {
    RANKS_MAX = 1 << 20,
    WINDOW_MAX = 1 << 16,
    ITEMS_SPARE = 3 // commands, wake-up, ROUTER
};

static sc_status check_channel(const sc_comm_config *config, int i, sc_err *err)
{
    const sc_comm_channel *c = &config->channels[i];
    if (c->from_stage < 0 || c->to_stage < 0 ||
        (c->kind < SC_COMM_ACTIVATION || c->kind > SC_COMM_STATE)) {
        return sc_status_fail(err, SC_INVALID, "channel %d: stages %d->%d, kind %d", i,
                              c->from_stage, c->to_stage, (int)c->kind);
    }
    if (c->peer_rank < 0 || c->peer_rank >= config->n_ranks || c->peer_rank == config->rank) {
        return sc_status_fail(
            err, SC_INVALID, "channel %d (stages %d->%d): peer rank %d of %d, own rank %d", i,
            c->from_stage, c->to_stage, c->peer_rank, config->n_ranks, config->rank);
    }
    if (c->message_bytes == 0 || c->window < 1 || c->window > WINDOW_MAX) {
        return sc_status_fail(err, SC_INVALID,
                              "channel %d (stages %d->%d): messages of %zu bytes, window %d", i,
                              c->from_stage, c->to_stage, c->message_bytes, c->window);
    }
    return SC_OK;
}

static sc_status check_group(const sc_comm_config *config, int i, sc_err *err)
{
    const sc_comm_group *g = &config->groups[i];
    for (int j = 0; j < i; j++) {
        if (config->groups[j].id == g->id) {
            return sc_status_fail(err, SC_INVALID, "group %d is there twice", g->id);
        }
    }
    if (g->n_ranks < 1 || g->n_ranks > SC_COMM_GROUP_RANKS_MAX || g->max_bytes == 0) {
        return sc_status_fail(err, SC_INVALID, "group %d: %d ranks (1 to %d), max_bytes %zu", g->id,
                              g->n_ranks, SC_COMM_GROUP_RANKS_MAX, g->max_bytes);
    }
    bool has_me = false;
    for (int j = 0; j < g->n_ranks; j++) {
        int least = j == 0 ? 0 : g->ranks[j - 1] + 1;
        if (g->ranks[j] < least || g->ranks[j] >= config->n_ranks) {
            return sc_status_fail(err, SC_INVALID, "group %d: rank %d at place %d, %d to %d fit",
                                  g->id, g->ranks[j], j, least, config->n_ranks - 1);
        }
        has_me = has_me || g->ranks[j] == config->rank;
    }
    if (!has_me) {
        return sc_status_fail(err, SC_INVALID, "group %d: own rank %d is no member", g->id,
                              config->rank);
    }
    return SC_OK;
}

sc_status sc_comm_host_layout_check(const sc_comm_config *config, sc_err *err)
{
    if (config->n_ranks < 1 || config->n_ranks > RANKS_MAX || config->rank < 0 ||
        config->rank >= config->n_ranks) {
        return sc_status_fail(err, SC_INVALID, "rank %d of %d", config->rank, config->n_ranks);
    }
    if (config->n_channels < 0 || config->n_channels > SC_COMM_CHANNELS_MAX ||
        config->n_groups < 0 || config->n_groups > SC_COMM_CHANNELS_MAX) {
        return sc_status_fail(err, SC_LIMIT, "%d channels and %d groups, at most %d each",
                              config->n_channels, config->n_groups, SC_COMM_CHANNELS_MAX);
    }
    for (int i = 0; i < config->n_channels; i++) {
        SC_TRY(check_channel(config, i, err));
    }
    for (int i = 0; i < config->n_groups; i++) {
        SC_TRY(check_group(config, i, err));
    }
    return SC_OK;
}

static sc_status take(sc_comm_host *host, size_t n, size_t size, void *out_p, sc_err *err)
{
    void *memory = sc_arena_alloc(&host->arena, n, size);
    if (memory == NULL) {
        sc_status_errno(err, ENOMEM, "data transport: %zu times %zu bytes", n, size);
        return SC_NO_MEMORY;
    }
    memcpy(out_p, &memory, sizeof memory);
    return SC_OK;
}

/* Peers are every rank that shares a channel or a group; numbered by rising rank. */
static sc_status fill_peers(sc_comm_host *host, const sc_comm_config *config, sc_err *err)
{
    enum {
        IS_OUT = 1,
        IS_IN = 2
    };
    unsigned char *ways = NULL;
    SC_TRY(take(host, (size_t)host->n_ranks, sizeof *ways, &ways, err));
    for (int i = 0; i < config->n_channels; i++) {
        const sc_comm_channel *c = &config->channels[i];
        ways[c->peer_rank] |= c->is_send ? IS_OUT : IS_IN;
    }
    for (int i = 0; i < config->n_groups; i++) {
        for (int j = 0; j < config->groups[i].n_ranks; j++) {
            ways[config->groups[i].ranks[j]] |= IS_OUT | IS_IN;
        }
    }
    ways[host->rank] = 0;
    SC_TRY(take(host, (size_t)host->n_ranks, sizeof(int), &host->peer_of_rank, err));
    for (int rank = 0; rank < host->n_ranks; rank++) {
        host->peer_of_rank[rank] = ways[rank] != 0 ? host->n_peers++ : -1;
    }
    SC_TRY(take(host, (size_t)host->n_peers, sizeof(sc_host_peer), &host->peers, err));
    for (int rank = 0; rank < host->n_ranks; rank++) {
        if (ways[rank] != 0) {
            sc_host_peer *peer = &host->peers[host->peer_of_rank[rank]];
            peer->rank = rank;
            peer->is_out = (ways[rank] & IS_OUT) != 0;
            peer->is_in = (ways[rank] & IS_IN) != 0;
        }
    }
    return take(host, (size_t)host->n_peers + ITEMS_SPARE, sizeof(zmq_pollitem_t), &host->items,
                err);
}

static sc_status fill_channel(sc_comm_host *host, const sc_comm_channel *conf,
                              sc_host_channel *channel, sc_err *err)
{
    channel->conf = *conf;
    channel->peer = host->peer_of_rank[conf->peer_rank];
    channel->n_slots = SC_HOST_IN_FLIGHT_MIN;
    if (channel->n_slots < (size_t)conf->window) {
        channel->n_slots = (size_t)conf->window;
    }
    SC_TRY(take(host, channel->n_slots, sizeof(sc_host_command), &channel->ops, err));
    if (conf->is_send) {
        SC_TRY(take(host, channel->n_slots, sizeof(sc_host_flight), &channel->flights, err));
        for (size_t i = 0; i < channel->n_slots; i++) {
            channel->flights[i].wake_fd = host->wake_fd;
        }
    }
    return SC_OK;
}

/* by_key: an insertion sort; channels usually come sorted. */
static sc_status sort_channels(sc_comm_host *host, sc_err *err)
{
    SC_TRY(take(host, (size_t)host->n_channels, sizeof(int), &host->by_key, err));
    for (int i = 0; i < host->n_channels; i++) {
        const sc_comm_channel *conf = &host->channels[i].conf;
        int at = i;
        int order = -1;
        while (at > 0) {
            order = sc_comm_host_chan_compare(&host->channels[host->by_key[at - 1]].conf, conf);
            if (order <= 0) {
                break;
            }
            host->by_key[at] = host->by_key[at - 1];
            at--;
        }
        if (at > 0 && order == 0) {
            return sc_status_fail(err, SC_INVALID, "channel %d: stages %d->%d are there twice", i,
                                  conf->from_stage, conf->to_stage);
        }
        host->by_key[at] = i;
    }
    return SC_OK;
}

static sc_status fill_channels(sc_comm_host *host, const sc_comm_config *config, sc_err *err)
{
    size_t n = (size_t)config->n_channels;
    SC_TRY(take(host, n, sizeof(sc_host_channel), &host->channels, err));
    SC_TRY(take(host, n, sizeof(size_t), &host->n_open_channel, err));
    for (int i = 0; i < config->n_channels; i++) {
        SC_TRY(fill_channel(host, &config->channels[i], &host->channels[i], err));
    }
    host->n_channels = config->n_channels;
    return sort_channels(host, err);
}

static sc_status fill_group(sc_comm_host *host, const sc_comm_group *conf, sc_host_group *group,
                            sc_err *err)
{
    size_t n_ranks = (size_t)conf->n_ranks;
    group->id = conf->id;
    group->n_ranks = conf->n_ranks;
    group->max_bytes = conf->max_bytes;
    group->n_slots = SC_HOST_IN_FLIGHT_MIN;
    group->sends.wake_fd = host->wake_fd;
    group->n_subs = sc_comm_host_group_subs(conf->max_bytes, conf->n_ranks);
    SC_TRY(take(host, n_ranks, sizeof(int), &group->peers, err));
    for (int i = 0; i < conf->n_ranks; i++) {
        group->peers[i] = host->peer_of_rank[conf->ranks[i]];
        if (conf->ranks[i] == host->rank) {
            group->me = i;
        }
    }
    SC_TRY(take(host, group->n_slots, sizeof(sc_host_command), &group->ops, err));
    SC_TRY(take(host, n_ranks * group->n_subs, sizeof(sc_host_slot), &group->slots, err));
    SC_TRY(take(host, n_ranks, sizeof(uint64_t), &group->next[0], err));
    SC_TRY(take(host, n_ranks, sizeof(uint64_t), &group->next[1], err));
    SC_TRY(take(host, n_ranks, sizeof(uint64_t), &group->next_sum, err));
    return take(host, group->n_subs, sizeof(int), &group->n_addends, err);
}

sc_status sc_comm_host_layout_fill(sc_comm_host *host, const sc_comm_config *config, sc_err *err)
{
    host->epoch = config->epoch;
    host->rank = config->rank;
    host->n_ranks = config->n_ranks;
    SC_TRY(fill_peers(host, config, err));
    SC_TRY(fill_channels(host, config, err));
    size_t n = (size_t)config->n_groups;
    SC_TRY(take(host, n, sizeof(sc_host_group), &host->groups, err));
    SC_TRY(take(host, n, sizeof(size_t), &host->n_open_group, err));
    for (int i = 0; i < config->n_groups; i++) {
        SC_TRY(fill_group(host, &config->groups[i], &host->groups[i], err));
    }
    host->n_groups = config->n_groups;
    return SC_OK;
}
