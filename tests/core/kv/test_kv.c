/* SPDX-License-Identifier: Apache-2.0 */
/* test_kv.c - declarations, the bound on memory, rows in all forms and layouts, nodes, wrong calls. */
#define _GNU_SOURCE
#include "core/context/context.h"
#include "core/kv/cache.h"
#include "tests/core/kv/kv_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct kt_error error;

static struct kt_kv_field rows_field(uint32_t layout, uint32_t dtype, uint32_t heads, uint32_t width)
{
    return (struct kt_kv_field){.kind = KT_KV_ROWS,
                                .layout = layout,
                                .dtype = dtype,
                                .heads = heads,
                                .width = width,
                                .stride = 1};
}

/* ---- sizes ---- */

/* Qwen3-30B-A3B has 98304 bytes a token in bf16, 52224 in q8_0. */
START_TEST(bytes_of_a_token)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_field fields[2] = {rows_field(KT_KV_KEY, KT_DTYPE_BF16, 4, 128),
                                    rows_field(KT_KV_VALUE, KT_DTYPE_BF16, 4, 128)};
    struct kt_kv_layer layers[48];
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    struct kt_kv_info info;
    for (int i = 0; i < 48; i++)
        layers[i] = (struct kt_kv_layer){fields, 2, 0};
    params.layers = layers;
    params.n_layers = 48;
    params.tokens = 100;
    ck_ok(kt_kv_plan(context, &params, &info, &ck_error));
    ck_assert_uint_eq(info.token_bytes, 98304);
    ck_assert_uint_eq(info.n_pages, 2);
    ck_assert_uint_eq(info.free_pages, 2);
    ck_assert_uint_eq(info.max_tokens, 128);
    ck_assert_uint_eq(info.max_sequences, 64);
    ck_assert_uint_eq(info.n_sequences, 0);
    fields[0].dtype = fields[1].dtype = KT_DTYPE_Q8_0;
    ck_ok(kt_kv_plan(context, &params, &info, &ck_error));
    ck_assert_uint_eq(info.token_bytes, 52224);
    kt_context_destroy(context);
}
END_TEST

/* The bound holds, and one more page would break it. */
START_TEST(the_bound_is_kept)
{
    struct kt_context *context = kv_context(_i);
    for (uint64_t bytes = 100000; bytes < UINT64_C(1) << 40; bytes = bytes * 5 / 3 + 4096) {
        struct kt_kv_params params = kv_mixed(bytes % 2), more;
        struct kt_kv_info info, larger;
        params.max_sequences = 1 + (uint32_t)(bytes % 97);
        params.max_tokens = bytes % 3 ? 0 : 5000;
        params.bytes = bytes;
        enum kt_status status = kt_kv_plan(context, &params, &info, &error);
        more = params;
        more.bytes = 0;
        if (status == KT_OK) {
            ck_assert_uint_le(info.bytes, bytes);
            ck_assert_uint_le(info.page_bytes * info.n_pages + info.state_bytes * info.max_sequences +
                                  info.table_bytes,
                              info.bytes);
            more.tokens = ((uint64_t)info.n_pages + 1) * 64;
        } else {
            ck_says(status, &error, KT_E_INVALID, "bytes are too few for a cache");
            more.tokens = 1;
        }
        ck_ok(kt_kv_plan(context, &more, &larger, &ck_error));
        ck_assert_uint_gt(larger.bytes, bytes);
    }
    kt_context_destroy(context);
}
END_TEST

START_TEST(wrong_declarations)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_params params = KT_KV_PARAMS_INIT, empty = params;
    struct kt_kv *kv = NULL;
    struct kt_kv_field good = rows_field(KT_KV_KEY, KT_DTYPE_BF16, 1, 8), field = good;
    struct kt_kv_layer layer = {&field, 1, 0};
    params.layers = &layer;
    params.n_layers = 1;
    params.tokens = 64;
