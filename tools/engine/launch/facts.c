/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/launch/facts.h"

#include "tools/engine/model/config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KV_BYTES 2 /* of a number: bfloat16 */

/* ---- formats ---- */

/* KT-Kernel's name for the format of FP8 weights, which their scales make. */
static const char *name_fp8(const struct kt_view *view)
{
    if (view->scales.group_rows <= 1 && view->scales.group_cols >= view->cols)
        return "FP8_PERCHANNEL";
    return view->scales.group_rows <= 1 && view->scales.group_cols == 32 ? "MXFP8" : "FP8";
}

/* The same layout of four bits is packed in three ways, which config.json names. */
static const char *name_int4(const char *quantizer)
{
    if (strcmp(quantizer, "gptq") == 0)
        return "GPTQ_INT4";
    return strcmp(quantizer, "awq") == 0 ? "AWQ" : "RAWINT4";
}

/* The method that a backend serves; a backend's own name is one, too. */
static const char *name_backend(const char *backend)
{
    const char *name;
    for (size_t i = 0; (name = kt_method_name(i)); i++)
        if (strcmp(kt_method_backend(name), backend) == 0)
            return name;
    return backend;
}

/* What KT-Kernel has packed is read as int8, however many bits it has. */
static const char *name_packed(const struct kt_moe_info *moe)
{
    double matrices = KT_DOWN + 1 - (int)kt_activation_first(moe->activation);
    double weights =
        matrices * (double)moe->n_experts * (double)moe->hidden_size * (double)moe->intermediate_size;
    return (double)moe->size < 0.8 * weights ? "AMXINT4" : "AMXINT8";
}

static int find_format(const struct kt_cli *cli, struct kt_checkpoint *experts, const struct kt_moe_info *moe,
                       const char *quantizer, const char **format)
{
    enum kt_projection first = kt_activation_first(moe->activation);
    uint32_t dtype = moe->dtype[first];
    struct kt_error error;
    if (*moe->stored_backend) {
        *format = name_backend(moe->stored_backend);
    } else if (dtype == KT_DTYPE_F8_E4M3) {
        struct kt_expert *views = kt_cli_alloc(cli, moe->n_experts, sizeof(*views));
        int code = kt_checkpoint_experts(experts, moe->layer, views, moe->n_experts, &error) == KT_OK
                       ? KT_EXIT_OK
                       : kt_cli_fail(cli, &error);
        *format = code == KT_EXIT_OK ? name_fp8(first == KT_GATE ? &views->gate : &views->up) : NULL;
        free(views);
        return code;
    } else {
        *format = dtype == KT_DTYPE_INT4                            ? name_int4(quantizer)
                  : dtype == KT_DTYPE_I8                            ? name_packed(moe)
                  : dtype == KT_DTYPE_F4_E2M1                       ? "MXFP4"
                  : dtype >= KT_DTYPE_F32 && dtype <= KT_DTYPE_BF16 ? "BF16"
                                                                    : "LLAMAFILE";
    }
    return KT_EXIT_OK;
}

/* ---- sizes ---- */

/* The number behind "layers." in a tensor's name; n_layers - 1 at most, where there is none. */
static bool is_computed(const char *name, uint64_t n_layers)
{
    const char *layer = strstr(name, "layers.");
    return !layer || strtoull(layer + strlen("layers."), NULL, 10) < n_layers;
}

static int measure(const struct kt_cli *cli, struct kt_checkpoint *model, struct kt_launch_facts *facts)
{
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    struct kt_moe_info moe;
    struct kt_error error;
    uint64_t all = 0, experts = 0, n = 0, number;
    kt_checkpoint_info(model, &info);
    for (uint64_t i = 0; i < info.n_tensors; i++)
        if (kt_checkpoint_tensor(model, i, &tensor, NULL) == KT_OK &&
            is_computed(tensor.name, facts->n_layers))
            all += tensor.size;
    for (uint64_t i = 0; i < info.n_moe_layers; i++) {
        if (kt_checkpoint_moe_layer(model, i, &number, &error) != KT_OK ||
            kt_checkpoint_moe(model, number, &moe, &error) != KT_OK)
            return kt_cli_fail(cli, &error);
        if (number >= facts->n_layers)
            continue;
        experts += moe.size;
        n++;
        if (moe.size > facts->moe_size)
            facts->moe_size = moe.size;
    }
    if (n > 0)
        facts->n_moe_layers = n;
    facts->rest_size = all > experts ? all - experts : 0;
    return KT_EXIT_OK;
}

/* Layers that keep keys and values; others, such as Gated DeltaNet, keep a state of a fixed size. */
static uint64_t count_attention(struct kt_settings *s, uint64_t n_layers)
{
    uint64_t n = kt_settings_count(s, NULL, "layer_types"), found = 0;
    uint64_t interval = kt_settings_uint(s, NULL, "full_attention_interval", 1);
    for (uint64_t i = 0; n == n_layers && i < n; i++) {
        char type[32];
        kt_settings_text(s, NULL, "layer_types", i, type, sizeof(type));
        found += strcmp(type, "linear_attention") != 0;
    }
    return n == n_layers ? found : interval > 0 ? n_layers / interval : n_layers;
}

