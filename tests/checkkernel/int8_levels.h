/* SPDX-License-Identifier: Apache-2.0 */
/* int8_levels.h - the levels of a backend that a test can run here, and a host for them. */
#ifndef KT_TESTS_INT8_LEVELS_H
#define KT_TESTS_INT8_LEVELS_H

#include <kt/plugin.h>
#include <stdbool.h>

/* ck_assert_msg writes to a file each time it succeeds: inside loops over numbers, this. */
#define CHECK_THAT(condition, ...)     \
    do {                               \
        if (!(condition))              \
            ck_abort_msg(__VA_ARGS__); \
    } while (0)

struct check_level {
    const char *name;
    const struct kt_ops *ops;
    uint64_t cpu;      /* what this CPU must have; 0: it runs anywhere, emulated if need be */
    bool tiles;        /* its tiles are those of amx_model.h */
    bool opaque;       /* it packs other bytes than the other levels, and wider panels */
    unsigned sve_bits; /* the length of ARM's SVE vectors that it is for */
};

struct check_shape {
    struct kt_shape shape;
    uint32_t dtype[3]; /* of the weights */
    uint32_t input;    /* of the activations */
    unsigned gap;      /* between elements of the weights */
    bool bias;
    uint64_t l2_size;
    uint32_t group_size;  /* of weights, where the backend has groups */
    const uint32_t *rows; /* ends with 0 */
};

extern const struct check_level check_levels[];
extern const size_t check_n_levels;
bool check_can_run(const struct check_level *level);
/* Says which; false: none. */
bool check_list_levels(void);
/* That the level used the modeled tiles, if it has them, and nothing the CPU would refuse. */
void check_tiles(const struct check_level *level);

enum { CHECK_FAIL_NOTHING, CHECK_FAIL_ALLOCATE, CHECK_FAIL_DEQUANTIZE };
extern int check_fail_next;
extern int check_allocated; /* blocks taken from check_host and not given back */
extern const struct kt_host check_host;

#endif
