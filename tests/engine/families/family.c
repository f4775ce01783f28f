/* SPDX-License-Identifier: Apache-2.0 */
/* family.c - reads a family's table and makes of it the list of its tensors. */
#define _GNU_SOURCE
#include "tests/engine/families/family.h"

#include <stdlib.h>
#include <string.h>

static void *grow(void *list, int n, size_t size)
{
    void *grown = realloc(list, (size_t)(n + 1) * size);
    if (!grown)
        die("no memory");
    memset((char *)grown + (size_t)n * size, 0, size);
    return grown;
}

/* ---- lines ---- */

/* Of the family that a line `like` names, not what is run and recorded of it. */
static bool is_of_runs(const char *word)
{
    static const char *const words[] = {"tokens", "keep", "mtp", "error", "longest"};
    bool is_one = false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        is_one |= strcmp(word, words[i]) == 0;
    return is_one;
}

static void read_lines(struct family *f, const char *folder, const char *name);

/* Lines that stand for those of other files. Whether it is one. */
static bool follow(struct family *f, const char *folder, const struct line *line)
{
    char path[200];
    if (line->n_words != 2)
        return false;
    if (strcmp(line->word[0], "include") == 0) {
        read_lines(f, folder, line->word[1]);
        return true;
    }
    if (strcmp(line->word[0], "like") != 0)
        return false;
    if (f->like[0])
        die("%s is like %s and like %s", f->folder, f->like, line->word[1]);
    (void)snprintf(f->like, sizeof(f->like), "%s", line->word[1]);
    (void)snprintf(path, sizeof(path), "%s/model", f->like);
    f->is_other = true;
    read_lines(f, folder, path);
    f->is_other = false;
    return true;
}

static void read_lines(struct family *f, const char *folder, const char *name)
{
    char path[4300], *text = NULL;
    size_t room = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        die("cannot open %s", path);
    while (getline(&text, &room, file) >= 0) {
        struct line line = {.text = strdup(text)};
        char *rest = line.text, *word;
        while (line.n_words < MOST_WORDS && (word = strtok_r(rest, " \n", &rest)))
            line.word[line.n_words++] = word;
        if (line.n_words < 2 || line.word[0][0] == '#' || follow(f, folder, &line) ||
            (f->is_other && is_of_runs(line.word[0]))) {
            free(line.text);
            continue;
        }
        f->lines = grow(f->lines, f->n_lines, sizeof(*f->lines));
        f->lines[f->n_lines++] = line;
    }
    free(text);
    (void)fclose(file);
}

bool family_has_word(const struct line *line, const char *word)
{
    for (int i = 1; i < line->n_words; i++)
        if (strcmp(line->word[i], word) == 0)
            return true;
    return false;
}

bool family_applies(const struct family *family, const struct line *line, const struct scope *scope)
{
    for (int i = 1; i + 1 < line->n_words; i++)
        if (strcmp(line->word[i], "if") == 0)
            return expression_value(family, scope, line->word[i + 1]) != 0;
    return true;
}

/* The texts between commas, filled in; how many. */
static int split(const struct family *f, const struct scope *scope, const char *text, double *values)
{
    char copy[400], *rest = copy, *item;
    int n = 0;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    while ((item = strtok_r(rest, ",", &rest))) {
        if (n == MOST_DIMS)
            die("'%s' has more than %d axes", text, MOST_DIMS);
        values[n++] = expression_value(f, scope, item);
    }
    return n;
}

static uint64_t read_dims(const struct family *f, const struct scope *scope, const char *text, uint64_t *dims,
                          int *n_dims)
{
    double values[MOST_DIMS];
    uint64_t count = 1;
    *n_dims = split(f, scope, text, values);
    for (int i = 0; i < *n_dims; i++)
        count *= dims[i] = (uint64_t)values[i];
    if (count == 0 || count > 1 << 24)
        die("'%s' are %llu numbers", text, (unsigned long long)count);
    return count;
}

/* How often a name is repeated: for each layer, for each expert. */
static int loops(const struct family *f, const char *name, const char *variable, const char *count)
{
    const struct scope none = {0, 0, 0};
    return strstr(name, variable) ? (int)expression_value(f, &none, count) : 1;
}