static void read_attention(struct kt_settings *s, uint64_t parts, struct kt_launch_facts *facts)
{
    uint64_t rank = kt_settings_uint(s, NULL, "kv_lora_rank", 0);
    uint64_t rope = kt_settings_uint(s, NULL, "qk_rope_head_dim", 0);
    uint64_t index = kt_settings_uint(s, NULL, "index_head_dim", 0);
    uint64_t hidden = kt_settings_need(s, NULL, "hidden_size");
    facts->n_heads = kt_settings_need(s, NULL, "num_attention_heads");
    facts->n_kv_heads = kt_settings_uint(s, NULL, "num_key_value_heads", facts->n_heads);
    uint64_t head = kt_settings_uint(s, NULL, "head_dim", facts->n_heads ? hidden / facts->n_heads : 0);
    uint64_t value = kt_settings_uint(s, NULL, "v_head_dim", head);
    uint64_t n_layers = count_attention(s, facts->n_layers) * parts;
    if (rank > 0) /* an indexer keeps FP8 numbers and a float32 scale */
        facts->latent_bytes = n_layers * ((rank + rope) * KV_BYTES + (index ? index + 4 : 0));
    else
        facts->head_bytes = n_layers * (head + value) * KV_BYTES;
}

uint64_t kt_launch_token_bytes(const struct kt_launch_facts *facts, uint64_t n_gpus)
{
    uint64_t heads = (facts->n_kv_heads + n_gpus - 1) / n_gpus;
    return facts->latent_bytes ? facts->latent_bytes : heads * facts->head_bytes;
}

/* ---- all ---- */

/* SGLang reads the folder of safetensors files that the model was published as, and nothing else of ours. */
static int check_model(const struct kt_cli *cli, struct kt_checkpoint *model)
{
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    uint64_t layer;
    const char *path = cli->arguments[0];
    kt_checkpoint_info(model, &info);
    if (strcmp(info.format, "safetensors") != 0)
        return kt_cli_error(
            cli,
            "%s: SGLang loads a folder of safetensors files, and this is %s; give the folder that it "
            "was made of, and this one by --experts",
            path, strcmp(info.format, "gguf") == 0 ? "a GGUF file" : "what KT-Kernel packed");
    if (info.n_moe_layers > 0 && kt_checkpoint_moe_layer(model, 0, &layer, NULL) == KT_OK &&
        kt_checkpoint_moe(model, layer, &moe, NULL) == KT_OK &&
        (*moe.stored_backend || moe.dtype[kt_activation_first(moe.activation)] == KT_DTYPE_I8))
        return kt_cli_error(
            cli,
            "%s: experts are packed for a CPU here, which SGLang cannot load; give the folder that "
            "they were made of, and this one by --experts",
            path);
    return KT_EXIT_OK;
}

/* Of a model with experts whose router's weight counts before them; SGLang's layer for kt_kernel multiplies
 * what they give, whatever its flag apply_router_weight_on_input says. */
static bool weighs_input(const struct kt_settings *s)
{
    return strncmp(s->architecture, "Llama4", strlen("Llama4")) == 0;
}

static int read_experts(const struct kt_cli *cli, struct kt_checkpoint *experts, const char *quantizer,
                        struct kt_launch_facts *facts)
{
    struct kt_checkpoint_info info;
    struct kt_moe_info moe;
    struct kt_error error;
    kt_checkpoint_info(experts, &info);
    if (info.n_moe_layers == 0)
        return kt_cli_error(
            cli, "the checkpoint has no experts that a CPU could compute; SGLang alone serves dense "
                 "models, and kt run without --engine");
    if (kt_checkpoint_moe_layer(experts, 0, &facts->first_moe_layer, &error) != KT_OK ||
        kt_checkpoint_moe(experts, facts->first_moe_layer, &moe, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    if (moe.has_bias != 0)
        return kt_cli_error(
            cli, "the experts have biases, which SGLang's layer for kt_kernel does not pass on; kt run "
                 "without --engine computes them");
    facts->n_experts = moe.n_experts;
    facts->top_k = moe.top_k ? moe.top_k : 8;
    facts->hidden_size = moe.hidden_size;
    facts->intermediate_size = moe.intermediate_size;
    facts->n_moe_layers = info.n_moe_layers < facts->n_layers ? info.n_moe_layers : facts->n_layers;
    return find_format(cli, experts, &moe, quantizer, &facts->format);
}

int kt_launch_facts(const struct kt_cli *cli, struct kt_checkpoint *model, struct kt_checkpoint *experts,
                    struct kt_launch_facts *facts)
{
    struct kt_settings settings;
    struct kt_error error;
    char quantizer[32];
    *facts = (struct kt_launch_facts){.format = NULL};
    int code = check_model(cli, model);
    if (code != KT_EXIT_OK)
        return code;
    if (kt_settings_open(&settings, model, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    const struct kt_family *family = kt_family_find(settings.architecture, false);
    settings.own_names = family ? family->own_names : NULL;
    facts->n_layers = kt_settings_need(&settings, NULL, "num_hidden_layers");
    facts->context = kt_settings_uint(&settings, NULL, "max_position_embeddings", 0);
    read_attention(&settings, family && family->parts ? family->parts : 1, facts);
    const json_t *quantized =
        json_object_get(settings.root, "quantization_config"); /* of text and images alike */
    if (!quantized)
        quantized = json_object_get(settings.model, "quantization_config");
    const char *method = json_string_value(json_object_get(quantized, "quant_method"));
    (void)snprintf(quantizer, sizeof(quantizer), "%s", method ? method : "");
    bool is_refused = weighs_input(&settings);
    kt_settings_close(&settings);
    if (settings.status != KT_OK)
        return kt_cli_fail(cli, &error);
    if (is_refused)
        return kt_cli_error(
            cli, "the router's weight is multiplied into what experts read, but SGLang's layer for kt_kernel "
                 "multiplies what they give; kt run without --engine computes the model");
    code = read_experts(cli, experts, quantizer, facts);
    return code == KT_EXIT_OK ? measure(cli, model, facts) : code;
}
