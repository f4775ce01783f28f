/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - the launch function of a GPU's runtime, found while the process runs. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
#include "core/async/host_call.h"
#include "core/base/error.h"

#include <kt/kt.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A stream is a pointer for all runtimes. Functions return 0 or a code that the runtime can describe. */
typedef int (*launch_fn)(void *stream, void (*function)(void *), void *argument);
typedef const char *(*words_fn)(int code);
typedef int (*allocate_fn)(void **memory, size_t size, unsigned flags);
typedef int (*release_fn)(void *memory);
typedef int (*forget_fn)(void);
typedef int (*exchange_fn)(int *mode);

#define PORTABLE 1 /* memory for all devices */
#define RELAXED                                                                                \
    2 /* of a thread: what a capture that is under way cannot hold is allowed and not captured \
       */

struct kt_stream_runtime {
    void *handle;
    const char *name; /* of the function */
    launch_fn launch;
    words_fn words;       /* or NULL */
    allocate_fn allocate; /* or NULL, as the next */
    release_fn release;
    forget_fn forget;     /* the last error of this thread; or NULL */
    exchange_fn exchange; /* the thread's capture mode; or NULL */
};

static const char *const libraries[] = {"libcudart.so.13",  "libcudart.so.12",  "libcudart.so.11.0",
                                        "libcudart.so",     "libamdhip64.so.7", "libamdhip64.so.6",
                                        "libamdhip64.so.5", "libamdhip64.so"};
enum { N_LIBRARIES = sizeof libraries / sizeof libraries[0] };

static void *find_library(const char *library)
{
    if (library)
        return dlopen(library, RTLD_NOW | RTLD_LOCAL);
    void *handle = NULL;
    for (int i = 0; i < N_LIBRARIES && !handle; i++)
        handle = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (int i = 0; i < N_LIBRARIES && !handle; i++)
        handle = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    return handle;
}

/* The names of a runtime's functions. */
struct names {
    const char *launch, *words, *allocate, *release, *forget, *exchange;
};
static const struct names cuda = {.launch = "cudaLaunchHostFunc",
                                  .words = "cudaGetErrorString",
                                  .allocate = "cudaHostAlloc",
                                  .release = "cudaFreeHost",
                                  .forget = "cudaGetLastError",
                                  .exchange = "cudaThreadExchangeStreamCaptureMode"};
static const struct names hip = {.launch = "hipLaunchHostFunc",
                                 .words = "hipGetErrorString",
                                 .allocate = "hipHostMalloc",
                                 .release = "hipHostFree",
                                 .forget = "hipGetLastError",
                                 .exchange = "hipThreadExchangeStreamCaptureMode"};

