/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kml.h - the int8 product of Huawei's KML (its KBLAS), opened at run time.
 *
 * Its header makes sizes int, or long where it is built for that (USE64BITINT), and no function says which.
 * Here they are 64 bits wide: on Linux for aarch64 each has a register or 8 bytes of the stack to itself, of
 * which a library of int reads the lower half.
 */
#ifndef KT_PLUGINS_KML_ARM_KML_H
#define KT_PLUGINS_KML_ARM_KML_H

#include "plugins/common/vendor/vendor.h"

typedef int64_t kml_size;

struct kml {
    /* C = alpha * (op(A) + a_offset) * (op(B) + b_offset) + beta * C + c_offset */
    void (*multiply)(int order, int trans_a, int trans_b, int offset, kml_size m, kml_size n, kml_size k,
                     float alpha, const int8_t *a, kml_size lda, int8_t a_offset, const int8_t *b,
                     kml_size ldb, int8_t b_offset, float beta, int32_t *c, kml_size ldc,
                     const void *c_offset);
    /* Of the calling thread; NULL: the library has one setting, which was made 1, or no threads. */
    void (*set_threads)(int n);
    int (*get_threads)(void);
};

/* What level kml asks of it; `library` is a struct kml. */
extern const struct vendor kml_vendor;

/*
 * Opens a library and checks that a product of it is right. `library` is the option's value, see
 * plugins/common/vendor/library.h.
 */
enum kt_status kml_open(const struct kt_host *host, const char *library, struct kml *kml,
                        struct kt_error *error);

#endif
