/* SPDX-License-Identifier: Apache-2.0 */
/* lay_out.c - asks a backend how it would hold a layer, and checks what it says. */
#include "core/layer/lay_out.h"

#include "core/base/error.h"
#include "core/config/config.h"
#include "core/context/context.h"
#include "core/weights/decode/view.h"

#include <stdio.h>
#include <string.h>

static void shape_of(const struct kt_layer *layer, const struct kt_expert *example,
                     uint64_t intermediate_size, struct kt_shape *shape)
{
    const struct kt_layer_params *params = &layer->params;
    *shape = (struct kt_shape){
        .n_experts = params->n_experts,
        .top_k = params->top_k,
        .hidden_size = params->hidden_size,
        .intermediate_size = intermediate_size,
        .activation = params->activation,
        .limit = params->limit,
        .alpha = params->alpha,
        .has_bias = (example->gate_bias ? 1u << KT_GATE : 0) | (example->up_bias ? 1u << KT_UP : 0) |
                    (example->down_bias ? 1u << KT_DOWN : 0),
    };
    const struct kt_view *const views[3] = {&example->gate, &example->up, &example->down};
    for (int p = (int)kt_layer_first(layer); p <= KT_DOWN; p++)
        kt_view_format(views[p], &shape->format[p]);
}

void kt_layout_release(const struct kt_backend *backend, struct kt_layout *layout)
{
    if (backend->level->ops->release_layout)
        backend->level->ops->release_layout(backend->instance, layout);
}

/* A number that a plugin set, and its allowed range. */
struct limit {
    const char *field;
    uint64_t value, least, most;
};

static enum kt_status check_limits(const struct limit *limit, size_t n, struct kt_error *error)
{
    for (size_t i = 0; i < n; i++)
        if (limit[i].value < limit[i].least || limit[i].value > limit[i].most)
            return kt_fail(error, KT_E_PLUGIN, "its layout has %s = %llu; %llu to %llu is possible",
                           limit[i].field, (unsigned long long)limit[i].value,
                           (unsigned long long)limit[i].least, (unsigned long long)limit[i].most);
    return KT_OK;
}

/* A plugin runs in this process, but its numbers are checked: none may overflow the arithmetic here. */
static enum kt_status check_layout(const struct kt_ops *ops, const struct kt_layout *layout,
                                   const struct kt_shape *shape, struct kt_error *error)
{
    const uint64_t rows = UINT64_C(1) << 32, bytes = UINT64_C(1) << 44;
    /* A linear has no stage 0. */
    const uint64_t one = shape->activation == KT_ACTIVATION_NONE ? 0 : 1;
    const uint64_t packed = layout->keeps_source ? 0 : 1;
    const struct limit limits[] = {
        {"panel_rows[0]", layout->panel_rows[0], one, one * rows},
        {"panel_rows[1]", layout->panel_rows[1], 1, rows},
        {"k_unit", layout->k_unit, 1, rows},
        {"row_unit", layout->row_unit, 0, 65536},
        {"weight_size[0]", layout->weight_size[0], one * packed, one * bytes},
        {"weight_size[1]", layout->weight_size[1], packed, bytes},
        {"nominal_size[0]", layout->nominal_size[0], 0, one * bytes},
        {"nominal_size[1]", layout->nominal_size[1], 0, bytes},
        {"act_row_size[0]", layout->act_row_size[0], one, one * bytes},
        {"act_row_size[1]", layout->act_row_size[1], 1, bytes},
        {"h_row_size", layout->h_row_size, one, one * bytes},
        {"scratch_size", layout->scratch_size, 0, bytes},
    };
    enum kt_status status = check_limits(limits, sizeof limits / sizeof limits[0], error);
    if (status != KT_OK)
        return status;
    if (layout->y_dtype != KT_DTYPE_NONE && layout->y_dtype != KT_DTYPE_F32 &&
        layout->y_dtype != KT_DTYPE_BF16)
        return kt_fail(error, KT_E_PLUGIN, "its layout has y_dtype = %u; f32 and bf16 are possible",
                       layout->y_dtype);
    if (!layout->keeps_source && !ops->pack)
        return kt_fail(error, KT_E_PLUGIN, "it neither keeps the source nor has a function pack");
    if (memcmp(&layout->shape, shape, sizeof *shape) != 0)
        return kt_fail(error, KT_E_PLUGIN, "layout() changed the requested shape");
    return KT_OK;
}

