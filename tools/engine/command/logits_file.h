/* SPDX-License-Identifier: Apache-2.0 */
/* logits_file.h - logits of a model over a text, recorded to compare others with. */
#ifndef KT_ENGINE_COMMAND_LOGITS_FILE_H
#define KT_ENGINE_COMMAND_LOGITS_FILE_H

#include "tools/kt/base/cli.h"

#include <stdint.h>
#include <stdio.h>

/** What a file is of: all of it must be equal for two models to be compared. */
struct kt_logits_shape {
    uint64_t vocabulary, context, n_windows;
    uint64_t ids; /**< a hash of the tokens */
};

struct kt_logits_file {
    const struct kt_cli *cli;
    const char *path;
    char *part; /**< while it is written: the name that it has until it is whole */
    FILE *file;
};

uint64_t kt_logits_hash(const int32_t *ids, uint64_t n);

/* These return 0, or an exit code after a message. */

/** A file that appears under its name when kt_logits_finish is called. */
int kt_logits_create(const struct kt_cli *cli, const char *path, const struct kt_logits_shape *shape,
                     struct kt_logits_file *file);
/** A file that was recorded, whose shape must be this one. */
int kt_logits_open(const struct kt_cli *cli, const char *path, const struct kt_logits_shape *shape,
                   struct kt_logits_file *file);
/** The next n numbers. */
int kt_logits_write(struct kt_logits_file *file, const float *logits, uint64_t n);
int kt_logits_read(struct kt_logits_file *file, float *logits, uint64_t n);
int kt_logits_finish(struct kt_logits_file *file);
/** Removes what was not finished. */
void kt_logits_close(struct kt_logits_file *file);

#endif
