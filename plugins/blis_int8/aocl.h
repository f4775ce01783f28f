/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aocl.h - the int8 product of AMD's AOCL-BLAS (its addon aocl_gemm, LPGEMM) or AOCL-DLP, opened at run
 * time. Both have the same functions; what differs between versions is kept away from: post-ops are
 * always NULL, and a version before 4.2, whose functions of the same names take other arguments, is
 * refused.
 */
#ifndef KT_PLUGINS_BLIS_INT8_AOCL_H
#define KT_PLUGINS_BLIS_INT8_AOCL_H

#include "plugins/common/vendor/vendor.h"

/* The library's own numbers: dim_t of the default build, md_t of AOCL-DLP. */
typedef int64_t aocl_dim;

struct aocl {
    uint64_t (*reorder_size)(char order, char trans, char matrix, aocl_dim k, aocl_dim n);
    void (*reorder)(char order, char trans, char matrix, const int8_t *from, int8_t *to, aocl_dim k,
                    aocl_dim n, aocl_dim ld);
    void (*multiply)(char order, char trans_a, char trans_b, aocl_dim m, aocl_dim n, aocl_dim k,
                     int32_t alpha, const int8_t *a, aocl_dim lda, char form_a, const int8_t *b, aocl_dim ldb,
                     char form_b, int32_t beta, int32_t *c, aocl_dim ldc, void *post);
    void (*set_threads)(aocl_dim n); /* of the calling thread */
    aocl_dim (*get_threads)(void);   /* NULL: unset is -1 */
};

/* What level aocl asks of it; `library` is a struct aocl. */
extern const struct vendor aocl_vendor;

/*
 * Opens a library and checks it: its functions, its version, and that a product of it is right. `library` is
 * the option's value, see plugins/common/vendor/library.h.
 */
enum kt_status aocl_open(const struct kt_host *host, const char *library, struct aocl *aocl,
                         struct kt_error *error);

#endif
