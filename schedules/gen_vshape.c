#include "schedules/gen_vshape.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* What the slots order; W has none. Chunk 0 is stage r, chunk 1 stage 2p - 1 - r. */
typedef enum sc_vkind {
    F0,
    F1,
    I1,
    I0,
    N_KINDS
} sc_vkind;

enum {
    INTERVAL = 6, // slots between one microbatch and the next: F, I and W of two chunks
    NO_KIND = -1,
    TAKE_W = -2
};

typedef struct sc_vrank {
    int slots[N_KINDS];  // start slot of microbatch 0
    int n_done[N_KINDS]; // microbatches whose action is in the row
    int n_w[2];          // W's in the row, by chunk
    int *chunk_of;       // (2 m) chunk of each input gradient in order; W's come first in first out
    int choice;          // of this tick: a kind, TAKE_W or NO_KIND
} sc_vrank;

typedef struct sc_vshape {
    sc_table *table;
    sc_vrank *ranks; // (p)
    int peak_max;    // chunks a rank may hold from F to W
    /* The slots leave room for a smaller interval: forwards of the warm-up may come earlier. */
    bool has_slack;
    int *n_f; // (2p) forwards of each stage whose output is there
    int *n_i; // (2p) input gradients
} sc_vshape;

static int peak_half(int p)
{
    return 2 * ((p + 2) / 2);
}

static int peak_min(int p)
{
    return 2 * ((p + 4) / 3);
}

/* Part of the cost that is no work, when a chunk's F, I and W take `cell` each. */
static double bubble_rate(const sc_gen_params *params, double n_cells, double cell)
{
    double bubble = fmax(0, n_cells) * cell;
    return bubble / (params->n_mb * INTERVAL * cell + bubble);
}

static bool is_known(const sc_gen_params *params, double f, double i, double w)
{
    return f == i && i == w && params->n_mb >= 2 * params->n_ranks;
}

/* The paper's appendix E: a V of peak k chunks takes at least 6m + 6p - 3k - 1 cells. */
double sc_gen_vshape_closed_bubble_half(const sc_gen_params *params, double f, double i, double w)
{
    int p = params->n_ranks;
    return is_known(params, f, i, w) ? bubble_rate(params, 6 * p - 3 * peak_half(p) - 1, f / 2)
                                     : NAN;
}

/* The same, but for p = 2 modulo 3 the slots miss it by 4 cells. */
double sc_gen_vshape_closed_bubble_min(const sc_gen_params *params, double f, double i, double w)
{
    int p = params->n_ranks;
    int n_missed = p % 3 == 2 ? 4 : 0;
    return is_known(params, f, i, w)
               ? bubble_rate(params, 6 * p - 3 * peak_min(p) - 1 + n_missed, f / 2)
               : NAN;
}

static void set_slots_half(sc_vshape *shape)
{
    int p = shape->table->n_ranks;
    shape->has_slack = p % 2 == 0;
    int gap = shape->has_slack ? 3 : 0; // keeps the slots of a rank apart, modulo 6
    for (int r = 0; r < p; r++) {
        int *slots = shape->ranks[r].slots;
        slots[F0] = 2 * r;
        slots[F1] = 3 * p - 2 - r;
        slots[I1] = 3 * p + gap + 2 * r - 1;
        slots[I0] = 6 * p + gap - 2 - r;
    }
}

static void set_slots_min(sc_vshape *shape)
{
    int p = shape->table->n_ranks;
    shape->has_slack = p % 3 == 0;
    int gap = shape->has_slack ? 2 : 0;
    for (int r = 0; r < p; r++) {
        int *slots = shape->ranks[r].slots;
        slots[F0] = r;
        slots[F1] = 2 * p - 1 - r;
        slots[I1] = 2 * p + gap + r;
        slots[I0] = 4 * p + gap - 1 - r;
    }
}

static bool is_forward(int kind)
{
    return kind == F0 || kind == F1;
}

static int chunk_of_kind(int kind)
{
    return kind == F1 || kind == I1;
}

