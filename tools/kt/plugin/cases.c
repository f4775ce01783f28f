/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c - random cases of a level: every source format, ragged shapes, each function. */
#include "tools/kt/plugin/plugin.h"
#include "tools/check/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACTIVATION_MINOR 9           /* of the plugin ABI: the first with more than three activations */
#define MAX_SIZE (UINT64_C(1) << 31) /* of anything in the layout of a small case */

static const uint32_t dtypes[] = {KT_DTYPE_F32,     KT_DTYPE_F16,
                                  KT_DTYPE_BF16,    KT_DTYPE_I8,
                                  KT_DTYPE_F8_E4M3, KT_DTYPE_INT4,
                                  KT_DTYPE_F4_E2M1, BLOCK_FORMATS(BLOCK_DTYPE) KT_DTYPE_NONE};

/* ---- a case ------------------------------------------------------------------------------------- */

/* A matrix of any format may have one scale for all of it, as in GGUF; plugins need not take that. */
static void add_factors(unsigned kind, struct kt_shape *shape)
{
    static const uint32_t types[] = {KT_DTYPE_F32, KT_DTYPE_BF16, KT_DTYPE_F16};
    for (int p = 0; p < 3; p++) {
        shape->format[p].scale_dtype = types[(kind / 3 + (unsigned)p) % 3];
        shape->format[p].group_rows = shape->format[p].group_cols = UINT32_MAX;
    }
}

static bool drop_factors(struct kt_shape *shape)
{
    bool had = false;
    for (int p = 0; p < 3; p++) {
        struct kt_format *format = &shape->format[p];
        if (format->group_rows != UINT32_MAX)
            continue;
        *format = (struct kt_format){.dtype = format->dtype};
        had = true;
    }
    return had;
}

/* Kind 0 is as small as the format allows. */
static void make_shape(uint32_t dtype, unsigned kind, uint64_t *state, struct kt_shape *shape)
{
    static const uint32_t biases[] = {0, 7, 5, 7, 2, 7};
    uint32_t block;
    memset(shape, 0, sizeof(*shape));
    kt_dtype_block(dtype, &block, NULL);
    if (needs_scales(dtype)) {
        make_scaled_shape(dtype, kind, state, shape);
    } else {
        shape->hidden_size = kind == 0 ? block : pick_size(state, dtype, dtype);
        shape->intermediate_size = kind == 0 ? block : pick_size(state, dtype, dtype);
        for (int p = 0; p < 3; p++)
            shape->format[p].dtype = dtype;
        if (kind % 3 == 1)
            add_factors(kind, shape);
    }
    shape->n_experts = 4;
    shape->top_k = 2;
    shape->limit = 1.0f + (float)random_below(state, 8);
    shape->alpha = 1.702f;
    shape->has_bias = biases[kind % 6];
}

/* Another one for each format and kind, and for kinds that are 6 apart; the first kinds of f32 have those of
 * plugin ABI 1.0. */
static uint32_t choose_activation(const struct plugin_run *run, uint32_t dtype, unsigned kind)
{
    return pick_activation(run->plugin->abi_minor < ACTIVATION_MINOR
                               ? kind % 3
                               : (kind + kind / 6 + dtype - KT_DTYPE_F32) % N_ACTIVATIONS);
}

/* A linear has any number of rows. */
static void make_linear_shape(uint32_t dtype, unsigned kind, uint64_t *state, struct kt_shape *shape)
{
    make_shape(dtype, kind, state, shape);
    if (!needs_scales(dtype))
        shape->hidden_size = kind == 0 ? 1 : pick_size(state, KT_DTYPE_F32, KT_DTYPE_F32);
    make_linear(shape);
}

static void describe(struct plugin_case *item)
{
    const struct kt_shape *shape = &item->check.layout.shape;
    const struct kt_format *format = &shape->format[KT_DOWN];
    char groups[80] = "";
    if (format->group_rows == UINT32_MAX)
        snprintf(groups, sizeof(groups), " with one %s", kt_dtype_name(format->scale_dtype));
    else if (format->scale_dtype)
        snprintf(groups, sizeof(groups), " with %s%s for %llu x %llu", kt_dtype_name(format->scale_dtype),
                 format->zero_dtype ? " and zeros" : "", (unsigned long long)format->group_rows,
                 (unsigned long long)format->group_cols);
    snprintf(item->text, sizeof(item->text),
             check_linear(&item->check) ? "linear of %s%s, %llu x %llu, %u rows, --seed %llu"
                                        : "%s%s, hidden %llu, intermediate %llu, %u rows, --seed %llu",
             kt_dtype_name(format->dtype), groups, (unsigned long long)shape->hidden_size,
             (unsigned long long)shape->intermediate_size, item->check.n_rows,
             (unsigned long long)item->run->seed);
}

