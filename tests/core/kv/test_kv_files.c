/* SPDX-License-Identifier: Apache-2.0 */
/* test_kv_files.c - sequences in files: to other nodes and back, of other models, damaged at every byte. */
#include "core/kv/sequence_file.h"
#include "tests/core/kv/kv_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/session_seal.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct kt_error error;
static uint64_t tags[400];

/* ---- caches ---- */

static struct kt_kv *make(struct kt_context *context, const struct kt_kv_params *params)
{
    struct kt_kv *kv = NULL;
    ck_ok(kt_kv_create(context, params, &kv, &ck_error));
    return kv;
}

/* A sequence of n tokens, with something in each state. */
static struct kt_kv_sequence *fill(struct kt_kv *kv, const struct kt_kv_params *params, uint64_t n)
{
    struct kt_kv_sequence *sequence = NULL;
    void *state;
    ck_ok(kt_kv_sequence_open(kv, &sequence, &ck_error));
    ck_ok(kt_kv_sequence_reserve(sequence, 0, n, &ck_error));
    for (uint64_t i = 0; i < n; i++)
        tags[i] = i + 1;
    for (uint32_t l = 0; l < params->n_layers; l++)
        for (uint32_t f = 0; f < params->layers[l].n_fields; f++) {
            const struct kt_kv_field *field = &params->layers[l].fields[f];
            uint64_t stride = field->stride ? field->stride : 1;
            for (uint64_t row = 0; field->kind == KT_KV_ROWS && row < n / stride; row++)
                ck_ok(kv_write(sequence, params, l, f, row, 1, &tags[(row + 1) * stride - 1], &ck_error));
            for (uint32_t h = 0; field->kind == KT_KV_STATE && h < field->heads; h++) {
                ck_ok(kt_kv_sequence_state(sequence, l, f, h, &state, &ck_error));
                memset(state, (int)(1 + h), 50);
            }
        }
    ck_ok(kt_kv_sequence_commit(sequence, n, &ck_error));
    return sequence;
}

static void check_states(struct kt_kv_sequence *sequence, const struct kt_kv_params *params)
{
    unsigned char *state;
    for (uint32_t l = 0; l < params->n_layers; l++)
        for (uint32_t f = 0; f < params->layers[l].n_fields; f++) {
            const struct kt_kv_field *field = &params->layers[l].fields[f];
            for (uint32_t h = 0; field->kind == KT_KV_STATE && h < field->heads; h++) {
                ck_ok(kt_kv_sequence_state(sequence, l, f, h, (void **)&state, &ck_error));
                ck_assert(state[0] == 1 + h && state[49] == 1 + h && state[50] == 0);
            }
        }
}

static const char *file_path(const char *name)
{
    return sandbox_path(name);
}

static unsigned char *slurp(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *data = malloc(*size + 1);
    ck_assert_uint_eq(fread(data, 1, *size, file), *size);
    (void)fclose(file);
    return data;
}

static void spill(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

/* ---- there and back ---- */

/* From _i nodes to the others: the file is the same byte for byte. */
START_TEST(there_and_back)
{
    static const uint64_t lengths[] = {0, 1, 64, 130, 257};
    struct kt_context *context[3];
    struct kt_kv_params params = kv_mixed(_i);
    size_t size[2];
    char note[100], path[256];
    params.tokens = 6 * 64;
    for (int n = 0; n < 3; n++)
        context[n] = kv_context(n);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        uint64_t n = lengths[i], note_size = n ? sizeof note : 0;
        unsigned char *first = NULL;
        for (size_t k = 0; k < sizeof note; k++)
            note[k] = (char)(k + i);
        (void)snprintf(path, sizeof path, "%s", file_path("sequence"));
        for (int from = 0; from < 3; from++) {
            struct kt_kv *kv = make(context[from], &params), *other = make(context[(from + 1) % 3], &params);
            struct kt_kv_sequence *sequence = fill(kv, &params, n), *copy = NULL;
            ck_ok(kt_kv_sequence_export(sequence, path, note, note_size, &ck_error));
            kt_kv_sequence_close(sequence);
            char found[200] = "";
            uint64_t room = sizeof found;
            ck_ok(kt_kv_import(other, path, found, &room, &copy, &ck_error));
            ck_assert_uint_eq(room, note_size);
            ck_assert_mem_eq(found, note, (size_t)note_size);
            ck_text(kv_check(other, copy, &params, tags, n));
            check_states(copy, &params);
            kt_kv_sequence_close(copy);
            ck_ok(kt_kv_import(kv, path, NULL, NULL, &copy, &ck_error));
            ck_text(kv_check(kv, copy, &params, tags, n));
            unsigned char *data = slurp(path, &size[from > 0]);
            if (first) {
                ck_assert_uint_eq(size[0], size[1]);
                ck_assert_mem_eq(first, data, size[0]);
                free(data);
            } else {
                first = data;
            }
            kt_kv_sequence_close(copy);
            kt_kv_destroy(kv);
            kt_kv_destroy(other);
        }
        free(first);
    }
    for (int n = 0; n < 3; n++)
        kt_context_destroy(context[n]);
}
END_TEST

