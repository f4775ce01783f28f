/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - the launch function of a GPU's runtime, found while the process runs. */
#define _GNU_SOURCE /* RTLD_NOLOAD */
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

#define PORTABLE 1 /* memory for all devices */

struct kt_stream_runtime {
    void *handle;
    const char *name; /* of the function */
    launch_fn launch;
    words_fn words;       /* or NULL */
    allocate_fn allocate; /* or NULL, as the next */
    release_fn release;
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
    const char *launch, *words, *allocate, *release;
};
static const struct names cuda = {"cudaLaunchHostFunc", "cudaGetErrorString", "cudaHostAlloc",
                                  "cudaFreeHost"};
static const struct names hip = {"hipLaunchHostFunc", "hipGetErrorString", "hipHostMalloc", "hipHostFree"};

/* Copied because C cannot convert a pointer to an object to one to a function; POSIX makes both alike. */
static bool find_functions(struct kt_stream_runtime *runtime, const struct names *names)
{
    void *found = dlsym(runtime->handle, names->launch), *text = dlsym(runtime->handle, names->words);
    void *allocate = dlsym(runtime->handle, names->allocate),
         *release = dlsym(runtime->handle, names->release);
    if (!found)
        return false;
    runtime->name = names->launch;
    memcpy(&runtime->launch, &found, sizeof found);
    memcpy(&runtime->words, &text, sizeof text);
    memcpy(&runtime->allocate, &allocate, sizeof allocate);
    memcpy(&runtime->release, &release, sizeof release);
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

static void *allocate(void *data, size_t size)
{
    const struct kt_stream_runtime *runtime = data;
    void *memory = NULL;
    return runtime->allocate(&memory, size, PORTABLE) == 0 ? memory : NULL;
}

static void release(void *data, void *memory, size_t size)
{
    const struct kt_stream_runtime *runtime = data;
    (void)size;
    (void)runtime->release(memory);
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

static enum kt_status launch(const struct kt_stream_runtime *runtime, void *stream, void (*function)(void *),
                             struct kt_host_call *call, struct kt_error *error)
{
    if (!runtime || !call)
        return kt_fail(error, KT_E_INVALID, "a launch on a stream needs a runtime and a call, not NULL");
    int code = runtime->launch(stream, function, call);
    if (code == 0)
        return KT_OK;
    const char *words = runtime->words ? runtime->words(code) : NULL;
    return kt_fail(error, KT_E_SYSTEM, "%s: %s (%d)", runtime->name, words ? words : "error", code);
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
