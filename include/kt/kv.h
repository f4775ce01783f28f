/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/kv.h - the cache of a model's past tokens, per layer: keys and values of attention, latents, keys of an
 * indexer, compressed entries, recurrent states. kt/kt.h includes it.
 *
 *     kt_kv_create()              the fields of each layer, and one bound on memory
 *     kt_kv_sequence_open()       an empty sequence of tokens
 *     kt_kv_sequence_reserve()    space for the next tokens
 *     kt_kv_sequence_write()      writes their rows, from any number of threads
 *     kt_kv_sequence_commit()     appends them to the sequence
 *     kt_kv_sequence_fork()       another sequence with the same prefix: pages are shared
 *
 * Pages. Memory is managed in pages of KT_KV_PAGE tokens; a page has the rows of all layers for these tokens.
 * Forked sequences share pages, which are reference-counted; a shared page is copied before it is written.
 * All memory is allocated and touched by kt_kv_create, on the NUMA nodes of its heads, and nothing is
 * allocated later.
 *
 * Threads. Different sequences may be managed from different threads at once, one sequence by one thread at a
 * time. kt_kv_sequence_write, kt_kv_sequence_read, kt_kv_sequence_state and kt_kv_place may be called for one
 * sequence from many threads at once while no thread manages it, if no two write the same row of a head; they
 * take no lock, and may run during a fork. Managing (open, close, reserve, commit, truncate, fork, export,
 * import) may use the threads of the context, and so must not be called by a function that runs on them
 * (kt_context_run, kt_context_run_threads).
 *
 * If a call fails, the sequence is unchanged, unless the function says otherwise.
 */
#ifndef KT_KV_H
#define KT_KV_H

#include <kt/types.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_context;
struct kt_kv;
struct kt_kv_sequence;

/* ---- the fields of a layer -------------------------------------------------------------------- */

enum {
    KT_KV_PAGE = 64,  /**< tokens per page */
    KT_KV_BLOCK = 16, /**< rows per block of keys */
    KT_KV_GROUP = 32  /**< elements of a row that share a scale in Q8_0 */
};

enum kt_kv_kind {
    KT_KV_ROWS = 0, /**< `heads` rows of `width` elements for every `stride` tokens */
    KT_KV_STATE = 1 /**< `heads` x `width` elements for the whole sequence, replaced at each step */
};

/**
 * Layouts of the rows of one head in a page; kernels need no transpose. A page has R = KT_KV_PAGE / stride
 * rows of a head, at least 1. t: a row of the page, i: an element of the row, w: the width, P: elements in 4
 * bytes (F32 1, BF16 2, Q8_0 4). The position of the element, in elements:
 *
 *   KEY    ((t / 16 * ceil(w / P) + i / P) * 16 + t % 16) * P + i % P
 *          blocks of 16 rows, [ceil(w / P)][16 rows][P]: dot products with queries. One vector per step
 *          gives 16 scores, and a block is a B tile of AMX.
 *   VALUE  (t / P * w + i) * P + t % P
 *          [ceil(R / P)][w][P]: sums of rows with weights. A vector has neighboring columns, and 16 times P
 *          rows are a B tile.
 *   PLAIN  t * w + i
 *
 * Q8_0 is int8 with a float16 scale per KT_KV_GROUP elements of a row, G = ceil(w / 32). The scales follow
 * the elements of all rows at the next multiple of 64 bytes (struct kt_kv_place.scales). The position of
 * scale g of row t, in scales:
 *
 *   KEY    (t / 16 * G + g) * 16 + t % 16         [blocks][G][16 rows]
 *   VALUE  g * P * ceil(R / P) + t                [G][rows]
 *   PLAIN  t * G + g                              [R][G]
 *
 * Rows without a token, and the padding of rows and blocks, are zero bytes: kernels may read whole blocks.
 */