/* As the core does it, but for one of the tunables in turn, which gets an end of its range: products are
 * right with all values. */
static void fill_tuned(const struct plugin_case *item, const struct kt_ops *ops, struct kt_layout *layout)
{
    size_t size = offsetof(struct kt_ops, n_tunables) + sizeof(ops->n_tunables);
    uint32_t n = ops->struct_size >= size ? ops->n_tunables : 0;
    uint64_t turn = (item->run->seed + item->check.n_rows) % (2 * n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const struct kt_tunable *tunable = &ops->tunables[i];
        layout->tuned[i] = turn == 2 * i       ? tunable->minimum
                           : turn == 2 * i + 1 ? tunable->maximum
                                               : tunable->standard;
    }
}

bool plugin_ask_layout(struct plugin_case *item, struct kt_layout *layout, struct kt_error *error)
{
    const struct kt_shape shape = layout->shape;
    struct check *check = &item->check;
    *error = (struct kt_error){.message = ""};
    fill_tuned(item, check->level->ops, layout);
    check_enter(check, "layout");
    enum kt_status status = check->level->ops->layout(check->instance, layout, error);
    error->message[sizeof(error->message) - 1] = '\0';
    if (status == KT_OK) {
        if (memcmp(&shape, &layout->shape, sizeof(shape)) != 0)
            check_fail(check, "it changed the shape of the layout");
        return true;
    }
    if (!error->message[0])
        check_fail(check, "it refuses with status %d and does not say why", (int)status);
    *layout = (struct kt_layout){.shape = shape};
    return false;
}

/* Another activation for a plugin that lacks the shape's. */
static void give_gate(struct kt_shape *shape)
{
    if (kt_activation_first(shape->activation) == KT_UP)
        shape->format[KT_GATE] = shape->format[KT_UP];
    shape->activation = KT_ACTIVATION_SILU;
}

/* Tries a format without its scale, without biases and with the plain activation before giving it up. */
static bool lay_out(struct plugin_case *item, struct kt_error *error)
{
    struct kt_layout *layout = &item->check.layout;
    struct kt_shape plain = layout->shape;
    int ways = check_linear(&item->check) ? 2 : 3;
    if (drop_factors(&plain)) {
        describe(item);
        if (plugin_ask_layout(item, layout, error))
            return true;
        layout->shape = plain;
    }
    for (int way = 0; way < ways; way++) {
        describe(item);
        if (plugin_ask_layout(item, layout, error))
            return true;
        if (way == 0)
            layout->shape.has_bias = 0;
        else
            give_gate(&layout->shape);
    }
    return false;
}

void plugin_forget_layout(struct check *check, struct kt_layout *layout)
{
    if (!check->level->ops->release_layout)
        return;
    check_enter(check, "release_layout");
    check->level->ops->release_layout(check->instance, layout);
}

static void seal_source(struct source *source)
{
    for (int p = 0; p < 3; p++) {
        for (int i = 0; i < 3; i++)
            guard_seal(&source->data[p][i]);
        guard_seal(&source->bias[p]);
    }
}

/* Has the level the optional function that the job checks? */
static bool has_function(const struct plugin_run *run, plugin_job *job)
{
    const struct kt_ops *ops = run->level->ops;
    if (job == plugin_job_cut)
        return ops->struct_size >= offsetof(struct kt_ops, cut) + sizeof(ops->cut) && ops->cut;
    if (job == plugin_job_unpack)
        return ops->struct_size >= offsetof(struct kt_ops, unpack) + sizeof(ops->unpack) && ops->unpack;
    return true;
}

