/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stand_in.h - what the files of the stand-in share: a CUDA runtime without a GPU, for tests. It is as strict
 * as NVIDIA's may be:
 *
 *     a stream        is a thread that does in order what was launched; functions of two streams never run
 *                     at the same time, which the real one promises as little as the contrary
 *     a captured      graph is a list of launches, in the order of the capture; streams that wait for an
 * event of the capture take part in it device memory   cannot be read or written by the CPU; copies are of
 * pinned or of device memory a capture       forbids allocating, as cudaStreamBeginCapture describes a lost
 * context  runs nothing any more, and every call says why
 */
#ifndef KT_TESTS_GPU_STAND_IN_H
#define KT_TESTS_GPU_STAND_IN_H

#include "tests/gpu/cudart.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum stand_in_kind { STAND_IN_CALL, STAND_IN_COPY, STAND_IN_RECORD, STAND_IN_WAIT, STAND_IN_BREAK };

/* A launch. */
struct stand_in_node {
    enum stand_in_kind kind;
    cudaHostFn_t function; /* of a call */
    void *data;
    void *to; /* of a copy: where the bytes are, of device memory too */
    const void *from;
    size_t size;
    cudaEvent_t event; /* of a record or a wait */
    uint64_t turn;
};

struct stand_in_capture {
    struct stand_in_capture *next;
    cudaStream_t origin;
    pthread_t thread;
    enum cudaStreamCaptureMode mode;
    bool is_invalid;
    struct stand_in_node *node;
    unsigned n;
};

struct CUevent_st {
    uint64_t recorded, done;          /* counts */
    struct stand_in_capture *capture; /* that it was recorded in last, or NULL */
};

enum { STAND_IN_PLACES = 1024 };
struct CUstream_st {
    struct CUstream_st *next;
    pthread_t thread;
    struct stand_in_node node[STAND_IN_PLACES];
    uint64_t launched, finished; /* modulo STAND_IN_PLACES: where */
    bool is_destroyed;           /* what was launched is done still */
    struct stand_in_capture *capture;
};

/* Of all that follows and all of the structs above. */
extern pthread_mutex_t stand_in_lock;
extern pthread_cond_t stand_in_changed;
extern struct CUstream_st *stand_in_streams; /* that are not destroyed */

/* For functions that hold the lock: the stream itself, the default one for NULL; or NULL: there is none. */
cudaStream_t stand_in_find(cudaStream_t stream);
cudaError_t stand_in_launch(cudaStream_t stream, const struct stand_in_node *node);
/* The failure that the context was lost by, or cudaSuccess. */
cudaError_t stand_in_lost(void);

/* Does a capture forbid this thread what cannot be captured? It is then invalid. */
bool stand_in_is_forbidden(void);
cudaError_t stand_in_capture(struct stand_in_capture *capture, const struct stand_in_node *node);

/* Keeps an error for cudaGetLastError and returns it. */
cudaError_t stand_in_note(cudaError_t error);

#endif
