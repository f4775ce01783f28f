/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - services for a plugin, of which the next one can be made to fail. */
#include "core/base/trust.h"
#include "core/weights/decode/dequantize.h"
#include "tests/checkkernel/host.h"

#include <kt/kt.h>
#include <stdlib.h>
#include <unistd.h>

static void drop_log(const struct kt_host *host, enum kt_log_level level, const char *format, ...)
{
    (void)host;
    (void)level;
    (void)format;
}

enum kt_status check_service_fails;
int check_allocated;

static bool fails_now(enum kt_status status)
{
    if (check_service_fails != status)
        return false;
    check_service_fails = KT_OK;
    return true;
}

static void *allocate(const struct kt_host *host, uint64_t size)
{
    (void)host;
    void *memory = fails_now(KT_E_NOMEM) ? NULL : aligned_alloc(64, (size + 63) / 64 * 64);
    check_allocated += memory != NULL;
    return memory;
}

static void release(const struct kt_host *host, void *memory, uint64_t size)
{
    (void)host;
    (void)size;
    check_allocated -= memory != NULL;
    free(memory);
}

static enum kt_status dequantize(const struct kt_host *host, const struct kt_view *view, uint64_t row,
                                 uint64_t col, uint64_t n, float *out, struct kt_error *error)
{
    (void)host;
    if (fails_now(KT_E_IO))
        return kt_plugin_fail(error, KT_E_IO, "row %llu cannot be read", (unsigned long long)row);
    return kt_view_dequantize(view, row, col, n, out, error);
}

static enum kt_status trust(const struct kt_host *host, const char *path, struct kt_error *error)
{
    char *real;
    int fd;
    (void)host;
    enum kt_status status = kt_trust_open(path, &real, &fd, error);
    if (status == KT_OK) {
        (void)close(fd);
        free(real);
    }
    return status;
}

const struct kt_host check_host = {
    .struct_size = sizeof(struct kt_host),
    .abi_minor = KT_PLUGIN_ABI_MINOR,
    .log = drop_log,
    .allocate = allocate,
    .release = release,
    .dequantize = dequantize,
    .dtype_name = kt_dtype_name,
    .trust = trust,
};
