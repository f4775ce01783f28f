/* SPDX-License-Identifier: Apache-2.0 */
/*
 * family.c - a family of models is one row of `families`: the text between the numbers of layer and expert,
 * and the names of the three projections. Each kind of tensor of a number format is one row of `parts`.
 *
 *     model.layers.3.  mlp.experts.  17.  gate_proj  .weight_scale_inv
 *     prefix           family        no.  projection part
 */
#include "core/weights/model/family.h"

#include "core/weights/model/ignored.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* No layer or expert has a longer number. */
enum { MOST_DIGITS = 9 };

static const char *const prefixes[] = {"model.layers.",
                                       "language_model.model.layers.",
                                       "model.language_model.layers.",
                                       "backbone.layers.",
                                       "transformer.blocks.",
                                       "layers.",
                                       "mtp.layers."};

/* Has each expert tensors of its own, or one tensor those of all, so that no number of an expert follows:
 * with a dimension for them, or with their rows below one another, as in one matrix? */
enum form { APART, FUSED, BELOW };

static const struct family {
    const char *experts;
    enum form form;
    const char *kind[KT_N_KINDS]; /* gate, up, down, gate and up in one; NULL: there is none */
} families[] = {
    {"mlp.experts.", APART, {"gate_proj", "up_proj", "down_proj"}},     /* Qwen, DeepSeek, GLM, Kimi */
    {"block_sparse_moe.experts.", APART, {"w1", "w3", "w2"}},           /* Mixtral, MiniMax */
    {"experts.", APART, {"w1", "w3", "w2"}},                            /* Mistral's own */
    {"ffn.experts.", APART, {"w1", "w3", "w2"}},                        /* DeepSeek's own */
    {"mixer.experts.", APART, {NULL, "up_proj", "down_proj"}},          /* Nemotron-H, without gates */
    {"mlp.experts.", FUSED, {NULL, NULL, "down_proj", "gate_up_proj"}}, /* Qwen3.5, gpt-oss */
    {"experts.", FUSED, {NULL, NULL, "down_proj", "gate_up_proj"}},     /* Gemma 4 */
    {"feed_forward.experts.", FUSED, {NULL, NULL, "down_proj", "gate_up_proj"}},     /* Llama 4 */
    {"mlp.experts.", FUSED, {NULL, NULL, "fc2", "fc1"}},                             /* Aria */
    {"ffn.experts.mlp.", BELOW, {"w1", "v1", "w2"}},                                 /* DBRX */
    {"block_sparse_moe.", FUSED, {NULL, NULL, "output_linear", "input_linear"}},     /* Granite */
    {"block_sparse_moe.experts.", FUSED, {NULL, NULL, "down_proj", "gate_up_proj"}}, /* with windows */
    {"moe.", FUSED, {"gate_proj", "up_proj", "down_proj"}},                          /* Step 3.5 */
};

static const char nvfp4[] = "NVFP4", zeros[] = "int4 of compressed-tensors with zero points",
                  fused_fp8[] = "FP8 in fused tensors", unknown[] = "a kind that is not known";

/* The text after the projection. */
static const struct kt_weight_part parts[] = {
    {".weight", KT_ROLE_WEIGHT, KT_CODING_PLAIN, NULL},
    {"", KT_ROLE_WEIGHT, KT_CODING_PLAIN, NULL}, /* fused */
    {".weight_scale_inv", KT_ROLE_SCALE, 0, NULL},
    {".weight_scale", KT_ROLE_SCALE, 0, NULL},
    {".scale", KT_ROLE_SCALE, 0, NULL},
    {".bias", KT_ROLE_BIAS, 0, NULL},
    {"_bias", KT_ROLE_BIAS, 0, NULL}, /* fused */
    {".weight_packed", KT_ROLE_WEIGHT, KT_CODING_PACKED, NULL},
    {".weight_shape", KT_ROLE_SHAPE, 0, NULL},
    {".weight_g_idx", KT_ROLE_ORDER, 0, NULL},
    {".weight_zero_point", KT_ROLE_REFUSED, 0, zeros},
    {".qweight", KT_ROLE_WEIGHT, KT_CODING_GPTQ, NULL},
    {".scales", KT_ROLE_SCALE, 0, NULL},
    {".qzeros", KT_ROLE_ZERO, 0, NULL},
    {".g_idx", KT_ROLE_ORDER, 0, NULL},
    {".weight_scale_2", KT_ROLE_REFUSED, 0, nvfp4},
    {".weight_global_scale", KT_ROLE_REFUSED, 0, nvfp4},
    {".input_global_scale", KT_ROLE_REFUSED, 0, nvfp4},
    {"_blocks", KT_ROLE_WEIGHT, KT_CODING_BLOCKS, NULL}, /* fused */
    {"_scales", KT_ROLE_SCALE, 0, NULL},                 /* fused */
    {"_scale", KT_ROLE_REFUSED, 0, fused_fp8},
    {"_scale_inv", KT_ROLE_REFUSED, 0, fused_fp8},
};