/* ---- tensors ---- */

static void add_source(struct family *f, const struct line *line, const struct scope *scope)
{
    f->sources = grow(f->sources, f->n_sources, sizeof(*f->sources));
    struct source *source = &f->sources[f->n_sources++];
    expression_fill(f, scope, line->word[1], source->name, sizeof(source->name));
    source->count = read_dims(f, scope, line->word[2], source->dims, &source->n_dims);
    source->is_wide = family_has_word(line, "f32");
    source->is_byte = family_has_word(line, "u8");
    if (sscanf(line->word[3], "%lf,%lf", &source->mean, &source->deviation) != 2)
        die("%s: '%s' is no mean and deviation", source->name, line->word[3]);
}

static const struct source *find_source(const struct family *f, const char *name)
{
    for (int i = 0; i < f->n_sources; i++)
        if (strcmp(f->sources[i].name, name) == 0)
            return &f->sources[i];
    die("there is no tensor %s", name);
}

static struct part *add_part(struct target *target)
{
    target->parts = grow(target->parts, target->n_parts, sizeof(*target->parts));
    return &target->parts[target->n_parts++];
}

static void add_whole(struct family *f, struct target *target, const char *name)
{
    struct part *part = add_part(target);
    part->source = find_source(f, name);
    part->n_axes = 1;
    part->stride[0] = 1;
    part->count[0] = part->source->count;
}

/* Words: part SOURCE AXES ORDER [FUNCTION]; an axis is SIZE, or BEGIN:END:SIZE where it is cut. */
static void add_cut(struct family *f, struct target *target, const struct line *line,
                    const struct scope *scope)
{
    char name[160], axes[400], *rest = axes, *item;
    struct part *part = add_part(target), straight = {.function = NULL};
    uint64_t sizes[MOST_DIMS], count = 1;
    double order[MOST_DIMS];
    expression_fill(f, scope, line->word[1], name, sizeof(name));
    (void)snprintf(axes, sizeof(axes), "%s", line->word[2]);
    for (; (item = strtok_r(rest, ",", &rest)); straight.n_axes++) {
        char *end = strchr(item, ':'), *size = end ? strchr(end + 1, ':') : NULL;
        int n = straight.n_axes;
        if (n == MOST_DIMS || (end && !size))
            die("%s: the axes '%s'", name, line->word[2]);
        if (end)
            *end++ = *size++ = '\0';
        sizes[n] = (uint64_t)expression_value(f, scope, end ? size : item);
        straight.begin[n] = end ? (uint64_t)expression_value(f, scope, item) : 0;
        straight.count[n] = (end ? (uint64_t)expression_value(f, scope, end) : sizes[n]) - straight.begin[n];
    }
    for (int i = straight.n_axes - 1; i >= 0; i--) {
        straight.stride[i] = count;
        count *= sizes[i];
    }
    part->is_proportional = strcmp(name, "proportional") == 0;
    if (strcmp(name, "llama3") != 0 && !part->is_proportional)
        part->source = find_source(f, name);
    if (part->source && part->source->count != count)
        die("%s has %llu numbers, the axes %s %llu", name, (unsigned long long)part->source->count,
            line->word[2], (unsigned long long)count);
    if (split(f, scope, line->word[3], order) != straight.n_axes)
        die("%s: the order '%s' of axes", name, line->word[3]);
    part->n_axes = straight.n_axes;
    for (int i = 0; i < part->n_axes; i++) {
        int from = (int)order[i];
        part->begin[i] = straight.begin[from];
        part->count[i] = straight.count[from];
        part->stride[i] = straight.stride[from];
    }
    part->function = line->n_words > 4 ? line->word[4] : NULL;
}

static void check_count(const struct target *target)
{
    uint64_t sum = 0;
    for (int i = 0; i < target->n_parts; i++) {
        uint64_t count = 1;
        for (int axis = 0; axis < target->parts[i].n_axes; axis++)
            count *= target->parts[i].count[axis];
        sum += count;
    }
    if (sum != target->count)
        die("%s has %llu numbers, its parts %llu", target->name, (unsigned long long)target->count,
            (unsigned long long)sum);
}

