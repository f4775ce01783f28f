/* SPDX-License-Identifier: Apache-2.0 */
/* folder_names.h - which safetensors files of a folder belong to its model, if no index says so. */
#ifndef KT_CORE_WEIGHTS_FOLDER_NAMES_H
#define KT_CORE_WEIGHTS_FOLDER_NAMES_H

#include "core/base/log.h"

#include <kt/kt.h>
#include <stdbool.h>
#include <stddef.h>

/* Names of files, whose texts belong to the list or to something else. */
struct kt_names {
    const char **name;
    size_t n, capacity;
};

enum kt_status kt_names_add(struct kt_names *names, const char *name, const char *label,
                            struct kt_error *error);
void kt_names_sort(struct kt_names *names);

/* Leaves the files of the model in a sorted list of those of a folder, and frees the other names:
 *
 *     model.safetensors                   is all there is to the model
 *     consolidated*.safetensors           the same model under the names of its makers
 *     adapter_model*.safetensors          an adapter, which belongs to another model
 *     NAME.VARIANT[-NUMBERS].safetensors  another form of NAME[-NUMBERS].safetensors
 *
 * The last three are left out if something else is there; `more`: the folder has files of another kind. */
enum kt_status kt_names_choose(struct kt_names *names, bool more, const struct kt_log *log, const char *label,
                               struct kt_error *error);

/* With the texts. */
void kt_names_free(struct kt_names *names);

#endif
