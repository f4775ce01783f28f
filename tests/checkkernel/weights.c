/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - layout, pack, cut and weight_row of a case. */
#include "core/weights/decode/view.h"
#include "core/weights/decode/dequantize.h"
#include "tests/checkkernel/check.h"
#include "tests/checkkernel/host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What 256 weights of a format take packed, in bytes, where that is not what they take in the source:
 * points of grids become codes of 3 or 4 bits, a float16 d and scales in a byte each; base 3 takes 2 bits. */
static uint32_t count_packed(uint32_t dtype)
{
    switch (dtype) {
    case KT_DTYPE_IQ1_S:
    case KT_DTYPE_IQ2_XXS:
        return 256 * 3 / 8 + 2 + 8;
    case KT_DTYPE_IQ1_M:
    case KT_DTYPE_IQ2_XS:
    case KT_DTYPE_IQ2_S:
        return 256 * 3 / 8 + 2 + 16;
    case KT_DTYPE_IQ3_XXS:
    case KT_DTYPE_IQ3_S:
        return 256 * 4 / 8 + 2 + 8;
    case KT_DTYPE_TQ1_0:
        return 256 * 2 / 8 + 2;
    case KT_DTYPE_NVFP4: /* groups of 32 have scales of their own, of 2 bytes */
        return 256 * 4 / 8 + 16 * 2;
    case KT_DTYPE_Q2_0:
        return 256 * 2 / 8 + 8 * 2;
    default:
        return 0;
    }
}

/* The size of a stage's matrices in the form that their packed object should have. */
static uint64_t count_wanted(const struct kt_layout *layout, enum kt_stage stage)
{
    const struct kt_shape *shape = &layout->shape;
    uint64_t wanted = layout->nominal_size[stage], weights = shape->hidden_size * shape->intermediate_size;
    const int first = stage == KT_STAGE_DOWN ? KT_DOWN : (int)kt_activation_first(shape->activation);
    for (int p = first; p <= (stage == KT_STAGE_DOWN ? KT_DOWN : KT_UP); p++) {
        uint32_t elements, bytes, packed = count_packed(shape->format[p].dtype);
        kt_dtype_block(shape->format[p].dtype, &elements, &bytes);
        if (packed)
            wanted += weights / 256 * packed - weights / elements * bytes;
    }
    return wanted;
}

void check_layout(struct check *check)
{
    const struct kt_layout *layout = &check->layout;
    const struct kt_shape *shape = &layout->shape;
    if (check_linear(check) && (layout->panel_rows[0] || layout->weight_size[0] || layout->nominal_size[0] ||
                                layout->act_row_size[0] || layout->h_row_size))
        check_fail(check, "layout of a linear has a size of stage 0");
    for (int s = (int)check_first_stage(check); s <= KT_STAGE_DOWN; s++) {
        uint64_t wanted = count_wanted(layout, (enum kt_stage)s);
        if (layout->panel_rows[s] == 0 || layout->nominal_size[s] == 0 || layout->act_row_size[s] == 0)
            check_fail(check, "layout of stage %d has a size of 0", s);
        /* not where the format of a row is shorter than a few lines of the cache */
        bool whole = shape->intermediate_size % 512 == 0 && shape->hidden_size % 512 == 0;
        unsigned percent = 105;
        if (check->model->compact && check->model->compact(layout)) {
            wanted = layout->nominal_size[s];
            percent = 112;
        }
        if (whole && layout->weight_size[s] * 100 > wanted * percent)
            check_fail(check, "stage %d takes %llu bytes packed and should take %llu", s,
                       (unsigned long long)layout->weight_size[s], (unsigned long long)wanted);
    }
    if (layout->k_unit == 0 || (!check_linear(check) && layout->h_row_size == 0))
        check_fail(check, "layout has a size of 0");
}

