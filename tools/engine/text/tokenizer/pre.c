/* SPDX-License-Identifier: Apache-2.0 */
/* pre.c - the regular expressions are those of the models' own tokenizer.json where that is known, and else
 * llama.cpp's; README says where the two differ. */
#include "tools/engine/text/tokenizer/pre.h"

#include "tools/engine/base/fail.h"

#include <stdio.h>
#include <string.h>

#define SUFFIXES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define OTHERS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define LETTERS BEFORE "\\p{L}+"
/* Words by case, with what an apostrophe joins to them. */
#define CASES BEFORE UPPER "*" LOWER "+" SUFFIXES "?|" BEFORE UPPER "+" LOWER "*" SUFFIXES "?"
/* Kimi's classes are these without Han. */
#define UPPER_NOT_HAN "(?:(?!\\p{Han})" UPPER ")"
#define LOWER_NOT_HAN "(?:(?!\\p{Han})" LOWER ")"

/* DeepSeek's own list of cased letters. */
#define CASED                                                                                         \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"   \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"             \
    "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"   \
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"   \
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}" \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}"  \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"  \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}" \
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"   \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"            \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"            \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"  \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}" \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"                \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"            \
    "\\x{1E900}-\\x{1E943}"
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define QWEN SUFFIXES "|" LETTERS "|\\p{N}|" OTHERS "|" SPACES
#define LLAMA3 SUFFIXES "|" LETTERS "|\\p{N}{1,3}|" OTHERS "|" SPACES
#define GPT4O CASES "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES
#define HALF_SPACES                                                                                 \
    "\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|" \
    "\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"
#define KANJI_AND_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
/* A mark with Latin letters, letters, or marks; what follows the latter differs. */
#define DEEPSEEK_WORDS                                                                                   \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
    " ?[\\p{P}\\p{S}]+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"
/* In groups of three from the right: numbers first, and then a group or two digits at the begin of one, so
 * that a long number takes as many steps as it has digits. */
#define GROUPS "\\A\\p{N}{1,2}(?=(?:\\p{N}{3})+\\z)|\\p{N}{1,3}"
#define ASCII_GROUPS "\\A[0-9]{1,2}(?=(?:[0-9]{3})+\\z)|[0-9]{1,3}"
/* \d{1,3}(?=(?:\d{3})*\b): only numbers that end a word. A group behind a match needs no second look. */
#define WHOLE_GROUPS "\\G(?<=\\d)\\d{3}|(?<!\\d)\\d{1,3}(?=(?:\\d{3})*+\\b)"
#define AFMOE_SCRIPTS                                                                                  \
    "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{8C48}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}" \
    "\\x{FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}"      \
    "\\x{1000}-\\x{109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+"
#define YOUTU_SCRIPTS                                                                                   \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}" \
    "\\x{2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|"                     \
    "[\\x{3105}-\\x{312F}]+|" KANJI_AND_KANA

#define MOST_STEPS 6

enum {
    COMPOSES = 1, /* NFC */
    IGNORES_MERGES = 2,
    ADDS_BOS = 4,      /* unless the file says otherwise */
    HAS_CHARACTERS = 8 /* instead of bytes, and spaces as SentencePiece writes them */
};