static bool run_case(struct plugin_run *run, uint32_t dtype, unsigned kind, bool linear, plugin_step *step)
{
    static const uint32_t rows[] = {1, 5, 33, 2, 9, 17};
    struct plugin_case *item = check_need(calloc(1, sizeof(*item)));
    uint64_t state = run->seed + 1000003u * dtype + 17u * kind;
    struct check *check = &item->check;
    const struct kt_ops *ops = run->level->ops;
    struct kt_error error;
    item->run = run;
    check->level = run->level;
    check->instance = run->instance;
    check->host = &run->host;
    (linear ? make_linear_shape : make_shape)(dtype, kind, &state, &check->layout.shape);
    if (!linear)
        set_activation(&check->layout.shape, choose_activation(run, dtype, kind));
    uint32_t activation = check->layout.shape.activation;
    check->n_rows = rows[kind % 6];
    check->n_acts = 1 + random_below(&state, check->n_rows + 3);
    check->random = state;
    bool taken = lay_out(item, &error);
    if (linear && !taken)
        snprintf(run->no_linears, sizeof(run->no_linears), "%.399s", error.message);
    run->activations |= taken ? 1u << activation : 0;
    if (taken && !plugin_failed(run)) {
        if (!source_create(&check->layout.shape, &check->random, &check->source))
            abort();
        seal_source(&check->source);
        if (ops->thread_enter) {
            check_enter(check, "thread_enter");
            ops->thread_enter(run->instance);
        }
        step(item);
        if (ops->thread_leave) {
            check_enter(check, "thread_leave");
            ops->thread_leave(run->instance);
        }
        plugin_host_forbid(NULL);
        free_case(check);
    }
    if (taken)
        plugin_forget_layout(check, &check->layout);
    free(item);
    return taken;
}

bool plugin_case_run(struct plugin_run *run, uint32_t dtype, unsigned kind, plugin_step *step)
{
    return run_case(run, dtype, kind, false, step);
}

bool plugin_linear_run(struct plugin_run *run, uint32_t dtype, unsigned kind, plugin_step *step)
{
    return run->plugin->abi_minor >= 5 && run_case(run, dtype, kind, true, step);
}

/* Of each format one case of a linear for each three of experts, the first one with many rows. Returns how
 * many were taken. */
static unsigned run_linears(struct plugin_run *run, plugin_step *step)
{
    unsigned n = 0;
    if (run->plugin->abi_minor < 5) {
        snprintf(run->no_linears, sizeof(run->no_linears), "it is built for plugin ABI %u.%u",
                 run->plugin->abi_major, run->plugin->abi_minor);
        return 0;
    }
    for (const uint32_t *dtype = dtypes; *dtype && !plugin_failed(run); dtype++) {
        unsigned n_kinds = needs_scales(*dtype) ? 2 * run->n_kinds : run->n_kinds;
        unsigned first = n_kinds < 3 ? 1 : 2;
        for (unsigned kind = first; kind < first + (n_kinds + 2) / 3 && !plugin_failed(run); kind++)
            n += plugin_linear_run(run, *dtype, kind, step);
    }
    return n;
}

/* Tries activations that no case had, with the first format that is taken. Returns how many cases were taken.
 */
static unsigned run_activations(struct plugin_run *run, uint32_t dtype, plugin_step *step)
{
    unsigned n = 0;
    for (unsigned kind = 3; kind < 3 + 6 * N_ACTIVATIONS && !plugin_failed(run); kind += 6)
        if (!(run->activations & 1u << choose_activation(run, dtype, kind)))
            n += plugin_case_run(run, dtype, kind, step);
    return n;
}

static void say_cases(struct plugin_run *run, unsigned n_formats, unsigned n_cases, unsigned n_linears)
{
    struct plugin_verdict *verdict = &run->child->verdict;
    if (n_linears)
        plugin_say(verdict, PLUGIN_OK, "%u formats, %u cases, %u of them linears", n_formats,
                   n_cases + n_linears, n_linears);
    else
        plugin_say(verdict, PLUGIN_OK, "%u formats, %u cases; no linears: %s", n_formats, n_cases,
                   run->no_linears);
}

