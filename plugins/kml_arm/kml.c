/* SPDX-License-Identifier: Apache-2.0 */
/* kml.c - finds Huawei's library and makes sure that it computes. */
#include "plugins/kml_arm/kml.h"

#include "plugins/common/vendor/library.h"
#include "plugins/common/vendor/selftest.h"

/* Of its header. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112, ONE_OFFSET = 173 };

/* It knows no order of its own: the rows of weights stay as they are. */
static uint64_t size_matrix(const void *library, uint64_t k, uint64_t n)
{
    (void)library;
    return k * n;
}

static void reorder(const void *library, const int8_t *rows, uint64_t k, uint64_t n, int8_t *to)
{
    (void)library;
    memcpy(to, rows, k * n);
}

static void multiply(const void *library, uint64_t m, uint64_t n, uint64_t k, const int8_t *a, uint64_t lda,
                     const int8_t *b, int32_t *c)
{
    static const int64_t no_offset = 0;
    const struct kml *kml = library;
    kml->multiply(ROW_MAJOR, AS_IT_IS, TRANSPOSED, ONE_OFFSET, (kml_size)m, (kml_size)n, (kml_size)k, 1.0f, a,
                  (kml_size)lda, 0, b, (kml_size)k, 0, 0.0f, c, (kml_size)n, &no_offset);
}

static int64_t enter(const void *library)
{
    const struct kml *kml = library;
    if (!kml->get_threads)
        return 0;
    int before = kml->get_threads();
    kml->set_threads(1);
    return before;
}

static void leave(const void *library, int64_t before)
{
    const struct kml *kml = library;
    if (before > 0)
        kml->set_threads((int)before);
}

const struct vendor kml_vendor = {"KML", size_matrix, reorder, multiply, enter, leave};

/* A library without any of these has no threads. */
static void find_threads(void *handle, struct kml *kml)
{
    void (*set_all)(int);

    if (find_function(handle, "BlasSetNumThreadsLocal", &kml->set_threads) &&
        find_function(handle, "BlasGetNumThreadsLocal", &kml->get_threads))
        return;
    kml->set_threads = NULL;
    if (find_function(handle, "BlasSetNumThreads", &set_all))
        set_all(1);
}

/* No function of it says a version, so what counts is the product. */
static enum kt_status take(const struct kt_host *host, void *handle, const char *name, void *kml,
                           struct kt_error *error)
{
    struct kml found = {0};
    if (!find_function(handle, "cblas_gemm_s8s8s32", &found.multiply))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED,
                              "%s has no cblas_gemm_s8s8s32: it is no KML, or one "
                              "before its products of int8",
                              name);
    find_threads(handle, &found);
    enum kt_status status = selftest_product(host, name, &kml_vendor, &found, error);
    if (status == KT_OK)
        memcpy(kml, &found, sizeof found);
    return status;
}

enum kt_status kml_open(const struct kt_host *host, const char *library, struct kml *kml,
                        struct kt_error *error)
{
    /* With locks: calls of several threads at once are what it is for. */
    static const char *const names[] = {"libkblas.so", "/usr/local/kml/lib/kblas/locking/libkblas.so",
                                        "libkml_rt.so"};
    static const struct library known = {names, sizeof names / sizeof *names, take};

    return open_library(host, &known, library, kml, error);
}
