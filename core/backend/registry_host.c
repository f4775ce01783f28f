/* SPDX-License-Identifier: Apache-2.0 */
/* registry_host.c - the functions of struct kt_host. */
#include "core/backend/registry_host.h"

#include "core/base/log.h"
#include "core/base/trust.h"
#include "core/config/config.h"
#include "core/weights/decode/dequantize.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ALIGNMENT = 64 };

static void write_log(const struct kt_host *host, enum kt_log_level level, const char *format, ...)
    KT_PRINTF(3, 4);

static void write_log(const struct kt_host *host, enum kt_log_level level, const char *format, ...)
{
    const struct kt_backend *backend = host->data;
    char line[960];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    kt_log_write(kt_config_log(backend->registry->config), level, "%s: %s", backend->name, line);
}

static void *allocate(const struct kt_host *host, uint64_t size)
{
    (void)host;
    if (size > PTRDIFF_MAX - ALIGNMENT)
        return NULL;
    size_t rounded = ((size_t)size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
}

static void release(const struct kt_host *host, void *memory, uint64_t size)
{
    (void)host;
    (void)size;
    free(memory);
}

static enum kt_status dequantize(const struct kt_host *host, const struct kt_view *view, uint64_t row,
                                 uint64_t col, uint64_t n, float *out, struct kt_error *error)
{
    (void)host;
    return kt_view_dequantize(view, row, col, n, out, error);
}

static enum kt_status trust(const struct kt_host *host, const char *path, struct kt_error *error)
{
    char *real;
    int fd;
    (void)host;
    enum kt_status status = kt_trust_open(path, &real, &fd, error);
    if (status != KT_OK)
        return status;
    (void)close(fd);
    free(real);
    return KT_OK;
}

void kt_backend_serve(struct kt_backend *backend)
{
    backend->host = (struct kt_host){
        .struct_size = sizeof(struct kt_host),
        .abi_minor = KT_PLUGIN_ABI_MINOR,
        .data = backend,
        .log = write_log,
        .allocate = allocate,
        .release = release,
        .dequantize = dequantize,
        .dtype_name = kt_dtype_name,
        .trust = trust,
    };
}