START_TEST(wrong_calls)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_params params = kv_mixed(true);
    params.tokens = 3 * 64;
    struct kt_kv *kv = make(context, &params);
    struct kt_kv_sequence *sequence = fill(kv, &params, 100), *copy = NULL;
    const char *path = file_path("sequence");
    char note[10] = "123456789";
    uint64_t room = 0;
    ck_says(kt_kv_sequence_export(sequence, NULL, NULL, 0, &error), &error, KT_E_INVALID,
            "kt_kv_sequence_export");
    ck_says(kt_kv_sequence_export(sequence, path, NULL, 1, &error), &error, KT_E_INVALID,
            "kt_kv_sequence_export");
    ck_says(kt_kv_sequence_export(sequence, file_path("no/such"), NULL, 0, &error), &error, KT_E_IO,
            "no/such");
    ck_ok(kt_kv_sequence_reserve(sequence, 100, 4, &ck_error));
    ck_says(kt_kv_sequence_export(sequence, path, NULL, 0, &error), &error, KT_E_STATE,
            "4 tokens are reserved at position 100");
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_ok(kt_kv_sequence_truncate(sequence, 100, &ck_error));
    ck_ok(kt_kv_sequence_export(sequence, path, note, 10, &ck_error));
    ck_says(kt_kv_import(kv, path, NULL, &room, &copy, &error), &error, KT_E_RANGE,
            "its note has 10 bytes, and there is room for 0");
    ck_assert_uint_eq(room, 10);
    ck_says(kt_kv_import(kv, path, NULL, &room, &copy, &error), &error, KT_E_INVALID, "a note has a size");
    ck_says(kt_kv_import(kv, NULL, NULL, NULL, &copy, &error), &error, KT_E_INVALID, "must not be NULL");
    ck_says(kt_kv_import(kv, file_path("nothing"), NULL, NULL, &copy, &error), &error, KT_E_IO, "nothing");
    ck_says(kt_kv_import(kv, path, NULL, NULL, &copy, &error), &error, KT_E_NOMEM,
            "2 pages of 64 tokens are wanted, and 1 of 3 are free");
    struct kt_kv_info info;
    kt_kv_info(kv, &info);
    ck_assert_uint_eq(info.n_sequences, 1);
    ck_assert_uint_eq(info.free_pages, 1);
    ck_text(kv_check(kv, sequence, &params, tags, 100));
    kt_kv_sequence_close(sequence);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

/* ---- other declarations ---- */

static struct kt_kv_field fields[2];
static struct kt_kv_layer layers[3];

static struct kt_kv_params small(void)
{
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    for (int i = 0; i < 2; i++)
        fields[i] = (struct kt_kv_field){.layout = (uint32_t)i,
                                         .dtype = KT_DTYPE_BF16,
                                         .heads = 2,
                                         .width = 3,
                                         .stride = 1};
    for (int i = 0; i < 3; i++)
        layers[i] = (struct kt_kv_layer){fields, 2, 0};
    params.layers = layers;
    params.n_layers = 2;
    params.tokens = 128;
    params.max_sequences = 2;
    params.model = "a";
    return params;
}

START_TEST(another_model)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_params params = small();
    struct kt_kv *kv = make(context, &params);
    struct kt_kv_sequence *sequence = fill(kv, &params, 10), *copy = NULL;
    struct kt_kv_info mine, theirs;
    const char *path = file_path("sequence");
    ck_ok(kt_kv_sequence_export(sequence, path, NULL, 0, &ck_error));
    kt_kv_info(kv, &mine);
    ck_assert_uint_eq(strlen(mine.fingerprint), 16);