void plugin_cases_run(void *data, struct plugin_child *child, plugin_job *self, plugin_step *step)
{
    struct plugin_run *run = data;
    unsigned n_cases = 0, n_formats = 0, n_linears = 0;
    uint32_t first = KT_DTYPE_NONE;
    if (!plugin_attach(run, child))
        return;
    if (!has_function(run, self)) {
        plugin_say(&child->verdict, PLUGIN_SKIPPED, "it has none");
        return;
    }
    struct kt_error error;
    if (self == plugin_job_ranges) /* a machine with unknown caches */
        run->caps.l1d_size = run->caps.l2_size = 0;
    if (!plugin_instance(run))
        return;
    if (plugin_ready(run, &error) != KT_OK)
        plugin_fail(run, "the level could be used before: %.400s", error.message);
    for (const uint32_t *dtype = dtypes; *dtype && !plugin_failed(run); dtype++) {
        unsigned before = n_cases;
        /* Formats with scales have more cases: 4 types of scales, 5 widths, 3 heights. */
        unsigned n_kinds = needs_scales(*dtype) ? 2 * run->n_kinds : run->n_kinds;
        for (unsigned kind = 0; kind < n_kinds && !plugin_failed(run); kind++)
            n_cases += plugin_case_run(run, *dtype, kind, step);
        n_formats += n_cases > before;
        if (n_cases > before && first == KT_DTYPE_NONE)
            first = *dtype;
    }
    if (first != KT_DTYPE_NONE && self == plugin_job_numbers)
        n_cases += run_activations(run, first, step);
    if (!plugin_failed(run))
        n_linears = run_linears(run, step);
    if (plugin_failed(run))
        return;
    plugin_detach(run);
    if (plugin_host_live() != 0)
        plugin_fail(run, "%llu blocks of the host's memory were not given back",
                    (unsigned long long)plugin_host_live());
    else if (n_cases == 0)
        plugin_fail(run, "it takes no format that kt-kernel reads");
    else if (child->verdict.state == PLUGIN_OK && !child->verdict.text[0])
        say_cases(run, n_formats, n_cases, n_linears);
}

/* ---- layout ------------------------------------------------------------------------------------- */

static void check_sizes(struct check *check)
{
    const struct kt_layout *layout = &check->layout;
    bool linear = check_linear(check);
    if (linear && (layout->panel_rows[0] || layout->weight_size[0] || layout->nominal_size[0] ||
                   layout->act_row_size[0] || layout->h_row_size))
        check_fail(check, "a linear has no stage 0: panel_rows[0], weight_size[0], nominal_size[0], "
                          "act_row_size[0] and h_row_size stay 0");
    for (int s = (int)check_first_stage(check); s <= KT_STAGE_DOWN; s++) {
        if (layout->panel_rows[s] == 0 || layout->panel_rows[s] > MAX_SIZE)
            check_fail(check, "panel_rows[%d] is %llu", s, (unsigned long long)layout->panel_rows[s]);
        if (layout->nominal_size[s] == 0 || layout->nominal_size[s] > MAX_SIZE)
            check_fail(check, "nominal_size[%d] is %llu", s, (unsigned long long)layout->nominal_size[s]);
        if ((layout->weight_size[s] == 0 && !layout->keeps_source) || layout->weight_size[s] > MAX_SIZE)
            check_fail(check, "weight_size[%d] is %llu", s, (unsigned long long)layout->weight_size[s]);
        if (layout->act_row_size[s] == 0 || layout->act_row_size[s] > MAX_SIZE)
            check_fail(check, "act_row_size[%d] is %llu", s, (unsigned long long)layout->act_row_size[s]);
    }
    if (!linear && (layout->h_row_size == 0 || layout->h_row_size > MAX_SIZE))
        check_fail(check, "h_row_size is %llu", (unsigned long long)layout->h_row_size);
    if (layout->rounding && strlen(layout->rounding) >= sizeof(((struct kt_plan *)0)->rounding))
        check_fail(check, "rounding has %zu letters, 47 are the most", strlen(layout->rounding));
    if (layout->k_unit == 0)
        check_fail(check, "k_unit is 0: without cuts between NUMA nodes it is intermediate_size");
    if (layout->scratch_size > MAX_SIZE || layout->row_unit > 65536)
        check_fail(check, "scratch_size is %llu, row_unit %u", (unsigned long long)layout->scratch_size,
                   layout->row_unit);
    if (layout->y_dtype != 0 && layout->y_dtype != KT_DTYPE_F32 && layout->y_dtype != KT_DTYPE_BF16)
        check_fail(check, "y_dtype is %u: KT_DTYPE_F32 or KT_DTYPE_BF16 is allowed", layout->y_dtype);
    if (!memchr(layout->form, '\0', sizeof(layout->form)))
        check_fail(check, "form has no end");
    if (!layout->keeps_source && !check->level->ops->pack)
        check_fail(check, "there is no pack, and the layout does not keep the source");
}

