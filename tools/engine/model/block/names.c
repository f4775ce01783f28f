/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - what files call the weights of a layer. */
#include "tools/engine/model/block/block.h"

#include <stdio.h>
#include <string.h>

const char *kt_layers_name(const struct kt_model *m)
{
    const char *own = m->config.family->names.json_layers;
    return own ? own : "layers";
}

/* Of layers that are a part of one in files. */
static void name_part(const struct kt_model *m, uint32_t layer, const char *json, char *name)
{
    const struct kt_family *family = m->config.family;
    const char *const *word = family->names.json_parted;
    size_t length = strcspn(json, ".");
    while (word && *word && (strlen(*word) != length || strncmp(*word, json, length) != 0))
        word++;
    int n = snprintf(name, KT_WEIGHT_NAME, "%s%s.%u.", m->config.json_stem, kt_layers_name(m),
                     kt_file_layer(&m->config, layer));
    if (word && *word)
        snprintf(name + n, KT_WEIGHT_NAME - (size_t)n, "%.*s.%u%s", (int)length, json, layer % family->parts,
                 json + length);
    else
        snprintf(name + n, KT_WEIGHT_NAME - (size_t)n, "%s", json);
}

void kt_weight_name(const struct kt_model *m, uint32_t layer, const char *gguf, const char *json, char *name)
{
    if (m->config.is_gguf)
        snprintf(name, KT_WEIGHT_NAME, "blk.%u.%s", layer, gguf ? gguf : "");
    else if (layer >= m->config.n_layers && m->config.family->names.json_mtp)
        snprintf(name, KT_WEIGHT_NAME, "mtp.layers.%u.%s", layer - m->config.n_layers, json ? json : "");
    else
        name_part(m, layer, json ? json : "", name);
}
