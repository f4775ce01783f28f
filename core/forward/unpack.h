/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.h - an expert back in its source format, cut for GPU ranks instead of NUMA nodes. */
#ifndef KT_CORE_FORWARD_UNPACK_H
#define KT_CORE_FORWARD_UNPACK_H

#include <kt/kt.h>

struct kt_unpacking {
    uint32_t expert;
    uint32_t n_ranks;
    const struct kt_unpack_buffers *ranks;
};

/* Can the layer do it, and are all buffers there? */
enum kt_status kt_unpack_check(const struct kt_layer *layer, const struct kt_unpacking *unpacking,
                               struct kt_error *error);

/* Does what was checked; the caller does not hold the pool's lock. */
enum kt_status kt_unpack_run(struct kt_layer *layer, const struct kt_unpacking *unpacking,
                             struct kt_error *error);

#endif
