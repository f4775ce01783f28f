/* SPDX-License-Identifier: Apache-2.0 */
/* aocl.c - finds AMD's library and makes sure that it computes. */
#include "plugins/blis_int8/aocl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The oldest version of AOCL-BLAS whose functions are those of struct aocl. */
enum { OLDEST_MAJOR = 4, OLDEST_MINOR = 2 };

static const char *const names[] = { AOCL_NAMES };
#define N_NAMES (sizeof names / sizeof *names)

/* ---- functions and version ---- */

/* A function's address comes as an object's. */
static bool find(void *handle, const char *symbol, void *function)
{
    void *address = dlsym(handle, symbol);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static enum kt_status find_functions(void *handle, const char *name, struct aocl *aocl,
                                     struct kt_error *error)
{
    const struct {
        const char *symbol;
        void *function;
    } functions[] = {
        { "aocl_get_reorder_buf_size_s8s8s32os32", &aocl->reorder_size },
        { "aocl_reorder_s8s8s32os32", &aocl->reorder },
        { "aocl_gemm_s8s8s32os32", &aocl->multiply },
    };

    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!find(handle, functions[i].symbol, functions[i].function))
            return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s has no %s: it is no AOCL-DLP, nor an "
                                  "AOCL-BLAS with the addon aocl_gemm", name, functions[i].symbol);
    if (find(handle, "dlp_thread_set_num_threads", &aocl->set_threads))
        return KT_OK;
    if (find(handle, "bli_thread_set_num_threads", &aocl->set_threads) &&
        find(handle, "bli_thread_get_num_threads", &aocl->get_threads))
        return KT_OK;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s has neither dlp_thread_set_num_threads nor "
                          "bli_thread_set_num_threads and bli_thread_get_num_threads", name);
}

/* "AOCL-BLAS 4.2.0 Build 20240101": the first number with a point. Of AOCL-DLP every version will do. */
static enum kt_status check_version(void *handle, const char *name, struct kt_error *error)
{
    const char *(*get_version)(void);
    unsigned major = 0, minor = 0;

    if (find(handle, "dlp_thread_set_num_threads", &get_version))
        return KT_OK;
    if (!find(handle, "bli_info_get_version_str", &get_version))
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s does not say its version: it has no "
                              "bli_info_get_version_str", name);
    const char *text = get_version();
    const char *digit = text && strstr(text, "AOCL") ? strpbrk(text, "0123456789") : NULL;
    if (!digit || sscanf(digit, "%3u.%3u", &major, &minor) != 2)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s calls itself \"%.60s\", which is no version "
                              "of AOCL", name, text ? text : "");
    if (major > OLDEST_MAJOR || (major == OLDEST_MAJOR && minor >= OLDEST_MINOR))
        return KT_OK;
    return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s is version \"%.60s\"; %d.%d is needed, before "
                          "which functions of the same names take other arguments", name, text,
                          OLDEST_MAJOR, OLDEST_MINOR);
}

/* ---- does it compute? ---- */

/* K of more than one of the library's blocks, and rows of its ways for one and for several. */
enum { TRIAL_K = 4160, TRIAL_N = 128, TRIAL_M = 7 };

/* Within +-127, as all that is multiplied here. */
static void fill(int8_t *numbers, uint64_t n, uint32_t state)
{
    for (uint64_t i = 0; i < n; i++) {
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        numbers[i] = (int8_t)((int)(state >> 24) % 255 - 127);
    }
}

static bool is_product(const int8_t *a, const int8_t *b, const int32_t *c, uint64_t m)
{
    for (uint64_t r = 0; r < m; r++)
        for (uint64_t i = 0; i < TRIAL_N; i++) {
            int32_t sum = 0;
            for (uint64_t k = 0; k < TRIAL_K; k++)
                sum += a[r * TRIAL_K + k] * b[i * TRIAL_K + k];
            if (c[r * TRIAL_N + i] != sum)
                return false;
        }
    return true;
}

/* A CPU that it does not like makes it return without a word and without a product. */
static bool computes(const struct aocl *aocl, int8_t *a, int8_t *b, int8_t *reordered, int32_t *c)
{
    static const uint64_t rows[] = { 1, TRIAL_M };
    bool right = true;

    fill(a, TRIAL_M * TRIAL_K, 1);
    fill(b, TRIAL_N * TRIAL_K, 2);
    aocl_dim before = aocl_enter(aocl);
    aocl_reorder(aocl, b, TRIAL_K, TRIAL_N, reordered);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && right; i++) {
        memset(c, 0x55, TRIAL_M * TRIAL_N * sizeof *c);
        right = aocl_multiply(aocl, rows[i], TRIAL_N, TRIAL_K, a, TRIAL_K, reordered, c) &&
                is_product(a, b, c, rows[i]);
    }
    aocl_leave(aocl, before);
    return right;
}