#define REFUSE(change, status, text)                                                \
    do {                                                                            \
        change;                                                                     \
        ck_says(kt_kv_create(context, &params, &kv, &error), &error, status, text); \
        field = good;                                                               \
        layer = (struct kt_kv_layer){&field, 1, 0};                                 \
    } while (0)
    ck_says(kt_kv_create(NULL, &params, &kv, &error), &error, KT_E_INVALID, "context and kv");
    ck_says(kt_kv_create(context, NULL, &kv, &error), &error, KT_E_INVALID, "KT_KV_PARAMS_INIT");
    ck_says(kt_kv_create(context, &empty, &kv, &error), &error, KT_E_INVALID, "layers must not be NULL");
    ck_says(kt_kv_plan(context, &params, NULL, &error), &error, KT_E_INVALID, "info");
    REFUSE(field.kind = 2, KT_E_INVALID, "layer 0, field 0: kind 2");
    REFUSE(field.layout = 3, KT_E_INVALID, "layout 3");
    REFUSE(field.heads = 0, KT_E_INVALID, "a number of heads of 0 is not 1 to 65536");
    REFUSE(field.width = 65537, KT_E_INVALID, "a width of 65537 is not 1 to 65536");
    REFUSE(field.stride = 3, KT_E_INVALID, "a stride of 3 is not a divisor of 64");
    REFUSE(field.stride = 96, KT_E_INVALID, "a stride of 96");
    REFUSE(field.stride = 65600, KT_E_INVALID, "a stride of 65600");
    REFUSE(field.reserved[1] = 9, KT_E_INVALID, "reserved 9 is not 0");
    REFUSE(field.dtype = KT_DTYPE_Q4_0, KT_E_UNSUPPORTED, "rows are kept as f32, bf16 or q8_0, not as q4_0");
    REFUSE((field.kind = KT_KV_STATE, field.dtype = KT_DTYPE_Q8_0), KT_E_UNSUPPORTED,
           "states are kept as f32, f16 or bf16, not as q8_0");
    REFUSE(field.kind = KT_KV_STATE, KT_E_INVALID, "none of the 1 layers keeps rows");
    REFUSE(layer.n_fields = 0, KT_E_INVALID, "none of the 1 layers keeps rows");
    REFUSE(layer.fields = NULL, KT_E_INVALID, "layer 0: fields is NULL");
    REFUSE(params.bytes = 1 << 20, KT_E_INVALID, "bytes is 1048576 and tokens 64: one of them");
    REFUSE(params.bytes = params.tokens = 0, KT_E_INVALID, "bytes is 0 and tokens 0: one of them");
    REFUSE(params.bytes = 1000, KT_E_INVALID, "1000 bytes are too few");
    params.bytes = 0;
    REFUSE(params.tokens = UINT64_MAX, KT_E_NOMEM, "larger than an address space");
    REFUSE(params.tokens = UINT64_C(1) << 50, KT_E_NOMEM, "larger than an address space");
    REFUSE((params.tokens = UINT64_C(1) << 37, params.max_sequences = 1), KT_E_NOMEM, "can be allocated now");
    params.tokens = 64;
    REFUSE(params.max_sequences = 2000000, KT_E_INVALID, "2000000 sequences are more than 2^20");
    params.max_sequences = 0;
    REFUSE(params.model = "a\nb", KT_E_INVALID, "the model's name has 3 bytes");
    ck_assert_ptr_null(kv);
    kt_kv_destroy(NULL);
    kt_kv_sequence_close(NULL);
    kt_context_destroy(context);
}
END_TEST

/* ---- rows ---- */

