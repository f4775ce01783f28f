/* SPDX-License-Identifier: Apache-2.0 */
/* aocl.c - finds AMD's library and makes sure that it computes. */
#include "plugins/blis_int8/aocl.h"

#include "plugins/common/vendor/library.h"
#include "plugins/common/vendor/selftest.h"

/* The oldest version of AOCL-BLAS whose functions are those of struct aocl. */
enum { OLDEST_MAJOR = 4, OLDEST_MINOR = 2 };

/* ---- functions and version ---- */

static enum kt_status find_functions(void *handle, const char *name, struct aocl *aocl,
                                     struct kt_error *error)
{
    const struct {
        const char *symbol;
        void *function;
    } functions[] = {
        {"aocl_get_reorder_buf_size_s8s8s32os32", &aocl->reorder_size},
        {"aocl_reorder_s8s8s32os32", &aocl->reorder},
        {"aocl_gemm_s8s8s32os32", &aocl->multiply},
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!find_function(handle, functions[i].symbol, functions[i].function))
            return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                                  "%s has no %s: it is no AOCL-DLP, nor an "
                                  "AOCL-BLAS with the addon aocl_gemm",
                                  name, functions[i].symbol);
    if (find_function(handle, "dlp_thread_set_num_threads", &aocl->set_threads))
        return KT_OK;
    if (find_function(handle, "bli_thread_set_num_threads", &aocl->set_threads) &&
        find_function(handle, "bli_thread_get_num_threads", &aocl->get_threads))
        return KT_OK;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                          "%s has neither dlp_thread_set_num_threads nor "
                          "bli_thread_set_num_threads and bli_thread_get_num_threads",
                          name);
}

/* "AOCL-BLAS 4.2.0 Build 20240101": the first number with a point. Of AOCL-DLP every version will do. */
static enum kt_status check_version(void *handle, const char *name, struct kt_error *error)
{
    const char *(*get_version)(void);
    unsigned major = 0, minor = 0;
    if (find_function(handle, "dlp_thread_set_num_threads", &get_version))
        return KT_OK;
    if (!find_function(handle, "bli_info_get_version_str", &get_version))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              "%s does not say its version: it has no "
                              "bli_info_get_version_str",
                              name);
    const char *text = get_version();
    const char *digit = text && strstr(text, "AOCL") ? strpbrk(text, "0123456789") : NULL;
    if (!digit || sscanf(digit, "%3u.%3u", &major, &minor) != 2)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              "%s calls itself \"%.60s\", which is not a version "
                              "of AOCL",
                              name, text ? text : "");
    if (major > OLDEST_MAJOR || (major == OLDEST_MAJOR && minor >= OLDEST_MINOR))
        return KT_OK;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                          "%s is version \"%.60s\"; %d.%d is needed, before "
                          "which functions of the same names take other arguments",
                          name, text, OLDEST_MAJOR, OLDEST_MINOR);
}

/* ---- its product ---- */

/* B stands row by row of its transpose, K numbers each: a row of weights. */
static uint64_t size_matrix(const void *library, uint64_t k, uint64_t n)
{
    const struct aocl *aocl = library;
    return aocl->reorder_size('r', 't', 'B', (aocl_dim)k, (aocl_dim)n);
}

static void reorder(const void *library, const int8_t *rows, uint64_t k, uint64_t n, int8_t *to)
{
    const struct aocl *aocl = library;
    aocl->reorder('r', 't', 'B', rows, to, (aocl_dim)k, (aocl_dim)n, (aocl_dim)k);
}

static void multiply(const void *library, uint64_t m, uint64_t n, uint64_t k, const int8_t *a, uint64_t lda,
                     const int8_t *b, int32_t *c)
{
    const struct aocl *aocl = library;
    aocl->multiply('r', 'n', 't', (aocl_dim)m, (aocl_dim)n, (aocl_dim)k, 1, a, (aocl_dim)lda, 'n', b,
                   (aocl_dim)k, 'r', 0, c, (aocl_dim)n, NULL);
}

static int64_t enter(const void *library)
{
    const struct aocl *aocl = library;
    aocl_dim before = aocl->get_threads ? aocl->get_threads() : -1;
    aocl->set_threads(1);
    return before;
}

/* AOCL-BLAS makes 1 of what is not a number of threads, so that is not given back; -1 unsets AOCL-DLP's. */
static void leave(const void *library, int64_t before)
{
    const struct aocl *aocl = library;
    if (before > 0 || !aocl->get_threads)
        aocl->set_threads(before);
}

const struct vendor aocl_vendor = {"AOCL", size_matrix, reorder, multiply, enter, leave};

/* ---- libraries ---- */

static enum kt_status take(const struct kt_host *host, void *handle, const char *name, void *aocl,
                           struct kt_error *error)
{
    struct aocl found = {0};
    enum kt_status status = find_functions(handle, name, &found, error);
    if (status == KT_OK)
        status = check_version(handle, name, error);
    if (status == KT_OK)
        status = selftest_product(host, name, &aocl_vendor, &found, error);
    if (status == KT_OK)
        memcpy(aocl, &found, sizeof found);
    return status;
}

enum kt_status aocl_open(const struct kt_host *host, const char *library, struct aocl *aocl,
                         struct kt_error *error)
{
    static const char *const names[] = {"libaocl-dlp.so", "libblis-mt.so.5", "libblis.so.5",
                                        "libblis-mt.so.4", "libblis.so.4"};
    static const struct library known = {names, sizeof names / sizeof *names, take};
    return open_library(host, &known, library, aocl, error);
}