/* One thing about gate and up, or down, that no such plugin can hold; false: there are no more. */
static bool spoil(unsigned kind, struct kt_shape *shape)
{
    struct kt_format *up = &shape->format[KT_UP], *format = kind % 2 ? &shape->format[KT_DOWN] : up;
    switch (kind / 2) {
    case 0:
        format->scale_dtype = KT_DTYPE_NONE;
        break;
    case 1:
        format->scale_dtype = KT_DTYPE_I8;
        break;
    case 2:
        format->zero_dtype = KT_DTYPE_BF16;
        break;
    case 3:
        format->dtype = KT_DTYPE_Q4_0;
        break;
    case 4:
        format->group_rows = 0;
        break;
    case 5:
        format->group_cols = 0;
        break;
    case 6:
        *(kind % 2 ? &shape->hidden_size : &shape->intermediate_size) = 0;
        return true;
    case 7:
        *(kind % 2 ? &shape->hidden_size : &shape->intermediate_size) = UINT64_MAX / 2;
        return true;
    case 8: /* a group that ends inside a tile, and another one after it */
        shape->hidden_size = shape->intermediate_size = 96;
        format->group_cols = kind % 2 ? 36 : 4;
        break;
    case 9: /* only gate and up must be alike */
        up->group_rows += kind % 2;
        up->group_cols += kind % 2 ? 0 : 32;
        return true;
    default:
        return false;
    }
    if (format == up && kt_activation_first(shape->activation) == KT_GATE)
        shape->format[KT_GATE] = *up;
    return true;
}

static bool is_refused(struct check *check, const struct kt_shape *shape, const char *reason)
{
    struct kt_layout layout = {.shape = *shape};
    struct kt_error error = {KT_OK, ""};
    return check->level->ops->layout(check->instance, &layout, &error) == KT_E_UNSUPPORTED &&
           strstr(error.message, reason);
}

/* Sizes of which no sum fits into 32 bits, and numbers that are no weights. */
static void check_limits(struct check *check)
{
    const uint64_t most = UINT64_C(1) << 17, sizes[] = {0, most + 1, UINT64_MAX};
    const bool linear = check_linear(check);
    for (unsigned i = 0; i < 6; i++) {
        struct kt_shape shape = check->layout.shape;
        *(i % 2 ? &shape.intermediate_size : &shape.hidden_size) = sizes[i / 2];
        struct kt_layout layout = {.shape = shape};
        if (linear && i == 2 && check->level->ops->layout(check->instance, &layout, NULL) != KT_OK)
            check_fail(check, "a linear of %llu rows is refused", (unsigned long long)sizes[1]);
        if (!(linear && i == 2) && !is_refused(check, &shape, "outside 1.."))
            check_fail(check, "size number %u of %llu is not refused", i % 2,
                       (unsigned long long)sizes[i / 2]);
    }
    struct kt_shape shape = check->layout.shape;
    shape.format[linear ? KT_DOWN : KT_UP].dtype = KT_DTYPE_I64;
    if (!is_refused(check, &shape, linear ? "matrix" : "up projection"))
        check_fail(check, "weights of i64 are not refused");
}

/* A view of another size is refused, and services that fail are errors. */
static void check_failures(struct check *check)
{
    struct kt_expert expert = check->source.expert;
    struct kt_error error = {KT_OK, ""};
    const uint64_t size = check->layout.weight_size[KT_STAGE_DOWN];
    uint8_t *packed = check_need(aligned_alloc(64, (size + 63) / 64 * 64));
    struct kt_pack job = {&check->layout, KT_STAGE_DOWN, &expert, 0, count_panels(check, KT_STAGE_DOWN),
                          packed};
    expert.down.rows++;
    if (check->level->ops->pack(check->instance, &job, &error) != KT_E_INVALID)
        check_fail(check, "a row too much is not refused");
    expert.down.rows--;
    check_service_fails = KT_E_NOMEM;
    if (check->level->ops->pack(check->instance, &job, &error) != KT_E_NOMEM)
        check_fail(check, "pack without memory has no error");
    check_service_fails = KT_E_IO; /* which plain rows do not ask for */
    enum kt_status status = check->level->ops->pack(check->instance, &job, &error);
    if ((status == KT_OK) != (check_service_fails == KT_E_IO) || (status && status != KT_E_IO))
        check_fail(check, "pack of rows that cannot be read has no error");
    check_service_fails = KT_OK;
    free(packed);
}

