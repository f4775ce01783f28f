/* SPDX-License-Identifier: Apache-2.0 */
/* gguf.h - checkpoints in GGUF files. */
#ifndef KT_CORE_WEIGHTS_GGUF_GGUF_H
#define KT_CORE_WEIGHTS_GGUF_GGUF_H

#include "core/weights/table/checkpoint.h"

extern const struct kt_checkpoint_format kt_format_gguf;

#endif
