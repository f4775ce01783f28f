/* SPDX-License-Identifier: Apache-2.0 */
/* fake_stream.c - a GPU runtime without a GPU, with the ABI of libcudart: a stream is a thread that calls
 * functions in order, and a captured graph is a list of them. Memory for hosts is ordinary. */
#include <pthread.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_HANDLE = 400, ILLEGAL_STATE = 401 };
enum { PLACES = 64 };

struct node {
    void (*function)(void *);
    void *argument;
};

struct graph {
    struct node *node;
    unsigned n;
};

struct stream {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct node node[PLACES];
    unsigned launched, finished; /* modulo PLACES: where */
    int stop;
    struct graph *capturing; /* or NULL */
};

int cudaStreamCreate(struct stream **out);
int cudaStreamDestroy(struct stream *stream);
int cudaStreamSynchronize(struct stream *stream);
int cudaLaunchHostFunc(struct stream *stream, void (*function)(void *), void *argument);
int cudaStreamBeginCapture(struct stream *stream, int mode);
int cudaStreamEndCapture(struct stream *stream, struct graph **out);
int cudaGraphInstantiate(struct graph **out, const struct graph *graph, unsigned long long flags);
int cudaGraphLaunch(const struct graph *graph, struct stream *stream);
int cudaGraphDestroy(struct graph *graph);
int cudaGraphExecDestroy(struct graph *graph);
int cudaHostAlloc(void **out, size_t size, unsigned flags);
int cudaFreeHost(void *memory);
const char *cudaGetErrorString(int code);

static void *serve(void *argument)
{
    struct stream *stream = argument;
    (void)pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (stream->finished == stream->launched && !stream->stop)
            (void)pthread_cond_wait(&stream->changed, &stream->lock);
        if (stream->finished == stream->launched)
            break;
        struct node node = stream->node[stream->finished % PLACES];
        (void)pthread_mutex_unlock(&stream->lock);
        node.function(node.argument);
        (void)pthread_mutex_lock(&stream->lock);
        stream->finished++;
        (void)pthread_cond_broadcast(&stream->changed);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return NULL;
}

int cudaStreamCreate(struct stream **out)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return OUT_OF_MEMORY;
    (void)pthread_mutex_init(&stream->lock, NULL);
    (void)pthread_cond_init(&stream->changed, NULL);
    if (pthread_create(&stream->thread, NULL, serve, stream) != 0) {
        free(stream);
        return OUT_OF_MEMORY;
    }
    *out = stream;
    return SUCCESS;
}

/* What has been launched is done first. */
int cudaStreamDestroy(struct stream *stream)
{
    if (!stream)
        return INVALID_HANDLE;
    (void)pthread_mutex_lock(&stream->lock);
    stream->stop = 1;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
    (void)pthread_join(stream->thread, NULL);
    (void)pthread_cond_destroy(&stream->changed);
    (void)pthread_mutex_destroy(&stream->lock);
    free(stream);
    return SUCCESS;
}

int cudaStreamSynchronize(struct stream *stream)
{
    if (!stream)
        return INVALID_HANDLE;
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->finished != stream->launched)
        (void)pthread_cond_wait(&stream->changed, &stream->lock);
    (void)pthread_mutex_unlock(&stream->lock);
    return SUCCESS;
}

static int append(struct graph *graph, struct node node)
{
    struct node *all = realloc(graph->node, (graph->n + 1) * sizeof *all);
    if (!all)
        return OUT_OF_MEMORY;
    graph->node = all;
    graph->node[graph->n++] = node;
    return SUCCESS;
}

int cudaLaunchHostFunc(struct stream *stream, void (*function)(void *), void *argument)
{
    struct node node = {function, argument};
    int code = SUCCESS;
    if (!stream)
        return INVALID_HANDLE;
    (void)pthread_mutex_lock(&stream->lock);
    if (stream->capturing) {
        code = append(stream->capturing, node);
    } else {
        while (stream->launched - stream->finished == PLACES)
            (void)pthread_cond_wait(&stream->changed, &stream->lock);
        stream->node[stream->launched++ % PLACES] = node;
        (void)pthread_cond_broadcast(&stream->changed);
    }
    (void)pthread_mutex_unlock(&stream->lock);
    return code;
}

int cudaStreamBeginCapture(struct stream *stream, int mode)
{
    (void)mode;
    if (!stream || stream->capturing)
        return ILLEGAL_STATE;
    stream->capturing = calloc(1, sizeof *stream->capturing);
    return stream->capturing ? SUCCESS : OUT_OF_MEMORY;
}

int cudaStreamEndCapture(struct stream *stream, struct graph **out)
{
    if (!stream || !stream->capturing)
        return ILLEGAL_STATE;
    *out = stream->capturing;
    stream->capturing = NULL;
    return SUCCESS;
}

/* An executable graph is a copy: the captured one may be destroyed. */
int cudaGraphInstantiate(struct graph **out, const struct graph *graph, unsigned long long flags)
{
    if (!graph || flags)
        return INVALID_VALUE;
    struct graph *copy = calloc(1, sizeof *copy);
    int code = copy ? SUCCESS : OUT_OF_MEMORY;
    for (unsigned i = 0; i < graph->n && code == SUCCESS; i++)
        code = append(copy, graph->node[i]);
    if (code == SUCCESS)
        *out = copy;
    else
        (void)cudaGraphDestroy(copy);
    return code;
}

int cudaGraphLaunch(const struct graph *graph, struct stream *stream)
{
    int code = graph ? SUCCESS : INVALID_VALUE;
    for (unsigned i = 0; code == SUCCESS && i < graph->n; i++)
        code = cudaLaunchHostFunc(stream, graph->node[i].function, graph->node[i].argument);
    return code;
}

int cudaGraphDestroy(struct graph *graph)
{
    if (graph)
        free(graph->node);
    free(graph);
    return SUCCESS;
}

int cudaGraphExecDestroy(struct graph *graph)
{
    return cudaGraphDestroy(graph);
}

/* Memory of which a terabyte cannot be pinned: a sanitizer's malloc ends the program when asked for too much.
 */
int cudaHostAlloc(void **out, size_t size, unsigned flags)
{
    (void)flags;
    *out = size >> 40 ? NULL : malloc(size);
    return *out ? SUCCESS : OUT_OF_MEMORY;
}

int cudaFreeHost(void *memory)
{
    free(memory);
    return SUCCESS;
}

const char *cudaGetErrorString(int code)
{
    return code == INVALID_HANDLE ? "invalid resource handle" : "unrecognized error code";
}