/* `own` is the tensor line above, of which all is taken where no `part` follows. */
static void add_target(struct family *f, int at, const struct line *own, struct scope scope)
{
    const struct line *line = &f->lines[at];
    f->targets = grow(f->targets, f->n_targets, sizeof(*f->targets));
    struct target *target = &f->targets[f->n_targets++];
    expression_fill(f, &scope, line->word[1], target->name, sizeof(target->name));
    target->count = read_dims(f, &scope, line->word[2], target->dims, &target->n_dims);
    target->is_wide = target->n_dims == 1 || family_has_word(line, "f32");
    for (at++; at < f->n_lines && strcmp(f->lines[at].word[0], "part") == 0; at++)
        for (scope.expert = 0; scope.expert < loops(f, f->lines[at].word[1], "{e}", "EXPERTS");
             scope.expert++)
            add_cut(f, target, &f->lines[at], &scope);
    for (int n = target->n_parts ? 0 : loops(f, own->word[1], "{e}", "EXPERTS"), i = 0; i < n; i++) {
        char name[160];
        scope.expert = i;
        expression_fill(f, &scope, own->word[1], name, sizeof(name));
        add_whole(f, target, name);
    }
    check_count(target);
}

static void expand_line(struct family *f, int at, const struct line *own)
{
    const struct line *line = &f->lines[at];
    struct scope scope = {0, 0, 0};
    if (line->n_words < 3 + (line == own) || !own)
        die("%s: the line '%s %s' lacks something", f->folder, line->word[0], line->word[1]);
    for (; scope.layer < loops(f, line->word[1], "{l", "LAYERS"); scope.layer++) {
        if (!family_applies(f, own, &scope) || !family_applies(f, line, &scope))
            continue;
        if (line != own)
            add_target(f, at, own, scope);
        for (scope.expert = 0; line == own && scope.expert < loops(f, line->word[1], "{e}", "EXPERTS");
             scope.expert++)
            add_source(f, line, &scope);
        scope.expert = 0;
    }
}

/* All sources first: targets point to them, and then they do not move any more. */
static void expand(struct family *f)
{
    const struct line *own = NULL;
    for (int i = 0; i < f->n_lines; i++)
        if (strcmp(f->lines[i].word[0], "tensor") == 0)
            expand_line(f, i, &f->lines[i]);
    const bool has_targets = family_has_gguf(f) || !f->like[0]; /* sizes in second tables are safetensors' */
    for (int i = 0; i < f->n_lines && has_targets; i++) {
        if (strcmp(f->lines[i].word[0], "tensor") == 0)
            own = &f->lines[i];
        else if (strcmp(f->lines[i].word[0], "gguf") == 0)
            expand_line(f, i, own);
    }
}

/* ---- a family ---- */

/* Sets a value of the configuration, or with NULL takes it away. */
static void change_config(struct family *f, const char *path, const char *text)
{
    char copy[160];
    json_error_t error;
    json_t *value = text ? json_loads(text, JSON_DECODE_ANY, &error) : NULL, *place = f->config;
    (void)snprintf(copy, sizeof(copy), "%s", path);
    char *last = strrchr(copy, '.');
    if (last) {
        *last++ = '\0';
        place = expression_find(f, copy);
    } else {
        last = copy;
    }
    int status = !text                  ? json_object_del(place, last)
                 : json_is_array(place) ? json_array_set_new(place, (size_t)atoi(last), value)
                                        : json_object_set_new(place, last, value);
    if (status != 0)
        die("%s: cannot set %s", f->folder, path);
}

