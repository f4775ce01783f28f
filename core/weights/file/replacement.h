/* SPDX-License-Identifier: Apache-2.0 */
/* replacement.h - a file that is written beside the one that it replaces, and takes its name when complete.
 */
#ifndef KT_CORE_WEIGHTS_FILE_REPLACEMENT_H
#define KT_CORE_WEIGHTS_FILE_REPLACEMENT_H

#include "core/weights/file/file.h"

#include <stdio.h>

struct kt_replacement {
    char *path;      /* where the file belongs, symbolic links resolved */
    char *temporary; /* NULL: a device or a pipe is written in place */
    FILE *file;      /* to be written to */
    char label[KT_LABEL_SIZE];
};

/* After all of these, errors included: kt_replacement_cancel. */
enum kt_status kt_replacement_open(const char *path, struct kt_replacement *out, struct kt_error *error);

/* Makes the file durable and gives it its name. */
enum kt_status kt_replacement_finish(struct kt_replacement *out, struct kt_error *error);

/* For a call that could not write to out->file and has set errno. */
enum kt_status kt_replacement_fail(const struct kt_replacement *out, struct kt_error *error);

/* Frees everything; a file that is not finished leaves no trace. */
void kt_replacement_cancel(struct kt_replacement *out);

#endif
