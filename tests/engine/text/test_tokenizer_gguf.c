/* SPDX-License-Identifier: Apache-2.0 */
/* test_tokenizer_gguf.c - vocabularies of GGUF files, which come with downloads: every key of another type,
 * number or length, missing, or with damaged bytes is read, or refused with words that name the file. */
#define _GNU_SOURCE /* memfd_create */
#include "tests/support/gguf_build.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"
#include "tools/engine/text/tokenizer/merges.h"
#include "tools/engine/text/tokenizer/vocab.h"

#include <check.h>
#include <kt/text.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { I32 = 5, F32 = 6, BOOL = 7, TEXT = 8, ARRAY = 9, U32 = 4, F64 = 12, ABSENT = 99 };
#define KEY(name) "tokenizer.ggml." name

/* What stands in place of a key: an array has `count` times the same element. */
struct change {
    const char *key;
    uint32_t type;
    uint32_t element; /* of an array */
    uint64_t count;
    uint64_t number;
    const char *text;
};

/* ---- two small vocabularies ---- */

static const char *const bpe_tokens[] = {"a", "b", "ab", "abb", "<s>", "</s>", "\304\240", "\304\240a"};
static const uint8_t bpe_types[] = {1, 1, 1, 1, 3, 3, 1, 1};
static const char *const merges[] = {"a b", "ab b", "\304\240 a"};
static const char *const spm_tokens[] = {"<unk>",        "<s>", "</s>",          "<0x41>",
                                         "\342\226\201", "a",   "\342\226\201a", "b"};
static const uint8_t spm_types[] = {2, 3, 3, 6, 1, 1, 1, 1};
enum { N_TOKENS = 8, N_MERGES = 3 };

static void put_array(struct bytes *bytes, const char *key, uint32_t element, uint64_t count)
{
    put_string(bytes, key);
    put_u32(bytes, ARRAY);
    put_u32(bytes, element);
    put_u64(bytes, count);
}

static void put_texts(struct bytes *bytes, const char *key, const char *const *texts, uint64_t n)
{
    put_array(bytes, key, TEXT, n);
    for (uint64_t i = 0; i < n; i++)
        put_string(bytes, texts[i]);
}

static const char *const keys[] =
    {KEY("model"),        KEY("pre"),           KEY("tokens"),           KEY("token_type"),
     KEY("merges"),       KEY("scores"),        KEY("bos_token_id"),     KEY("eos_token_id"),
     KEY("eot_token_id"), KEY("add_bos_token"), KEY("add_space_prefix"), KEY("unknown_token_id"),
     KEY("eom_token_id"), KEY("add_eos_token"), KEY("padding_token_id"), "tokenizer.chat_template"};
enum { N_KEYS = 16 };

static void put_base(struct bytes *bytes, bool is_spm, size_t key)
{
    static const uint8_t ids[] = {1, 2, 2, 1, 1,
                                  0, 2, 0, 2}; /* of keys from 6, of either kind within the vocabulary */
    switch (key) {
    case 0:
        put_key_string(bytes, keys[key], is_spm ? "llama" : "gpt2");
        return;
    case 1:
        put_key_string(bytes, keys[key], "gpt-2");
        return;
    case 2:
        put_texts(bytes, keys[key], is_spm ? spm_tokens : bpe_tokens, N_TOKENS);
        return;
    case 3:
        put_array(bytes, keys[key], I32, N_TOKENS);
        for (int i = 0; i < N_TOKENS; i++)
            put_u32(bytes, (is_spm ? spm_types : bpe_types)[i]);
        return;
    case 4:
        put_texts(bytes, keys[key], merges, N_MERGES);
        return;
    case 5:
        put_array(bytes, keys[key], F32, N_TOKENS);
        for (uint32_t i = 0; i < N_TOKENS; i++)
            put_u32(bytes, 0xbf800000 + (i << 16)); /* -1 and below */
        return;
    case N_KEYS - 1:
        put_key_string(bytes, keys[key], "{{ bos_token }}<s>");
        return;
    default:
        put_key(bytes, keys[key], strstr(keys[key], ".add_") ? BOOL : U32, ids[key - 6]);
    }
}

static void put_element(struct bytes *bytes, uint32_t type, const struct change *change)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == TEXT)
        put_string(bytes, change->text ? change->text : "");
    else
        put_number(bytes, change->number, sizes[type]);
}