static const struct family {
    const char *name;
    const char *aliases; /* " glm4 chatglm-bpe " */
    unsigned flags;
    const char *steps[MOST_STEPS];
} families[] = {
    {"gpt-2",
     " gpt2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe modern-bert gigachat "
     "a.x-4.0 mellum exaone4 mpt olmo jais trillion granite-docling ",
     0,
     {GPT2}},
    {"starcoder", " refact command-r smollm codeshell exaone minerva-7b mellum2 ", 0, {"\\p{N}", GPT2}},
    {"falcon", " ", 0, {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"default", " ", 0, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"qwen2", " deepseek-r1-qwen f2llmv2 ", COMPOSES, {QWEN}},
    {"qwen35",
     " ",
     COMPOSES,
     {SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES}},
    {"stablelm2", " megrez kormo hunyuan solar-open grok-2 ", 0, {QWEN}},
    {"laguna", " ", 0, {"[^\\n]+|\\n+", QWEN}},
    {"ufakzeka", " ", 0, {LETTERS "|\\p{N}|" OTHERS "|" SPACES}},
    {"seed-coder", " ", 0, {SUFFIXES "|" LETTERS "|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES}},
    {"bailingmoe",
     " bailingmoe2 llada-moe ",
     0,
     {"'(?i:[sdmt]|ll|ve|re)|" LETTERS "|\\p{N}|" OTHERS "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"exaone-moe",
     " ",
     0,
     {SUFFIXES "|" BEFORE "(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
               "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"llama-bpe",
     " llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     IGNORES_MERGES | ADDS_BOS,
     {LLAMA3}},
    {"chatglm-bpe", " dbrx smaug-bpe ", 0, {LLAMA3}},
    {"glm4", " glm5 ", IGNORES_MERGES, {LLAMA3}},
    {"minicpm5", " ", IGNORES_MERGES, {"\\p{N}{1,3}", SUFFIXES "|" LETTERS "|\\p{N}+|" OTHERS "|" SPACES}},
    {"jais-2", " ", 0, {SUFFIXES "|" LETTERS "|\\p{N}{1,3}|" OTHERS "|\\s*[\\r\\n]+|" HALF_SPACES}},
    {"gpt-4o", " llama4 kanana2 talkie granite-embed-multi-97m ", IGNORES_MERGES, {GPT4O}},
    {"minimax-m2", " ", 0, {GPT4O}},
    {"tiny_aya", " cohere2moe ", 0, {WHOLE_GROUPS, GPT4O}},
    {"youtu", " ", IGNORES_MERGES, {YOUTU_SCRIPTS, CASES "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"tekken",
     " ",
     IGNORES_MERGES | ADDS_BOS,
     {BEFORE UPPER "*" LOWER "+|" BEFORE UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"kimi-k2",
     " ",
     IGNORES_MERGES,
     {"\\p{Han}+|" BEFORE UPPER_NOT_HAN "*" LOWER_NOT_HAN "+" SUFFIXES "?|" BEFORE UPPER_NOT_HAN
      "+" LOWER_NOT_HAN "*" SUFFIXES "?|\\p{N}{1,3}|" OTHERS "|" SPACES}},
    {"deepseek-v3",
     " deepseek3-llm hunyuan-dense joyai-llm hy_v4 ",
     0,
     {"\\p{N}{1,3}", KANJI_AND_KANA, DEEPSEEK_WORDS "[\\r\\n]*|" SPACES}},
    {"spark2_5",
     " ",
     0,
     {"\\p{N}{1,3}", KANJI_AND_KANA, DEEPSEEK_WORDS "|[\\r\\n]|\\s+(?!\\S)|\\s+", "\\p{N}"}},
    {"afmoe", " ", 0, {"\\p{N}+", GROUPS, AFMOE_SCRIPTS, DEEPSEEK_WORDS "[\\r\\n]*|" SPACES}},
    {"superbpe", " ", 0, {"\\p{N}+", ASCII_GROUPS}},
    {"deepseek-llm",
     " ",
     0,
     {"[\\r\\n]", "\\s?[" CASED "]+",
      "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+", "\\s+$",
      CJK, "\\p{N}+"}},
    {"deepseek-coder", " ", 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
    {"bloom", " poro-chat gpt3-finnish ", 0, {BLOOM}},
    {"viking", " ", 0, {BLOOM, "\\p{N}"}},
    {"chameleon",
     " ",
     ADDS_BOS,
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]",
      GPT2}},
    {"gemma4", " granite-embed-multi-311m ", HAS_CHARACTERS | ADDS_BOS, {"[^\\n]+|\\n+"}},
    {"sarvam-moe", " ", HAS_CHARACTERS, {"[^\\n]+|\\n+"}},
};

#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

static const struct family *find_family(const char *name)
{
    char word[64];
    snprintf(word, sizeof(word), " %.60s ", name);
    for (size_t i = 0; i < N_FAMILIES && !strchr(name, ' '); i++)
        if (strcmp(families[i].name, name) == 0 || strstr(families[i].aliases, word))
            return &families[i];
    return NULL;
}

static enum kt_status refuse(const struct kt_tokenizer *tokenizer, const char *name, struct kt_error *error)
{
    char names[512] = "";
    for (size_t i = 0, n = 0; i < N_FAMILIES; i++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "", families[i].name);
    return kt_engine_fail(
        error, KT_E_UNSUPPORTED,
        "%s: it splits words like '%.40s', which is not one of %s; a tokenizer.json of the same "
        "model has the expression itself",
        tokenizer->source, name, names);
}

enum kt_status kt_pre_write_spaces(struct kt_tokenizer *tokenizer, struct kt_error *error)
{
    struct kt_norm_step *step;
    enum kt_status status = kt_normalizer_add(&tokenizer->normalizer, KT_NORM_REPLACE, &step, error);
    if (status == KT_OK &&
        !(kt_buffer_add_text(&step->what, " ") && kt_buffer_add_text(&step->text, "\xE2\x96\x81")))
        status = kt_engine_fail(error, KT_E_NOMEM, "no memory for a tokenizer");
    return status;
}

enum kt_status kt_pre_set(struct kt_tokenizer *tokenizer, const char *name, struct kt_error *error)
{
    const struct family *family = find_family(name);
    enum kt_status status = KT_OK;
    struct kt_norm_step *step;
    if (!family)
        return refuse(tokenizer, name, error);
    snprintf(tokenizer->pre, sizeof(tokenizer->pre), "%s", family->name);
    tokenizer->ignores_merges = (family->flags & IGNORES_MERGES) != 0;
    tokenizer->adds_bos = (family->flags & ADDS_BOS) != 0;
    tokenizer->has_bytes = !(family->flags & HAS_CHARACTERS);
    tokenizer->kind = tokenizer->has_bytes ? KT_TOKENIZER_BPE : KT_TOKENIZER_SPM;
    for (size_t i = 0; i < MOST_STEPS && family->steps[i] && status == KT_OK; i++)
        status = kt_split_add(&tokenizer->splitter, family->steps[i], strlen(family->steps[i]),
                              KT_SPLIT_ISOLATED, false, error);
    if (status == KT_OK && (family->flags & COMPOSES))
        status = kt_normalizer_add(&tokenizer->normalizer, KT_NORM_NFC, &step, error);
    if (status == KT_OK && !tokenizer->has_bytes)
        status = kt_pre_write_spaces(tokenizer, error);
    return status;
}
