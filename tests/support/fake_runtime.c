/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fake_runtime.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fake_runtime_path(void)
{
    static char path[4096];
    const char *build = getenv("KT_TEST_BUILD");
    ck_assert_msg(build != NULL, "KT_TEST_BUILD must name the build folder");
    (void)snprintf(path, sizeof path, "%s/tests/plugins/libfakestream.so", build);
    return path;
}

static void find(const struct fake_runtime *runtime, const char *name, void *function)
{
    void *found = dlsym(runtime->library, name);
    ck_assert_msg(found != NULL, "the fake runtime has no %s", name);
    memcpy(function, &found, sizeof found);
}

void fake_runtime_open(struct fake_runtime *runtime)
{
    runtime->library = dlopen(fake_runtime_path(), RTLD_NOW | RTLD_LOCAL);
    if (!runtime->library)
        ck_abort_msg("%s", dlerror());
    find(runtime, "cudaStreamCreate", &runtime->stream_create);
    find(runtime, "cudaStreamDestroy", &runtime->stream_destroy);
    find(runtime, "cudaStreamSynchronize", &runtime->stream_synchronize);
    find(runtime, "cudaLaunchHostFunc", &runtime->launch);
    find(runtime, "cudaStreamBeginCapture", &runtime->begin_capture);
    find(runtime, "cudaStreamEndCapture", &runtime->end_capture);
    find(runtime, "cudaGraphInstantiate", &runtime->graph_instantiate);
    find(runtime, "cudaGraphLaunch", &runtime->graph_launch);
    find(runtime, "cudaGraphDestroy", &runtime->graph_destroy);
    find(runtime, "cudaGraphExecDestroy", &runtime->exec_destroy);
    find(runtime, "cudaHostAlloc", &runtime->host_alloc);
    find(runtime, "cudaFreeHost", &runtime->free_host);
}

void fake_runtime_close(struct fake_runtime *runtime)
{
    (void)dlclose(runtime->library);
}

void *fake_runtime_end_capture(const struct fake_runtime *runtime, void *stream)
{
    void *graph = NULL, *exec = NULL;
    ck_assert_int_eq(runtime->end_capture(stream, &graph), 0);
    ck_assert_int_eq(runtime->graph_instantiate(&exec, graph, 0), 0);
    ck_assert_int_eq(runtime->graph_destroy(graph), 0);
    return exec;
}