enum kt_kv_layout { KT_KV_KEY = 0, KT_KV_VALUE = 1, KT_KV_PLAIN = 2 };

/**
 * A field of a layer. Examples: grouped-query attention has two fields of n_kv heads, KEY and VALUE;
 * multi-head latent attention one of 1 head, 512 + 64 wide; an indexer's keys 1 head of 128; entries that
 * compress 4 tokens have stride 4; the state of Gated DeltaNet is a STATE with a head for each value head,
 * and that of its convolution is another one; a ring of the last 128 rows is a STATE, too.
 */
struct kt_kv_field {
    uint32_t kind;   /**< enum kt_kv_kind */
    uint32_t layout; /**< ROWS: enum kt_kv_layout */
    uint32_t dtype;  /**< ROWS: KT_DTYPE_BF16, KT_DTYPE_Q8_0 or KT_DTYPE_F32; STATE: F32, F16 or BF16 */
    uint32_t heads;  /**< rows per token, 1 .. 65536 */
    uint32_t width;  /**< elements of a row, 1 .. 65536; STATE: elements of a head, 1 .. 2^28 */
    uint32_t stride; /**< ROWS: tokens of a row, a divisor of KT_KV_PAGE or a multiple up to 65536; 0: 1 */
    uint32_t reserved[2];
};

struct kt_kv_layer {
    const struct kt_kv_field *fields;
    uint32_t n_fields; /**< 0: the layer has no cache */
    uint32_t reserved;
};

struct kt_kv_params {
    size_t struct_size;
    const struct kt_kv_layer *layers; /**< [n_layers]; copied */
    uint32_t n_layers;                /**< 1 .. 65536 */
    uint32_t max_sequences;           /**< open at once, forks included; each has its own states; 0: 64 */
    uint64_t max_tokens;              /**< of one sequence; 0: as many as fit into the pages */
    uint64_t bytes;                   /**< bound of pages, page tables and states together; or 0 */
    uint64_t tokens;   /**< instead of bytes: number of tokens of all sequences together; or 0 */
    const char *model; /**< identifies the model, such as kt_checkpoint_fingerprint, at most 255 bytes:
                          kt_kv_import rejects files of another one. NULL: "". Copied. */
};
#define KT_KV_PARAMS_INIT KT_INIT(kt_kv_params)

struct kt_kv_info {
    uint64_t bytes;       /**< total of the following; up to a page less than the bound */
    uint64_t page_bytes;  /**< of a page, on all nodes together */
    uint64_t token_bytes; /**< page_bytes / KT_KV_PAGE */
    uint64_t state_bytes; /**< of the states of one sequence; max_sequences of them are allocated */
    uint64_t table_bytes; /**< page tables and the counts of pages */
    uint64_t max_tokens;  /**< of a sequence */
    uint32_t n_pages;     /**< used_pages + free_pages */
    uint32_t used_pages;
    uint32_t shared_pages; /**< used by more than one sequence */
    uint32_t free_pages;
    uint32_t max_sequences;
    uint32_t n_sequences; /**< open now */
    uint32_t n_nodes;
    uint32_t reserved;
    char fingerprint[24]; /**< XXH3 of model and declaration, 16 hex digits: caches with the same fingerprint
                             can exchange sequences */
};

/** What kt_kv_create would allocate, without allocating it. */
enum kt_status kt_kv_plan(struct kt_context *context, const struct kt_kv_params *params,
                          struct kt_kv_info *info, struct kt_error *error);

/**
 * Allocates the cache. The heads of a field are split over the context's NUMA nodes in contiguous ranges of
 * equal size; with fewer heads than nodes, head h of layer l is on node (h + l) modulo the number of nodes.
 * KT_E_NOMEM: the message has the required memory and the free memory of the machine or the process's control
 * group. Keeps the context alive.
 */
enum kt_status kt_kv_create(struct kt_context *context, const struct kt_kv_params *params, struct kt_kv **kv,
                            struct kt_error *error);
