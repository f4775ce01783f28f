/* SPDX-License-Identifier: Apache-2.0 */
/* tiktoken.c - vocabularies as lines of "BASE64 RANK"; what cuts words is in programs, so their size has to
 * tell. */
#include "tools/engine/base/fail.h"
#include "tools/engine/text/tokenizer/load.h"
#include "tools/engine/text/tokenizer/pre.h"

#include <string.h>

/* Bytes of the longest token that is read; the longest known are runs of 1024 spaces. */
#define MAX_TOKEN 16384

static const struct {
    uint64_t n;
    const char *pre;
} sizes[] = {{163584, "kimi-k2"}, {128000, "llama-bpe"}, {151643, "qwen2"},
             {199998, "gpt-4o"},  {200000, "gpt-4o"},    {50256, "gpt-2"}};

static int read_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *place = c ? strchr(digits, c) : NULL;
    return place ? (int)(place - digits) : -1;
}

/* Decodes up to `end` or '='; false: no BASE64. */
static bool read_base64(const char *at, const char *end, char *out, size_t *length)
{
    unsigned bits = 0, n_bits = 0;
    *length = 0;
    for (; at < end && *at != '='; at++) {
        int digit = read_digit(*at);
        if (digit < 0)
            return false;
        bits = bits << 6 | (unsigned)digit;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[(*length)++] = (char)(bits >> n_bits);
        }
    }
    return *length > 0;
}

static enum kt_status read_line(struct kt_tokenizer *t, const char *line, const char *end, uint64_t number,
                                struct kt_error *error)
{
    char bytes[MAX_TOKEN];
    size_t length;
    uint64_t rank = 0;
    const char *space = memchr(line, ' ', (size_t)(end - line)), *at = space ? space + 1 : end;
    for (; at < end && *at >= '0' && *at <= '9' && rank < KT_VOCAB_MAX; at++)
        rank = 10 * rank + (uint64_t)(*at - '0');
    if (!space || at != end || at == space + 1 || (size_t)(space - line) > MAX_TOKEN ||
        !read_base64(line, space, bytes, &length))
        return kt_engine_fail(error, KT_E_FORMAT, "%s:%llu: no line \"BASE64 RANK\" of a tiktoken file",
                              t->source, (unsigned long long)number);
    return kt_tokenizer_set(t, rank, bytes, length, KT_TOKEN_NORMAL, error);
}

enum kt_status kt_load_tiktoken(struct kt_tokenizer *t, const struct kt_buffer *bytes, struct kt_error *error)
{
    const char *line = bytes->data, *stop = line + bytes->length;
    uint64_t number = 0;
    const char *pre = NULL;
    t->kind = KT_TOKENIZER_BPE;
    t->has_bytes = true;
    t->order = KT_BPE_RANKS;
    enum kt_status status = KT_OK;
    while (line < stop && status == KT_OK) {
        const char *end = memchr(line, '\n', (size_t)(stop - line));
        end = end ? end : stop;
        number++;
        if (end > line)
            status = read_line(t, line, end, number, error);
        line = end + (end < stop);
    }
    if (status != KT_OK)
        return status;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        pre = sizes[i].n == t->vocab.n ? sizes[i].pre : pre;
    if (!pre)
        return kt_engine_fail(
            error, KT_E_UNSUPPORTED,
            "%s: a tiktoken file of %zu tokens; known are Kimi's 163584, Llama's 128000, Qwen's "
            "151643, gpt-oss' 199998, Llama 4's 200000 and GPT-2's 50256. Others need a tokenizer.json",
            t->source, t->vocab.n);
    if (!kt_vocab_index(&t->vocab, t->vocab.n))
        return kt_engine_fail(error, KT_E_NOMEM, "no memory for a vocabulary");
    for (uint32_t id = 0; id < t->vocab.n; id++)
        if (t->vocab.tokens[id].type != 0)
            kt_vocab_enter(&t->vocab, id);
    status = kt_pre_set(t, pre, error);
    t->ignores_merges = true; /* a word that is a token is one, by tiktoken's rule */
    return status;
}
