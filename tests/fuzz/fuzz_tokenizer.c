/* SPDX-License-Identifier: Apache-2.0 */
/* The input is a text, a zero byte, and a tokenizer.json that begins with '{', a GGUF file or a tiktoken
 * file. What can be opened encodes the text in parts of both kinds, and decodes it again. */
#define _GNU_SOURCE
#include <kt/text.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file whose name says what it is. */
struct file {
    int fd;
    char path[64], link[512];
};

static void write_file(struct file *file, const char *ending, const uint8_t *data, size_t size)
{
    if (!file->link[0]) {
        file->fd = memfd_create(ending, 0);
        snprintf(file->path, sizeof(file->path), "/proc/%d/fd/%d", (int)getpid(), file->fd);
        const char *folder = getenv("TMPDIR");
        snprintf(file->link, sizeof(file->link), "%s/%d%s", folder ? folder : "/tmp", (int)getpid(), ending);
        if (symlink(file->path, file->link) != 0)
            abort();
    }
    if (ftruncate(file->fd, 0) != 0 || pwrite(file->fd, data, size, 0) != (ssize_t)size)
        abort();
}

static void use(const struct kt_tokenizer *tokenizer, const char *text, size_t length)
{
    const struct kt_text_part parts[] = {{text, length / 3, 0, 0},
                                         {text + length / 3, length - length / 3, 1, 0}};
    struct kt_error error = {KT_OK, ""};
    int32_t *ids;
    uint64_t n_ids, back;
    char *decoded;
    if (kt_tokenizer_encode(tokenizer, parts, 2, KT_ENCODE_BOS, &ids, &n_ids, &error) != KT_OK) {
        if (!error.message[0])
            abort();
        return;
    }
    if (kt_tokenizer_decode(tokenizer, ids, n_ids, 0, &decoded, &back, &error) != KT_OK)
        abort();
    for (uint64_t i = 0; i < n_ids; i++) {
        struct kt_token token;
        if (kt_tokenizer_token(tokenizer, ids[i], &token, &error) != KT_OK)
            abort();
    }
    kt_text_free(decoded);
    kt_ids_free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct file json, gguf, tiktoken;
    const uint8_t *zero = size > 0 ? memchr(data, 0, size) : NULL;
    struct kt_tokenizer *tokenizer;
    struct kt_error error = {KT_OK, ""};
    if (!zero)
        return -1;
    const uint8_t *start = zero + 1;
    size_t length = size - (size_t)(start - data);
    struct file *file = &tiktoken;
    if (length > 0 && *start == '{')
        file = &json;
    else if (length > 4 && memcmp(start, "GGUF", 4) == 0)
        file = &gguf;
    write_file(file, file == &json ? ".json" : file == &gguf ? ".gguf" : ".tiktoken", start, length);
    if (kt_tokenizer_open(file->link, &tokenizer, &error) != KT_OK)
        return error.message[0] ? 0 : (abort(), 0);
    use(tokenizer, (const char *)data, (size_t)(zero - data));
    kt_tokenizer_destroy(tokenizer);
    return 0;
}
