/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in_stream.c - streams, events and errors of the stand-in. */
#include "tests/gpu/stand_in.h"

#include <stdlib.h>
#include <string.h>

pthread_mutex_t stand_in_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t stand_in_changed = PTHREAD_COND_INITIALIZER;
struct CUstream_st *stand_in_streams;

static pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER; /* held while a function of a stream runs */
static cudaStream_t default_stream;
static uint64_t unfinished; /* launches of all streams, destroyed ones too */
static cudaError_t lost;
static _Thread_local cudaError_t last;

cudaError_t stand_in_note(cudaError_t error)
{
    if (error != cudaSuccess)
        last = error;
    return error;
}

cudaError_t stand_in_lost(void)
{
    return lost;
}

/* ---- the thread of a stream ---- */

static void run(const struct stand_in_node *node)
{
    cudaEvent_t event = node->event;
    switch (node->kind) {
    case STAND_IN_CALL:
        (void)pthread_mutex_unlock(&stand_in_lock);
        (void)pthread_mutex_lock(&calling);
        node->function(node->data);
        (void)pthread_mutex_unlock(&calling);
        (void)pthread_mutex_lock(&stand_in_lock);
        break;
    case STAND_IN_COPY:
        (void)pthread_mutex_unlock(&stand_in_lock);
        memcpy(node->to, node->from, node->size);
        (void)pthread_mutex_lock(&stand_in_lock);
        break;
    case STAND_IN_RECORD:
        event->done = node->turn > event->done ? node->turn : event->done;
        break;
    case STAND_IN_WAIT:
        while (event->done < node->turn && lost == cudaSuccess)
            (void)pthread_cond_wait(&stand_in_changed, &stand_in_lock);
        break;
    case STAND_IN_BREAK:
        lost = cudaErrorIllegalAddress;
        break;
    }
}

static void *serve(void *argument)
{
    struct CUstream_st *stream = argument;
    (void)pthread_mutex_lock(&stand_in_lock);
    for (;;) {
        while (stream->finished == stream->launched && !stream->is_destroyed)
            (void)pthread_cond_wait(&stand_in_changed, &stand_in_lock);
        if (stream->finished == stream->launched)
            break;
        struct stand_in_node node = stream->node[stream->finished % STAND_IN_PLACES];
        if (lost == cudaSuccess)
            run(&node);
        stream->finished++;
        unfinished--;
        (void)pthread_cond_broadcast(&stand_in_changed);
    }
    (void)pthread_mutex_unlock(&stand_in_lock);
    free(stream);
    return NULL;
}

/* ---- streams ---- */

static cudaError_t create(cudaStream_t *out)
{
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    if (!stream)
        return cudaErrorMemoryAllocation;
    if (pthread_create(&stream->thread, NULL, serve, stream) != 0) {
        free(stream);
        return cudaErrorMemoryAllocation;
    }
    (void)pthread_detach(stream->thread);
    stream->next = stand_in_streams;
    stand_in_streams = stream;
    *out = stream;
    return cudaSuccess;
}

cudaStream_t stand_in_find(cudaStream_t stream)
{
    if (!stream && !default_stream && create(&default_stream) != cudaSuccess)
        return NULL;
    cudaStream_t wanted = stream ? stream : default_stream, at = stand_in_streams;
    while (at && at != wanted)
        at = at->next;
    return at;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
{
    (void)flags;
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaError_t code = lost != cudaSuccess ? lost : create(out);
    (void)pthread_mutex_unlock(&stand_in_lock);
    return stand_in_note(code);
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, 0);
}

