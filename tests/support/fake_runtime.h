/* SPDX-License-Identifier: Apache-2.0 */
/* fake_runtime.h - tests/plugins/fake_stream.c, found as an engine finds libcudart. */
#ifndef KT_TESTS_SUPPORT_FAKE_RUNTIME_H
#define KT_TESTS_SUPPORT_FAKE_RUNTIME_H

#include <stddef.h>

/* Functions return 0, or the runtime's number of an error. */
struct fake_runtime {
    void *library;
    int (*stream_create)(void **stream);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*launch)(void *stream, void (*function)(void *), void *argument);
    int (*begin_capture)(void *stream, int mode);
    int (*end_capture)(void *stream, void **graph);
    int (*graph_instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*graph_launch)(void *exec, void *stream);
    int (*graph_destroy)(void *graph);
    int (*exec_destroy)(void *exec);
    int (*host_alloc)(void **memory, size_t size, unsigned flags);
    int (*free_host)(void *memory);
};

/* The library's absolute path; the text lives until the next call. */
const char *fake_runtime_path(void);
void fake_runtime_open(struct fake_runtime *runtime);
void fake_runtime_close(struct fake_runtime *runtime);

/* Ends a capture and makes a graph that can be launched. */
void *fake_runtime_end_capture(const struct fake_runtime *runtime, void *stream);

#endif