static void put_change(struct bytes *bytes, const struct change *change)
{
    if (change->type != ARRAY) {
        put_string(bytes, change->key);
        put_u32(bytes, change->type);
        put_element(bytes, change->type, change);
        return;
    }
    put_array(bytes, change->key, change->element, change->count);
    for (uint64_t i = 0; i < change->count; i++)
        put_element(bytes, change->element, change);
}

static void build(struct bytes *bytes, bool is_spm, const struct change *change)
{
    bytes->size = 0;
    put_header(bytes, 3, 0, N_KEYS + (change && change->type == ABSENT ? 0U : 1U));
    put_key_string(bytes, "general.architecture", "qwen3");
    for (size_t i = 0; i < N_KEYS; i++) {
        if (!change || strcmp(change->key, keys[i]) != 0)
            put_base(bytes, is_spm, i);
        else if (change->type != ABSENT)
            put_change(bytes, change);
    }
}

/* ---- use ---- */

static void use(struct kt_tokenizer *tokenizer)
{
    static const char text[] = "ab <s> abb\303\251A\342\226\201 </s>b";
    const struct kt_text_part parts[] = {{text, 7, 0, 0}, {text + 7, sizeof(text) - 8, 1, 0}};
    struct kt_error error = {KT_OK, ""};
    struct kt_tokenizer_info info;
    int32_t *ids;
    uint64_t n_ids, length;
    char *decoded;
    kt_tokenizer_info(tokenizer, &info);
    enum kt_status status = kt_tokenizer_encode(tokenizer, parts, 2, KT_ENCODE_BOS, &ids, &n_ids, &error);
    if (status != KT_OK) {
        if (!strstr(error.message, "x.gguf"))
            ck_abort_msg("'%s' does not name the file", error.message);
        return;
    }
    for (uint64_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= info.n_tokens)
            ck_abort_msg("id %d of %u tokens", ids[i], info.n_tokens);
    if (kt_tokenizer_decode(tokenizer, ids, n_ids, 0, &decoded, &length, &error) != KT_OK)
        ck_abort_msg("%s", error.message);
    kt_text_free(decoded);
    kt_ids_free(ids);
}

static const char *path;
static int memory;

/* Tens of thousands of files: in memory, by the name of a link. */
static void open_folder(void)
{
    char target[64];
    sandbox_open();
    path = sandbox_path("x.gguf");
    memory = memfd_create("x.gguf", MFD_CLOEXEC);
    snprintf(target, sizeof(target), "/proc/%d/fd/%d", (int)getpid(), memory);
    ck_assert_int_eq(symlink(target, path), 0);
}

/* Opens and uses a file; its status and words. Assertions, which check keeps in a file, would take most of
 * the time.
 */
