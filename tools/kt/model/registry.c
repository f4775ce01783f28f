/* SPDX-License-Identifier: Apache-2.0 */
/* registry.c - reads and changes the registry of models. */
#define _GNU_SOURCE

#include "tools/kt/model/registry.h"
#include "tools/kt/model/options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIZE_LIMIT = 1 << 20, NAME_LIMIT = 100 };

/* ---- where files are ------------------------------------------------------------------------ */

static const char *environment(const char *name)
{
    const char *text = secure_getenv(name);
    return text && *text ? text : NULL;
}

char *registry_data(const struct kt_cli *cli, const char *below)
{
    const char *home = environment("XDG_DATA_HOME");
    if (home && *home == '/')
        return kt_cli_format(cli, "%s/kt-kernel/%s", home, below);
    home = environment("HOME");
    if (home && *home == '/')
        return kt_cli_format(cli, "%s/.local/share/kt-kernel/%s", home, below);
    kt_cli_error(cli,
                 "neither XDG_DATA_HOME nor HOME is set, so there is no place for models and their names");
    return NULL;
}

/* Beside the folder of drop-ins, as tuned.ini is. */
static char *known_path(const struct kt_cli *cli)
{
    const char *folder = environment("KT_KERNEL_PLUGINCONFDIR");
    if (!folder)
        folder = KT_PLUGINCONFDIR;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    while (length > 0 && folder[length - 1] != '/')
        length--;
    return kt_cli_format(cli, "%.*sknown-models.ini", (int)length, folder);
}

char *registry_absolute(const struct kt_cli *cli, const char *path)
{
    char *folder = *path == '/' ? NULL : getcwd(NULL, 0);
    while (folder && path[0] == '.' && path[1] == '/') {
        path += 2;
        path += strspn(path, "/");
    }
    char *text = folder ? kt_cli_format(cli, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder,
                                        strcmp(path, ".") == 0 ? "" : path)
                        : kt_cli_format(cli, "%s", path);
    free(folder);
    for (size_t n = strlen(text); n > 1 && text[n - 1] == '/'; n--)
        text[n - 1] = '\0';
    return text;
}

/* ---- names ---------------------------------------------------------------------------------- */

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("._-+:", c));
}

bool registry_is_name(const char *text)
{
    size_t n = 0;
    while (is_name_byte(text[n]))
        n++;
    return n > 0 && n <= NAME_LIMIT && !text[n] && isalnum((unsigned char)*text);
}

bool registry_words(const char *list, bool (*take)(void *data, const char *word), void *data)
{
    char word[NAME_LIMIT + 2];
    while (list && *list) {
        size_t length = strcspn(list, ", \t");
        snprintf(word, sizeof(word), "%.*s", (int)(length < sizeof(word) ? length : sizeof(word) - 1), list);
        if (length > 0 && !take(data, word))
            return false;
        list += length;
        list += strspn(list, ", \t");
    }
    return true;
}

const char *registry_get(const struct registry_model *model, const char *key)
{
    for (size_t i = 0; i < model->n_pairs; i++)
        if (strcmp(model->pairs[i].key, key) == 0)
            return model->pairs[i].value;
    return NULL;
}

static bool is_other(void *data, const char *word)
{
    return strcasecmp(data, word) != 0;
}

/* False of a repository: that is what it was pulled from, and several may be from one. */
static bool is_called(const struct registry_model *model, const char *name)
{
    char *same = (char *)name;
    return strcasecmp(model->name, name) == 0 ||
           !registry_words(registry_get(model, REGISTRY_ALIASES), is_other, same);
}

const struct registry_model *registry_find(const struct registry *registry, const char *name)
{
    for (size_t i = 0; i < registry->n_models; i++)
        if (is_called(&registry->models[i], name))
            return &registry->models[i];
    for (size_t i = 0; i < registry->n_models; i++) {
        const char *repository = registry_get(&registry->models[i], REGISTRY_REPOSITORY);
        if (repository && strcasecmp(repository, name) == 0)
            return &registry->models[i];
    }
    return NULL;
}

