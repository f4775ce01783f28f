/* SPDX-License-Identifier: Apache-2.0 */
/* write.c - a family's tensors as a folder of safetensors and as a GGUF file. */
#define _GNU_SOURCE /* open_memstream */
#include "tests/engine/families/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put(FILE *file, const void *data, size_t size)
{
    if (fwrite(data, 1, size, file) != size)
        die("cannot write");
}

static void put_number(FILE *file, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    put(file, bytes, size);
}

static void put_values(FILE *file, const float *values, uint64_t count, bool is_wide)
{
    uint8_t bytes[4096];
    size_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        if (!is_wide && bits & 0xffff)
            die("%g is not a number of bfloat16", (double)values[i]);
        for (unsigned byte = is_wide ? 0 : 2; byte < 4; byte++)
            bytes[n++] = (uint8_t)(bits >> 8 * byte);
        if (n == sizeof(bytes) || i + 1 == count) {
            put(file, bytes, n);
            n = 0;
        }
    }
}

static void put_bytes(FILE *file, const float *values, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        put_number(file, (uint64_t)values[i], 1);
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "we");
    if (!file)
        die("cannot write %s", path);
    return file;
}

static void close_file(FILE *file, const char *path)
{
    if (fclose(file) != 0)
        die("cannot write %s", path);
}

static float *allocate(uint64_t count)
{
    float *values = calloc(count, sizeof(*values));
    if (!values)
        die("no memory");
    return values;
}

/* ---- safetensors ---- */