static enum kt_status try_file(const void *data, size_t size, struct kt_error *error)
{
    struct kt_tokenizer *tokenizer = NULL;
    *error = (struct kt_error){KT_OK, ""};
    if (ftruncate(memory, (off_t)size) != 0 || pwrite(memory, data, size, 0) != (ssize_t)size)
        ck_abort_msg("the file cannot be written");
    enum kt_status status = kt_tokenizer_open(path, &tokenizer, error);
    if (status == KT_OK)
        use(tokenizer);
    else if (!strstr(error->message, "x.gguf"))
        ck_abort_msg("'%s' does not name the file", error->message);
    for (const char *c = error->message; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            ck_abort_msg("a control character in '%s'", error->message);
    kt_tokenizer_destroy(tokenizer);
    return status;
}

static struct bytes file;

START_TEST(reads_both_kinds)
{
    struct kt_error error;
    for (int is_spm = 0; is_spm < 2; is_spm++) {
        build(&file, is_spm, NULL);
        ck_assert_msg(try_file(file.data, file.size, &error) == KT_OK, "%s", error.message);
    }
}
END_TEST

/* Gemma 4's vocabulary: pairs of characters by rank, spaces written as U+2581, no words but lines; what it
 * lacks becomes bytes. BOS comes first whatever the file says. */
START_TEST(joins_characters_by_rank)
{
    static const char *const tokens[] = {"<bos>",        "\342\226\201", "a",      "\342\226\201a", "\n",
                                         "\n\n",         "a\n",          "<0xC3>", "<0xA9>",        "<turn|>",
                                         "a\342\226\201"};
    static const uint8_t types[] = {3, 1, 1, 1, 1, 1, 1, 6, 6, 3, 1};
    static const char *const pairs[] = {"\342\226\201 a", "a \342\226\201", "\n \n", "a \n"};
    static const char text[] = " a a \303\251\n\n\na\n";
    static const int32_t wanted[] = {0, 3, 3, 1, 7, 8, 5, 4, 2, 4};
    const struct kt_text_part part = {text, sizeof(text) - 1, 0, 0};
    struct kt_error error = {KT_OK, ""};
    struct kt_tokenizer *t;
    struct kt_tokenizer_info info;
    struct kt_token token;
    int32_t *ids;
    uint64_t n_ids;
    for (int by_model = 0; by_model < 2; by_model++) {
        file.size = 0;
        put_header(&file, 3, 0, 8);
        put_key_string(&file, "general.architecture", "gemma4");
        put_key_string(&file, KEY("model"), by_model ? "gemma4" : "gpt2");
        put_key_string(&file, KEY("pre"), by_model ? "default" : "gemma4");
        put_texts(&file, KEY("tokens"), tokens, 11);
        put_array(&file, KEY("token_type"), I32, 11);
        for (int i = 0; i < 11; i++)
            put_u32(&file, types[i]);
        put_texts(&file, KEY("merges"), pairs, 4);
        put_key(&file, KEY("bos_token_id"), U32, 0);
        put_key(&file, KEY("add_bos_token"), BOOL, 0);
        ck_assert(ftruncate(memory, (off_t)file.size) == 0);
        ck_assert(pwrite(memory, file.data, file.size, 0) == (ssize_t)file.size);
        ck_assert_msg(kt_tokenizer_open(path, &t, &error) == KT_OK, "%s", error.message);
        ck_assert(kt_tokenizer_encode(t, &part, 1, KT_ENCODE_BOS, &ids, &n_ids, &error) == KT_OK);
        ck_assert_uint_eq(n_ids, sizeof(wanted) / sizeof(*wanted));
        ck_assert_mem_eq(ids, wanted, sizeof(wanted));
        kt_tokenizer_info(t, &info);
        ck_assert_str_eq(info.pre, "gemma4");
        ck_assert(kt_tokenizer_token(t, 9, &token, &error) == KT_OK && token.ends);
        kt_ids_free(ids);
        kt_tokenizer_destroy(t);
    }
}
END_TEST

/* Special tokens of Phi-3 take the white space behind them, as its tokenizer.json says and a GGUF file does
 * not. */
START_TEST(knows_phi3_by_its_name)
{
    static const char *const names[] = {"Phi 3.5 mini", "microsoft/Phi-3-mini-4k", "PHI3", "Phi 2"};
    static const char text[] = "</s>\n a<s> a";
    static const int32_t wanted[] = {2, 6, 1, 4, 6}, plain[] = {2, 4, 0, 6, 1, 4, 6};
    const struct kt_text_part part = {text, sizeof(text) - 1, 0, 0};
    struct kt_error error = {KT_OK, ""};
    struct kt_tokenizer *t;
    int32_t *ids;
    uint64_t n_ids;
    for (size_t i = 0; i < 4; i++) {
        const size_t used[] = {0, 2, 3, 5};
        file.size = 0;
        put_header(&file, 3, 0, 6);
        put_key_string(&file, "general.architecture", "phi3");
        put_key_string(&file, "general.name", names[i]);
        for (size_t key = 0; key < 4; key++)
            put_base(&file, true, used[key]);
        ck_assert(ftruncate(memory, (off_t)file.size) == 0);
        ck_assert(pwrite(memory, file.data, file.size, 0) == (ssize_t)file.size);
        ck_assert_msg(kt_tokenizer_open(path, &t, &error) == KT_OK, "%s", error.message);
        ck_assert(kt_tokenizer_encode(t, &part, 1, 0, &ids, &n_ids, &error) == KT_OK);
        ck_assert_uint_eq(n_ids, i < 3 ? 5 : 7);
        ck_assert_mem_eq(ids, i < 3 ? wanted : plain, n_ids * sizeof(*ids));
        kt_ids_free(ids);
        kt_tokenizer_destroy(t);
    }
}
END_TEST

START_TEST(names_what_is_wrong)
{
    static const struct {
        bool is_spm;
        struct change change;
        enum kt_status status;
        const char *words;
    } cases[] = {
        {0, {KEY("model"), ABSENT, 0, 0, 0, NULL}, KT_E_NOT_FOUND, KEY("model")},
        {0, {KEY("model"), TEXT, 0, 0, 0, "bert"}, KT_E_UNSUPPORTED, "'bert'"},
        {0, {KEY("model"), TEXT, 0, 0, 0, "t5"}, KT_E_UNSUPPORTED, "'t5'; gpt2 (byte pairs), gemma4"},
        {0, {KEY("model"), TEXT, 0, 0, 0, "rwkv"}, KT_E_UNSUPPORTED, "'rwkv'"},
        {0, {KEY("model"), TEXT, 0, 0, 0, "plamo2"}, KT_E_UNSUPPORTED, "'plamo2'"},
        {0, {KEY("model"), TEXT, 0, 0, 0, "\33[2J\nx"}, KT_E_UNSUPPORTED, "[2J"},
        {0, {KEY("model"), ARRAY, TEXT, 1, 0, "gpt2"}, KT_E_FORMAT, KEY("model")},
        {0, {KEY("model"), U32, 0, 0, 1, NULL}, KT_E_FORMAT, KEY("model")},
        {0, {KEY("pre"), ABSENT, 0, 0, 0, NULL}, KT_E_UNSUPPORTED, KEY("pre")},
        {0, {KEY("pre"), TEXT, 0, 0, 0, "words"}, KT_E_UNSUPPORTED, "'words'"},
        {0, {KEY("tokens"), ABSENT, 0, 0, 0, NULL}, KT_E_FORMAT, KEY("tokens")},
        {0, {KEY("tokens"), TEXT, 0, 0, 0, "a"}, KT_E_FORMAT, KEY("tokens")},
        {0, {KEY("tokens"), ARRAY, TEXT, 0, 0, NULL}, KT_E_FORMAT, KEY("token_type")},
        {0, {KEY("tokens"), ARRAY, TEXT, 7, 0, "a"}, KT_E_FORMAT, "7 tokens"},
        {0, {KEY("tokens"), ARRAY, TEXT, 8, 0, "a"}, KT_E_FORMAT, KEY("merges") "[0]"},
        {0, {KEY("tokens"), ARRAY, U32, 8, 0, NULL}, KT_E_FORMAT, KEY("tokens")},
        {0, {KEY("token_type"), ARRAY, F32, 8, 0, NULL}, KT_E_FORMAT, KEY("token_type")},
        {0, {KEY("token_type"), ARRAY, I32, 9, 1, NULL}, KT_E_FORMAT, "9 elements"},
        {0, {KEY("token_type"), ARRAY, I32, 8, 0xffffffff, NULL}, KT_E_FORMAT, KEY("token_type")},
        {0, {KEY("token_type"), I32, 0, 0, 1, NULL}, KT_E_FORMAT, KEY("token_type")},
        {0, {KEY("merges"), ABSENT, 0, 0, 0, NULL}, KT_E_FORMAT, KEY("merges")},
        {0, {KEY("merges"), ARRAY, TEXT, 1, 0, ""}, KT_E_FORMAT, KEY("merges") "[0]"},
        {0, {KEY("merges"), ARRAY, TEXT, 1, 0, "a c"}, KT_E_FORMAT, "'a c'"},
        {0, {KEY("merges"), ARRAY, TEXT, 1, 0, "b a"}, KT_E_FORMAT, "'b a'"},
        {0, {KEY("merges"), ARRAY, TEXT, 1, 0, "ab"}, KT_E_FORMAT, "'ab'"},
        {0, {KEY("merges"), ARRAY, TEXT, 1, 0, "\33\377 \n"}, KT_E_FORMAT, KEY("merges") "[0]"},
        {0, {KEY("bos_token_id"), U32, 0, 0, 8, NULL}, KT_E_FORMAT, "is 8, but there are 8 tokens"},
        {0, {KEY("eos_token_id"), I32, 0, 0, 0x80000000, NULL}, KT_E_FORMAT, KEY("eos_token_id")},
        {0, {KEY("eos_token_id"), F32, 0, 0, 0, NULL}, KT_E_FORMAT, KEY("eos_token_id")},
        {0, {KEY("eos_token_id"), ARRAY, U32, 1, 1, NULL}, KT_E_FORMAT, KEY("eos_token_id")},
        {0, {KEY("eot_token_id"), U32, 0, 0, 1u << 31, NULL}, KT_E_FORMAT, KEY("eot_token_id")},
        {0, {KEY("add_bos_token"), U32, 0, 0, 1, NULL}, KT_E_FORMAT, KEY("add_bos_token")},
        {0, {KEY("add_bos_token"), ARRAY, BOOL, 1, 1, NULL}, KT_E_FORMAT, KEY("add_bos_token")},
        {1, {KEY("scores"), ABSENT, 0, 0, 0, NULL}, KT_E_FORMAT, KEY("scores")},
        {1, {KEY("scores"), ARRAY, F32, 7, 0, NULL}, KT_E_FORMAT, "7 elements"},
        {1, {KEY("scores"), ARRAY, TEXT, 8, 0, NULL}, KT_E_FORMAT, KEY("scores")},
        {1,
         {KEY("scores"), ARRAY, F32, 8, 0x7fc00000, NULL},
         KT_E_FORMAT,
         KEY("scores") "[0] is not a number"},
        {1, {KEY("scores"), ARRAY, F64, 8, 0x7ff8000000000000, NULL}, KT_E_FORMAT, "not a number"},
        {1, {KEY("unknown_token_id"), U32, 0, 0, 99, NULL}, KT_E_FORMAT, KEY("unknown_token_id")},
        {1, {KEY("tokens"), ARRAY, TEXT, 0, 0, NULL}, KT_E_FORMAT, KEY("token_type")},
    };
    struct kt_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        build(&file, cases[i].is_spm, &cases[i].change);
        enum kt_status status = try_file(file.data, file.size, &error);
        ck_assert_msg(status == cases[i].status && strstr(error.message, cases[i].words),
                      "case %zu: status %d, wanted %d: '%s' has no '%s'", i, (int)status,
                      (int)cases[i].status, error.message, cases[i].words);
    }
}
END_TEST