/* All fields, appended in pieces of changing length, on one node and on two. */
START_TEST(rows_in_all_forms)
{
    struct kt_context *context = kv_context(_i);
    struct kt_kv_params params = kv_mixed(false);
    struct kt_kv *kv = NULL;
    struct kt_kv_sequence *sequence = NULL;
    uint64_t tags[300], position = 0;
    params.tokens = 320;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    ck_ok(kt_kv_sequence_open(kv, &sequence, &ck_error));
    for (uint64_t i = 0; i < 300; i++)
        tags[i] = i + 1;
    for (uint64_t n = 1; position < 300; n = n * 2 % 61) {
        n = n < 300 - position ? n : 300 - position;
        ck_ok(kt_kv_sequence_reserve(sequence, position, n, &ck_error));
        for (uint32_t l = 0; l < params.n_layers; l++)
            for (uint32_t f = 0; f < params.layers[l].n_fields; f++) {
                uint64_t stride = params.layers[l].fields[f].stride;
                stride = stride ? stride : 1;
                for (uint64_t row = position / stride; row < (position + n) / stride; row++)
                    ck_ok(
                        kv_write(sequence, &params, l, f, row, 1, &tags[(row + 1) * stride - 1], &ck_error));
            }
        ck_ok(kt_kv_sequence_commit(sequence, n, &ck_error));
        position += n;
        ck_text(kv_check(kv, sequence, &params, tags, position));
    }
    kt_kv_destroy(kv); /* the sequence keeps it */
    ck_text(kv_check(kv, sequence, &params, tags, position));
    kt_kv_sequence_close(sequence);
    kt_context_destroy(context);
}
END_TEST

/* BF16 and F16 rows, strides of all kinds, a range of heads. */
START_TEST(rows_with_strides)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_field field = rows_field(KT_KV_VALUE, KT_DTYPE_F32, 5, 3);
    struct kt_kv_layer layer = {&field, 1, 0};
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    struct kt_kv *kv = NULL;
    struct kt_kv_sequence *sequence = NULL;
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    params.layers = &layer;
    params.n_layers = 1;
    params.tokens = 64;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    ck_ok(kt_kv_sequence_open(kv, &sequence, &ck_error));
    ck_ok(kt_kv_sequence_reserve(sequence, 0, 10, &ck_error));
    /* Rows 3, 4 of heads 1, 2, laid out heads first and rows backwards; 1, 2, ... in bf16 and in f16. */
    const uint16_t bf16[2][2][3] = {{{0x40e0, 0x4100, 0x4110}, {0x3f80, 0x4000, 0x4040}},
                                    {{0x4120, 0x4130, 0x4140}, {0x4080, 0x40a0, 0x40c0}}};
    const uint16_t f16[1][2][3] = {{{0x3c00, 0x4000, 0x4200}, {0x4400, 0x4500, 0x4600}}};
    rows.head = 1;
    rows.n_heads = 2;
    rows.row = 3;
    rows.n_rows = 2;
    rows.dtype = KT_DTYPE_BF16;
    rows.row_stride = -(int64_t)sizeof bf16[0][0];
    rows.head_stride = sizeof bf16[0];
    ck_ok(kt_kv_sequence_write(sequence, &rows, bf16[0][1], &ck_error));
    rows.dtype = KT_DTYPE_F16;
    rows.row = 7;
    rows.n_rows = 1;
    rows.row_stride = rows.head_stride = 0;
    ck_ok(kt_kv_sequence_write(sequence, &rows, f16, &ck_error));
    float out[10][5][3];
    rows = (struct kt_kv_rows)KT_KV_ROWS_INIT;
    rows.n_heads = 5;
    rows.n_rows = 10;
    rows.dtype = KT_DTYPE_F32;
    ck_ok(kt_kv_sequence_read(sequence, &rows, out, &ck_error));
    for (int t = 0; t < 10; t++)
        for (int h = 0; h < 5; h++)
            for (int i = 0; i < 3; i++) {
                int expected = h < 1 || h > 2 ? 0
                               : t == 3       ? 3 * (h - 1)
                               : t == 4       ? 6 + 3 * (h - 1)
                               : t == 7       ? 3 * (h - 1)
                                              : -1;
                expected = h < 1 || h > 2 || expected < 0 ? 0 : expected + i + 1;
                ck_assert_float_eq(out[t][h][i], (float)expected);
            }
    rows.dtype = KT_DTYPE_BF16;
    ck_says(kt_kv_sequence_read(sequence, &rows, out, &error), &error, KT_E_UNSUPPORTED,
            "read as f32, not as bf16");
    rows.dtype = KT_DTYPE_I8;
    ck_says(kt_kv_sequence_write(sequence, &rows, out, &error), &error, KT_E_UNSUPPORTED, "dtype i8");
    rows.dtype = KT_DTYPE_F32;
    rows.row_stride = 61;
    ck_says(kt_kv_sequence_read(sequence, &rows, out, &error), &error, KT_E_INVALID, "not whole numbers");
    rows.row_stride = 0;
    ck_says(kt_kv_sequence_write(sequence, &rows, NULL, &error), &error, KT_E_INVALID,
            "data must not be NULL");
    ck_says(kt_kv_sequence_write(NULL, &rows, out, &error), &error, KT_E_INVALID, "sequence or rows is NULL");
    rows.n_rows = 0;
    ck_ok(kt_kv_sequence_write(sequence, &rows, NULL, &ck_error));
    kt_kv_sequence_close(sequence);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

