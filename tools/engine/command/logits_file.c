/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logits_file.c - "KTLOGITS", four numbers of 8 bytes (struct kt_logits_shape), then float32 rows of the
 * vocabulary's size, in the order of windows and tokens. Little-endian, as all machines that kt runs on are.
 */
#include "tools/engine/command/logits_file.h"

#include "tools/engine/base/rename.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char magic[8] = {'K', 'T', 'L', 'O', 'G', 'I', 'T', 'S'};

/* FNV-1a. */
uint64_t kt_logits_hash(const int32_t *ids, uint64_t n)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < n; i++)
        for (int byte = 0; byte < 4; byte++)
            hash = (hash ^ ((uint32_t)ids[i] >> 8 * byte & 255)) * UINT64_C(0x100000001b3);
    return hash;
}

static int fail(const struct kt_logits_file *file, const char *what)
{
    return kt_cli_error(file->cli, "%s: %s: %s", file->path, what, strerror(errno));
}

int kt_logits_create(const struct kt_cli *cli, const char *path, const struct kt_logits_shape *shape,
                     struct kt_logits_file *file)
{
    *file = (struct kt_logits_file){.cli = cli, .path = path, .part = kt_cli_format(cli, "%s.part", path)};
    file->file = fopen(file->part, "wb");
    if (file->file)
        kt_signals_temporary(file->part);
    if (!file->file || fwrite(magic, sizeof(magic), 1, file->file) != 1 ||
        fwrite(shape, sizeof(*shape), 1, file->file) != 1)
        return fail(file, "cannot be written");
    return KT_EXIT_OK;
}

int kt_logits_open(const struct kt_cli *cli, const char *path, const struct kt_logits_shape *shape,
                   struct kt_logits_file *file)
{
    char head[sizeof(magic)];
    struct kt_logits_shape found;
    *file = (struct kt_logits_file){.cli = cli, .path = path, .file = fopen(path, "rb")};
    if (!file->file)
        return fail(file, "cannot be read");
    if (fread(head, sizeof(head), 1, file->file) != 1 || memcmp(head, magic, sizeof(magic)) != 0 ||
        fread(&found, sizeof(found), 1, file->file) != 1)
        return kt_cli_error(cli, "%s: no logits that kt perplexity --save-logits recorded", path);
    if (memcmp(&found, shape, sizeof(found)) == 0)
        return KT_EXIT_OK;
    if (found.vocabulary == shape->vocabulary && found.context == shape->context &&
        found.n_windows == shape->n_windows)
        return kt_cli_error(cli, "%s: recorded over another text, or by another tokenizer", path);
    return kt_cli_error(cli,
                        "%s: recorded with %" PRIu64 " windows of %" PRIu64 " tokens and %" PRIu64
                        " logits each; here it is %" PRIu64 " of %" PRIu64 " and %" PRIu64,
                        path, found.n_windows, found.context, found.vocabulary, shape->n_windows,
                        shape->context, shape->vocabulary);
}

int kt_logits_write(struct kt_logits_file *file, const float *logits, uint64_t n)
{
    return fwrite(logits, sizeof(*logits), n, file->file) == n ? KT_EXIT_OK : fail(file, "cannot be written");
}

int kt_logits_read(struct kt_logits_file *file, float *logits, uint64_t n)
{
    if (fread(logits, sizeof(*logits), n, file->file) == n)
        return KT_EXIT_OK;
    return ferror(file->file) ? fail(file, "cannot be read")
                              : kt_cli_error(file->cli, "%s: the file is truncated", file->path);
}

int kt_logits_finish(struct kt_logits_file *file)
{
    bool good = fflush(file->file) == 0 && fsync(fileno(file->file)) == 0;
    if (fclose(file->file) != 0)
        good = false;
    file->file = NULL;
    if (!good || !kt_rename_synced(file->part, file->path))
        return fail(file, "cannot be written");
    kt_signals_temporary(NULL);
    free(file->part);
    file->part = NULL;
    return KT_EXIT_OK;
}

void kt_logits_close(struct kt_logits_file *file)
{
    if (file->file)
        (void)fclose(file->file);
    if (file->part) {
        (void)unlink(file->part);
        kt_signals_temporary(NULL);
    }
    free(file->part);
    *file = (struct kt_logits_file){.cli = file->cli};
}