#define REFUSE(change, text)                                                                    \
    do {                                                                                        \
        change;                                                                                 \
        struct kt_kv *other = make(context, &params);                                           \
        kt_kv_info(other, &theirs);                                                             \
        ck_assert_str_ne(mine.fingerprint, theirs.fingerprint);                                 \
        ck_says(kt_kv_import(other, path, NULL, NULL, &copy, &error), &error, KT_E_UNSUPPORTED, \
                "a page map of another model");                                                 \
        ck_assert_msg(strstr(error.message, text), "%s", error.message);                        \
        kt_kv_destroy(other);                                                                   \
        params = small();                                                                       \
    } while (0)
    REFUSE(params.model = "b", "it was made with model \"a\", this cache with \"b\"");
    REFUSE(params.model = NULL, "this cache with \"\"");
    REFUSE(params.n_layers = 3, "the file has 2 layers, this cache 3");
    REFUSE(layers[1].n_fields = 1, "layer 1 keeps 2 fields in the file and 1 in this cache");
    REFUSE(layers[0].n_fields = 0, "layer 0 keeps 2 fields in the file and 0 in this cache");
    REFUSE(fields[1].heads = 1,
           "layer 0, field 1 is 2 heads of 3 bf16, as values in the file and 1 head of 3 bf16, "
           "as values in this cache");
    REFUSE(fields[0].dtype = KT_DTYPE_Q8_0,
           "layer 0, field 0 is 2 heads of 3 bf16, as keys in the file and 2 heads "
           "of 3 q8_0, as keys in this cache");
    REFUSE(fields[0].stride = 4, "2 heads of 3 bf16 for 4 tokens, as keys in this cache");
    REFUSE((fields[1].kind = KT_KV_STATE), "a state of 2 heads of 3 bf16 in this cache");
    REFUSE(fields[0].layout = KT_KV_PLAIN, "as plain rows in this cache");
    kt_kv_sequence_close(sequence);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

/* ---- damage ---- */

/* No call succeeds, or leaves anything behind. */
static void refuse(struct kt_kv *kv, const char *path, const char *what, size_t at)
{
    struct kt_kv_sequence *copy = NULL;
    struct kt_kv_info info;
    char note[8];
    uint64_t room = sizeof note;
    enum kt_status status = kt_kv_import(kv, path, note, &room, &copy, &error);
    ck_assert_msg(status == KT_E_FORMAT || status == KT_E_UNSUPPORTED, "%s at %zu: %s: %s", what, at,
                  kt_status_name(status), error.message);
    ck_assert_msg(strstr(error.message, at ? "byte " : "") || strstr(error.message, "another model"), "%s",
                  error.message);
    ck_assert_ptr_null(copy);
    kt_kv_info(kv, &info);
    ck_assert_uint_eq(info.free_pages, info.n_pages);
    ck_assert_uint_eq(info.n_sequences, 0);
}

START_TEST(damaged_everywhere)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_params params = small();
    const struct kt_kv_field one[2] =
        {{.layout = KT_KV_VALUE, .dtype = KT_DTYPE_Q8_0, .heads = 1, .width = 3},
         {.kind = KT_KV_STATE, .dtype = KT_DTYPE_F32, .heads = 1, .width = 100}};
    const struct kt_kv_layer layer = {one, 2, 0};
    size_t size;
    params.layers = &layer;
    params.n_layers = 1;
    struct kt_kv *kv = make(context, &params);
    struct kt_kv_sequence *sequence = fill(kv, &params, 65);
    const char *path = file_path("sequence");
    ck_ok(kt_kv_sequence_export(sequence, path, "note", 4, &ck_error));
    kt_kv_sequence_close(sequence);
    unsigned char *data = slurp(path, &size);
    ck_assert_uint_lt(size, 4000);
    for (size_t at = 0; at < size; at++) {
        spill(path, data, at);
        refuse(kv, path, "truncated", at);
        data[at] ^= (unsigned char)(1 << at % 8);
        spill(path, data, size);
        refuse(kv, path, "a bit", at);
        data[at] ^= (unsigned char)(1 << at % 8);
    }
    data[size] = 0;
    spill(path, data, size + 1);
    refuse(kv, path, "a byte more", size);
    /* Pages in another order. */
    size_t page = (size - 8 - 448 - (sizeof(struct kt_kv_header) + 4 * 14 + 1 + 4 + 8)) / 2;
    unsigned char *first = data + sizeof(struct kt_kv_header) + 4 * 14 + 1 + 4 + 8, swapped[1000];
    ck_assert_uint_lt(page, sizeof swapped);
    memcpy(swapped, first, page);
    memmove(first, first + page, page);
    memcpy(first + page, swapped, page);
    spill(path, data, size);
    refuse(kv, path, "pages swapped", 0);
    ck_assert_msg(strstr(error.message, "page 0"), "%s", error.message);
    free(data);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

/* ---- files that somebody made ---- */