static int stage_of(const sc_vshape *shape, int rank, int chunk)
{
    return chunk == 0 ? rank : shape->table->n_stages - 1 - rank;
}

/* The kind whose next action has the earliest slot, when n_done of each are over; NO_KIND at the
   end. The slots of a rank differ modulo 6, so there are no ties. */
static int first_kind(const sc_vshape *shape, const sc_vrank *rank, const int *n_done)
{
    int first = NO_KIND;
    int first_slot = 0;
    for (int kind = 0; kind < N_KINDS; kind++) {
        int slot = rank->slots[kind] + INTERVAL * n_done[kind];
        if (n_done[kind] < shape->table->n_mb && (first == NO_KIND || slot < first_slot)) {
            first = kind;
            first_slot = slot;
        }
    }
    return first;
}

/* True when all inputs of the next action of this kind are there. */
static bool is_ready(const sc_vshape *shape, int r, int kind)
{
    int stage = stage_of(shape, r, chunk_of_kind(kind));
    int mb = shape->ranks[r].n_done[kind];
    if (is_forward(kind)) {
        return stage == 0 || shape->n_f[stage - 1] > mb;
    }
    return shape->n_f[stage] > mb &&
           (stage + 1 == shape->table->n_stages || shape->n_i[stage + 1] > mb);
}

static int n_forwards(const sc_vrank *rank)
{
    return rank->n_done[F0] + rank->n_done[F1];
}

static int n_input_gradients(const sc_vrank *rank)
{
    return rank->n_done[I0] + rank->n_done[I1];
}

static int n_taken_w(const sc_vrank *rank)
{
    return rank->n_w[0] + rank->n_w[1];
}

static bool is_full(const sc_vshape *shape, const sc_vrank *rank)
{
    return n_forwards(rank) - n_taken_w(rank) == shape->peak_max;
}

static bool may_overtake(const sc_vshape *shape, const sc_vrank *rank, int kind, int most)
{
    if (!is_forward(kind)) {
        return true;
    }
    // `most` chunks wait for their input gradient before it was this forward's turn.
    return shape->has_slack && n_input_gradients(rank) == 0 && !is_full(shape, rank) &&
           most < shape->peak_max;
}

/* The first kind in the order of slots that is ready though an earlier one is not, and that takes
   no memory which an earlier one needs; NO_KIND when there is none. */
static int find_overtaker(const sc_vshape *shape, int r)
{
    const sc_vrank *rank = &shape->ranks[r];
    bool is_seen[N_KINDS] = {false};
    int n_done[N_KINDS];
    memcpy(n_done, rank->n_done, sizeof n_done);
    int live = n_forwards(rank) - n_input_gradients(rank);
    int most = live;
    for (int n_seen = 0; n_seen < N_KINDS;) {
        int kind = first_kind(shape, rank, n_done);
        if (kind == NO_KIND) {
            break;
        }
        if (!is_seen[kind] && is_ready(shape, r, kind) && may_overtake(shape, rank, kind, most)) {
            return kind;
        }
        n_seen += !is_seen[kind];
        is_seen[kind] = true;
        n_done[kind]++;
        live += is_forward(kind) ? 1 : -1;
        most = live > most ? live : most;
    }
    return NO_KIND;
}

/* What the rank does in this tick. W's fill what would be a hole, and make room for a forward. */
static int choose(const sc_vshape *shape, int r)
{
    const sc_vrank *rank = &shape->ranks[r];
    int kind = first_kind(shape, rank, rank->n_done);
    if (kind != NO_KIND && is_ready(shape, r, kind)) {
        if (is_forward(kind) && is_full(shape, rank)) {
            kind = NO_KIND;
        }
    } else if (kind != NO_KIND) {
        kind = find_overtaker(shape, r);
    }
    if (kind == NO_KIND && n_taken_w(rank) < n_input_gradients(rank)) {
        return TAKE_W;
    }
    return kind;
}

