/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_build.h - makes GGUF files, right and wrong ones, byte by byte. */
#ifndef KT_TESTS_SUPPORT_GGUF_BUILD_H
#define KT_TESTS_SUPPORT_GGUF_BUILD_H

#include <kt/kt.h>
#include <stdlib.h>

struct bytes {
    uint8_t data[1 << 17];
    size_t size;
};

void put_u8(struct bytes *bytes, uint8_t value);
void put_u32(struct bytes *bytes, uint32_t value);
void put_u64(struct bytes *bytes, uint64_t value);
/* The low `size` bytes of a value. */
void put_number(struct bytes *bytes, uint64_t value, size_t size);
void put_raw(struct bytes *bytes, const void *data, size_t size);
void put_string(struct bytes *bytes, const char *text);
void put_zeros(struct bytes *bytes, size_t count);
/* Zeros up to a multiple of `alignment`. */
void put_padding(struct bytes *bytes, size_t alignment);

void put_header(struct bytes *bytes, uint32_t version, uint64_t n_tensors, uint64_t n_keys);
/* A key with a number of the GGUF type `type`. */
void put_key(struct bytes *bytes, const char *name, uint32_t type, uint64_t value);
void put_key_string(struct bytes *bytes, const char *name, const char *value);
/* dims as GGUF has them: fastest first */
void put_tensor(struct bytes *bytes, const char *name, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                uint64_t offset);

/* A small model that is right, and what may be changed in it. */
struct model {
    const char *architecture;
    uint32_t version;
    uint32_t alignment;                                    /* 0: no such key */
    uint64_t layers, experts, top_k, hidden, intermediate; /* metadata, u32; UINT64_MAX: no such key */
    uint64_t e, h, i;                                      /* of the tensors */
    uint64_t layer[2];                                     /* numbers of the two layers with experts */
    int fused;                                             /* gate and up are one tensor */
    uint32_t bias_type;                                    /* ggml type of the biases */
    int has_bias, has_scale;
    int no_gate;
    const char *left_out;  /* this tensor does not exist */
    const char *reshaped;  /* this tensor's slowest dimension is one more */
    const char *extra_key; /* an f32 of that name, 7 */
    uint32_t extra_count;  /* not 0: instead, an array of that many, the last one 7, the others 0 */
    const char *stray;     /* a tensor of that name with 8 numbers, F32 */
    int has_types;         /* types below hold; the data is small numbers of either sign */
    uint32_t types[2][3];  /* ggml type of gate (or both), up, down in each of the two layers */
};

#define MODEL_INIT                                                                                       \
    {                                                                                                    \
        .architecture = "testmoe", .version = 3, .alignment = 32, .layers = 4, .experts = 2, .top_k = 1, \
        .hidden = 32, .intermediate = 32, .e = 2, .h = 32, .i = 32,                                      \
        .layer =                                                                                         \
        { 0,                                                                                             \
          3 }                                                                                            \
    }

/* Gate is Q8_0, up is Q4_0 (a fused one Q8_0), down is F16; types may be F32, F16, BF16, Q4_0, Q8_0 and
 * MXFP4. The data is not zeros. Returns the
 * header's size. */
size_t build_model(struct bytes *bytes, const struct model *model);

/* A file of a split model: tensors begin to end - 1 of the model, and what its keys say. */
struct part {
    unsigned begin, end;
    uint64_t no, count, tensors; /* count UINT64_MAX: no key split.* */
    uint32_t key_type;           /* of split.no and split.count; 0: u16 */
    int has_model_keys;
    const char *architecture; /* NULL: no such key but the model's */
};

size_t build_part(struct bytes *bytes, const struct model *model, const struct part *part);

/* A malformed file, or a right one of its kind: make() builds it with the three numbers. */
struct malformed {
    const char *name;
    void (*make)(uint64_t a, uint64_t b, uint64_t c);
    uint64_t a, b, c;
    enum kt_status status;
    const char *fragment;
};

extern const struct malformed malformed_gguf[], right_gguf[];
extern const size_t n_malformed_gguf, n_right_gguf;
const struct bytes *make_file(const struct malformed *description);

/* Writes a file of its own to the folder for temporary files and gives its path, to be freed. */
char *write_file(const void *data, size_t size);

/* Opens the bytes as a file, which is gone when it returns. */
enum kt_status open_bytes(const void *data, size_t size, enum kt_io io, struct kt_checkpoint **checkpoint,
                          struct kt_error *error);

/* A path of the folder of test data, to be freed. */
char *data_path(const char *name);

#endif