static enum kt_status try_product(const struct kt_host *host, const char *name, const struct aocl *aocl,
                                  struct kt_error *error)
{
    const uint64_t size_a = TRIAL_M * TRIAL_K, size_b = TRIAL_N * TRIAL_K;
    const uint64_t size_c = TRIAL_M * TRIAL_N * sizeof(int32_t);
    uint64_t size = aocl_size(aocl, TRIAL_K, TRIAL_N);

    if (size < size_b || size > 2 * size_b)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s wants %llu bytes for a matrix of %llu: it "
                              "does not know this CPU", name, (unsigned long long)size,
                              (unsigned long long)size_b);
    uint64_t whole = size_c + size_a + size_b + size + 3 * 64;
    uint8_t *memory = host->allocate(host, whole);
    if (!memory)
        return kt_plugin_fail(error, KT_E_NOMEM, "no %llu bytes to try %s", (unsigned long long)whole, name);
    int8_t *a = (int8_t *)memory + (size_c + 63) / 64 * 64, *b = a + (size_a + 63) / 64 * 64;
    bool right = computes(aocl, a, b, b + (size_b + 63) / 64 * 64, (int32_t *)(void *)memory);
    host->release(host, memory, whole);
    return right ? KT_OK : kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s does not multiply: a product of "
                                          "it was not what it should be", name);
}

/* ---- libraries ---- */

static enum kt_status take(const struct kt_host *host, void *handle, const char *name,
                           struct aocl *aocl, struct kt_error *error)
{
    struct aocl found = { 0 };
    enum kt_status status = find_functions(handle, name, &found, error);

    if (!status)
        status = check_version(handle, name, error);
    if (!status)
        status = try_product(host, name, &found, error);
    if (!status)
        *aocl = found;
    return status;
}

/* What the linker says of a library of that name: that there is none, or what is wrong with it. */
static bool is_missing(const char *name, const char *text)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && strstr(text, "No such file or directory");
}

static enum kt_status open_one(const struct kt_host *host, const char *name, struct aocl *aocl,
                               struct kt_error *error)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

    if (handle)
        return take(host, handle, name, aocl, error);
    const char *text = dlerror();
    text = text ? text : name;
    return kt_plugin_fail(error, is_missing(name, text) ? KT_E_NOT_FOUND : KT_E_UNSUPPORTED, "%s", text);
}

static enum kt_status open_any(const struct kt_host *host, struct aocl *aocl, struct kt_error *error)
{
    char text[sizeof error->message] = "";
    size_t used = 0;

    for (size_t i = 0; i < N_NAMES; i++) {
        struct kt_error cause = { KT_OK, "" };
        enum kt_status status = open_one(host, names[i], aocl, &cause);
        if (status == KT_OK || status == KT_E_NOMEM)
            return status ? kt_plugin_fail(error, status, "%s", cause.message) : KT_OK;
        if (status == KT_E_NOT_FOUND)
            continue;
        int length = snprintf(text + used, sizeof text - used, "%s%s", used ? "; " : "", cause.message);
        used += length > 0 ? (size_t)length : 0;
        used = used < sizeof text ? used : sizeof text - 1;
    }
    if (used)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s", text);
    for (size_t i = 0; i < N_NAMES; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", names[i]);
    return kt_plugin_fail(error, KT_E_UNSUPPORTED, "the dynamic linker knows none of %s", text);
}

enum kt_status aocl_open(const struct kt_host *host, const char *library, struct aocl *aocl,
                         struct kt_error *error)
{
    if (strcmp(library, AOCL_NONE) == 0)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "library = " AOCL_NONE);
    if (strcmp(library, AOCL_AUTO) == 0)
        return open_any(host, aocl, error);
    if (library[0] == '/') {
        enum kt_status status = host->trust(host, library, error);
        if (status)
            return status;
    } else if (library[0] == '\0' || strchr(library, '/')) {
        return kt_plugin_fail(error, KT_E_INVALID, "library = %s: neither an absolute path nor a name "
                              "without /", library);
    }
    return open_one(host, library, aocl, error);
}

aocl_dim aocl_enter(const struct aocl *aocl)
{
    aocl_dim before = aocl->get_threads ? aocl->get_threads() : -1;
    aocl->set_threads(1);
    return before;
}

/* AOCL-BLAS makes 1 of what is no number of threads, so that is not given back; -1 unsets AOCL-DLP's. */
void aocl_leave(const struct aocl *aocl, aocl_dim before)
{
    if (before > 0 || !aocl->get_threads)
        aocl->set_threads(before);
}
