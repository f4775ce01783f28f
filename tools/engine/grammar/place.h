/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - where an answer is in its grammar. */
#ifndef KT_ENGINE_GRAMMAR_PLACE_H
#define KT_ENGINE_GRAMMAR_PLACE_H

#include "tools/engine/grammar/grammar.h"
#include "tools/engine/grammar/machine.h"
#include "tools/engine/grammar/vocabulary.h"

struct kt_constraint {
    struct kt_grammar *grammar;
    const struct kt_vocabulary *vocabulary;
    struct kt_machine machine;
    uint32_t state;
    bool has_ended;
    uint32_t n_masks;
    uint64_t credit; /* what may be spent */
    uint32_t *path;  /* [LANES][vocabulary->deepest + 1] states on the way through the tree */
    /* Of kt_constraint_closing; NULL: nobody has asked. */
    uint64_t *closing;   /* the last mask */
    uint32_t *distances; /* bytes from each operation to the end of its rule, at least */
};

/** The state behind a token's bytes; 0: it may not come. */
uint32_t kt_constraint_walk(struct kt_constraint *constraint, int32_t id);

#endif