const struct registry_model *registry_find_path(const struct registry *registry, const char *path)
{
    struct stat wanted, other;
    bool there = stat(path, &wanted) == 0;
    for (size_t i = 0; i < registry->n_models; i++) {
        const char *own = registry_get(&registry->models[i], REGISTRY_PATH);
        if (own &&
            (strcmp(own, path) == 0 || (there && stat(own, &other) == 0 && other.st_dev == wanted.st_dev &&
                                        other.st_ino == wanted.st_ino)))
            return &registry->models[i];
    }
    return NULL;
}

int registry_check_name(const struct kt_cli *cli, const struct registry *registry, const char *model,
                        const char *name)
{
    if (!registry_is_name(name))
        return kt_cli_usage(
            cli,
            "'%s' is not a name: letters, digits, . _ - + and : are, behind a letter or a digit, "
            "at most %d",
            name, NAME_LIMIT);
    for (size_t i = 0; i < registry->n_models; i++) {
        const struct registry_model *other = &registry->models[i];
        if (strcmp(other->name, model) != 0 && is_called(other, name))
            return kt_cli_error(cli, "%s:%u: the model %s has the name %s", registry->path, other->line,
                                other->name, name);
    }
    return KT_EXIT_OK;
}

struct naming {
    const struct kt_cli *cli;
    const struct registry *registry;
    const char *model;
    int code;
};

static bool check_name(void *data, const char *word)
{
    struct naming *naming = data;
    naming->code = registry_check_name(naming->cli, naming->registry, naming->model, word);
    return naming->code == KT_EXIT_OK;
}

int registry_check_names(const struct kt_cli *cli, const struct registry *registry, const char *model,
                         const char *names)
{
    struct naming naming = {.cli = cli, .registry = registry, .model = model, .code = KT_EXIT_OK};
    (void)registry_words(names, check_name, &naming);
    return naming.code;
}

char *registry_name_of(const struct kt_cli *cli, const struct registry *registry, const char *path)
{
    char stem[NAME_LIMIT - 8];
    size_t end = strlen(path), n = 0;
    if (end > 5 && strcasecmp(path + end - 5, ".gguf") == 0)
        end -= 5;
    /* NAME-00001-of-00003 */
    if (end > 15 && memcmp(path + end - 9, "-of-", 4) == 0 && path[end - 15] == '-')
        end -= 15;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    /* models--OWNER--NAME/snapshots/COMMIT, as Hugging Face's cache has them */
    if (start > 11 && memcmp(path + start - 11, "/snapshots/", 11) == 0) {
        end = start - 11;
        start = end;
        while (start > 0 && path[start - 1] != '/' && !(path[start - 1] == '-' && path[start - 2] == '-'))
            start--;
    }
    while (start < end && !isalnum((unsigned char)path[start]))
        start++;
    for (; start < end && n + 1 < sizeof(stem); start++)
        stem[n++] = path[start];
    for (size_t i = 0; i < n; i++)
        if (!is_name_byte(stem[i]))
            stem[i] = '-';
    stem[n] = '\0';
    char *name = kt_cli_format(cli, "%s", n > 0 ? stem : "model");
    for (unsigned number = 2; registry_find(registry, name); number++) {
        free(name);
        name = kt_cli_format(cli, "%s-%u", n > 0 ? stem : "model", number);
    }
    return name;
}

/* ---- reading -------------------------------------------------------------------------------- */

void registry_free(struct registry *registry)
{
    for (size_t i = 0; i < registry->n_models; i++) {
        struct registry_model *model = &registry->models[i];
        for (size_t k = 0; k < model->n_pairs; k++) {
            free(model->pairs[k].key);
            free(model->pairs[k].value);
        }
        free(model->pairs);
        free(model->name);
    }
    free(registry->models);
    free(registry->path);
    *registry = (struct registry){.path = NULL};
}

struct reading {
    const struct kt_cli *cli;
    struct registry *registry;
    int code;
};