/* What q8_0 makes of one row of 32 numbers, the first of which is given. */
static void quantize(struct kt_kv_sequence *sequence, float first, float second, float *out)
{
    float row[64];
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    rows.n_rows = rows.n_heads = 1;
    rows.dtype = KT_DTYPE_F32;
    for (int i = 0; i < 64; i++)
        row[i] = i == 0 ? first : i == 1 ? second : i < 32 ? 0 : (float)i;
    ck_ok(kt_kv_sequence_write(sequence, &rows, row, &ck_error));
    ck_ok(kt_kv_sequence_read(sequence, &rows, out, &ck_error));
}

START_TEST(limits_of_q8_0)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_field field = rows_field(KT_KV_KEY, KT_DTYPE_Q8_0, 1, 64);
    struct kt_kv_layer layer = {&field, 1, 0};
    struct kt_kv_params params = KT_KV_PARAMS_INIT;
    struct kt_kv *kv = NULL;
    struct kt_kv_sequence *sequence = NULL;
    float out[64], expected[64];
    params.layers = &layer;
    params.n_layers = 1;
    params.tokens = 64;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    ck_ok(kt_kv_sequence_open(kv, &sequence, &ck_error));
    ck_ok(kt_kv_sequence_reserve(sequence, 0, 1, &ck_error));
    /* Every magnitude, subnormal scales included; the largest is never beyond 127 steps. */
    for (float m = 8319008.0f; m > 1e-40f; m *= 0.83f)
        for (int k = 0; k < 8; k++) {
            float second = m * ((float)k / 8 - 0.37f);
            quantize(sequence, m, second, out);
            double bound = (double)m / 254 * (1 + 0x1p-9) + 0x1p-25;
            ck_assert_double_le(fabs((double)out[0] - (double)m), bound);
            ck_assert_double_le(fabs((double)out[1] - (double)second), bound);
        }
    /* Codes times a float16 come back as they are. */
    quantize(sequence, -127 * 0.0625f, 3 * 0.0625f, out);
    ck_assert(out[0] == -127 * 0.0625f && out[1] == 3 * 0.0625f && out[2] == 0);
    memcpy(expected, out, sizeof out);
    const float bad[] = {NAN, INFINITY, -INFINITY, 8319009.0f, 3e38f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        quantize(sequence, 1, bad[i], out);
        for (int k = 0; k < 32; k++)
            ck_assert_msg(isnan(out[k]), "%g: number %d is %g", (double)bad[i], k, (double)out[k]);
        ck_assert_mem_eq(out + 32, expected + 32, sizeof(float) * 32);
    }
    quantize(sequence, 0, 0, out);
    ck_assert(out[0] == 0 && out[31] == 0);
    kt_kv_sequence_close(sequence);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

