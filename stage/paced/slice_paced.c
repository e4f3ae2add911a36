/*
 * slice_paced - a stage slice that sleeps for configured times and passes a hash chain.
 *
 * Owns:     the state of its slots. It has no parameters and no tensors.
 *
 * A message is 64 bytes: who made it for whom, a digest of the microbatch's sample ids, and a word
 * of the chain, which is a pure function of all that: hash of (digest, step, microbatch), mixed
 * once for every stage on the way there and back. A receiver recomputes the word, so a message that
 * took a wrong turn is named by stage, microbatch and step, whatever the schedule.
 *
 * Threads: the compute thread's.
 */
#include "stage/slots.h"

#include "base/rng.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    NS_PER_S = 1000000000,
    NAP_NS = 5000000, // an abort is seen within this time
    DIGEST_SEED = 0x53434450
};

typedef enum sc_paced_direction {
    FORWARD,
    BACKWARD
} sc_paced_direction;

/* As it travels, in the host's byte order: all ranks of a paced job are of one kind. */
typedef struct sc_paced_message {
    uint64_t step;
    uint64_t mb;
    uint64_t stage; // that sends
    uint64_t direction;
    uint64_t digest; // of the sample ids
    uint64_t word;   // of the chain
    uint64_t zero[2];
} sc_paced_message;

_Static_assert(sizeof(sc_paced_message) == 64, "the message is 64 bytes");

typedef struct sc_slice_paced {
    sc_slice base; // first: the interface's pointer is this struct's
    sc_slice_config config;
    sc_slots slots;
    uint64_t *digests; // (n_act_slots) of the occupant's samples
} sc_slice_paced;

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static sc_status sleep_until(const sc_slice_paced *self, int64_t deadline_ns, sc_err *err)
{
    for (;;) {
        if (self->config.is_aborted != NULL && atomic_load(self->config.is_aborted)) {
            return sc_status_fail(err, SC_ABORTED, "stage %d: aborted", self->config.stage);
        }
        int64_t now = now_ns();
        if (now >= deadline_ns) {
            return SC_OK;
        }
        int64_t wake_ns = deadline_ns - now > NAP_NS ? now + NAP_NS : deadline_ns;
        struct timespec wake = {.tv_sec = wake_ns / NS_PER_S, .tv_nsec = wake_ns % NS_PER_S};
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL);
    }
}

static bool is_last(const sc_slice_paced *self)
{
    return self->config.stage == self->config.n_stages - 1;
}

static uint64_t digest_of(const sc_slice_paced *self, const uint64_t *sample_ids)
{
    uint64_t digest = DIGEST_SEED;
    for (int i = 0; i < self->config.B; i++) {
        digest = sc_rng_mix(digest, sample_ids[i]);
    }
    return digest;
}

/* The word that `stage` sends: one mix for every stage it has been through. */
static uint64_t word_of(const sc_slice_paced *self, const sc_slice_mb *mb, uint64_t digest,
                        sc_paced_direction direction, int stage)
{
    uint64_t word = sc_rng_mix(sc_rng_mix(digest, mb->step), (uint64_t)mb->mb);
    int last = direction == FORWARD ? stage : self->config.n_stages - 1;
    for (int s = 0; s <= last; s++) {
        word = sc_rng_mix(sc_rng_mix(word, FORWARD), (uint64_t)s);
    }
    if (direction == BACKWARD) {
        for (int s = self->config.n_stages - 1; s >= stage; s--) {
            word = sc_rng_mix(sc_rng_mix(word, BACKWARD), (uint64_t)s);
        }
    }
    return word;
}

static void send(const sc_slice_paced *self, const sc_slice_mb *mb, uint64_t digest,
                 sc_paced_direction direction, void *out)
{
    assert(out != NULL);
    const sc_paced_message message = {
        .step = mb->step,
        .mb = (uint64_t)mb->mb,
        .stage = (uint64_t)self->config.stage,
        .direction = direction,
        .digest = digest,
        .word = word_of(self, mb, digest, direction, self->config.stage),
    };
    memcpy(out, &message, sizeof message);
}