/* What is odd, but can be read. */
START_TEST(reads_what_is_odd)
{
    static const struct {
        bool is_spm;
        struct change change;
    } cases[] = {
        {0, {KEY("token_type"), ABSENT, 0, 0, 0, NULL}},
        {0, {KEY("token_type"), ARRAY, I32, 8, 77, NULL}}, /* a type of later is a normal one */
        {0, {KEY("merges"), ARRAY, TEXT, 0, 0, NULL}},
        {0, {KEY("merges"), ARRAY, TEXT, 100, 0, "a b"}},
        {0, {KEY("bos_token_id"), U32, 0, 0, 0xffffffff, NULL}},
        {1, {KEY("tokens"), ARRAY, TEXT, 8, 0, ""}},
        {1, {KEY("tokens"), ARRAY, TEXT, 8, 0, "\377\300\200"}},
        {1, {KEY("tokens"), ARRAY, TEXT, 8, 0, "<0x4"}},
        {1, {KEY("token_type"), ARRAY, I32, 8, 6, NULL}},
        {1, {KEY("token_type"), ARRAY, I32, 8, 3, NULL}},
        {1, {KEY("scores"), ARRAY, F32, 8, 0xff800000, NULL}},
        {1, {KEY("merges"), ARRAY, TEXT, 1, 0, "nonsense"}},
        {1, {"tokenizer.chat_template", ARRAY, TEXT, 1, 0, "x"}},
    };
    struct kt_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        build(&file, cases[i].is_spm, &cases[i].change);
        ck_assert_msg(try_file(file.data, file.size, &error) == KT_OK, "case %zu: %s", i, error.message);
    }
}
END_TEST

