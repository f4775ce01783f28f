/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - runs a program over bytes. A grammar may be in several places at once (alternatives that began
 * alike), so a state is a set of stacks. Stacks share their frames, and equal frames and equal states are
 * one: so a state has a number, and where a byte leads is computed once and looked up from then on.
 */
#ifndef KT_ENGINE_GRAMMAR_MACHINE_H
#define KT_ENGINE_GRAMMAR_MACHINE_H

#include "tools/engine/grammar/program.h"

/** A stack is its top: the place in the program, its counter, and the caller's frame; frame 0 is nobody's. */
struct kt_frame {
    uint32_t op, counter, parent, depth;
    uint32_t seen; /**< number of the last state that was made with it */
};

struct kt_state {
    uint32_t first, n; /**< frames, in ascending order; their operations read */
    uint32_t hash;
    bool accepts;   /**< the text may end here */
    int32_t *next;  /**< [256] the state after a byte; -1: not known yet; NULL: none is */
    uint64_t *mask; /**< what is allowed here; NULL: not known yet */
};

struct kt_machine {
    const struct kt_program *program;
    struct kt_frame *frames;
    struct kt_state *states;             /**< 0: dead */
    uint32_t *members;                   /**< frames of states */
    uint32_t *frame_table, *state_table; /**< numbers by hash; 0: free */
    size_t n_frames, n_states, n_members, frames_capacity, states_capacity, members_capacity;
    size_t frame_slots, state_slots;
    uint32_t *work; /**< frames that are still to be followed */
    size_t n_work, work_capacity;
    uint32_t seen;
    uint64_t
        cost;    /**< frames that were followed since it was created: what it took, the same on any machine */
    bool failed; /**< no memory */
};

/** Stacks in a state: what would be more is left out, so that fewer texts fit, and none that is wrong. But
 * not those of KT_OP_KEEP: a mask has said without a look that tokens of such characters fit. */
#define KT_MACHINE_MOST_STACKS 1024

/** False: no memory. */
bool kt_machine_init(struct kt_machine *machine, const struct kt_program *program);
void kt_machine_free(struct kt_machine *machine);
/** The first state. */
uint32_t kt_machine_start(struct kt_machine *machine);
/** The state after a byte, 0: none; machine->failed after a lack of memory. is_tag: the byte is of an added
 * token. */
uint32_t kt_machine_step(struct kt_machine *machine, uint32_t state, uint8_t byte, bool is_tag);
/** The same state in another machine of the same program. */
uint32_t kt_machine_carry(const struct kt_machine *from, uint32_t state, struct kt_machine *to);

#endif