/* Checks a message against what the stage before (or after) must have sent for this microbatch. */
static sc_status receive(const sc_slice_paced *self, const sc_slice_mb *mb,
                         sc_paced_direction direction, const void *in, uint64_t *digest_out,
                         sc_err *err)
{
    assert(in != NULL);
    int from = self->config.stage + (direction == FORWARD ? -1 : 1);
    sc_paced_message got;
    memcpy(&got, in, sizeof got);
    const sc_paced_message expected = {
        .step = mb->step,
        .mb = (uint64_t)mb->mb,
        .stage = (uint64_t)from,
        .direction = direction,
        .digest = got.digest,
        .word = word_of(self, mb, got.digest, direction, from),
    };
    if (memcmp(&got, &expected, sizeof got) != 0) {
        return sc_status_fail(err, SC_FAILED,
                              "stage %d microbatch %d step %llu: %s from stage %d is that of stage "
                              "%llu microbatch %llu step %llu, word %016llx instead of %016llx",
                              self->config.stage, mb->mb, (unsigned long long)mb->step,
                              direction == FORWARD ? "activation" : "gradient", from,
                              (unsigned long long)got.stage, (unsigned long long)got.mb,
                              (unsigned long long)got.step, (unsigned long long)got.word,
                              (unsigned long long)expected.word);
    }
    if (mb->sample_ids != NULL && digest_of(self, mb->sample_ids) != got.digest) {
        return sc_status_fail(err, SC_FAILED,
                              "stage %d microbatch %d step %llu: the message is of other samples",
                              self->config.stage, mb->mb, (unsigned long long)mb->step);
    }
    *digest_out = got.digest;
    return SC_OK;
}

/* A loss between 1 and 2 a token, which only the right chain gives. */
static double loss_of(const sc_slice_paced *self, const sc_slice_mb *mb, uint64_t digest)
{
    uint64_t word = word_of(self, mb, digest, FORWARD, self->config.stage);
    double per_token = 1.0 + (double)(word >> 11) * 0x1p-53;
    return per_token * self->config.B * self->config.T;
}

static sc_status forward(sc_slice *slice, sc_slice_mb *mb, sc_err *err)
{
    sc_slice_paced *self = (sc_slice_paced *)slice;
    int64_t begin_ns = now_ns();
    uint64_t digest = 0;
    SC_TRY(sc_slots_check_f(&self->slots, mb, err));
    if (self->config.stage == 0) {
        assert(mb->sample_ids != NULL);
        digest = digest_of(self, mb->sample_ids);
    } else {
        SC_TRY(receive(self, mb, FORWARD, mb->x, &digest, err));
    }
    SC_TRY(sleep_until(self, begin_ns + self->config.pace.f_ns, err));
    if (is_last(self)) {
        mb->loss_sum = loss_of(self, mb, digest);
        mb->n_valid = (int64_t)self->config.B * self->config.T;
    } else {
        send(self, mb, digest, FORWARD, mb->y);
    }
    self->digests[mb->act_slot] = digest;
    sc_slots_end_f(&self->slots, mb, slice->message_bytes);
    return SC_OK;
}

/* I without the slots: checks the gradient, sleeps, sends on. */
static sc_status input_gradient(const sc_slice_paced *self, const sc_slice_mb *mb,
                                int64_t deadline_ns, sc_err *err)
{
    uint64_t digest = self->digests[mb->act_slot];
    if (!is_last(self)) {
        uint64_t theirs = 0;
        SC_TRY(receive(self, mb, BACKWARD, mb->dy, &theirs, err));
        if (theirs != digest) {
            return sc_status_fail(err, SC_FAILED,
                                  "stage %d microbatch %d step %llu: the gradient is of other "
                                  "samples than the activation",
                                  self->config.stage, mb->mb, (unsigned long long)mb->step);
        }
    }
    SC_TRY(sleep_until(self, deadline_ns, err));
    if (self->config.stage > 0) {
        send(self, mb, digest, BACKWARD, mb->dx);
    }
    return SC_OK;
}

static sc_status backward(sc_slice *slice, sc_slice_mb *mb, sc_err *err)
{
    sc_slice_paced *self = (sc_slice_paced *)slice;
    int64_t input_end_ns = now_ns() + self->config.pace.i_ns;
    SC_TRY(sc_slots_check_b(&self->slots, mb, err));
    SC_TRY(input_gradient(self, mb, input_end_ns, err));
    int64_t weight_begin_ns = now_ns();
    SC_TRY(sleep_until(self, input_end_ns + self->config.pace.w_ns, err));
    mb->weight_ns = now_ns() - weight_begin_ns;
    sc_slots_end_b(&self->slots, mb);
    return SC_OK;
}