static sc_status put(sc_vshape *shape, int r, sc_err *err)
{
    sc_vrank *rank = &shape->ranks[r];
    int kind = rank->choice;
    if (kind == NO_KIND) {
        return SC_OK;
    }
    if (kind == TAKE_W) {
        int chunk = rank->chunk_of[n_taken_w(rank)];
        sc_action w = {SC_OP_W, stage_of(shape, r, chunk), rank->n_w[chunk]++};
        return sc_table_append(shape->table, r, w, err);
    }
    int chunk = chunk_of_kind(kind);
    int stage = stage_of(shape, r, chunk);
    sc_action action = {is_forward(kind) ? SC_OP_F : SC_OP_I, stage, rank->n_done[kind]};
    if (is_forward(kind)) {
        shape->n_f[stage]++;
    } else {
        shape->n_i[stage]++;
        rank->chunk_of[n_input_gradients(rank)] = chunk;
    }
    rank->n_done[kind]++;
    return sc_table_append(shape->table, r, action, err);
}

/* All ranks do what they chose; *n_left gets less by one an action. */
static sc_status put_all(sc_vshape *shape, size_t *n_left, sc_err *err)
{
    for (int r = 0; r < shape->table->n_ranks; r++) {
        *n_left -= shape->ranks[r].choice != NO_KIND;
        SC_TRY(put(shape, r, err));
    }
    return SC_OK;
}

/* Tick by tick, all ranks at once: what a tick makes is there for others in the next. Ends, since
   the slots alone are an order without deadlock that fits into the memory: the first action in it
   that is missing can always go, if need be after W's that make room. */
static sc_status fill_rows(sc_vshape *shape, sc_err *err)
{
    int p = shape->table->n_ranks;
    for (size_t n_left = (size_t)p * INTERVAL * (size_t)shape->table->n_mb; n_left > 0;) {
        for (int r = 0; r < p; r++) {
            shape->ranks[r].choice = choose(shape, r);
        }
        size_t n_before = n_left;
        SC_TRY(put_all(shape, &n_left, err));
        assert(n_left < n_before);
    }
    return SC_OK;
}

static sc_status shape_init(sc_vshape *shape, sc_err *err)
{
    sc_table *table = shape->table;
    size_t p = (size_t)table->n_ranks;
    size_t n_gradients = 2 * (size_t)table->n_mb;
    shape->ranks = sc_arena_alloc(&table->arena, p, sizeof *shape->ranks);
    shape->n_f = sc_arena_alloc(&table->arena, 2 * p, sizeof *shape->n_f);
    shape->n_i = sc_arena_alloc(&table->arena, 2 * p, sizeof *shape->n_i);
    int *chunk_of = sc_arena_alloc(&table->arena, p * n_gradients, sizeof *chunk_of);
    if (shape->ranks == NULL || shape->n_f == NULL || shape->n_i == NULL || chunk_of == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "%s: out of memory", table->name);
    }
    for (size_t r = 0; r < p; r++) {
        table->rank_of_stage[2 * p - 1 - r] = (int)r;
        shape->ranks[r].chunk_of = chunk_of + r * n_gradients;
    }
    return SC_OK;
}

static sc_status make(const char *name, const sc_gen_params *params, int (*peak_of)(int),
                      void (*set_slots)(sc_vshape *), sc_table **out, sc_err *err)
{
    int p = params->n_ranks;
    if (params->n_chunks != 0 && params->n_chunks != 2) {
        return sc_status_fail(err, SC_INVALID, "%s: two stages a rank, not v = %d", name,
                              params->n_chunks);
    }
    sc_status status = SC_OK;
    sc_vshape shape = {.peak_max = peak_of(p)};
    SC_GOTO(sc_table_new(name, p, 2 * p, params->n_mb, &shape.table, err));
    SC_GOTO(shape_init(&shape, err));
    set_slots(&shape);
    SC_GOTO(fill_rows(&shape, err));
    *out = shape.table;
    shape.table = NULL;
out:
    sc_table_free(&shape.table);
    return status;
}

sc_status sc_gen_vshape_make_half(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    return make("v-half", params, peak_half, set_slots_half, out, err);
}

sc_status sc_gen_vshape_make_min(const sc_gen_params *params, sc_table **out, sc_err *err)
{
    return make("v-min", params, peak_min, set_slots_min, out, err);
}