/* Words: error NAME swap PART OTHER. The name of the tensor whose numbers it gets. */
static const char *swapped(const struct line *error, const char *name, char *out, size_t size)
{
    if (!error || strcmp(error->word[2], "swap") != 0)
        return name;
    for (int i = 0; i < 2; i++) {
        const char *from = error->word[3 + i], *to = error->word[4 - i], *at = strstr(name, from);
        if (!at)
            continue;
        (void)snprintf(out, size, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
        return out;
    }
    return name;
}

static float *fill_source(const struct family *f, const struct source *s)
{
    const struct line *error = f->error;
    char other[300];
    bool is_filled = error && strcmp(error->word[2], "fill") == 0 && strstr(s->name, error->word[3]);
    float filling = is_filled ? strtof(error->word[4], NULL) : 0, *values = allocate(s->count);
    uint64_t hash = numbers_hash(s->drawn ? s->drawn : swapped(error, s->name, other, sizeof(other)));
    for (uint64_t n = 0; n < s->count; n++)
        values[n] = is_filled    ? filling
                    : s->is_byte ? numbers_byte(hash, n, s->mean, s->deviation)
                                 : numbers_value(hash, n, s->mean, s->deviation);
    return values;
}

static enum code code_of_source(const struct source *s, enum form form)
{
    const char *end = strstr(s->name, "_proj.weight");
    bool fits = end && s->n_dims == 2 && s->dims[0] % CODE_TILE == 0 && s->dims[1] % CODE_TILE == 0;
    return form >= FORM_CODED && fits && !s->is_wide ? CODE_FP8 : CODE_NONE;
}

static bool is_wide_form(enum form form)
{
    return form == FORM_F32 || form == FORM_DECODED;
}

/* Where the next tensor begins. */
static size_t put_entry(FILE *header, const struct source *s, const char *name, const char *dtype,
                        uint64_t tile, size_t at, size_t size)
{
    (void)fprintf(header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, dtype);
    for (int axis = 0; axis < s->n_dims; axis++)
        (void)fprintf(header, "%s%llu", axis ? "," : "", (unsigned long long)(s->dims[axis] / tile));
    (void)fprintf(header, "],\"data_offsets\":[%zu,%zu]}", at, at + size);
    return at + size;
}

static void put_header(const struct family *f, FILE *file, enum form form)
{
    char *text;
    size_t size, at = 0;
    FILE *header = open_memstream(&text, &size);
    if (!header)
        die("no memory");
    (void)fprintf(header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < f->n_sources; i++) {
        const struct source *s = &f->sources[i];
        bool is_wide = is_wide_form(form) || s->is_wide;
        if (form == FORM_CODED && code_of_source(s, form) == CODE_FP8) {
            char name[200];
            (void)snprintf(name, sizeof(name), "%s_scale_inv", s->name);
            at = put_entry(header, s, s->name, "F8_E4M3", 1, at, s->count);
            at = put_entry(header, s, name, "F32", CODE_TILE, at, s->count / (CODE_TILE * CODE_TILE) * 4);
        } else {
            at = put_entry(header, s, s->name,
                           s->is_byte ? "U8"
                           : is_wide  ? "F32"
                                      : "BF16",
                           1, at,
                           s->count * (s->is_byte ? 1
                                       : is_wide  ? 4
                                                  : 2));
        }
    }
    (void)fprintf(header, "}");
    for (long n = ftell(header); n % 8 != 0; n++)
        (void)fputc(' ', header);
    close_file(header, "a header");
    put_number(file, size, 8);
    put(file, text, size);
    free(text);
}

static void put_source(const struct family *family, FILE *file, const struct source *s, enum form form)
{
    float *values = fill_source(family, s);
    if (code_of_source(s, form) == CODE_FP8) {
        uint64_t n_scales = s->count / (CODE_TILE * CODE_TILE);
        uint8_t *bytes = (uint8_t *)allocate(s->count);
        float *scales = allocate(n_scales);
        code_tiles(values, s->dims[0], s->dims[1], bytes, scales);
        if (form == FORM_CODED) {
            put(file, bytes, s->count);
            put_values(file, scales, n_scales, true);
        } else {
            put_values(file, values, s->count, true);
        }
        free(bytes);
        free(scales);
    } else if (s->is_byte) {
        put_bytes(file, values, s->count);
    } else {
        put_values(file, values, s->count, is_wide_form(form) || s->is_wide);
    }
    free(values);
}

void family_write_folder(const struct family *family, const char *folder, enum form form)
{
    char path[4300];
    json_t *config = json_copy(family->config);
    if (form == FORM_CODED)
        json_object_set_new(config, "quantization_config",
                            json_pack("{s:s,s:s,s:[i,i]}", "quant_method", "fp8", "fmt", "e4m3",
                                      "weight_block_size", CODE_TILE, CODE_TILE));
    (void)snprintf(path, sizeof(path), "%.4200s/config.json", folder);
    if (json_dump_file(config, path, JSON_INDENT(2)) != 0)
        die("cannot write %s", path);
    json_decref(config);
    (void)snprintf(path, sizeof(path), "%.4200s/model.safetensors", folder);
    FILE *file = open_file(path);
    put_header(family, file, form);
    for (int i = 0; i < family->n_sources; i++)
        put_source(family, file, &family->sources[i], form);
    close_file(file, path);
}

/* ---- numbers of GGUF tensors ---- */

/* What converters store of Llama 3's scaling: by how much each frequency is divided. */
static double llama3_divisor(const struct family *f, uint64_t pair)
{
    const struct scope none = {0, 0, 0};
    double size = expression_value(f, &none, "ROTATED"), base = expression_value(f, &none, "rope_theta");
    double factor = expression_value(f, &none, "rope_scaling.factor");
    double low = expression_value(f, &none, "rope_scaling.low_freq_factor");
    double high = expression_value(f, &none, "rope_scaling.high_freq_factor");
    double original = expression_value(f, &none, "rope_scaling.original_max_position_embeddings");
    if (base == 0) /* it is a list */
        base = expression_value(f, &none, "rope_theta.0");
    double wavelength = 2 * acos(-1.0) * pow(base, 2 * (double)pair / size);
    if (wavelength < original / high || 2 * (double)pair >= size)
        return 1;
    if (wavelength > original / low)
        return factor;
    double smooth = (original / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
}

/* Pairs that a proportional rope does not rotate are divided by as good as infinity. */
static double proportional_divisor(const struct family *f, uint64_t pair)
{
    const struct scope none = {0, 0, 0};
    double part = expression_value(f, &none, "rope_parameters.full_attention.partial_rotary_factor");
    return (double)pair < part * expression_value(f, &none, "global_head_dim/2") ? 1 : 1e30;
}

static float apply(const char *function, double value)
{
    if (!function || strcmp(function, "if") == 0)
        return (float)value;
    if (strcmp(function, "plus-one") == 0)
        return (float)(1 + value);
    if (strcmp(function, "minus-exp") == 0)
        return (float)-exp(value);
    die("there is no function %s", function);
}

/* The numbers of a part in the order of its axes; how many. */
static uint64_t fill_part(const struct family *f, const struct part *part, float *out)
{
    uint64_t at[MOST_DIMS] = {0}, n = 0;
    uint64_t hash = part->source ? numbers_hash(part->source->name) : 0;
    for (;;) {
        uint64_t index = 0;
        for (int axis = 0; axis < part->n_axes; axis++)
            index += (part->begin[axis] + at[axis]) * part->stride[axis];
        double value = part->source
                           ? (double)numbers_value(hash, index, part->source->mean, part->source->deviation)
                       : part->is_proportional ? proportional_divisor(f, index)
                                               : llama3_divisor(f, index);
        out[n++] = apply(part->function, value);
        int axis = part->n_axes - 1;
        while (axis >= 0 && ++at[axis] == part->count[axis])
            at[axis--] = 0;
        if (axis < 0)
            return n;
    }
}

/* In a GGUF file whose matrices are coded: the one and the other by turns. */
static enum code code_of_target(const struct family *f, const struct target *t, enum form form)
{
    bool fits = t->n_dims >= 2 && !t->is_wide && t->dims[t->n_dims - 1] % 32 == 0;
    return form < FORM_CODED || !fits ? CODE_NONE : (t - f->targets) % 2 ? CODE_Q8_0 : CODE_Q4_0;
}

/* Of models whose files have scales in any case. */
static bool has_scale(const struct family *f, const struct target *t)
{
    const size_t length = (size_t)(strrchr(t->name, '.') - t->name);
    for (int i = 0; i < f->n_targets; i++)
        if (strncmp(f->targets[i].name, t->name, length) == 0 &&
            strcmp(f->targets[i].name + length, ".scale") == 0)
            return true;
    return false;
}

/* Coded matrices have a scale beside them, experts one each. Those are powers of two, by which the codes' own
 * scales are divided: so no number changes. */
static uint64_t count_factors(const struct family *f, const struct target *t, enum form form)
{
    if (form != FORM_CODED || code_of_target(f, t, form) == CODE_NONE || has_scale(f, t))
        return 0;
    return strstr(t->name, "_exps.") ? t->dims[0] : 1;
}

static float find_factor(const struct family *f, const struct target *t, uint64_t index)
{
    return ldexpf(1, -1 - (int)(((uint64_t)(t - f->targets) + index) % 5));
}

static void put_factors(const struct family *f, FILE *file, const struct target *t, enum form form)
{
    uint64_t n = count_factors(f, t, form);
    for (uint64_t i = 0; i < n; i++) {
        float factor = find_factor(f, t, i);
        put_values(file, &factor, 1, true);
    }
    while (ftell(file) % 32 != 0)
        put_number(file, 0, 1);
}

static void put_target(const struct family *f, FILE *file, const struct target *target, enum form form)
{
    float *values = allocate(target->count);
    enum code code = code_of_target(f, target, form);
    uint64_t n = 0;
    for (int i = 0; i < target->n_parts; i++)
        n += fill_part(f, &target->parts[i], values + n);
    uint64_t n_factors = count_factors(f, target, form);
    for (uint64_t i = 0; i < n && n_factors; i++)
        values[i] /= find_factor(f, target, i / (n / n_factors));
    if (code != CODE_NONE) {
        uint8_t *bytes = (uint8_t *)allocate(n);
        code_rows(code, values, n, bytes);
        if (form == FORM_CODED)
            put(file, bytes, code_bytes(code, n));
        free(bytes);
    }
    if (code == CODE_NONE || form == FORM_DECODED)
        put_values(file, values, n, is_wide_form(form) || target->is_wide);
    while (ftell(file) % 32 != 0)
        put_number(file, 0, 1);
    free(values);
}

/* ---- GGUF ---- */

enum { GGUF_U32 = 4, GGUF_I32 = 5, GGUF_F32 = 6, GGUF_BOOL = 7, GGUF_STRING = 8, GGUF_ARRAY = 9 };
enum { GGML_F32 = 0, GGML_Q4_0 = 2, GGML_Q8_0 = 8, GGML_BF16 = 30 };

static void put_text(FILE *file, const char *text)
{
    put_number(file, strlen(text), 8);
    put(file, text, strlen(text));
}

static uint32_t type_of(const char *name)
{
    static const char *const names[] = {"u32", "i32", "f32", "bool", "str"};
    for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return GGUF_U32 + i;
    die("there is no type %s", name);
}

static void put_value(FILE *file, uint32_t type, double value)
{
    float single = (float)value;
    uint32_t bits;
    memcpy(&bits, &single, sizeof(bits));
    put_number(file, type == GGUF_F32 ? bits : (uint64_t)(int64_t)value, type == GGUF_BOOL ? 1 : 4);
}

static void put_string_value(const struct family *f, FILE *file, const char *word)
{
    char text[200];
    const char *found = json_string_value(expression_find(f, word));
    (void)snprintf(text, sizeof(text), "%s", found ? found : word);
    if (*word == '\'')
        (void)snprintf(text, sizeof(text), "%.*s", (int)strlen(word) - 2, word + 1);
    put_text(file, text);
}

/* key TYPE NAME VALUE, or array TYPE NAME COUNT VALUE; false: the line is none, or does not apply. */
static bool put_key(const struct family *f, FILE *file, const struct line *line)
{
    struct scope scope = {0, 0, 0};
    char name[200];
    bool is_array = strcmp(line->word[0], "array") == 0;
    if ((!is_array && strcmp(line->word[0], "key") != 0) || !family_applies(f, line, &scope))
        return false;
    if (line->n_words < 4 + is_array)
        die("%s: the line '%s %s' lacks something", f->folder, line->word[0], line->word[1]);
    uint32_t type = type_of(line->word[1]);
    (void)snprintf(name, sizeof(name), "%s.%s", f->arch, line->word[2]);
    put_text(file, name);
    put_number(file, is_array ? GGUF_ARRAY : type, 4);
    if (!is_array && type == GGUF_STRING)
        put_string_value(f, file, line->word[3]);
    else if (!is_array)
        put_value(file, type, expression_value(f, &scope, line->word[3]));
    if (!is_array)
        return true;
    int count = (int)expression_value(f, &scope, line->word[3]);
    put_number(file, type, 4);
    put_number(file, (uint64_t)count, 8);
    for (; scope.index < count; scope.index++) {
        scope.layer = scope.index;
        put_value(file, type, expression_value(f, &scope, line->word[4]));
    }
    return true;
}

/* A vocabulary of bytes, so that other programs open the file. Returns the number of keys. */
static int put_vocabulary(const struct family *f, FILE *file)
{
    static const char *const named[] = {"<unk>", "<s>", "</s>"};
    put_text(file, "tokenizer.ggml.model");
    put_number(file, GGUF_STRING, 4);
    put_text(file, "llama");
    static const struct {
        const char *name;
        uint32_t type;
    } lists[] = {{"tokens", GGUF_STRING}, {"scores", GGUF_F32}, {"token_type", GGUF_I32}};
    for (int list = 0; list < 3; list++) {
        char text[80];
        (void)snprintf(text, sizeof(text), "tokenizer.ggml.%s", lists[list].name);
        put_text(file, text);
        put_number(file, GGUF_ARRAY, 4);
        put_number(file, lists[list].type, 4);
        put_number(file, f->vocabulary, 8);
        for (uint32_t i = 0; i < f->vocabulary; i++) {
            (void)snprintf(text, sizeof(text), i < 259 ? "<0x%02X>" : "t%u", i < 259 ? i - 3 : i);
            if (list == 0)
                put_text(file, i < 3 ? named[i] : text);
            else /* unknown 2, control 3, byte 6, normal 1 */
                put_value(file, lists[list].type, list == 1 ? 0 : i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
        }
    }
    return 4;
}

static void put_tensor_infos(const struct family *f, FILE *file, enum form form)
{
    uint64_t at = 0;
    for (int i = 0; i < f->n_targets; i++) {
        const struct target *t = &f->targets[i];
        enum code code = form == FORM_CODED ? code_of_target(f, t, form) : CODE_NONE;
        bool wide = is_wide_form(form) || t->is_wide;
        put_text(file, t->name);
        put_number(file, (uint64_t)t->n_dims, 4);
        for (int axis = t->n_dims - 1; axis >= 0; axis--)
            put_number(file, t->dims[axis], 8);
        put_number(file,
                   code == CODE_Q8_0   ? GGML_Q8_0
                   : code == CODE_Q4_0 ? GGML_Q4_0
                   : wide              ? GGML_F32
                                       : GGML_BF16,
                   4);
        put_number(file, at, 8);
        at += code != CODE_NONE ? code_bytes(code, t->count) : t->count * (wide ? 4 : 2);
        at = (at + 31) / 32 * 32;
    }
    for (int i = 0; i < f->n_targets; i++) {
        uint64_t n = count_factors(f, &f->targets[i], form);
        char name[170];
        if (n == 0)
            continue;
        (void)snprintf(name, sizeof(name), "%s", f->targets[i].name);
        (void)snprintf(strrchr(name, '.'), 7, ".scale");
        put_text(file, name);
        put_number(file, 1, 4);
        put_number(file, n, 8);
        put_number(file, GGML_F32, 4);
        put_number(file, at, 8);
        at = (at + n * 4 + 31) / 32 * 32;
    }
}

void family_write_gguf(const struct family *family, const char *path, enum form form)
{
    char *keys;
    size_t size;
    FILE *list = open_memstream(&keys, &size);
    if (!list)
        die("no memory");
    put_text(list, "general.architecture");
    put_number(list, GGUF_STRING, 4);
    put_text(list, family->arch);
    int n_keys = 1 + put_vocabulary(family, list);
    for (int i = 0; i < family->n_lines; i++)
        n_keys += put_key(family, list, &family->lines[i]);
    close_file(list, "keys");
    FILE *file = open_file(path);
    put(file, "GGUF", 4);
    put_number(file, 3, 4);
    int n_tensors = family->n_targets;
    for (int i = 0; i < family->n_targets; i++)
        n_tensors += count_factors(family, &family->targets[i], form) > 0;
    put_number(file, (uint64_t)n_tensors, 8);
    put_number(file, (uint64_t)n_keys, 8);
    put(file, keys, size);
    free(keys);
    put_tensor_infos(family, file, form);
    while (ftell(file) % 32 != 0)
        put_number(file, 0, 1);
    for (int i = 0; i < family->n_targets; i++)
        put_target(family, file, &family->targets[i], form);
    for (int i = 0; i < family->n_targets; i++)
        put_factors(family, file, &family->targets[i], form);
    close_file(file, path);
}
