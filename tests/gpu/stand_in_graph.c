/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in_graph.c - captures and graphs of the stand-in. */
#include "tests/gpu/stand_in.h"

#include <stdlib.h>

/* An executable graph is a copy of a captured one, which may be destroyed. */
struct CUgraph_st {
    struct stand_in_node *node;
    unsigned n;
};
struct CUgraphExec_st {
    struct CUgraph_st graph;
};

static struct stand_in_capture *captures;
static _Thread_local enum cudaStreamCaptureMode own_mode;

bool stand_in_is_forbidden(void)
{
    bool forbidden = false;
    (void)pthread_mutex_lock(&stand_in_lock);
    for (struct stand_in_capture *at = captures; at && own_mode != cudaStreamCaptureModeRelaxed;
         at = at->next) {
        bool own = pthread_equal(at->thread, pthread_self()) != 0;
        bool counts =
            own ? at->mode != cudaStreamCaptureModeRelaxed
                : at->mode == cudaStreamCaptureModeGlobal && own_mode == cudaStreamCaptureModeGlobal;
        at->is_invalid |= counts;
        forbidden |= counts;
    }
    (void)pthread_mutex_unlock(&stand_in_lock);
    return forbidden;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode before = own_mode;
    own_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

cudaError_t stand_in_capture(struct stand_in_capture *capture, const struct stand_in_node *node)
{
    if (capture->is_invalid)
        return cudaErrorStreamCaptureInvalidated;
    struct stand_in_node *all = realloc(capture->node, (capture->n + 1) * sizeof *all);
    if (!all)
        return cudaErrorMemoryAllocation;
    capture->node = all;
    capture->node[capture->n++] = *node;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    struct stand_in_capture *capture = calloc(1, sizeof *capture);
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaStream_t found = stream ? stand_in_find(stream) : NULL; /* the default one cannot be captured */
    cudaError_t code = stand_in_lost() != cudaSuccess ? stand_in_lost()
                       : !capture                     ? cudaErrorMemoryAllocation
                       : !stream                      ? cudaErrorStreamCaptureUnsupported
                       : !found                       ? cudaErrorInvalidResourceHandle
                       : found->capture               ? cudaErrorIllegalState
                                                      : cudaSuccess;
    if (code == cudaSuccess) {
        *capture = (struct stand_in_capture){captures, found, pthread_self(), mode, false, NULL, 0};
        captures = found->capture = capture;
    } else {
        free(capture);
    }
    (void)pthread_mutex_unlock(&stand_in_lock);
    return stand_in_note(code);
}

/* All streams that took part are free again. */
static void leave(struct stand_in_capture *capture)
{
    struct stand_in_capture **at = &captures;
    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    for (cudaStream_t stream = stand_in_streams; stream; stream = stream->next)
        if (stream->capture == capture)
            stream->capture = NULL;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaStream_t found = stand_in_find(stream);
    struct stand_in_capture *capture = found ? found->capture : NULL;
    cudaError_t code = !graph                      ? cudaErrorMemoryAllocation
                       : !capture                  ? cudaErrorIllegalState
                       : capture->origin != stream ? cudaErrorStreamCaptureUnmatched
                       : capture->is_invalid       ? cudaErrorStreamCaptureInvalidated
                                                   : cudaSuccess;
    *out = NULL;
    if (capture)
        leave(capture);
    if (code == cudaSuccess) {
        *graph = (struct CUgraph_st){capture->node, capture->n};
        *out = graph;
    } else {
        free(graph);
        if (capture)
            free(capture->node);
    }
    free(capture);
    (void)pthread_mutex_unlock(&stand_in_lock);
    return stand_in_note(code);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    if (!graph || flags)
        return stand_in_note(cudaErrorInvalidValue);
    struct CUgraphExec_st *exec = calloc(1, sizeof *exec);
    struct stand_in_node *node = calloc(graph->n + 1, sizeof *node);
    if (!exec || !node) {
        free(exec);
        free(node);
        return stand_in_note(cudaErrorMemoryAllocation);
    }
    for (unsigned i = 0; i < graph->n; i++)
        node[i] = graph->node[i];
    exec->graph = (struct CUgraph_st){node, graph->n};
    *out = exec;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t code = exec ? cudaSuccess : stand_in_note(cudaErrorInvalidValue);
    for (unsigned i = 0; code == cudaSuccess && i < exec->graph.n; i++)
        code = stand_in_launch(stream, &exec->graph.node[i]);
    return code;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    if (!graph)
        return stand_in_note(cudaErrorInvalidValue);
    free(graph->node);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    if (!exec)
        return stand_in_note(cudaErrorInvalidValue);
    free(exec->graph.node);
    free(exec);
    return cudaSuccess;
}