/* A token of any length, of one character; merges of as many. */
START_TEST(takes_long_tokens)
{
    static char text[40001];
    const char *const token[] = {text}, *const one[] = {"aa a"};
    struct kt_error error;
    const int lengths[] = {16383, 16384, 16385, 40000};
    for (size_t i = 0; i < 8; i++) {
        memset(text, 'a', sizeof text);
        text[lengths[i / 2]] = '\0';
        if (i % 2)
            text[lengths[i / 2] / 2] = ' ';
        file.size = 0;
        put_header(&file, 3, 0, 5);
        put_key_string(&file, "general.architecture", "qwen3");
        put_base(&file, false, 0);
        put_base(&file, false, 1);
        put_texts(&file, KEY("tokens"), i % 2 ? one : token, 1);
        put_texts(&file, KEY("merges"), token, i % 2);
        enum kt_status status = try_file(file.data, file.size, &error);
        ck_assert_msg(status == (i % 2 ? KT_E_FORMAT : KT_OK), "%zu: %s", i, error.message);
    }
}
END_TEST

/* Places of tokens are drawn again for each vocabulary, so that no file can be made whose tokens share them.
 */
START_TEST(tokens_have_no_place_that_files_know)
{
    struct kt_vocab vocab[2] = {{.n = 0}, {.n = 0}};
    for (int i = 0; i < 2; i++) {
        for (uint32_t id = 0; id < N_TOKENS; id++)
            ck_assert(kt_vocab_set(&vocab[i], id, bpe_tokens[id], strlen(bpe_tokens[id]), bpe_tokens[id],
                                   strlen(bpe_tokens[id]), KT_TOKEN_NORMAL));
        ck_assert(kt_vocab_index(&vocab[i], 1000 * N_TOKENS));
        for (uint32_t id = 0; id < N_TOKENS; id++)
            kt_vocab_enter(&vocab[i], id);
        for (uint32_t id = 0; id < N_TOKENS; id++)
            ck_assert_int_eq(kt_vocab_find(&vocab[i], bpe_tokens[id], strlen(bpe_tokens[id])), (int)id);
    }
    ck_assert_int_ne(memcmp(vocab[0].slots, vocab[1].slots, (vocab[0].mask + 1) * sizeof(*vocab[0].slots)),
                     0);
    kt_vocab_free(&vocab[0]);
    kt_vocab_free(&vocab[1]);
}
END_TEST

