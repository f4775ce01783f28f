/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_split.h - a model in several GGUF files. */
#ifndef KT_CORE_WEIGHTS_GGUF_GGUF_SPLIT_H
#define KT_CORE_WEIGHTS_GGUF_GGUF_SPLIT_H

#include "core/weights/gguf/gguf_header.h"

/* Reads the tensors of the file at `path`, or of all files if that is one file of a split model: then *gguf
 * becomes the header of the first one. *gguf may be NULL after a failure. */
enum kt_status kt_gguf_read_parts(struct kt_gguf **gguf, const char *path, struct kt_error *error);

/* The path of the (first) file of the only GGUF model in the folder; to be freed. */
enum kt_status kt_gguf_find_file(const char *folder, char **path, struct kt_error *error);

#endif