/** The memory is freed with the last sequence. `kv` may be NULL. */
void kt_kv_destroy(struct kt_kv *kv);

/** The sizes, and the number of pages in use. Any thread. */
void kt_kv_info(const struct kt_kv *kv, struct kt_kv_info *info);

/* ---- sequences -------------------------------------------------------------------------------- */

/** An empty sequence, its states zero. KT_E_NOMEM: max_sequences are open. */
enum kt_status kt_kv_sequence_open(struct kt_kv *kv, struct kt_kv_sequence **sequence,
                                   struct kt_error *error);
/** Frees its pages, except those shared with others. `sequence` may be NULL. */
void kt_kv_sequence_close(struct kt_kv_sequence *sequence);

struct kt_kv_sequence_info {
    uint64_t tokens; /**< committed */
    uint64_t room;   /**< reserved tokens after them */
    const uint32_t
        *pages; /**< [n_pages] the page table: page i has the tokens from i * KT_KV_PAGE. The address
                   is valid until the sequence is closed, the contents until it is managed again. */
    uint32_t n_pages;
    uint32_t shared_pages;
};
void kt_kv_sequence_info(const struct kt_kv_sequence *sequence, struct kt_kv_sequence_info *info);

/**
 * Reserves space for tokens position .. position + n_tokens - 1, whose rows are then zero; `position` must be
 * the number of committed tokens, else KT_E_STATE. Space that is already reserved is used; it never becomes
 * smaller. KT_E_NOMEM: too few pages are free; KT_E_RANGE: the sequence would exceed max_tokens; both
 * messages have the required and the available number.
 */
enum kt_status kt_kv_sequence_reserve(struct kt_kv_sequence *sequence, uint64_t position, uint64_t n_tokens,
                                      struct kt_error *error);

/** Appends the next n_tokens reserved tokens to the sequence: their rows no longer change. Rows that were not
 * written are zero. KT_E_STATE: fewer are reserved. */
enum kt_status kt_kv_sequence_commit(struct kt_kv_sequence *sequence, uint64_t n_tokens,
                                     struct kt_error *error);

/**
 * Keeps the first n_tokens tokens and drops the others and all reserved space, whose rows become zero. The
 * page in which the sequence then ends is copied if it is shared (KT_E_NOMEM if no page is free). A sequence
 * with states can only keep all of its tokens, with unchanged states, or none, with zeroed states; else
 * KT_E_UNSUPPORTED: fork it at positions to which you may want to return.
 */
enum kt_status kt_kv_sequence_truncate(struct kt_kv_sequence *sequence, uint64_t n_tokens,
                                       struct kt_error *error);

/**
 * Opens a sequence with the first n_tokens tokens of `sequence`. Pages are shared. If the last page is not
 * full, it is copied by the first of the two sequences that reserves tokens, or immediately if it has later
 * or reserved tokens (KT_E_NOMEM if no page is free). States are copied; a sequence with states can be forked
 * with all of its tokens or none. A fork can serve as a snapshot.
 */
enum kt_status kt_kv_sequence_fork(struct kt_kv_sequence *sequence, uint64_t n_tokens,
                                   struct kt_kv_sequence **fork, struct kt_error *error);

/* ---- rows and states -------------------------------------------------------------------------- */

/** Rows row .. row + n_rows - 1 of heads head .. head + n_heads - 1 of a field. Row r belongs to tokens
 * r * stride .. (r + 1) * stride - 1. */
struct kt_kv_rows {
    size_t struct_size;
    uint32_t layer;
    uint32_t field; /**< its index in the layer */
    uint32_t head;
    uint32_t n_heads;
    uint64_t row;
    uint64_t n_rows;
    uint32_t dtype; /**< of the caller's data: KT_DTYPE_F32, for writing also BF16 and F16 */
    uint32_t reserved;
    int64_t row_stride;  /**< bytes from a row to the next; 0: n_heads * head_stride */
    int64_t head_stride; /**< bytes from a head to the next; 0: width elements */
};
#define KT_KV_ROWS_INIT KT_INIT(kt_kv_rows)