void check_refusals(struct check *check)
{
    if (check->model->code_row) {
        check_limits(check);
        check_failures(check);
    }
    for (unsigned kind = 0; check->model->scaled; kind++) {
        struct kt_layout layout = {.shape = check->layout.shape};
        struct kt_error error = {KT_OK, ""};
        if (!spoil(kind, &layout.shape))
            return;
        if (check_linear(check) && kind % 2 == 0) /* nothing about gate and up */
            continue;
        if (check_first_projection(check) != KT_GATE && kind / 2 == 9)
            continue;
        if (check->level->ops->layout(check->instance, &layout, &error) != KT_E_UNSUPPORTED ||
            strncmp(error.message, check->model->plugin, strlen(check->model->plugin)) != 0)
            check_fail(check, "a layout that is wrong in way %u is not refused by name: %s", kind,
                       error.message);
    }
}

/* The views of the rows of intermediate_size from `begin` on. */
static struct kt_expert slice(struct check *check, uint64_t begin)
{
    struct kt_expert expert = check->source.expert;
    uint64_t hidden = check->layout.shape.hidden_size, rows = expert.down.cols - begin;
    struct kt_error error = {KT_OK, ""};
    enum kt_projection first = check_first_projection(check);
    if ((first == KT_GATE && kt_view_slice(&expert.gate, begin, rows, 0, hidden, &expert.gate, &error)) ||
        (first <= KT_UP && kt_view_slice(&expert.up, begin, rows, 0, hidden, &expert.up, &error)) ||
        kt_view_slice(&expert.down, 0, hidden, begin, rows, &expert.down, &error))
        check_fail(check, "views of a shard: %s", error.message);
    return expert;
}

/* A shard has the weights of its part of the whole; what spans the cut, a row's scale, is that of the whole.
 */
static void compare_cut(struct check *check, const struct kt_layout *shard, enum kt_stage stage,
                        uint64_t begin, const uint8_t *packed)
{
    const bool down = stage == KT_STAGE_DOWN;
    for (int p = down ? KT_DOWN : (int)check_first_projection(check); p <= (down ? KT_DOWN : KT_UP); p++) {
        const uint64_t rows = projection_rows(&shard->shape, (enum kt_projection)p);
        const uint64_t cols = projection_cols(&shard->shape, (enum kt_projection)p);
        const uint64_t k = projection_cols(&check->layout.shape, (enum kt_projection)p);
        float *row = check_need(malloc(cols * sizeof *row));
        for (uint64_t r = 0; r < rows; r++) {
            const float *whole = check->weights[p] + (down ? r * k + begin : (begin + r) * k);
            if (check->level->ops->weight_row(check->instance, shard, packed, &check->source.expert,
                                              (enum kt_projection)p, r, row, NULL) ||
                !same_floats(row, whole, cols))
                check_fail(check, "row %llu of projection %d cut from %llu on is not the whole's",
                           (unsigned long long)r, p, (unsigned long long)begin);
        }
        free(row);
    }
}

static void check_cut_stage(struct check *check, const struct kt_layout *shard, enum kt_stage stage,
                            uint64_t begin, const struct kt_expert *expert)
{
    const struct kt_ops *ops = check->level->ops;
    uint64_t size = shard->weight_size[stage];
    uint64_t rows = stage == KT_STAGE_DOWN ? shard->shape.hidden_size : shard->shape.intermediate_size;
    uint64_t panels = (rows + shard->panel_rows[stage] - 1) / shard->panel_rows[stage];
    uint64_t middle = random_below(&check->random, (uint32_t)panels + 1);
    struct kt_error error = {KT_OK, ""};
    struct guarded wanted, got;
    check_guard("a shard's weights", size, 64, true, &wanted);
    check_guard("cut weights", size, 64, true, &got);
    struct kt_pack pack = {shard, stage, expert, 0, panels, wanted.data};
    struct kt_cut cut = {&check->layout, shard, stage, begin, 0, middle, check->packed[stage].data,
                         got.data,       &error};
    memset(got.data, 0x5a, size);
    if (ops->pack(check->instance, &pack, &error))
        check_fail(check, "pack of a shard: %s", error.message);
    ops->cut(check->instance, &cut);
    cut.panel_begin = middle;
    cut.panel_end = panels;
    ops->cut(check->instance, &cut);
    if (error.status != KT_OK)
        check_fail(check, "cut: %s", error.message);
    if (check->model->code_row)
        compare_cut(check, shard, stage, begin, got.data);
    else if (memcmp(got.data, wanted.data, size) != 0)
        check_fail(check, "stage %d cut from row %llu on differs from packed so", stage,
                   (unsigned long long)begin);
    if (!guard_intact(&got))
        check_fail(check, "cut of stage %d wrote beyond its object", stage);
    guard_free(&wanted);
    guard_free(&got);
}

