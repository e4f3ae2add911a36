#include "base/log.h"
#include "coordinator/io/coord.h"
#include "proto/codec.h"

#include <errno.h>
#include <string.h>
#include <zmq.h>

sc_coord_peer *sc_coord_peers_find(sc_coord *c, const unsigned char *id, size_t n_id)
{
    for (int i = 0; i < c->n_peers; i++) {
        sc_coord_peer *peer = &c->peers[i];
        if (peer->is_used && peer->n_id == n_id && memcmp(peer->id, id, n_id) == 0) {
            return peer;
        }
    }
    return NULL;
}

sc_coord_peer *sc_coord_peers_add(sc_coord *c, const unsigned char *id, size_t n_id)
{
    if (n_id > SC_COORD_ID_MAX) {
        return NULL;
    }
    for (int i = 0; i < SC_COORD_PEERS_MAX; i++) {
        sc_coord_peer *peer = &c->peers[i];
        if (peer->is_used) {
            continue;
        }
        *peer = (sc_coord_peer){.is_used = true, .n_id = n_id, .rank = SC_COORD_NONE, .fd = -1};
        peer->probe.fd = -1;
        memcpy(peer->id, id, n_id);
        c->n_peers = i < c->n_peers ? c->n_peers : i + 1;
        return peer;
    }
    return NULL;
}

void sc_coord_peers_drop(sc_coord *c, sc_coord_peer *peer)
{
    (void)c;
    if (peer->probe.fd >= 0) {
        sc_probe_close(&peer->probe);
    }
    peer->is_used = false;
}

int sc_coord_peers_index(const sc_coord *c, const sc_coord_peer *peer)
{
    return (int)(peer - c->peers);
}

int sc_coord_peers_count_workers(const sc_coord *c)
{
    int n = 0;
    for (int i = 0; i < c->n_peers; i++) {
        n += c->peers[i].is_used && c->peers[i].kind == SC_COORD_WORKER && !c->peers[i].is_gone;
    }
    return n;
}

void sc_coord_peers_send(sc_coord *c, sc_coord_peer *peer, sc_msg *msg)
{
    const unsigned char *bytes;
    size_t n;
    sc_err err;
    msg->seq = ++peer->seq;
    sc_arena_reset(&c->out_arena);
    if (sc_codec_pack(msg, &c->out_arena, &bytes, &n, &err) != SC_OK) {
        SC_LOG_WARN("to peer %d: %s, ignoring", sc_coord_peers_index(c, peer), err.text);
        return;
    }
    if (zmq_send(c->router, peer->id, peer->n_id, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_send(c->router, bytes, n, ZMQ_DONTWAIT) < 0) {
        /* unreachable or not taking anything: its heartbeats or its probe will tell */
        SC_LOG_DEBUG("%s to peer %d: %s, ignoring", sc_codec_type_text(msg->type),
                     sc_coord_peers_index(c, peer), zmq_strerror(errno));
    }
}

void sc_coord_peers_send_workers(sc_coord *c, sc_msg *msg)
{
    for (int i = 0; i < c->n_peers; i++) {
        sc_coord_peer *peer = &c->peers[i];
        if (peer->is_used && peer->kind == SC_COORD_WORKER && !peer->is_gone) {
            sc_coord_peers_send(c, peer, msg);
        }
    }
}

void sc_coord_peers_send_watchers(sc_coord *c, sc_msg *msg)
{
    for (int i = 0; i < c->n_peers; i++) {
        sc_coord_peer *peer = &c->peers[i];
        if (peer->is_used && peer->kind == SC_COORD_CLIENT && peer->is_watching) {
            sc_coord_peers_send(c, peer, msg);
        }
    }
}