/* That of the folder, or of the family that it is like, with what lines `set` and `unset` change. */
static void read_config(struct family *f, const char *folder)
{
    char path[4300];
    json_error_t error;
    (void)snprintf(path, sizeof(path), "%.4000s/config.json", f->folder);
    if (f->like[0])
        (void)snprintf(path, sizeof(path), "%.3900s/%s/config.json", folder, f->like);
    f->config = json_load_file(path, 0, &error);
    if (!f->config)
        die("%s:%d: %s", path, error.line, error.text);
    for (int i = 0; i < f->n_lines; i++) {
        const struct line *line = &f->lines[i];
        if (strcmp(line->word[0], "set") == 0 && line->n_words == 3)
            change_config(f, line->word[1], line->word[2]);
        else if (strcmp(line->word[0], "unset") == 0)
            change_config(f, line->word[1], NULL);
    }
}

static int read_positions(const struct line *line, uint32_t *positions)
{
    int n = 0;
    for (; n + 1 < line->n_words && n < MOST_KEEP; n++)
        positions[n] = (uint32_t)atoi(line->word[n + 1]);
    return n;
}

static void take_line(struct family *f, const struct line *line)
{
    if (strcmp(line->word[0], "arch") == 0)
        (void)snprintf(f->arch, sizeof(f->arch), "%s", line->word[1]);
    else if (strcmp(line->word[0], "tokens") == 0)
        f->n_tokens = (uint32_t)atoi(line->word[1]), f->draws = line->n_words > 2 ? line->word[2] : "";
    else if (strcmp(line->word[0], "error") == 0)
        f->n_errors++;
    else if (strcmp(line->word[0], "keep") == 0)
        f->n_keep = read_positions(line, f->keep);
    else if (strcmp(line->word[0], "longest") == 0)
        f->longest = (uint32_t)atoi(line->word[1]);
    else if (strcmp(line->word[0], "mtp") == 0)
        f->n_mtp = read_positions(line, f->mtp);
}

void family_open(struct family *family, const char *folder, const char *name)
{
    char path[4300];
    memset(family, 0, sizeof(*family));
    (void)snprintf(family->name, sizeof(family->name), "%.79s", name);
    (void)snprintf(family->folder, sizeof(family->folder), "%.3900s/%.100s", folder, name);
    (void)snprintf(path, sizeof(path), "%.100s/model", name);
    read_lines(family, folder, path);
    read_config(family, folder);
    family->longest = LONGEST;
    for (int i = 0; i < family->n_lines; i++)
        take_line(family, &family->lines[i]);
    const struct scope none = {0, 0, 0};
    family->vocabulary = (uint32_t)expression_value(family, &none, "V");
    expand(family);
}

void family_close(struct family *family)
{
    for (int i = 0; i < family->n_lines; i++)
        free(family->lines[i].text);
    for (int i = 0; i < family->n_targets; i++)
        free(family->targets[i].parts);
    free(family->lines);
    free(family->sources);
    free(family->targets);
    json_decref(family->config);
}

bool family_has_gguf(const struct family *family)
{
    return strcmp(family->arch, "none") != 0;
}

int32_t family_long_id(const struct family *family, int seed, uint32_t position)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "tokens-%d", seed);
    return (int32_t)(numbers_draw(numbers_hash(name), position) % family->vocabulary);
}

int32_t family_id(const struct family *family, uint32_t position)
{
    uint32_t times = 0;
    if (position < strlen(family->draws)) {
        char digit = family->draws[position];
        times = (uint32_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    }
    return (int32_t)(numbers_draw(numbers_hash("tokens"), position + times * family->n_tokens) %
                     family->vocabulary);
}

/* ---- deliberate errors ---- */

static const struct line *find_error(const struct family *f, int number)
{
    for (int i = 0; i < f->n_lines; i++)
        if (strcmp(f->lines[i].word[0], "error") == 0 && number-- == 0)
            return &f->lines[i];
    die("%s has no error %d", f->folder, number);
}

const char *family_error_name(const struct family *family, int error)
{
    return find_error(family, error)->word[1];
}

bool family_spoil(struct family *family, int error)
{
    const struct line *line = find_error(family, error);
    if (strcmp(line->word[2], "patch") == 0)
        return false;
    if (line->n_words < 5)
        die("%s: error %s lacks something", family->folder, line->word[1]);
    family->error = line;
    if (strcmp(line->word[2], "config") == 0)
        change_config(family, line->word[3], line->word[4]);
    return true;
}