/* Room for one more. */
static void *grow(const struct kt_cli *cli, void *array, size_t n, size_t size)
{
    void *grown = kt_cli_alloc(cli, n + 1, size);
    if (n > 0)
        memcpy(grown, array, n * size);
    free(array);
    return grown;
}

static bool take_header(struct reading *reading, const struct ini_item *item)
{
    struct registry *registry = reading->registry;
    char *name = kt_cli_format(reading->cli, "%.*s", (int)item->name_length, item->name);
    const struct registry_model *other = NULL;
    for (size_t i = 0; i < registry->n_models && !other; i++)
        if (is_called(&registry->models[i], name))
            other = &registry->models[i];
    if (!registry_is_name(name))
        reading->code =
            kt_cli_error(reading->cli,
                         "%s:%u: [%s] is not a name of a model: letters, digits, . _ - + and : are, "
                         "at most %d",
                         registry->path, item->line, name, NAME_LIMIT);
    else if (other)
        reading->code = kt_cli_error(reading->cli, "%s:%u: [%s] is called so in line %u already",
                                     registry->path, item->line, name, other->line);
    registry->models = grow(reading->cli, registry->models, registry->n_models, sizeof(*registry->models));
    registry->models[registry->n_models++] = (struct registry_model){.name = name, .line = item->line};
    return reading->code == KT_EXIT_OK;
}

static bool take_setting(struct reading *reading, const struct ini_item *item)
{
    struct registry *registry = reading->registry;
    if (registry->n_models == 0) {
        reading->code = kt_cli_error(reading->cli, "%s:%u: a line [NAME] must stand before this one",
                                     registry->path, item->line);
        return false;
    }
    struct registry_model *model = &registry->models[registry->n_models - 1];
    char *key = kt_cli_format(reading->cli, "%.*s", (int)item->name_length, item->name);
    if (registry_get(model, key)) {
        reading->code = kt_cli_error(reading->cli, "%s:%u: [%s] has %s twice", registry->path, item->line,
                                     model->name, key);
        free(key);
        return false;
    }
    model->pairs = grow(reading->cli, model->pairs, model->n_pairs, sizeof(*model->pairs));
    model->pairs[model->n_pairs++] =
        (struct registry_pair){.key = key,
                               .value =
                                   kt_cli_format(reading->cli, "%.*s", (int)item->value_length, item->value),
                               .line = item->line};
    if (strcmp(key, REGISTRY_PATH) == 0 && *item->value != '/') {
        reading->code = kt_cli_error(reading->cli, "%s:%u: path = %s: it must begin with a /", registry->path,
                                     item->line, model->pairs[model->n_pairs - 1].value);
        return false;
    }
    return true;
}

static bool take(void *data, const struct ini_item *item)
{
    struct reading *reading = data;
    return item->value ? take_setting(reading, item) : take_header(reading, item);
}

static int parse(const struct kt_cli *cli, const struct ini_text *ini, struct registry *registry)
{
    struct reading reading = {.cli = cli, .registry = registry};
    unsigned line = ini_text_walk(ini, take, &reading);
    if (line > 0)
        return kt_cli_error(cli, "%s:%u: neither [NAME] nor KEY = VALUE nor a comment", registry->path, line);
    return reading.code;
}

/* The bytes of the file; none if it is not there. */
static int read_text(const struct kt_cli *cli, const char *path, struct ini_text *ini)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? KT_EXIT_OK
                                                   : kt_cli_error(cli, "%s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > SIZE_LIMIT) {
        close(fd);
        return kt_cli_error(cli, "%s: is not a file of at most 1 MiB", path);
    }
    ini->text = kt_cli_alloc(cli, SIZE_LIMIT, 1);
    ssize_t n;
    do {
        n = read(fd, ini->text + ini->size, SIZE_LIMIT - ini->size);
        ini->size += n > 0 ? (size_t)n : 0;
    } while ((n > 0 && ini->size < SIZE_LIMIT) || (n < 0 && errno == EINTR));
    int code = n < 0 ? kt_cli_error(cli, "%s: %s", path, strerror(errno)) : KT_EXIT_OK;
    close(fd);
    return code;
}

