/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aocl.h - the int8 product of AMD's AOCL-BLAS (its addon aocl_gemm, LPGEMM) or AOCL-DLP, opened at run
 * time. Both have the same functions; what differs between versions is kept away from: post-ops are
 * always NULL, and a version before 4.2, whose functions of the same names take other arguments, is
 * refused.
 */
#ifndef KT_PLUGINS_BLIS_INT8_AOCL_H
#define KT_PLUGINS_BLIS_INT8_AOCL_H

#include <kt/plugin.h>
#include <stdbool.h>

/* The library's own numbers: dim_t of the default build, md_t of AOCL-DLP. */
typedef int64_t aocl_dim;

struct aocl {
    uint64_t (*reorder_size)(char order, char trans, char matrix, aocl_dim k, aocl_dim n);
    void (*reorder)(char order, char trans, char matrix, const int8_t *from, int8_t *to, aocl_dim k,
                    aocl_dim n, aocl_dim ld);
    void (*multiply)(char order, char trans_a, char trans_b, aocl_dim m, aocl_dim n, aocl_dim k,
                     int32_t alpha, const int8_t *a, aocl_dim lda, char form_a, const int8_t *b,
                     aocl_dim ldb, char form_b, int32_t beta, int32_t *c, aocl_dim ldc, void *post);
    void (*set_threads)(aocl_dim n); /* of the calling thread */
    aocl_dim (*get_threads)(void);   /* NULL: unset is -1 */
};

/* The value of `library` that stands for the names below, and the one that stands for none of them. */
#define AOCL_AUTO "auto"
#define AOCL_NONE "none"
#define AOCL_NAMES "libaocl-dlp.so", "libblis-mt.so.5", "libblis.so.5", "libblis-mt.so.4", "libblis.so.4"

/*
 * Opens a library and checks it: its functions, its version, and that a product of it is right.
 * `library` is AOCL_AUTO, AOCL_NONE, an absolute path, which must be as safe as a plugin's, or a name for
 * the dynamic linker. It stays loaded for good: a library that has its own threads does not survive
 * being unloaded. KT_E_UNSUPPORTED says what is wrong with each library that was tried.
 */
enum kt_status aocl_open(const struct kt_host *host, const char *library, struct aocl *aocl,
                         struct kt_error *error);

/* B stands row by row of its transpose, K numbers each: a row of weights. */
static inline uint64_t aocl_size(const struct aocl *aocl, uint64_t k, uint64_t n)
{
    return aocl->reorder_size('r', 't', 'B', (aocl_dim)k, (aocl_dim)n);
}

static inline void aocl_reorder(const struct aocl *aocl, const int8_t *rows, uint64_t k, uint64_t n,
                                int8_t *to)
{
    aocl->reorder('r', 't', 'B', rows, to, (aocl_dim)k, (aocl_dim)n, (aocl_dim)k);
}

/* c[m][n] = a[m][k] b, with b reordered and rows of a lda bytes apart. False: the library returned without
 * computing, which it says in no other way. No sum of codes within +-127 is INT32_MIN. */
static inline bool aocl_multiply(const struct aocl *aocl, uint64_t m, uint64_t n, uint64_t k,
                                 const int8_t *a, uint64_t lda, const int8_t *b, int32_t *c)
{
    c[0] = c[m * n - 1] = INT32_MIN;
    aocl->multiply('r', 'n', 't', (aocl_dim)m, (aocl_dim)n, (aocl_dim)k, 1, a, (aocl_dim)lda, 'n', b,
                   (aocl_dim)k, 'r', 0, c, (aocl_dim)n, NULL);
    return c[0] != INT32_MIN && c[m * n - 1] != INT32_MIN;
}

/* The calling thread's own setting: products are not cut once more by the library. aocl_leave gives back
 * what aocl_enter returned. */
aocl_dim aocl_enter(const struct aocl *aocl);
void aocl_leave(const struct aocl *aocl, aocl_dim before);

#endif