/* Skips `text`, if the rest begins with it. */
static bool skip(const char **at, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(*at, text, length) != 0)
        return false;
    *at += length;
    return true;
}

/* A number as people write it, and the dot after it. */
static bool skip_number(const char **at, uint64_t *number)
{
    const char *digits = *at;
    *number = 0;
    for (; **at >= '0' && **at <= '9' && *at - digits < MOST_DIGITS; ++*at)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return *at > digits && (*digits != '0' || *at == digits + 1) && skip(at, ".");
}

bool kt_weight_part(size_t i, struct kt_weight_part *part)
{
    if (i >= COUNT(parts))
        return false;
    *part = parts[i];
    return true;
}

static bool parse_part(const char *at, struct kt_expert_name *parsed)
{
    if (*at && *at != '.' && *at != '_')
        return false;
    parsed->role = KT_ROLE_REFUSED;
    parsed->coding = KT_CODING_NONE;
    parsed->format = unknown;
    parsed->part = "";
    if (*at == '.' && kt_ending_is_ignored(at + 1))
        parsed->role = KT_ROLE_NONE;
    for (size_t i = 0; i < COUNT(parts); i++)
        if (strcmp(at, parts[i].ending) == 0) {
            parsed->role = parts[i].role;
            parsed->coding = parts[i].coding;
            parsed->part = parts[i].ending;
            parsed->format = parts[i].format;
        }
    return true;
}

static bool parse_rest(const char *at, const struct family *family, struct kt_expert_name *parsed)
{
    parsed->expert = 0;
    parsed->fused = family->form != APART;
    parsed->below = family->form == BELOW;
    if (!skip(&at, family->experts) || (family->form == APART && !skip_number(&at, &parsed->expert)))
        return false;
    for (int kind = 0; kind < KT_N_KINDS; kind++) {
        const char *after = at;
        parsed->kind = kind;
        if (family->kind[kind] && skip(&after, family->kind[kind]) && parse_part(after, parsed))
            return true;
    }
    return false;
}

bool kt_expert_name_parse(const char *name, struct kt_expert_name *parsed)
{
    for (unsigned p = 0; p < COUNT(prefixes); p++) {
        const char *at = name;
        if (!skip(&at, prefixes[p]) || !skip_number(&at, &parsed->layer))
            continue;
        parsed->prefix = p;
        parsed->predicts = p == COUNT(prefixes) - 1;
        for (unsigned f = 0; f < COUNT(families); f++) {
            parsed->family = f;
            if (parse_rest(at, &families[f], parsed))
                return true;
        }
    }
    return false;
}

bool kt_expert_name_is_stray(const char *name)
{
    struct kt_expert_name parsed;
    uint64_t number;
    for (unsigned p = 0; p < COUNT(prefixes); p++)
        for (unsigned f = 0; f < COUNT(families); f++) {
            const char *at = name;
            if (skip(&at, prefixes[p]) && skip_number(&at, &number) && skip(&at, families[f].experts) &&
                skip_number(&at, &number))
                return !kt_expert_name_parse(name, &parsed);
        }
    return false;
}

char *kt_expert_name_weight(const struct kt_expert_name *like, uint64_t expert, int kind, char *text,
                            size_t size)
{
    const struct family *family = &families[like->family];
    const char *part = like->role == KT_ROLE_WEIGHT ? like->part : family->form == APART ? ".weight" : "";
    char number[24] = "";
    if (family->form == APART)
        (void)snprintf(number, sizeof number, "%" PRIu64 ".", expert);
    const char *projection = family->kind[kind];
    if (!projection)
        projection = family->kind[KT_GATE_UP] ? family->kind[KT_GATE_UP] : "gate_proj";
    (void)snprintf(text, size, "%s%" PRIu64 ".%s%s%s%s", prefixes[like->prefix], like->layer, family->experts,
                   number, projection, part);
    return text;
}
