/* SPDX-License-Identifier: Apache-2.0 */
/* stand_in_memory.c - pinned and device memory of the stand-in, and copies between them. */
#include "tests/gpu/stand_in.h"

#include <stdlib.h>
#include <sys/mman.h>

/* An address of device memory is one that the CPU cannot use; its bytes lie elsewhere. */
struct block {
    struct block *next;
    char *address, *bytes;
    size_t size;
    bool is_device;
};
static struct block *blocks; /* under stand_in_lock */

static cudaError_t add(void **out, size_t size, bool is_device)
{
    struct block *block = calloc(1, sizeof *block);
    char *bytes = malloc(size ? size : 1), *address = bytes;
    if (block && bytes && is_device)
        address = mmap(NULL, size ? size : 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!block || !bytes || address == MAP_FAILED) {
        free(block);
        free(bytes);
        return cudaErrorMemoryAllocation;
    }
    *block = (struct block){blocks, address, bytes, size, is_device};
    (void)pthread_mutex_lock(&stand_in_lock);
    block->next = blocks;
    blocks = block;
    (void)pthread_mutex_unlock(&stand_in_lock);
    *out = address;
    return cudaSuccess;
}

/* A terabyte is never there: a sanitizer's malloc ends the program when it is asked for too much. */
static cudaError_t allocate(void **out, size_t size, bool is_device)
{
    *out = NULL;
    if (stand_in_is_forbidden())
        return stand_in_note(cudaErrorStreamCaptureUnsupported);
    (void)pthread_mutex_lock(&stand_in_lock);
    cudaError_t code = stand_in_lost();
    (void)pthread_mutex_unlock(&stand_in_lock);
    if (code == cudaSuccess)
        code = size >> 40 ? cudaErrorMemoryAllocation : add(out, size, is_device);
    return stand_in_note(code);
}

static cudaError_t release(const void *memory, bool is_device)
{
    if (!memory)
        return cudaSuccess;
    if (stand_in_is_forbidden())
        return stand_in_note(cudaErrorStreamCaptureUnsupported);
    (void)pthread_mutex_lock(&stand_in_lock);
    struct block **at = &blocks;
    while (*at && ((*at)->address != memory || (*at)->is_device != is_device))
        at = &(*at)->next;
    struct block *block = *at;
    cudaError_t code = stand_in_lost() != cudaSuccess ? stand_in_lost()
                       : !block                       ? cudaErrorInvalidValue
                                                      : cudaSuccess;
    if (code == cudaSuccess)
        *at = block->next;
    (void)pthread_mutex_unlock(&stand_in_lock);
    if (code != cudaSuccess)
        return stand_in_note(code);
    if (is_device)
        (void)munmap(block->address, block->size ? block->size : 1);
    free(block->bytes);
    free(block);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t size)
{
    return allocate(out, size, true);
}

cudaError_t cudaFree(void *memory)
{
    return release(memory, true);
}

cudaError_t cudaHostAlloc(void **out, size_t size, unsigned int flags)
{
    (void)flags;
    return allocate(out, size, false);
}

cudaError_t cudaFreeHost(void *memory)
{
    return release(memory, false);
}

/* Where the bytes of an address are; NULL: not in memory of that kind. */
static char *find(const void *address, size_t size, bool is_device)
{
    uintptr_t begin = (uintptr_t)address;
    char *found = NULL;
    (void)pthread_mutex_lock(&stand_in_lock);
    for (const struct block *at = blocks; at && !found; at = at->next) {
        uintptr_t offset = begin - (uintptr_t)at->address;
        if (at->is_device == is_device && offset <= at->size && size <= at->size - offset)
            found = at->bytes + offset;
    }
    (void)pthread_mutex_unlock(&stand_in_lock);
    return found;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    struct stand_in_node node = {.kind = STAND_IN_COPY, .size = size};
    node.to = find(to, size, kind != cudaMemcpyDeviceToHost);
    node.from = find(from, size, kind != cudaMemcpyHostToDevice);
    return node.to && node.from ? stand_in_launch(stream, &node) : stand_in_note(cudaErrorInvalidValue);
}
