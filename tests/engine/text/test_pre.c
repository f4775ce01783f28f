/* SPDX-License-Identifier: Apache-2.0 */
/* test_pre.c - how each name of a GGUF file's tokenizer.ggml.pre cuts a text, which llama.cpp and Hugging
 * Face's tokenizers cut at the same places (compare_llama.py, compare_tokenizers.py) but for what the README
 * of tokenizers says. */
#include "tools/engine/text/tokenizer/pre.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static const char text[] =
    "It's IT'LL \303\211t\303\251Nom  don\342\200\231t\n\n \t12345678 1234a x90 \331\241\331\242\331\243\331\244"
    "  7 $5.00//\r\n \346\227\245\346\234\254\343\201\247\343\202\253 \340\244\225\340\244\277 e\314\201 "
    "a b \343\200\223's [x] <sentinel:1> `y` \343\200\202 \352\260\200\343\205\217 "
    "\340\270\201\342\200\246(z)\302\240 \341\203\220\343\200\201end      \n ";

/* Words: their bytes, 1 to 9, then a to z, then A to Z, and else a star. */
struct words {
    char lengths[256];
    size_t n;
};

static enum kt_status take_word(void *data, const char *word, size_t length)
{
    struct words *words = data;
    (void)word;
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    ck_assert(words->n + 1 < sizeof(words->lengths));
    words->lengths[words->n++] = length < sizeof(digits) - 1 ? digits[length] : '*';
    return KT_OK;
}

static const struct {
    const char *name;
    unsigned flags; /* 1: NFC, 2: merges may be passed over, 4: BOS, 8: characters */
    const char *lengths;
} cases[] = {
    {"gpt-2", 0, "22312914313185122912211222d432222512112811121147441124338"},
    {"starcoder", 0, "223129143141111111111111121112222212111122d432222512112811121147441124338"},
    {"falcon", 0, "21131291431313321311229121111222d43222241111111181111111137441124338"},
    {"default", 0, "2113129143131332131122181111111222d4322224111111118111211137441124338"},
    {"qwen2", 1, "223391442111111111111111121112222111211114d432222512112811121147441124671"},
    {"qwen35", 1, "223391442111111111111111121112222111211114d7422512112811121147441124671"},
    {"stablelm2", 0, "223391442111111111111111121112222111211114d432222512112811121147441124671"},
    {"laguna", 0, "2233914421111111111111111211122221112111131d4322225121128111211474411246611"},
    {"ufakzeka", 0, "223391442111111111111111121112222111211114d432222512112811121147441124671"},
    {"seed-coder", 0, "2233914421111111111111111211122221112111122d432222512112811121147441124671"},
    {"bailingmoe", 0, "223391442111111111111111121112222111211114d432222512112811121147441124671"},
    {"exaone-moe", 0, "223391442111111111111111311122221112111131s51211281112114b41124671"},
    {"llama-bpe", 6, "2233914421133213112216211121124d432222512112811121147441124671"},
    {"chatglm-bpe", 0, "2233914421133213112216211121124d432222512112811121147441124671"},
    {"glm4", 2, "2233914421133213112216211121124d432222512112811121147441124671"},
    {"minicpm5", 2, "22339144223321311221622121124d432222512112811121147441124671"},
    {"jais-2", 0, "2233914421133213112216211121124d432222512112811121147441124671"},
    {"gpt-4o", 2, "466314421133213112216211121124d7422512112811121147441124671"},
    {"minimax-m2", 0, "466314421133213112216211121124d7422512112811121147441124671"},
    {"tiny_aya", 0, "4663144222331311221262121124d7422512112811121147441124671"},
    {"youtu", 2, "4663143121111111111111111211122221112111141c74221322112811121113164321243371"},
    {"tekken", 6, "2233631442111111111111111121112222111211114d7422512112811121147441124671"},
    {"kimi-k2", 2, "4663144211332131122162111211241667422512112811121147441124671"},
    {"deepseek-v3", 0, "2233914312233213112216221211241c74225121128111211474411243371"},
    {"spark2_5", 0, "223391431112111111111111112111222221211112111c7422512112811121147441124338"},
    {"afmoe", 0, "2233914312223311312212621211241c7422512112811121141334411243371"},
    {"superbpe", 0, "w2331133218212112R1K"},
    {"deepseek-llm", 0, "21131231231431112814122182121122111c1622221311211281112111316161113333611"},
    {"deepseek-coder", 0,
     "21131291431112111111111111112111222221211112111c133222213112112811311131613311121333611"},
    {"bloom", 0, "4691848649123142d742264d44744134338"},
    {"viking", 0, "46918411111111111111211122221112111122d742264b1144744134338"},
    {"chameleon", 4,
     "2113129233111111111111111111121112222211111111111d432222411111111811111111374311124334211"},
    {"gemma4", 12, "s2F1*11"},
    {"sarvam-moe", 8, "s2F1*11"},
};