/* Copied because C cannot convert a pointer to an object to one to a function; POSIX makes both alike. */
static bool find(const struct kt_stream_runtime *runtime, const char *name, void *function)
{
    void *found = dlsym(runtime->handle, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool find_functions(struct kt_stream_runtime *runtime, const struct names *names)
{
    if (!find(runtime, names->launch, &runtime->launch))
        return false;
    runtime->name = names->launch;
    (void)find(runtime, names->words, &runtime->words);
    (void)find(runtime, names->allocate, &runtime->allocate);
    (void)find(runtime, names->release, &runtime->release);
    (void)find(runtime, names->forget, &runtime->forget);
    (void)find(runtime, names->exchange, &runtime->exchange);
    return true;
}

enum kt_status kt_stream_runtime_open(const char *library, struct kt_stream_runtime **out,
                                      struct kt_error *error)
{
    if (!out)
        return kt_fail(error, KT_E_INVALID, "kt_stream_runtime_open: runtime must not be NULL");
    if (library && (!*library || (library[0] != '/' && strchr(library, '/'))))
        return kt_fail(error, KT_E_INVALID, "\"%s\" is neither an absolute path nor a library's name",
                       library);
    struct kt_stream_runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime)
        return kt_fail(error, KT_E_NOMEM, "no memory for a stream runtime");
    runtime->handle = find_library(library);
    if (!runtime->handle) {
        const char *words = dlerror();
        enum kt_status status = kt_fail(error, KT_E_NOT_FOUND, "%s cannot be loaded: %s",
                                        library ? library : "libcudart or libamdhip64",
                                        words ? words : "the dynamic linker does not say why");
        free(runtime);
        return status;
    }
    if (!find_functions(runtime, &cuda) && !find_functions(runtime, &hip)) {
        kt_stream_runtime_close(runtime);
        return kt_fail(error, KT_E_UNSUPPORTED, "%s has neither cudaLaunchHostFunc nor hipLaunchHostFunc",
                       library ? library : "the runtime that is loaded");
    }
    *out = runtime;
    return KT_OK;
}

void kt_stream_runtime_close(struct kt_stream_runtime *runtime)
{
    if (!runtime)
        return;
    (void)dlclose(runtime->handle);
    free(runtime);
}

/* What was told to the caller is not to surface as the failure of a later call of the runtime. */
static void forget(const struct kt_stream_runtime *runtime, int code)
{
    if (code != 0 && runtime->forget)
        (void)runtime->forget();
}

/* Buffers may be needed while a graph is captured, which an allocation would end but for the mode. */
static void exchange(const struct kt_stream_runtime *runtime, int *mode)
{
    if (runtime->exchange)
        (void)runtime->exchange(mode);
}

static void *allocate(void *data, size_t size)
{
    const struct kt_stream_runtime *runtime = data;
    void *memory = NULL;
    int mode = RELAXED;
    exchange(runtime, &mode);
    int code = runtime->allocate(&memory, size, PORTABLE);
    exchange(runtime, &mode);
    forget(runtime, code);
    return code == 0 ? memory : NULL;
}

static void release(void *data, void *memory, size_t size)
{
    const struct kt_stream_runtime *runtime = data;
    int mode = RELAXED;
    (void)size;
    exchange(runtime, &mode);
    int code = runtime->release(memory);
    exchange(runtime, &mode);
    forget(runtime, code);
}

enum kt_status kt_stream_runtime_allocator(struct kt_stream_runtime *runtime, struct kt_allocator *allocator,
                                           struct kt_error *error)
{
    if (!runtime || !allocator)
        return kt_fail(error, KT_E_INVALID,
                       "kt_stream_runtime_allocator: runtime and allocator must not be NULL");
    if (!runtime->allocate || !runtime->release)
        return kt_fail(error, KT_E_UNSUPPORTED, "the runtime that has %s has no memory for hosts",
                       runtime->name);
    *allocator = (struct kt_allocator){allocate, release, runtime};
    return KT_OK;
}

/* What a person can make of an error; CUDA and HIP number these alike. */
static const char *explain(int code)
{
    switch (code) {
    case 400: /* invalid handle */
        return "; was the stream destroyed?";
    case 700: /* illegal address */
    case 702: /* timeout of a kernel */
    case 710: /* assert in a kernel */
    case 714: /* hardware stack, instructions and addresses */
    case 715:
    case 716:
    case 717:
    case 718:
    case 719: /* launch failure */
        return "; a kernel before it failed, and the GPU's context is lost: only a new process can use it again";
    default:
        return "";
    }
}

static enum kt_status launch(const struct kt_stream_runtime *runtime, void *stream, void (*function)(void *),
                             struct kt_host_call *call, struct kt_error *error)
{
    if (!runtime || !call)
        return kt_fail(error, KT_E_INVALID, "a launch on a stream needs a runtime and a call, not NULL");
    int code = runtime->launch(stream, function, call);
    if (code == 0)
        return KT_OK;
    const char *words = runtime->words ? runtime->words(code) : NULL;
    forget(runtime, code);
    return kt_fail(error, KT_E_SYSTEM, "%s: %s: %s (%d)%s", kt_host_call_name(call), runtime->name,
                   words ? words : "error", code, explain(code));
}

enum kt_status kt_submit_on_stream(const struct kt_stream_runtime *runtime, void *stream,
                                   struct kt_host_call *call, struct kt_error *error)
{
    return launch(runtime, stream, kt_host_submit, call, error);
}

enum kt_status kt_sync_on_stream(const struct kt_stream_runtime *runtime, void *stream,
                                 struct kt_host_call *call, struct kt_error *error)
{
    return launch(runtime, stream, kt_host_wait, call, error);
}