START_TEST(made_up)
{
    static const struct {
        size_t at, size;
        uint64_t value;
        const char *text;
    } cases[] = {
        {offsetof(struct kt_kv_header, version), 4, 2, "byte 8: version 2"},
        {offsetof(struct kt_kv_header, page_tokens), 4, 32, "byte 12: pages of 32 tokens"},
        {offsetof(struct kt_kv_header, tokens), 8, 200, "the file ends, by its header it has"},
        {offsetof(struct kt_kv_header, tokens), 8, UINT64_MAX, "the file ends, by its header it has"},
        {offsetof(struct kt_kv_header, page_bytes), 8, UINT64_MAX - 20,
         "the file ends, by its header it has"},
        {offsetof(struct kt_kv_header, state_bytes), 8, UINT64_MAX, "the file ends, by its header it has"},
        {offsetof(struct kt_kv_header, declaration_size), 8, UINT64_MAX,
         "the file ends, by its header it has"},
        {offsetof(struct kt_kv_header, note_size), 8, UINT64_C(1) << 63,
         "the file ends, by its header it has"},
        {offsetof(struct kt_kv_header, fingerprint), 8, 5, "sizes or fingerprint are not those"},
        /* The first u32 of the declaration, then a field's. */
        {sizeof(struct kt_kv_header), 4, 0xffffffff, "the file has 4294967295 layers, this cache 2"},
        {sizeof(struct kt_kv_header) + 4, 4, 0xffffffff, "layer 0 keeps 4294967295 fields in the file"},
        {sizeof(struct kt_kv_header) + 12, 4, 77, "2 heads of 3 bf16, as ? in the file"},
        {sizeof(struct kt_kv_header) + 16, 4, 9999, "2 heads of 3 ?, as keys in the file"},
    };
    struct kt_context *context = kv_context(0);
    struct kt_kv_params params = small();
    struct kt_kv *kv = make(context, &params);
    struct kt_kv_sequence *sequence = fill(kv, &params, 65);
    const char *path = file_path("sequence");
    size_t size;
    ck_ok(kt_kv_sequence_export(sequence, path, "note", 4, &ck_error));
    kt_kv_sequence_close(sequence);
    unsigned char *good = slurp(path, &size), *data = malloc(size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(data, good, size);
        memcpy(data + cases[i].at, &cases[i].value, cases[i].size);
        session_seal(data, size);
        spill(path, data, size);
        refuse(kv, path, "made up", cases[i].at);
        ck_assert_msg(strstr(error.message, cases[i].text), "%zu: %s", i, error.message);
    }
    /* Sizes that add up: 255 bytes of note become the model's name, or 4 of the note the declaration's. */
    struct kt_kv_header header;
    memcpy(data, good, size);
    memcpy(&header, data, sizeof header);
    header.declaration_size += header.note_size;
    header.note_size = 0;
    memcpy(data, &header, sizeof header);
    session_seal(data, size);
    spill(path, data, size);
    refuse(kv, path, "a longer declaration", 0);
    memcpy(&header, good, sizeof header);
    header.declaration_size -= 2;
    header.model_size += 2;
    memcpy(data, &header, sizeof header);
    session_seal(data, size);
    spill(path, data, size);
    refuse(kv, path, "half a word", 0);
    memcpy(&header, good, sizeof header);
    header.declaration_size -= 40;
    header.model_size += 40;
    memcpy(data, &header, sizeof header);
    session_seal(data, size);
    spill(path, data, size);
    refuse(kv, path, "a shorter declaration", 0);
    free(data);
    free(good);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

/* Rows behind the last token that a file brings along do not reach a page. */
START_TEST(rows_behind_the_end)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_params params = small();
    struct kt_kv *kv = make(context, &params);
    struct kt_kv_sequence *sequence = fill(kv, &params, 65), *copy = NULL;
    const char *path = file_path("sequence");
    size_t size;
    ck_ok(kt_kv_sequence_export(sequence, path, NULL, 0, &ck_error));
    kt_kv_sequence_close(sequence);
    unsigned char *data = slurp(path, &size);
    struct kt_kv_header header;
    memcpy(&header, data, sizeof header);
    /* The second page; its first head has keys of 3 numbers, 4 blocks of [2][16][2]: row 1 on. */
    unsigned char *page = data + size - header.page_bytes - 8;
    memset(page + 4, 0xff, 60);
    memset(page + 68, 0xff, 56);
    page[70] = page[71] = 0; /* the padding of an odd width is checked by nobody */
    for (int t = 1; t < 16; t++)
        page[64 + 4 * t + 2] = page[64 + 4 * t + 3] = 0;
    session_seal(data, size);
    spill(path, data, size);
    free(data);
    ck_ok(kt_kv_import(kv, path, NULL, NULL, &copy, &ck_error));
    ck_text(kv_check(kv, copy, &params, tags, 65));
    kt_kv_sequence_close(copy);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("files");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, there_and_back, 0, 2);
    tcase_add_test(tests, wrong_calls);
    tcase_add_test(tests, another_model);
    tcase_add_test(tests, damaged_everywhere);
    tcase_add_test(tests, made_up);
    tcase_add_test(tests, rows_behind_the_end);
    return run_tests("kv files", tests);
}
