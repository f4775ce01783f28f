/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - the largest numbers and names that are taken from files. */
#ifndef KT_CORE_WEIGHTS_FILE_LIMITS_H
#define KT_CORE_WEIGHTS_FILE_LIMITS_H

/* Names of this size can be quoted whole in messages, and are looked for. Files may hold longer ones, up to
 * the limit that GGUF has for its keys; safetensors has none. */
enum { KT_NAME_SIZE = 256, KT_LONGEST_NAME = 65535 };

/* Larger numbers are errors; with these, sizes computed from them do not overflow. */
enum {
    KT_LARGEST_LAYER = 65535,
    KT_LARGEST_EXPERTS = 65536,
    KT_LARGEST_SIZE = 1 << 20,
    KT_LARGEST_LINEAR = 1 << 24
};

#endif
