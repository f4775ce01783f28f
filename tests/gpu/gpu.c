/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* dladdr */
#include "tests/gpu/gpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *gpu_runtime_path(void)
{
    static char path[4096];
    Dl_info info = {.dli_fname = NULL};
    void *function = dlsym(RTLD_DEFAULT, "cudaLaunchHostFunc");
    ck_assert_msg(function && dladdr(function, &info) && realpath(info.dli_fname, path),
                  "no file has cudaLaunchHostFunc");
    return path;
}

bool gpu_answers(void)
{
    int status = 1;
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int n = 0;
        void *memory = NULL;
        cudaError_t code = cudaGetDeviceCount(&n);
        if (code == cudaSuccess && n > 0)
            code = cudaMalloc(&memory, 1);
        if (code != cudaSuccess || n == 0)
            printf("SKIP: no device answers: %s\n",
                   n == 0 && !code ? "there is none" : cudaGetErrorString(code));
        (void)fflush(stdout);
        _exit(code != cudaSuccess || n == 0);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

cudaGraphExec_t gpu_end_capture(cudaStream_t stream)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    ck_cuda(cudaStreamEndCapture(stream, &graph));
    ck_cuda(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    ck_cuda(cudaGraphDestroy(graph));
    return exec;
}

#ifdef KT_TEST_CUDA

/* In the assembler of all GPUs, which the driver translates: no nvcc is needed. */
static const char kernel[] = ".version 6.3\n"
                             ".target sm_52\n"
                             ".address_size 64\n"
                             ".visible .entry write_to_null()\n"
                             "{\n"
                             "    .reg .b64 %to;\n"
                             "    .reg .b32 %value;\n"
                             "    mov.u64 %to, 0;\n"
                             "    mov.u32 %value, 1;\n"
                             "    st.global.u32 [%to], %value;\n"
                             "    ret;\n"
                             "}\n";

static void find(void *driver, const char *name, void *function)
{
    void *found = dlsym(driver, name);
    ck_assert_msg(found != NULL, "the driver has no %s", name);
    memcpy(function, &found, sizeof found);
}

void gpu_break(cudaStream_t stream)
{
    int (*load)(void **module, const void *image);
    int (*get)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  cudaStream_t, void **, void **);
    void *module = NULL, *function = NULL, *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(driver != NULL, "%s", dlerror());
    find(driver, "cuModuleLoadData", &load);
    find(driver, "cuModuleGetFunction", &get);
    find(driver, "cuLaunchKernel", &launch);
    ck_assert_int_eq(load(&module, kernel), 0);
    ck_assert_int_eq(get(&function, module, "write_to_null"), 0);
    ck_assert_int_eq(launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), 0);
}

#else

void gpu_break(cudaStream_t stream)
{
    ck_cuda(stand_in_break(stream));
}

#endif