static int read_file(const struct kt_cli *cli, struct registry *registry)
{
    struct ini_text ini = {.text = NULL};
    int code = read_text(cli, registry->path, &ini);
    if (code == KT_EXIT_OK)
        code = parse(cli, &ini, registry);
    free(ini.text);
    return code;
}

int registry_read(const struct kt_cli *cli, struct registry *registry)
{
    *registry = (struct registry){.path = registry_data(cli, "models.ini")};
    return registry->path ? read_file(cli, registry) : KT_EXIT_PROBLEM;
}

int registry_read_known(const struct kt_cli *cli, struct registry *registry)
{
    *registry = (struct registry){.path = known_path(cli)};
    return read_file(cli, registry);
}

/* ---- changes -------------------------------------------------------------------------------- */

static int read_again(const struct kt_cli *cli, struct registry_change *change)
{
    registry_free(&change->registry);
    change->registry.path = kt_cli_format(cli, "%s", change->file.path);
    return parse(cli, &change->file.ini, &change->registry);
}

int registry_open(const struct kt_cli *cli, struct registry_change *change)
{
    *change = (struct registry_change){.file.folder = -1};
    char *path = registry_data(cli, "models.ini");
    int code = path ? config_file_open(cli, &change->file, path, 0700) : KT_EXIT_PROBLEM;
    free(path);
    return code == KT_EXIT_OK ? read_again(cli, change) : code;
}

int registry_try(const struct kt_cli *cli, struct registry_change *change)
{
    *change = (struct registry_change){.file = {.path = registry_data(cli, "models.ini"), .folder = -1}};
    int code = change->file.path ? read_text(cli, change->file.path, &change->file.ini) : KT_EXIT_PROBLEM;
    return code == KT_EXIT_OK ? read_again(cli, change) : code;
}

static int fail_value(const struct kt_cli *cli, const char *key, const char *value)
{
    return kt_cli_usage(
        cli,
        "%s = %s: a file cannot hold this value, for a line ends it, and so does a ; behind a "
        "space; spaces at its ends get lost",
        key, value);
}

int registry_set(const struct kt_cli *cli, struct registry_change *change, const char *model, const char *key,
                 const char *value)
{
    struct config_key where = {.text = key};
    for (const char *c = value; c && *c; c++)
        if ((unsigned char)*c < ' ')
            return fail_value(cli, key, value);
    snprintf(where.section, sizeof(where.section), "%s", model);
    snprintf(where.key, sizeof(where.key), "%s", key);
    if (value)
        (void)ini_text_set(cli, &change->file.ini, &where, value);
    else
        (void)ini_text_unset(cli, &change->file.ini, &where);
    int code = read_again(cli, change);
    if (code != KT_EXIT_OK)
        return code;
    const struct registry_model *found = registry_find(&change->registry, model);
    const char *there = found ? registry_get(found, key) : NULL;
    if (value && (!there || strcmp(there, value) != 0))
        return fail_value(cli, key, value);
    return KT_EXIT_OK;
}

int registry_remove(const struct kt_cli *cli, struct registry_change *change, const char *model)
{
    (void)ini_text_remove(cli, &change->file.ini, model);
    return read_again(cli, change);
}

int registry_rename(const struct kt_cli *cli, struct registry_change *change, const char *model,
                    const char *name)
{
    int code = registry_check_name(cli, &change->registry, model, name);
    if (code != KT_EXIT_OK)
        return code;
    (void)ini_text_rename(cli, &change->file.ini, model, name);
    return read_again(cli, change);
}

int registry_save(const struct kt_cli *cli, struct registry_change *change)
{
    return config_file_write(cli, &change->file, NULL, NULL);
}

void registry_close(struct registry_change *change)
{
    registry_free(&change->registry);
    config_file_close(&change->file);
}
