/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder.h - batches of layers, kept for a file: a ring of entries. Forwards fill it one after another,
 * under the pool's lock, while another thread empties it.
 */
#ifndef KT_CORE_LAYER_RECORDER_H
#define KT_CORE_LAYER_RECORDER_H

#include <kt/kt.h>
#include <kt/stats.h>
#include <stdbool.h>

/* Where a layer records. */
struct kt_recording {
    struct kt_recorder *recorder; /* retained; NULL: the layer does not record */
    uint32_t source;              /* the layer's index in it */
};

/* An entry of the ring, followed by ids, weights and hidden states. */
struct kt_record {
    uint64_t size; /* up to the next entry, a multiple of 64 */
    uint64_t layer, batch;
    uint32_t n_tokens; /* 0: this fills up the end of the ring */
    uint32_t top_k;
    uint64_t hidden_size;
    uint32_t hidden_dtype;
    uint32_t reserved;
    uint64_t padding[2];
};
_Static_assert(sizeof(struct kt_record) == 64, "entries begin at multiples of 64");

/* The batch of an entry. */
void kt_record_view(const struct kt_record *record, struct kt_recorded *batch);

bool kt_recorder_is_of(const struct kt_recorder *recorder, const struct kt_context *context);

/* Lets a layer of this number and hidden size record; `name` is for messages. Retains the recorder. The
 * caller holds the pool's lock. */
enum kt_status kt_recorder_join(struct kt_recorder *recorder, const char *name, uint64_t number,
                                uint64_t hidden_size, struct kt_recording *recording, struct kt_error *error);

/* Records a checked batch of the layer, or drops it. The caller holds the pool's lock. */
void kt_recorder_put(const struct kt_recording *recording, const struct kt_forward *forward);

/* All entries of the ring, oldest first, which stay in it until kt_recorder_release. */
struct kt_held_records {
    const struct kt_record **record;
    uint64_t n;
    uint64_t n_dropped; /* batches that found no room */
    uint64_t end;
};

/* Nobody else empties the ring until kt_recorder_release, which takes the entries out if they were written.
 */
enum kt_status kt_recorder_hold(struct kt_recorder *recorder, struct kt_held_records *held,
                                struct kt_error *error);
void kt_recorder_release(struct kt_recorder *recorder, struct kt_held_records *held, bool written);

#endif
