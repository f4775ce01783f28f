/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder.h - batches on their way from a layer to a file: a ring of entries, which forwards fill one after
 * another under the pool's lock, and which somebody empties meanwhile.
 */
#ifndef KT_CORE_LAYER_RECORDER_H
#define KT_CORE_LAYER_RECORDER_H

#include <kt/kt.h>

/* A layer's part in it. */
struct kt_recording {
    struct kt_recorder *recorder; /* retained; NULL: the layer does not record */
    uint32_t source;              /* of it */
};

/* An entry of the ring, followed by ids, weights and hidden states. */
struct kt_record {
    uint64_t size; /* up to the next entry, a multiple of 64 */
    uint64_t layer, batch;
    uint32_t n_tokens; /* 0: the rest of the ring is not used */
    uint32_t top_k;
    uint64_t hidden_size;
    uint32_t hidden_dtype;
    uint32_t reserved;
    uint64_t padding[2];
};
_Static_assert(sizeof(struct kt_record) == 64, "entries begin at multiples of 64");

/* What an entry holds. */
void kt_record_view(const struct kt_record *record, struct kt_recorded *batch);

/* Records a checked batch of the layer, or drops it. The caller holds the pool's lock. */
void kt_recorder_put(const struct kt_recording *recording, const struct kt_forward *forward);

/* Writes the entries, of which there is one or more, oldest first. */
enum kt_status kt_trace_write(const char *path, const struct kt_record **records, uint64_t n,
                              uint64_t n_dropped, struct kt_error *error);

#endif