/* Is the form that the layout names the requested one? */
static enum kt_status check_form(const struct kt_layout *layout, const char *wanted, struct kt_error *error)
{
    if (!memchr(layout->form, '\0', sizeof layout->form))
        return kt_fail(error, KT_E_PLUGIN, "the layout names a form of %zu characters or more",
                       sizeof layout->form);
    if (wanted && strcmp(layout->form, wanted) != 0)
        return kt_fail(error, KT_E_UNSUPPORTED,
                       "the weights are stored as %s, it makes %s: change its options, or convert again",
                       wanted, layout->form[0] ? layout->form : "no form that could be stored");
    return KT_OK;
}

/* "q4_k", "q4_k+q6_k" where down differs, "int4-g32" and "f8_e4m3-b128x128" with groups that share a scale.
 */
static void name_format(const struct kt_shape *shape, char *text, size_t size)
{
    const struct kt_format *down = &shape->format[KT_DOWN],
                           *first = &shape->format[kt_activation_first(shape->activation)];
    char groups[32] = "";
    if (down->scale_dtype != KT_DTYPE_NONE && down->group_rows == 1)
        (void)snprintf(groups, sizeof groups, "-g%llu", (unsigned long long)down->group_cols);
    else if (down->scale_dtype != KT_DTYPE_NONE)
        (void)snprintf(groups, sizeof groups, "-b%llux%llu", (unsigned long long)down->group_rows,
                       (unsigned long long)down->group_cols);
    if (first->dtype == down->dtype)
        (void)snprintf(text, size, "%s%s", kt_dtype_name(down->dtype), groups);
    else
        (void)snprintf(text, size, "%s+%s%s", kt_dtype_name(first->dtype), kt_dtype_name(down->dtype),
                       groups);
}

void kt_layer_tuned_subject(const struct kt_layer *layer, const struct kt_backend *backend,
                            const struct kt_shape *shape, struct kt_tuned_subject *subject)
{
    const struct kt_ops *ops = backend->level->ops;
    *subject = (struct kt_tuned_subject){
        .backend = backend,
        .n_tunables = KT_TUNABLES(ops, kt_ops),
        .deterministic = kt_config_bool(layer->context->config, "core", "deterministic"),
    };
    subject->tunables = subject->n_tunables ? ops->tunables : NULL;
    name_format(shape, subject->format, sizeof subject->format);
    /* Of the whole layer, whose nodes share the work: one value for all of them. */
    (void)snprintf(subject->shape, sizeof subject->shape, "%s-%llux%llu",
                   kt_layer_is_linear(layer) ? "linear" : "experts",
                   (unsigned long long)layer->params.hidden_size,
                   (unsigned long long)layer->params.intermediate_size);
}

enum kt_status kt_lay_out_shape(const struct kt_backend *backend, const struct kt_layer *layer,
                                const struct kt_shape *shape, const char *form, struct kt_layout *layout,
                                struct kt_error *error)
{
    struct kt_tuned_subject subject;
    kt_layer_tuned_subject(layer, backend, shape, &subject);
    memcpy(&layout->shape, shape, sizeof *shape);
    layout->deterministic = subject.deterministic;
    if (form)
        (void)snprintf(layout->form, sizeof layout->form, "%s", form);
    kt_tuned_fill(&subject, layer->tuning, layout->tuned);
    error->message[0] = '\0';
    enum kt_status status = backend->level->ops->layout(backend->instance, layout, error);
    if (status != KT_OK)
        return kt_fail_plugin(error, status, "layer rejected without a reason");
    status = check_layout(backend->level->ops, layout, shape, error);
    if (status == KT_OK)
        status = check_form(layout, form, error);
    if (status == KT_OK)
        status = kt_tuned_check_values(subject.tunables, subject.n_tunables, layout->tuned, error);
    if (status != KT_OK) {
        kt_layout_release(backend, layout);
        return status;
    }
    if (layout->row_unit == 0)
        layout->row_unit = 1;
    return KT_OK;
}

enum kt_status kt_lay_out(const struct kt_backend *backend, const struct kt_layer *layer,
                          const struct kt_selection_request *request, uint64_t intermediate_size,
                          bool compact, struct kt_layout *layout, struct kt_error *error)
{
    struct kt_shape shape;
    shape_of(layer, request->example, intermediate_size, &shape);
    memset(layout, 0, sizeof *layout);
    layout->stored = request->stored || layer->params.stored;
    layout->compact = compact;
    return kt_lay_out_shape(backend, layer, &shape, request->form, layout, error);
}