/* A second layout of the same shape must be equal. */
static void check_again(struct plugin_case *item)
{
    struct kt_layout first = item->check.layout, again = {.shape = first.shape};
    struct kt_error error;
    if (!plugin_ask_layout(item, &again, &error)) {
        check_fail(&item->check, "it was refused when it was asked for again: %s", error.message);
        return;
    }
    if (memcmp(first.weight_size, again.weight_size, sizeof(first.weight_size)) != 0 ||
        memcmp(first.panel_rows, again.panel_rows, sizeof(first.panel_rows)) != 0 ||
        memcmp(first.act_row_size, again.act_row_size, sizeof(first.act_row_size)) != 0 ||
        first.h_row_size != again.h_row_size || memcmp(first.form, again.form, sizeof(first.form)) != 0)
        check_fail(&item->check, "the same shape has another layout when it is asked for again");
    plugin_forget_layout(&item->check, &again);
}

/* Shapes that no plugin can hold. */
static void check_refusal(struct plugin_case *item)
{
    struct kt_layout layout = {.shape = item->check.layout.shape};
    struct kt_error error;
    layout.shape.hidden_size = layout.shape.intermediate_size = UINT64_C(1) << 62;
    if (plugin_ask_layout(item, &layout, &error))
        check_fail(&item->check, "it lays out 2^62 x 2^62 weights: a product overflowed");
}

/* Sizes beyond 32 bits must be refused, or be large enough for one bit a weight. */
static void check_large(struct plugin_case *item)
{
    struct kt_layout layout = {.shape = item->check.layout.shape};
    struct kt_error error;
    layout.shape.hidden_size = layout.shape.intermediate_size = UINT64_C(1) << 17;
    if (!plugin_ask_layout(item, &layout, &error))
        return;
    for (int s = (int)check_first_stage(&item->check); s <= KT_STAGE_DOWN; s++) {
        uint64_t matrices = s == KT_STAGE_DOWN ? 1 : 2 - check_first_projection(&item->check),
                 least = matrices << 31;
        if (layout.nominal_size[s] < least || (!layout.keeps_source && layout.weight_size[s] < least) ||
            layout.act_row_size[s] < UINT64_C(1) << 14)
            check_fail(&item->check,
                       "2^17 x 2^17 weights, stage %d: %llu bytes, nominally %llu, and %llu for a row of "
                       "activations: less than a bit each, a product overflowed",
                       s, (unsigned long long)layout.weight_size[s],
                       (unsigned long long)layout.nominal_size[s],
                       (unsigned long long)layout.act_row_size[s]);
    }
    plugin_forget_layout(&item->check, &layout);
}

static void step_layout(struct plugin_case *item)
{
    check_sizes(&item->check);
    check_again(item);
    check_refusal(item);
    check_large(item);
}

/* Does the plugin take the format in some shape, with these option values? */
static bool takes(struct plugin_run *run, uint32_t dtype)
{
    struct kt_error error;
    bool taken = false;
    if (!plugin_instance(run))
        return false;
    bool ready = plugin_ready(run, &error) == KT_OK;
    for (unsigned kind = 0; ready && kind < 12 && !taken && !plugin_failed(run); kind++)
        taken = plugin_case_run(run, dtype, kind, step_layout);
    plugin_detach(run);
    return taken;
}

/* Some formats are taken only with a certain option, so each choice of each option is tried. */
static bool takes_somehow(struct plugin_run *run, uint32_t dtype)
{
    bool taken = takes(run, dtype);
    for (uint32_t i = 0; i < run->plugin->n_options && !taken; i++) {
        const struct kt_option_value kept = run->values[i];
        char text[128];
        for (unsigned n = 0; !taken && !plugin_failed(run) &&
                             plugin_option_value(&run->plugin->options[i], n, text, &run->values[i]);
             n++)
            taken = takes(run, dtype);
        run->values[i] = kept;
    }
    return taken;
}

/* Are the formats that the plugin names taken? */
static void check_declared(struct plugin_run *run)
{
    char text[512];
    snprintf(text, sizeof(text), "%s", run->facts->formats);
    for (char *at = text, *word; !plugin_failed(run) && (word = strtok(at, " ,;")); at = NULL) {
        uint32_t dtype = kt_dtype_parse(word);
        bool known = false;
        for (const uint32_t *row = dtypes; *row; row++)
            known |= *row == dtype;
        bool taken = !known || takes_somehow(run, dtype);
        plugin_where(run, "layout, level %s", run->level->name);
        if (!taken)
            plugin_fail(run, "formats says %s, and no layout of it is given", word);
    }
}

void plugin_job_layout(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    plugin_cases_run(data, child, plugin_job_layout, step_layout);
    if (child->verdict.state == PLUGIN_OK)
        check_declared(run);
}
