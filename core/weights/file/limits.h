/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - the largest numbers and names that are taken from files. */
#ifndef KT_CORE_WEIGHTS_FILE_LIMITS_H
#define KT_CORE_WEIGHTS_FILE_LIMITS_H

/* No real file has longer names of tensors or metadata keys, so messages can quote them whole. */
enum { KT_NAME_SIZE = 256 };

/* Larger numbers are errors; with these, sizes computed from them do not overflow. */
enum {
    KT_LARGEST_LAYER = 65535,
    KT_LARGEST_EXPERTS = 65536,
    KT_LARGEST_SIZE = 1 << 20,
    KT_LARGEST_LINEAR = 1 << 24
};

#endif
