/* SPDX-License-Identifier: Apache-2.0 */
/* world.h - a tiny model of a family, opened, and what make_expected.py recorded of it. */
#ifndef KT_TESTS_ENGINE_FAMILIES_WORLD_H
#define KT_TESTS_ENGINE_FAMILIES_WORLD_H

#include "tests/engine/families/family.h"

#include <kt/engine.h>

/* So many logits of a deliberate error tell it apart, and keep the tarball small. */
enum { ERROR_LOGITS = 64 };

/* What the file has of long runs: a number for their ids, rows, and those that were chosen behind a prompt.
 */
enum { LONG_ROWS = 3, GREEDY = 40, WITHOUT = 8, LONG_RECORDED = 1 + LONG_ROWS * RECORDED + 1 + GREEDY };

enum file { SAFETENSORS, GGUF, GGUF_F32, N_FILES, FP8 = N_FILES, FP8_DECODED, QUANTS, QUANTS_DECODED };

/* Of a difference this large, what was recorded shows at least half, but once in 900 tokens (README). */
#define SHOWN 0.5
/* float32 through four layers; make_expected.py asks for errors 20 times as far. */
#define TOLERANCE 1e-4

struct world {
    struct family family;
    struct kt_context *context;
    struct kt_checkpoint *checkpoint;
    struct kt_model *model;
    struct kt_session *session;
    float *expected; /* rows of `keep`, one of ERROR_LOGITS at the last of them, those of errors, long runs */
    int32_t *ids;
};

/* Adds tables of tests/data/families, by a pattern; how many there are now. */
int world_find_tables(const char *which);
/* That of table `number`, with a backend; false: it was not built. */
bool world_open(struct world *w, int number, const char *backend);
bool world_open_with(struct world *w, int number, const char *backend, const char *threads,
                     bool is_deterministic);
void world_close(struct world *w);

/* Writes the model into the sandbox; its path. */
const char *world_write(const struct family *family, enum file file);
/* Writes and opens it, with a session; cache: of keys and values. */
void world_open_model(struct world *w, enum file file, uint32_t cache);
void world_close_model(struct world *w);

/* The last of `keep`; of errors only that token is recorded, and of the truth once more their logits. */
const float *world_last(const struct world *w);
const float *world_error(const struct world *w, int error);
const float *world_long(const struct world *w);

/* Relative to `wanted`. */
double world_difference(const float *got, const float *wanted, size_t n);
/* Tokens from `first` on go in steps of `size` tokens; their logits to their rows. */
void world_step(struct world *w, float *logits, uint32_t first, uint32_t end, uint32_t size);

#endif