/* A shard cut out of the packed expert is what packing it from the source makes, unless a scale spans the
 * cut. */
void check_cut(struct check *check)
{
    const struct kt_layout *layout = &check->layout;
    uint64_t units = (layout->shape.intermediate_size - 1) / layout->k_unit;
    struct kt_layout shard = {.shape = layout->shape};
    struct kt_error error = {KT_OK, ""};
    const bool own_form = check->model->code_row && !layout->form[0]; /* which is not cut */
    if (!check->level->ops->cut || own_form || units == 0)
        return;
    bool last = random_below(&check->random, 2);
    uint64_t begin = layout->k_unit * (last ? units : 1 + random_below(&check->random, (uint32_t)units));
    shard.shape.intermediate_size -= begin;
    memcpy(shard.form, layout->form, sizeof shard.form);
    if (check->level->ops->layout(check->instance, &shard, &error)) {
        check_fail(check, "layout of a shard: %s", error.message);
        return;
    }
    struct kt_expert expert = slice(check, begin);
    for (int s = (int)check_first_stage(check); s <= KT_STAGE_DOWN; s++)
        check_cut_stage(check, &shard, (enum kt_stage)s, begin, &expert);
    if (check->level->ops->release_layout)
        check->level->ops->release_layout(check->instance, &shard);
}

/* What weight_row should give for a row of the source. */
static void find_wanted(struct check *check, enum kt_projection projection, uint64_t row, const float *source,
                        float *wanted)
{
    const uint64_t k = projection_cols(&check->layout.shape, projection);
    const bool coded = check->model->code_row != NULL;
    float scale = 1;
    int8_t *codes = coded ? check->codes[projection] + row * k : NULL;
    if (coded) {
        check->model->code_row(check, projection, row, source, codes, &scale);
        check->groups[projection][row] = (double)scale;
    }
    for (uint64_t c = 0; c < k; c++)
        wanted[c] = coded ? scale * (float)codes[c] : check->model->weight(source[c]);
}

/* To the bit, but that a 0 of a code has no sign; memcmp() would take longer than much of what is checked. */
static bool same_weight(float weight, float wanted, bool coded)
{
    uint32_t bits[2];
    memcpy(&bits[0], &weight, sizeof weight);
    memcpy(&bits[1], &wanted, sizeof wanted);
    return bits[0] == bits[1] || (coded && weight == wanted) || (isnan(wanted) && isnan(weight));
}

