/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_split.h - a model in several GGUF files. */
#ifndef KT_CORE_WEIGHTS_GGUF_GGUF_SPLIT_H
#define KT_CORE_WEIGHTS_GGUF_GGUF_SPLIT_H

#include "core/weights/gguf/gguf_header.h"

/* Reads the tensors of the file at `path` or, where it is one of the files of a split model, of all
 * of them: *gguf is then the first one's. On failure it may be NULL. */
enum kt_status kt_gguf_read_parts(struct kt_gguf **gguf, const char *path, struct kt_error *error);

/* The path of the one model in the folder that is a GGUF file or several; to be freed. */
enum kt_status kt_gguf_find_file(const char *folder, char **path, struct kt_error *error);

#endif
