/* SPDX-License-Identifier: Apache-2.0 */
/* pre.c - the regular expressions are those of the models' own tokenizer.json. */
#include "tools/engine/text/tokenizer/pre.h"

#include "tools/engine/base/fail.h"

#include <stdio.h>
#include <string.h>

#define SUFFIXES "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define OTHERS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
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

#define MOST_STEPS 6

static const struct family {
    const char *name;
    const char *aliases;           /* " glm4 chatglm-bpe " */
    bool ignores_merges, composes; /* NFC */
    const char *steps[MOST_STEPS];
} families[] = {
    {"gpt-2",
     " gpt2 ",
     false,
     false,
     {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}},
    {"qwen2", " deepseek-r1-qwen ", false, true, {SUFFIXES "|" LETTERS "|\\p{N}|" OTHERS "|" SPACES}},
    {"qwen35",
     " ",
     false,
     true,
     {SUFFIXES "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES}},
    {"llama-bpe",
     " llama3 llama-v3 lfm2 ",
     true,
     false,
     {SUFFIXES "|" LETTERS "|\\p{N}{1,3}|" OTHERS "|" SPACES}},
    {"glm4", " chatglm-bpe ", false, false, {SUFFIXES "|" LETTERS "|\\p{N}{1,3}|" OTHERS "|" SPACES}},
    {"gpt-4o",
     " llama4 ",
     true,
     false,
     {BEFORE UPPER "*" LOWER "+" SUFFIXES "?|" BEFORE UPPER "+" LOWER "*" SUFFIXES
                   "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"minimax-m2",
     " ",
     false,
     false,
     {BEFORE UPPER "*" LOWER "+" SUFFIXES "?|" BEFORE UPPER "+" LOWER "*" SUFFIXES
                   "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"tekken",
     " ",
     true,
     false,
     {BEFORE UPPER "*" LOWER "+|" BEFORE UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES}},
    {"kimi-k2",
     " ",
     true,
     false,
     {"\\p{Han}+|" BEFORE UPPER_NOT_HAN "*" LOWER_NOT_HAN "+" SUFFIXES "?|" BEFORE UPPER_NOT_HAN
      "+" LOWER_NOT_HAN "*" SUFFIXES "?|\\p{N}{1,3}|" OTHERS "|" SPACES}},
    {"deepseek-v3",
     " deepseek3-llm ",
     false,
     false,
     {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES}},
    {"deepseek-llm",
     " ",
     false,
     false,
     {"[\\r\\n]", "\\s?[" CASED "]+",
      "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+", "\\s+$",
      CJK, "\\p{N}+"}},
    {"deepseek-coder", " ", false, false, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK, "\\p{N}"}},
};

#define N_FAMILIES (sizeof(families) / sizeof(families[0]))

static const struct family *find_family(const char *name)
{
    char word[64];
    snprintf(word, sizeof(word), " %.60s ", name);
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcmp(families[i].name, name) == 0 || strstr(families[i].aliases, word))
            return &families[i];
    return NULL;
}

enum kt_status kt_pre_set(struct kt_tokenizer *tokenizer, const char *name, struct kt_error *error)
{
    const struct family *family = find_family(name);
    enum kt_status status = KT_OK;
    struct kt_norm_step *step;
    if (!family) {
        char names[256] = "";
        for (size_t i = 0, n = 0; i < N_FAMILIES; i++)
            n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "", families[i].name);
        return kt_engine_fail(
            error, KT_E_UNSUPPORTED,
            "%s: it splits words like '%.40s', which is not one of %s; a tokenizer.json of the same "
            "model has the expression itself",
            tokenizer->source, name, names);
    }
    snprintf(tokenizer->pre, sizeof(tokenizer->pre), "%s", family->name);
    tokenizer->ignores_merges = family->ignores_merges;
    for (size_t i = 0; i < MOST_STEPS && family->steps[i] && status == KT_OK; i++)
        status = kt_split_add(&tokenizer->splitter, family->steps[i], strlen(family->steps[i]),
                              KT_SPLIT_ISOLATED, false, error);
    if (status == KT_OK && family->composes)
        status = kt_normalizer_add(&tokenizer->normalizer, KT_NORM_NFC, &step, error);
    return status;
}
