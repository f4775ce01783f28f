/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/families/world.h"

#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tables: tests/data/families/NAME/model, and more/NAME/model. */
static glob_t tables;
static char folder[4096];

/* Threads of a model so small would mostly wait for each other. */
static struct kt_context *open_context(const char *backend, const char *threads, bool is_deterministic)
{
    char modules[2][512], wish[64];
    const char *settings[6];
    size_t n = 0;
    const char *const plugins[] = {"attention", backend};
    for (int i = 0; i < 2; i++) {
        if (strcmp(plugins[i], "reference") == 0)
            continue;
        const char *file = sandbox_backend(plugins[i]);
        if (!file) {
            printf("SKIP: the plugin %s was not built\n", plugins[i]);
            return NULL;
        }
        (void)snprintf(modules[i], sizeof(modules[i]), "plugin.%s.module=%s", plugins[i], file);
        settings[n++] = modules[i];
    }
    (void)snprintf(wish, sizeof(wish), "core.backend=%s", backend);
    settings[n++] = wish;
    settings[n++] = threads;
    if (is_deterministic)
        settings[n++] = "core.deterministic=yes";
    return fixture_context_with(settings, n);
}

const char *world_write(const struct family *family, enum file file)
{
    static const enum form forms[] = {FORM_BF16,    FORM_BF16,  FORM_F32,    FORM_CODED,
                                      FORM_DECODED, FORM_CODED, FORM_DECODED};
    bool is_folder = file == SAFETENSORS || file == FP8 || file == FP8_DECODED;
    const char *path = sandbox_path(is_folder ? "model" : "model.gguf");
    if (is_folder) {
        sandbox_folder("model");
        family_write_folder(family, path, forms[file]);
    } else {
        family_write_gguf(family, path, forms[file]);
    }
    return path;
}

static size_t count_rows(const struct family *f)
{
    return (size_t)f->n_keep + 1 + (size_t)f->n_errors;
}

static void read_expected(struct world *w)
{
    char path[4300];
    size_t count = count_rows(&w->family) * RECORDED + LONG_RECORDED;
    (void)snprintf(path, sizeof(path), "%s/expected.f32", w->family.folder);
    FILE *file = fopen(path, "re");
    ck_assert_msg(file != NULL, "cannot open %s", path);
    w->expected = malloc(count * sizeof(float));
    ck_assert_uint_eq(fread(w->expected, sizeof(float), count, file), count);
    ck_assert_msg(fgetc(file) == EOF, "%s is longer than its table says", path);
    ck_assert_int_eq(fclose(file), 0);
    w->ids = malloc(w->family.n_tokens * sizeof(*w->ids));
    for (uint32_t i = 0; i < w->family.n_tokens; i++)
        w->ids[i] = family_id(&w->family, i);
}

const float *world_last(const struct world *w)
{
    return w->expected + (size_t)w->family.n_keep * RECORDED;
}

const float *world_error(const struct world *w, int error)
{
    return world_last(w) + (size_t)(1 + error) * RECORDED;
}

const float *world_long(const struct world *w)
{
    return w->expected + count_rows(&w->family) * RECORDED;
}

void world_open_model(struct world *w, enum file file, uint32_t cache)
{
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    params.cache_dtype = cache;
    params.max_sessions = 3;
    params.cache_tokens = 1024;
    ck_ok(kt_checkpoint_open(world_write(&w->family, file), NULL, &w->checkpoint, &ck_error));
    ck_ok(kt_model_open(w->context, w->checkpoint, &params, &w->model, &ck_error));
    ck_ok(kt_session_open(w->model, &w->session, &ck_error));
}

bool world_open_with(struct world *w, int number, const char *backend, const char *threads,
                     bool is_deterministic)
{
    char name[100];
    memset(w, 0, sizeof(*w));
    w->context = open_context(backend, threads, is_deterministic);
    if (!w->context)
        return false;
    (void)snprintf(name, sizeof(name), "%s", tables.gl_pathv[number] + strlen(folder) + 1);
    *strrchr(name, '/') = '\0';
    family_open(&w->family, folder, name);
    read_expected(w);
    return true;
}

bool world_open(struct world *w, int number, const char *backend)
{
    return world_open_with(w, number, backend, "core.threads=1", false);
}

void world_close_model(struct world *w)
{
    kt_session_close(w->session);
    kt_model_close(w->model);
    kt_checkpoint_close(w->checkpoint);
}

void world_close(struct world *w)
{
    kt_context_destroy(w->context);
    family_close(&w->family);
    free(w->expected);
    free(w->ids);
}

double world_difference(const float *got, const float *wanted, size_t n)
{
    double sum = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        sum += pow((double)got[i] - (double)wanted[i], 2);
        size += pow((double)wanted[i], 2);
    }
    return sqrt(sum / size);
}

void world_step(struct world *w, float *logits, uint32_t first, uint32_t end, uint32_t size)
{
    for (uint32_t at = first; at < end; at += size) {
        uint32_t n = end - at < size ? end - at : size;
        const struct kt_step one = {w->session, w->ids + at, n, n,
                                    logits + (size_t)at * w->family.vocabulary};
        ck_ok(kt_model_step(w->model, &one, 1, &ck_error));
    }
}

int world_find_tables(const char *which)
{
    char pattern[4200];
    (void)snprintf(folder, sizeof(folder), "%s/tests/data/families", getenv("KT_TEST_SOURCE"));
    (void)snprintf(pattern, sizeof(pattern), "%s/%s", folder, which);
    if (glob(pattern, tables.gl_pathc ? GLOB_APPEND : 0, NULL, &tables) != 0)
        die("there is no %s", pattern);
    return (int)tables.gl_pathc;
}
