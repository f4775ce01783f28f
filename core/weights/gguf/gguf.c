/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.c - reads a checkpoint in GGUF files. */
#include "core/weights/gguf/gguf.h"

#include "core/weights/gguf/gguf_header.h"
#include "core/weights/gguf/gguf_split.h"
#include "core/weights/gguf/moe_gguf.h"
#include "core/weights/gguf/weight_gguf.h"
#include "core/weights/table/tensors.h"

#include <string.h>

static enum kt_status read_gguf(struct kt_checkpoint *checkpoint, const char *path, struct kt_error *error)
{
    struct kt_gguf *gguf = NULL;
    enum kt_status status = kt_gguf_begin(checkpoint, 0, &gguf, error);
    if (status == KT_OK)
        status = kt_gguf_read_parts(&gguf, path, error);
    if (status == KT_OK)
        status = kt_tensors_index(checkpoint, error);
    if (status == KT_OK) {
        memcpy(checkpoint->architecture, gguf->architecture, sizeof checkpoint->architecture);
        memcpy(checkpoint->name, gguf->name, sizeof checkpoint->name);
        status = kt_gguf_find_moe(gguf, error);
    }
    if (status == KT_OK)
        kt_gguf_keep_keys(gguf);
    kt_gguf_end(gguf);
    return status;
}

static bool match_gguf(const uint8_t head[16], uint64_t size)
{
    return size >= 4 && memcmp(head, KT_GGUF_MAGIC, 4) == 0;
}

const struct kt_checkpoint_format kt_format_gguf = {
    .name = "gguf",
    .matches = match_gguf,
    .read = read_gguf,
    .weight = kt_gguf_weight,
    .no_experts = "no tensor is named blk.N.ffn_{gate,up,down}_exps.weight, as in models with experts",
};
