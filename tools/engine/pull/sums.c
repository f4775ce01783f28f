/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c - checksums of files that were pulled, in a file beside them that sha256sum(1) -c reads, too. */
#include "tools/engine/base/rename.h"
#include "tools/engine/pull/pull.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME ".kt-pull.sha256"

void pull_hex(const uint8_t *digest, size_t n, char *text)
{
    for (size_t i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

bool pull_blob_file(const char *path, uint64_t size, char sha1[41])
{
    struct sha1_ctx context;
    uint8_t digest[SHA1_DIGEST_SIZE], buffer[4096];
    char head[40];
    int length = snprintf(head, sizeof(head), "blob %" PRIu64, size);
    FILE *file = fopen(path, "re");
    size_t n = 0;
    sha1_init(&context);
    sha1_update(&context, (size_t)length + 1, (const uint8_t *)head);
    while (file && (n = fread(buffer, 1, sizeof(buffer), file)) > 0)
        sha1_update(&context, n, buffer);
    bool read_all = file && !ferror(file);
    if (file)
        fclose(file);
    sha1_digest(&context, sizeof(digest), digest);
    pull_hex(digest, sizeof(digest), sha1);
    return read_all;
}

bool pull_sum_file(const char *path, char sha256[65], uint64_t *done, uint64_t total)
{
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE], *buffer = malloc(1 << 20);
    int fd = buffer ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = -1;
    sha256_init(&context);
    while (fd >= 0 && pull_signal() == 0 &&
           ((n = read(fd, buffer, 1 << 20)) > 0 || (n < 0 && errno == EINTR))) {
        if (n > 0)
            sha256_update(&context, (size_t)n, buffer);
        *done += n > 0 ? (uint64_t)n : 0;
        kt_progress_bytes(*done, total);
    }
    int failure = n > 0 ? EINTR : errno;
    sha256_digest(&context, sizeof(digest), digest);
    pull_hex(digest, sizeof(digest), sha256);
    if (fd >= 0)
        close(fd);
    free(buffer);
    errno = failure;
    return n == 0;
}

void pull_sums_set(const struct kt_cli *cli, struct pull_sums *sums, const char *path, const char *sha256)
{
    size_t i = 0;
    while (i < sums->n && strcmp(sums->sum[i].path, path) != 0)
        i++;
    if (i == sums->n) {
        struct pull_sum *grown = kt_cli_alloc(cli, sums->n + 1, sizeof(*grown));
        if (sums->n > 0)
            memcpy(grown, sums->sum, sums->n * sizeof(*grown));
        free(sums->sum);
        sums->sum = grown;
        sums->sum[sums->n++].path = kt_cli_format(cli, "%s", path);
    }
    snprintf(sums->sum[i].sha256, sizeof(sums->sum[i].sha256), "%s", sha256);
}

const char *pull_sums_get(const struct pull_sums *sums, const char *path)
{
    for (size_t i = 0; i < sums->n; i++)
        if (strcmp(sums->sum[i].path, path) == 0)
            return sums->sum[i].sha256;
    return NULL;
}

void pull_sums_free(struct pull_sums *sums)
{
    for (size_t i = 0; i < sums->n; i++)
        free(sums->sum[i].path);
    free(sums->sum);
    *sums = (struct pull_sums){.n = 0};
}

int pull_sums_read(const struct kt_cli *cli, const char *folder, struct pull_sums *sums)
{
    char *path = kt_cli_format(cli, "%s/" NAME, folder), *line = NULL;
    size_t room = 0;
    unsigned number = 0;
    int code = KT_EXIT_OK;
    *sums = (struct pull_sums){.n = 0};
    FILE *file = fopen(path, "re");
    if (!file && errno != ENOENT && errno != ENOTDIR)
        code = kt_cli_error(cli, "%s: %s", path, strerror(errno));
    for (ssize_t length; file && code == KT_EXIT_OK && (length = getline(&line, &room, file)) > 0;) {
        number++;
        line[length - (line[length - 1] == '\n')] = '\0';
        /* Only files below the folder are meant, whoever wrote this. */
        if (length < 68 || strspn(line, "0123456789abcdef") != 64 || strncmp(line + 64, "  ", 2) != 0 ||
            !pull_is_safe(line + 66)) {
            code = kt_cli_error(cli, "%s:%u: no line of sha256sum's", path, number);
            break;
        }
        line[64] = '\0';
        pull_sums_set(cli, sums, line + 66, line);
    }
    if (file)
        fclose(file);
    free(line);
    free(path);
    return code;
}

int pull_sums_write(const struct kt_cli *cli, const char *folder, const struct pull_sums *sums)
{
    char *path = kt_cli_format(cli, "%s/" NAME, folder), *temporary = kt_cli_format(cli, "%s.new", path);
    FILE *file = fopen(temporary, "we");
    bool written = file != NULL;
    for (size_t i = 0; i < sums->n && written; i++)
        written = fprintf(file, "%s  %s\n", sums->sum[i].sha256, sums->sum[i].path) > 0;
    if (file)
        written = fflush(file) == 0 && fsync(fileno(file)) == 0 && written;
    if (file && fclose(file) != 0)
        written = false;
    written = written && kt_rename_synced(temporary, path);
    int code = written ? KT_EXIT_OK : kt_cli_error(cli, "%s: %s", path, strerror(errno));
    free(temporary);
    free(path);
    return code;
}