/* Returns at once: the thread ends when all that was launched is done. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaStream_t found = stream ? stand_in_find(stream) : NULL;
    if (found) {
        struct CUstream_st **at = &stand_in_streams;
        while (*at != found)
            at = &(*at)->next;
        *at = found->next;
        found->is_destroyed = true;
        (void)pthread_cond_broadcast(&stand_in_changed);
    }
    cudaError_t code = lost != cudaSuccess ? lost : found ? cudaSuccess : cudaErrorInvalidResourceHandle;
    (void)pthread_mutex_unlock(&stand_in_lock);
    return stand_in_note(code);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t code = cudaSuccess;
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaStream_t found = stand_in_find(stream);
    if (!found) {
        code = cudaErrorInvalidResourceHandle;
    } else if (found->capture) {
        found->capture->is_invalid = true;
        code = cudaErrorStreamCaptureUnsupported;
    } else {
        while (found->finished != found->launched)
            (void)pthread_cond_wait(&stand_in_changed, &stand_in_lock);
    }
    code = lost != cudaSuccess ? lost : code;
    (void)pthread_mutex_unlock(&stand_in_lock);
    return stand_in_note(code);
}

cudaError_t stand_in_launch(cudaStream_t stream, const struct stand_in_node *node)
{
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaStream_t found = stand_in_find(stream);
    cudaError_t code = lost != cudaSuccess ? lost : found ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (code == cudaSuccess && found->capture) {
        code = stand_in_capture(found->capture, node);
    } else if (code == cudaSuccess) {
        while (found->launched - found->finished == STAND_IN_PLACES)
            (void)pthread_cond_wait(&stand_in_changed, &stand_in_lock);
        found->node[found->launched++ % STAND_IN_PLACES] = *node;
        unfinished++;
        (void)pthread_cond_broadcast(&stand_in_changed);
    }
    (void)pthread_mutex_unlock(&stand_in_lock);
    return stand_in_note(code);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    struct stand_in_node node = {.kind = STAND_IN_CALL, .function = function, .data = data};
    return function ? stand_in_launch(stream, &node) : stand_in_note(cudaErrorInvalidValue);
}

cudaError_t stand_in_break(cudaStream_t stream)
{
    return stand_in_launch(stream, &(struct stand_in_node){.kind = STAND_IN_BREAK});
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    (void)flags;
    *event = calloc(1, sizeof **event);
    return stand_in_note(*event ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    struct stand_in_node node = {.kind = STAND_IN_RECORD, .event = event};
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaStream_t found = stand_in_find(stream);
    event->capture = found ? found->capture : NULL;
    node.turn = ++event->recorded;
    (void)pthread_mutex_unlock(&stand_in_lock);
    /* A captured one only says where the stream belongs: the list of launches is in order. */
    return found && found->capture ? cudaSuccess : stand_in_launch(stream, &node);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    struct stand_in_node node = {.kind = STAND_IN_WAIT, .event = event};
    (void)flags;
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaStream_t found = stand_in_find(stream);
    struct stand_in_capture *capture = event->capture;
    node.turn = event->recorded;
    cudaError_t code = !found ? cudaErrorInvalidResourceHandle : cudaSuccess;
    if (found && found->capture != capture && (found->capture || !capture))
        code = found->capture ? cudaErrorStreamCaptureIsolation : code;
    else if (found)
        found->capture = capture;
    (void)pthread_mutex_unlock(&stand_in_lock);
    return code == cudaSuccess && !capture ? stand_in_launch(stream, &node) : stand_in_note(code);
}

/* ---- the device, errors ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    (void)pthread_mutex_lock(&stand_in_lock);
    while (unfinished != 0)
        (void)pthread_cond_wait(&stand_in_changed, &stand_in_lock);
    cudaError_t code = lost;
    (void)pthread_mutex_unlock(&stand_in_lock);
    return stand_in_note(code);
}

cudaError_t cudaDeviceReset(void)
{
    (void)pthread_mutex_lock(&stand_in_lock);
    lost = last = cudaSuccess;
    (void)pthread_mutex_unlock(&stand_in_lock);
    return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void)
{
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaError_t code = lost != cudaSuccess ? lost : last;
    (void)pthread_mutex_unlock(&stand_in_lock);
    return code;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t code = cudaPeekAtLastError();
    last = cudaSuccess;
    return code;
}

const char *cudaGetErrorString(cudaError_t error)
{
    static const struct {
        cudaError_t error;
        const char *words;
    } all[] = {
        {cudaSuccess, "no error"},
        {cudaErrorInvalidValue, "invalid argument"},
        {cudaErrorMemoryAllocation, "out of memory"},
        {cudaErrorInvalidResourceHandle, "invalid resource handle"},
        {cudaErrorIllegalState, "the operation cannot be performed in the present state"},
        {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
        {cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
        {cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"},
        {cudaErrorStreamCaptureUnmatched, "the capture was not initiated in this stream"},
        {cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].error == error)
            return all[i].words;
    return "unrecognized error code";
}