void check_weights(struct check *check)
{
    /* a level with a form of its own may find a row by products with all of its matrix: some, on every place
     * of a tile */
    const bool own_form = check->model->code_row && !check->layout.form[0];
    const uint64_t step = !own_form ? 1 : check->large ? 97 : 13;
    check_exactly();
    const struct kt_shape *shape = &check->layout.shape;
    const struct kt_expert *expert = &check->source.expert;
    for (int p = (int)check_first_projection(check); p <= KT_DOWN; p++) {
        enum kt_projection projection = (enum kt_projection)p;
        uint64_t rows = projection_rows(shape, projection), cols = projection_cols(shape, projection);
        struct kt_error error = {KT_OK, ""};
        float *source = check_need(malloc(cols * sizeof *source));
        float *wanted = check_need(malloc(cols * sizeof *wanted));
        check->weights[p] = check_need(malloc(rows * cols * sizeof *source));
        if (check->model->code_row) {
            check->codes[p] = check_need(malloc(rows * cols));
            check->groups[p] = check_need(malloc(rows * sizeof(double)));
        }
        for (uint64_t r = 0; r < rows; r++) {
            float *row = check->weights[p] + r * cols;
            if ((r % step == 0 && check->level->ops->weight_row(check->instance, &check->layout,
                                                                check->packed[p == KT_DOWN].data, expert,
                                                                projection, r, row, &error)) ||
                kt_view_dequantize(check_view(check, projection), r, 0, cols, source, &error))
                check_fail(check, "weight row: %s", error.message);
            find_wanted(check, projection, r, source, wanted);
            for (uint64_t c = 0; c < cols && r % step == 0 && !check->wrong; c++) {
                if (!same_weight(row[c], wanted[c], check->model->code_row != NULL))
                    check_fail(check, "row %llu, column %llu of projection %d is not what the source says",
                               (unsigned long long)r, (unsigned long long)c, p);
            }
        }
        if (check->level->ops->weight_row(check->instance, &check->layout, check->packed[p == KT_DOWN].data,
                                          expert, projection, rows, wanted, NULL) != KT_E_RANGE)
            check_fail(check, "projection %d has a row too much", p);
        free(wanted);
        free(source);
    }
}

/* Bytes of an infinite number or NaN of a type of scales, and how many. */
static uint32_t find_bad(uint32_t dtype, bool infinite, uint8_t bad[4])
{
    uint32_t wide = infinite ? 0xff800000 : 0x7fc00000;
    uint16_t half = infinite ? 0x7c00 : 0xfe00, short_wide = (uint16_t)(wide >> 16);
    uint32_t elements, bytes;
    memset(bad, 0xff, 4); /* the NaN of f8_e8m0 */
    if (dtype == KT_DTYPE_F32)
        memcpy(bad, &wide, sizeof wide);
    else if (dtype != KT_DTYPE_F8_E8M0)
        memcpy(bad, dtype == KT_DTYPE_F16 ? &half : &short_wide, sizeof half);
    kt_dtype_block(dtype, &elements, &bytes);
    return bytes;
}

/* One scale of a projection is infinite or NaN: pack says so. */
void check_refused(struct check *check)
{
    const struct kt_expert *expert = &check->source.expert;
    uint32_t first = check_first_projection(check);
    uint32_t p = check_linear(check) ? KT_DOWN : first + random_below(&check->random, 3 - first);
    enum kt_stage stage = p == KT_DOWN ? KT_STAGE_DOWN : KT_STAGE_GATE_UP;
    const struct kt_view *view = check_view(check, (enum kt_projection)p);
    const struct kt_scales *scales = &view->scales;
    struct kt_error error = {KT_OK, ""};
    uint8_t bad[4], kept[4];
    if (!scales->data || check->layout.keeps_source)
        return;
    uint32_t size = find_bad(scales->dtype, random_below(&check->random, 2), bad);
    uint64_t rows = (view->rows - 1) / scales->group_rows + 1;
    uint64_t cols = (view->cols - 1) / scales->group_cols + 1;
    uint8_t *scale = (uint8_t *)(uintptr_t)scales->data +
                     (int64_t)random_below(&check->random, (uint32_t)rows) * scales->row_stride +
                     (int64_t)random_below(&check->random, (uint32_t)cols) * scales->col_stride;
    uint8_t *packed = aligned_alloc(64, (check->layout.weight_size[stage] + 63) / 64 * 64);
    if (!packed)
        abort();
    struct kt_pack job = {&check->layout, stage, expert, 0, count_panels(check, stage), packed};
    memcpy(kept, scale, size);
    memcpy(scale, bad, size);
    if (check->level->ops->pack(check->instance, &job, &error) != KT_E_FORMAT ||
        !strstr(error.message, "is not a finite number"))
        check_fail(check, "a scale of projection %u that is not a finite number was packed", p);
    memcpy(scale, kept, size);
    free(packed);
}