/* ---- positions ---- */

START_TEST(positions_out_of_order)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_params params = kv_mixed(false);
    struct kt_kv *kv = NULL;
    struct kt_kv_sequence *sequence = NULL;
    uint64_t tag = 7;
    params.tokens = 256;
    params.max_tokens = 200;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    ck_ok(kt_kv_sequence_open(kv, &sequence, &ck_error));
    ck_says(kt_kv_sequence_reserve(sequence, 5, 1, &error), &error, KT_E_STATE,
            "position is 5, but must be 0");
    ck_says(kt_kv_sequence_reserve(sequence, 0, 201, &error), &error, KT_E_RANGE,
            "201 tokens at position 0: a sequence has at most 200");
    ck_says(kt_kv_sequence_reserve(sequence, 0, UINT64_MAX, &error), &error, KT_E_RANGE, "at most 200");
    ck_ok(kt_kv_sequence_reserve(sequence, 0, 10, &ck_error));
    ck_says(
        kv_write(sequence, &params, 0, 0, 10, 1, &tag, &error), &error, KT_E_STATE,
        "layer 0, field 0: 1 rows from row 10 on, expected from row 0 to below row 10: the sequence has 0 "
        "tokens, and 10 more are reserved");
    ck_ok(kv_write(sequence, &params, 0, 0, 9, 1, &tag, &ck_error));
    ck_says(kt_kv_sequence_commit(sequence, 11, &error), &error, KT_E_STATE,
            "11 tokens are to be committed at position 0, and 10 are reserved");
    ck_ok(kt_kv_sequence_commit(sequence, 6, &ck_error));
    ck_says(kv_write(sequence, &params, 0, 0, 5, 1, &tag, &error), &error, KT_E_STATE,
            "1 rows from row 5 on, expected from row 6 to below row 10");
    /* One row for four tokens: row 1 ends with token 7, row 2 with token 11. */
    ck_ok(kv_write(sequence, &params, 1, 2, 1, 1, &tag, &ck_error));
    ck_says(kv_write(sequence, &params, 1, 2, 2, 1, &tag, &error), &error, KT_E_STATE,
            "expected from row 1 to below row 2");
    ck_says(kv_write(sequence, &params, 1, 2, UINT64_MAX, 1, &tag, &error), &error, KT_E_STATE,
            "1 rows from row");
    struct kt_kv_rows rows = KT_KV_ROWS_INIT;
    struct kt_kv_place place;
    float row[64];
    void *state;
    rows.dtype = KT_DTYPE_F32;
    rows.n_heads = 5;
    ck_says(kt_kv_sequence_read(sequence, &rows, row, &error), &error, KT_E_RANGE,
            "5 heads from head 0 on: there are 4");
    rows.field = 2;
    ck_says(kt_kv_sequence_read(sequence, &rows, row, &error), &error, KT_E_RANGE,
            "layer 0, field 2: the layer has 2");
    ck_says(kt_kv_place(kv, 9, 0, 0, &place, &error), &error, KT_E_RANGE, "layer 9: the cache has 5");
    ck_says(kt_kv_place(kv, 0, 0, 4, &place, &error), &error, KT_E_RANGE, "1 heads from head 4 on");
    ck_says(kt_kv_sequence_state(sequence, 0, 0, 0, &state, &error), &error, KT_E_INVALID,
            "has rows, not a state");
    ck_says(kt_kv_sequence_truncate(sequence, 7, &error), &error, KT_E_RANGE,
            "the first 7 tokens: the sequence has 6");
    kt_kv_sequence_close(sequence);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

/* ---- nodes ---- */