START_TEST(cuts_as_others)
{
    struct kt_error error = {KT_OK, ""};
    struct kt_regex_room room = {.data = NULL};
    ck_assert(kt_regex_room_create(&room));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct kt_tokenizer *t = kt_tokenizer_new();
        struct words words = {.n = 0};
        ck_assert_ptr_nonnull(t);
        ck_assert_msg(kt_pre_set(t, cases[i].name, &error) == KT_OK, "%s", error.message);
        ck_assert(kt_split_run(&t->splitter, &room, text, sizeof(text) - 1, take_word, &words, &error) ==
                  KT_OK);
        unsigned flags = (t->normalizer.n > 0 && t->normalizer.steps[0].kind == KT_NORM_NFC) |
                         (unsigned)t->ignores_merges << 1 | (unsigned)t->adds_bos << 2 |
                         (unsigned)!t->has_bytes << 3;
        ck_assert_msg(strcmp(words.lengths, cases[i].lengths) == 0, "%s: %s, wanted %s", cases[i].name,
                      words.lengths, cases[i].lengths);
        ck_assert_msg(flags == cases[i].flags, "%s: %u, wanted %u", cases[i].name, flags, cases[i].flags);
        kt_tokenizer_destroy(t);
    }
    kt_regex_room_free(&room);
}
END_TEST

/* Other names of the same: they cut as the first one. */
START_TEST(knows_every_name)
{
    static const char *const names[][2] = {
        {"gpt-2", "gpt2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe "
                  "modern-bert gigachat a.x-4.0 mellum exaone4 mpt olmo jais trillion granite-docling"},
        {"starcoder", "refact command-r smollm codeshell exaone minerva-7b mellum2"},
        {"qwen2", "deepseek-r1-qwen f2llmv2"},
        {"stablelm2", "megrez kormo hunyuan solar-open grok-2"},
        {"bailingmoe", "bailingmoe2 llada-moe"},
        {"llama-bpe", "llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano"},
        {"chatglm-bpe", "dbrx smaug-bpe"},
        {"glm4", "glm5"},
        {"gpt-4o", "llama4 kanana2 talkie granite-embed-multi-97m"},
        {"tiny_aya", "cohere2moe"},
        {"deepseek-v3", "deepseek3-llm hunyuan-dense joyai-llm hy_v4"},
        {"bloom", "poro-chat gpt3-finnish"},
        {"gemma4", "granite-embed-multi-311m"},
    };
    struct kt_error error;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char list[512], *rest = list;
        snprintf(list, sizeof(list), "%s", names[i][1]);
        for (char *name = strtok_r(list, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
            struct kt_tokenizer *t = kt_tokenizer_new();
            ck_assert_ptr_nonnull(t);
            ck_assert_msg(kt_pre_set(t, name, &error) == KT_OK, "%s: %s", name, error.message);
            ck_assert_str_eq(t->pre, names[i][0]);
            kt_tokenizer_destroy(t);
        }
    }
}
END_TEST

START_TEST(refuses_other_names)
{
    static const char *const names[] = {"", " ", "gpt", "jina-es jina-de", "whitespace", "QWEN2", "qwen2 "};
    struct kt_error error;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct kt_tokenizer *t = kt_tokenizer_new();
        ck_assert_ptr_nonnull(t);
        t->source = strdup("x.gguf");
        ck_assert_msg(kt_pre_set(t, names[i], &error) == KT_E_UNSUPPORTED, "'%s'", names[i]);
        ck_assert_ptr_nonnull(strstr(error.message, "x.gguf: it splits words like"));
        ck_assert_ptr_nonnull(strstr(error.message, "sarvam-moe;")); /* the last of those that there are */
        kt_tokenizer_destroy(t);
    }
}
END_TEST

static enum kt_status count_word(void *data, const char *word, size_t length)
{
    (void)word;
    (void)length;
    ++*(size_t *)data;
    return KT_OK;
}

/* No name looks at all of a long number, or of a long row of letters, again for each word: a test of minutes
 * would be stopped. */
START_TEST(takes_few_steps)
{
    static const struct {
        const char *name, *unit;
        size_t n_words; /* of a text of 2^18 units and an x */
    } long_texts[] = {{"tiny_aya", "1", 87383},
                      {"afmoe", "\331\241", 87383},
                      {"superbpe", "1", 87383},
                      {"exaone-moe", "a ", 1}};
    static char long_text[(2 << 18) + 1];
    struct kt_error error = {KT_OK, ""};
    struct kt_regex_room room = {.data = NULL};
    ck_assert(kt_regex_room_create(&room));
    for (size_t i = 0; i < sizeof(long_texts) / sizeof(*long_texts); i++) {
        struct kt_tokenizer *t = kt_tokenizer_new();
        size_t unit = strlen(long_texts[i].unit), length = unit << 18, n_words = 0;
        ck_assert_ptr_nonnull(t);
        for (size_t at = 0; at < length; at++)
            long_text[at] = long_texts[i].unit[at % unit];
        long_text[length++] = 'x';
        ck_assert(kt_pre_set(t, long_texts[i].name, &error) == KT_OK);
        ck_assert(kt_split_run(&t->splitter, &room, long_text, length, count_word, &n_words, &error) ==
                  KT_OK);
        ck_assert_msg(n_words == long_texts[i].n_words, "%s, %zu: %zu words, wanted %zu", long_texts[i].name,
                      i, n_words, long_texts[i].n_words);
        kt_tokenizer_destroy(t);
    }
    kt_regex_room_free(&room);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("pre");
    tcase_add_test(tcase, cuts_as_others);
    tcase_add_test(tcase, knows_every_name);
    tcase_add_test(tcase, refuses_other_names);
    tcase_add_test(tcase, takes_few_steps);
    return run_tests("pre", tcase);
}