static sc_status backward_input(sc_slice *slice, sc_slice_mb *mb, sc_err *err)
{
    sc_slice_paced *self = (sc_slice_paced *)slice;
    int64_t end_ns = now_ns() + self->config.pace.i_ns;
    SC_TRY(sc_slots_check_i(&self->slots, mb, err));
    SC_TRY(input_gradient(self, mb, end_ns, err));
    sc_slots_end_i(&self->slots, mb, slice->message_bytes);
    return SC_OK;
}

static sc_status backward_weight(sc_slice *slice, sc_slice_mb *mb, sc_err *err)
{
    sc_slice_paced *self = (sc_slice_paced *)slice;
    int64_t end_ns = now_ns() + self->config.pace.w_ns;
    SC_TRY(sc_slots_check_w(&self->slots, mb, err));
    SC_TRY(sleep_until(self, end_ns, err));
    sc_slots_end_w(&self->slots, mb);
    return SC_OK;
}

static size_t activation_bytes(const sc_slice *slice)
{
    return sc_slots_used_bytes(&((const sc_slice_paced *)slice)->slots);
}

static sc_status resize(sc_slice *slice, int n_act_slots, int n_keep_slots, sc_err *err)
{
    sc_slice_paced *self = (sc_slice_paced *)slice;
    sc_slice_config *config = &self->config;
    config->n_act_slots = n_act_slots > config->n_act_slots ? n_act_slots : config->n_act_slots;
    config->n_keep_slots =
        n_keep_slots > config->n_keep_slots ? n_keep_slots : config->n_keep_slots;
    free(self->digests);
    self->digests = calloc((size_t)config->n_act_slots, sizeof *self->digests);
    if (self->digests == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory", config->stage);
    }
    sc_slots_done(&self->slots);
    return sc_slots_init(&self->slots, config->stage, config->n_act_slots, config->n_keep_slots,
                         err);
}

static void close_slice(sc_slice **slice)
{
    sc_slice_paced *self = (sc_slice_paced *)*slice;
    if (self == NULL) {
        return;
    }
    free(self->digests);
    sc_slots_done(&self->slots);
    free(self);
    *slice = NULL;
}

static const sc_slice_ops OPS = {
    .forward = forward,
    .backward = backward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .activation_bytes = activation_bytes,
    .resize = resize,
    .close = close_slice,
};

static sc_status check_config(const sc_slice_config *config, sc_err *err)
{
    if (config->stage < 0 || config->stage >= config->n_stages || config->B < 1 || config->T < 1) {
        return sc_status_fail(err, SC_INVALID, "stage %d of %d with %d samples of %d tokens",
                              config->stage, config->n_stages, config->B, config->T);
    }
    const sc_slice_pace *pace = &config->pace;
    if (pace->f_ns < 0 || pace->i_ns < 0 || pace->w_ns < 0) {
        return sc_status_fail(err, SC_INVALID, "stage %d: a paced time is below 0", config->stage);
    }
    return SC_OK;
}

sc_status sc_slice_paced_open(const sc_slice_config *config, sc_slice **out, sc_err *err)
{
    sc_status status = SC_OK;
    sc_slice_paced *self = calloc(1, sizeof *self);
    if (self == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory", config->stage);
    }
    sc_slice *slice = &self->base;
    SC_GOTO(check_config(config, err));
    SC_GOTO(
        sc_slots_init(&self->slots, config->stage, config->n_act_slots, config->n_keep_slots, err));
    self->config = *config;
    self->digests = calloc((size_t)config->n_act_slots, sizeof *self->digests);
    if (self->digests == NULL) {
        status = sc_status_fail(err, SC_NO_MEMORY, "stage %d: no memory", config->stage);
        goto out;
    }
    slice->ops = &OPS;
    slice->message_bytes = sizeof(sc_paced_message);
    *out = slice;
    slice = NULL;
out:
    close_slice(&slice);
    return status;
}