START_TEST(merges_have_no_place_that_files_know)
{
    struct kt_merges both[2];
    for (int i = 0; i < 2; i++) {
        ck_assert(kt_merges_create(&both[i], 1000));
        for (int left = 0; left < 100; left++)
            kt_merges_add(&both[i], left, left + 1, (uint32_t)left, 2 * left);
        for (int left = 0; left < 100; left++)
            ck_assert_int_eq(kt_merges_find(&both[i], left, left + 1)->id, 2 * left);
        ck_assert_ptr_null(kt_merges_find(&both[i], 1, 1));
    }
    ck_assert_int_ne(memcmp(both[0].slots, both[1].slots, (both[0].mask + 1) * sizeof(*both[0].slots)), 0);
    kt_merges_free(&both[0]);
    kt_merges_free(&both[1]);
}
END_TEST

/* Every key of every type, alone and as an array of several lengths, with numbers at the ends of what there
 * is. */
START_TEST(survives_every_key_of_every_type)
{
    static const uint64_t numbers[] = {0, 7, 8, 0x80000000, 0xffffffff, 0x7fc00000, UINT64_MAX};
    static const uint64_t counts[] = {0, 8, 300};
    static const char *const texts[] = {"", "a b", "\304\240 \304\240", "\377", "llama", "<0x41>", "<s>"};
    enum { N_NUMBERS = sizeof numbers / sizeof *numbers, N_COUNTS = sizeof counts / sizeof *counts };
    struct kt_error error;
    bool is_spm = _i % 2;
    for (uint32_t type = 0; type <= 12; type++)
        for (size_t c = 0; type != ARRAY && c < 1 + N_COUNTS; c++)
            for (size_t n = 0; n < N_NUMBERS; n++) {
                const struct change change = {keys[_i / 2],
                                              c ? (uint32_t)ARRAY : type,
                                              type,
                                              c ? counts[c - 1] : 0,
                                              numbers[n] & (type == BOOL ? 1 : UINT64_MAX),
                                              texts[n]};
                build(&file, is_spm, &change);
                (void)try_file(file.data, file.size, &error);
            }
}
END_TEST

START_TEST(survives_every_damaged_byte)
{
    struct kt_error error;
    build(&file, _i, NULL);
    for (size_t at = 0; at < file.size; at++) {
        const uint8_t old = file.data[at];
        const uint8_t others[] = {0xff, old ^ 1, old ^ 0x80};
        if (at >= 4) /* else it is not a GGUF file, but one of another kind */
            for (size_t i = 0; i < sizeof others; i++) {
                file.data[at] = others[i];
                (void)try_file(file.data, file.size, &error);
            }
        file.data[at] = old;
        if (try_file(file.data, at, &error) == KT_OK)
            ck_abort_msg("read without its last %zu bytes", file.size - at);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gguf");
    tcase_add_checked_fixture(tests, open_folder, sandbox_close);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, reads_both_kinds);
    tcase_add_test(tests, joins_characters_by_rank);
    tcase_add_test(tests, knows_phi3_by_its_name);
    tcase_add_test(tests, names_what_is_wrong);
    tcase_add_test(tests, reads_what_is_odd);
    tcase_add_test(tests, takes_long_tokens);
    tcase_add_test(tests, tokens_have_no_place_that_files_know);
    tcase_add_test(tests, merges_have_no_place_that_files_know);
    tcase_add_loop_test(tests, survives_every_key_of_every_type, 0, 2 * N_KEYS);
    tcase_add_loop_test(tests, survives_every_damaged_byte, 0, 2);
    return run_tests("tokenizer_gguf", tests);
}