START_TEST(heads_on_their_nodes)
{
    struct kt_context *context = kv_context(2);
    struct kt_kv_params params = kv_mixed(true);
    struct kt_kv *kv = NULL;
    struct kt_kv_info info;
    params.tokens = 128;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    kt_kv_info(kv, &info);
    ck_assert_uint_eq(info.n_nodes, 2);
    uint64_t sum = 0;
    for (uint32_t l = 0; l < params.n_layers; l++)
        for (uint32_t f = 0; f < params.layers[l].n_fields; f++) {
            const struct kt_kv_field *field = &params.layers[l].fields[f];
            uint32_t before = 0, on_first = 0;
            for (uint32_t h = 0; h < field->heads && field->kind == KT_KV_ROWS; h++) {
                struct kt_kv_place place;
                ck_ok(kt_kv_place(kv, l, f, h, &place, &ck_error));
                ck_assert_uint_eq((uintptr_t)place.base % 64, 0);
                ck_assert_uint_eq(place.page_stride % 64, 0);
                if (field->heads == 1)
                    ck_assert_uint_eq(place.node, l % 2);
                else
                    ck_assert_uint_ge(place.node, before);
                before = place.node;
                on_first += place.node == 0;
                sum += place.size;
            }
            if (field->heads > 1 && field->kind == KT_KV_ROWS)
                ck_assert_uint_eq(on_first, field->heads / 2);
        }
    ck_assert_uint_eq(sum, info.page_bytes);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

/* On this machine's nodes all memory exists, each part on its node. False: the kernel does not say. */
static bool check_buffer(const struct kt_buffer *buffer, const struct kt_topology *topology, uint32_t node)
{
    uint64_t n = buffer->size / 4096, wrong = 0;
    void **page = calloc((size_t)n + 1, sizeof *page);
    int *status = calloc((size_t)n + 1, sizeof *status);
    for (uint64_t i = 0; i < n; i++)
        page[i] = (char *)buffer->data + i * 4096;
    long failure = syscall(SYS_move_pages, 0, n, page, NULL, status, 0);
    int why = errno;
    for (uint64_t i = 0; i < n; i++)
        wrong += status[i] < 0 || (topology->binds_memory && status[i] != (int)topology->node[node].os_index);
    free(page);
    free(status);
    if (failure) {
        printf("SKIP: where pages lie: %s\n", strerror(why));
        return false;
    }
    ck_assert_msg(wrong == 0, "%llu of %llu pages are not on node %u", (unsigned long long)wrong,
                  (unsigned long long)n, node);
    return true;
}

START_TEST(all_memory_is_touched)
{
    struct kt_context *context = kv_context(0);
    struct kt_kv_params params = kv_mixed(true);
    struct kt_kv *kv = NULL;
    struct kt_kv_info info;
    params.bytes = 20 << 20;
    ck_ok(kt_kv_create(context, &params, &kv, &ck_error));
    kt_kv_info(kv, &info);
    const char *wanted = getenv("KT_TEST_NODES");
    ck_assert_uint_ge(info.n_nodes, wanted ? (uint32_t)atoi(wanted) : 1);
    uint64_t sum = kv->tables.size;
    bool known = atomic_load(&context->topology->membind_failures) == 0;
    for (uint32_t node = 0; node < info.n_nodes; node++) {
        sum += kv->pages[node].size + kv->states[node].size;
        known = known && check_buffer(&kv->pages[node], context->topology, node) &&
                check_buffer(&kv->states[node], context->topology, node);
    }
    ck_assert_uint_eq(sum, info.bytes);
    kt_kv_destroy(kv);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("kv");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_test(tests, bytes_of_a_token);
    tcase_add_loop_test(tests, the_bound_is_kept, 0, 3);
    tcase_add_test(tests, wrong_declarations);
    tcase_add_loop_test(tests, rows_in_all_forms, 0, 3);
    tcase_add_test(tests, rows_with_strides);
    tcase_add_test(tests, limits_of_q8_0);
    tcase_add_test(tests, positions_out_of_order);
    tcase_add_test(tests, heads_on_their_nodes);
    tcase_add_test(tests, all_memory_is_touched);
    return run_tests("kv", tests);
}
