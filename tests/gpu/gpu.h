/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h - what tests on streams share, with the stand-in or on a GPU. */
#ifndef KT_TESTS_GPU_GPU_H
#define KT_TESTS_GPU_GPU_H

#include "tests/gpu/cudart.h"

#include <check.h>
#include <stdbool.h>

#define ck_cuda(call)                                                                            \
    do {                                                                                         \
        cudaError_t ck_code = (call);                                                            \
        ck_assert_msg(ck_code == cudaSuccess, "%s: %s (%d)", #call, cudaGetErrorString(ck_code), \
                      (int)ck_code);                                                             \
    } while (0)

/* The absolute path of the runtime that the program is linked with, for kt_stream_runtime_open. */
const char *gpu_runtime_path(void);

/* Does a device answer? A process that forks must not ask itself: CUDA works in no child of one that uses it.
 */
bool gpu_answers(void);

/* Ends a capture and makes a graph that can be launched. */
cudaGraphExec_t gpu_end_capture(cudaStream_t stream);

/* Launches a kernel that writes to a bad address: nothing runs in this process after it. */
void gpu_break(cudaStream_t stream);

#endif