/**
 * Writes rows of reserved tokens, in any order and any number of times. For rows at other positions it fails
 * with KT_E_STATE, the message has the valid positions, and nothing is written. A row of several tokens can
 * be written when the last of them is reserved. Threads: see above.
 *
 * F32 is exact. BF16 rounds to nearest, ties to even. Q8_0: with m the largest magnitude of a group, the
 * scale is m / 127, rounded up to a float16, and the error of an element is at most m / 254 * (1 + 2^-9) +
 * 2^-25. A group with a NaN, an infinity or m > 8319008 becomes NaN; other groups are not affected.
 */
enum kt_status kt_kv_sequence_write(struct kt_kv_sequence *sequence, const struct kt_kv_rows *rows,
                                    const void *data, struct kt_error *error);

/** Reads rows of committed or reserved tokens as float32. */
enum kt_status kt_kv_sequence_read(const struct kt_kv_sequence *sequence, const struct kt_kv_rows *rows,
                                   void *data, struct kt_error *error);

/** The `width` elements of a head of a STATE, aligned to 64 bytes. The caller may change them at any time;
 * the address is valid until the sequence is closed. */
enum kt_status kt_kv_sequence_state(const struct kt_kv_sequence *sequence, uint32_t layer, uint32_t field,
                                    uint32_t head, void **state, struct kt_error *error);

/**
 * Location of the rows of a head, the same for all sequences and for the lifetime of the cache. Row r is row
 * r % page_rows of page p = (r / page_rows + 1) * page_step - 1 of its sequence, whose data begins at
 *     (char *)base + pages[p] * page_stride
 * with the page table of struct kt_kv_sequence_info. Kernels may read rows there, and write those of reserved
 * tokens like kt_kv_sequence_write.
 */
struct kt_kv_place {
    void *base;           /**< aligned to 64 bytes */
    uint64_t page_stride; /**< bytes, a multiple of 64 */
    uint64_t scales;      /**< Q8_0: bytes from the head's data to its scales; 0: none */
    uint64_t size;        /**< bytes of the head in a page, a multiple of 64 */
    uint32_t page_rows;
    uint32_t page_step; /**< 1, or the number of pages that share one row */
    uint32_t node;      /**< index of kt_context_node */
    uint32_t reserved;
    struct kt_kv_field field; /**< as declared, stride at least 1 */
};
enum kt_status kt_kv_place(const struct kt_kv *kv, uint32_t layer, uint32_t field, uint32_t head,
                           struct kt_kv_place *place, struct kt_error *error);

/* ---- files ------------------------------------------------------------------------------------ */

/**
 * Writes the committed tokens and the states to a file, which appears only when it is complete, with
 * checksums. `note` is note_size bytes of the caller's data, such as token ids. The file does not depend on
 * the number of NUMA nodes.
 */
enum kt_status kt_kv_sequence_export(struct kt_kv_sequence *sequence, const char *path, const void *note,
                                     uint64_t note_size, struct kt_error *error);

/**
 * Opens a sequence with the contents of such a file. *note_size is the capacity of `note`, which may be NULL
 * for 0, and is set to the size of the note. If the note is larger, the call fails with KT_E_RANGE, and also
 * sets *note_size. Both may be NULL to skip the note. KT_E_UNSUPPORTED: the file is of another model or
 * declaration, and the message has the difference; KT_E_FORMAT: it is damaged, and the message has the byte;
 * KT_E_NOMEM: too few pages are free. An untrusted file is safe to import; it only determines the data of
 * this sequence.
 */
enum kt_status kt_kv_import(struct kt_kv *kv, const char *path, void *note, uint64_t *note_size,
                            struct kt_kv_sequence **sequence, struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
