/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/families/opened.h"

#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

struct kt_context *opened_context(int threads, const char *setting)
{
    char module[4200], count[32];
    const char *file = sandbox_backend("attention");
    if (!file) {
        printf("SKIP: the plugin attention was not built\n");
        return NULL;
    }
    (void)snprintf(module, sizeof(module), "plugin.attention.module=%s", file);
    (void)snprintf(count, sizeof(count), "core.threads=%d", threads);
    return fixture_context_with((const char *const[]){module, count, "core.backend=reference", setting}, 4);
}

void opened_tables(struct family *family, const char *name)
{
    char folder[4096];
    (void)snprintf(folder, sizeof(folder), "%s/tests/data/families", getenv("KT_TEST_SOURCE"));
    family_open(family, folder, name);
}

const char *opened_file(const struct family *family, bool is_gguf)
{
    const char *path = sandbox_path(is_gguf ? "model.gguf" : "model");
    if (is_gguf) {
        family_write_gguf(family, path, FORM_BF16);
    } else {
        sandbox_folder("model");
        family_write_folder(family, path, FORM_BF16);
    }
    return path;
}

void opened_model(struct opened *o, const char *path, const struct kt_model_params *params)
{
    ck_ok(kt_checkpoint_open(path, NULL, &o->checkpoint, &ck_error));
    ck_ok(kt_model_open(o->context, o->checkpoint, params, &o->model, &ck_error));
    kt_model_info(o->model, &o->info);
}

void opened_close(struct opened *o)
{
    struct kt_kv_info cache;
    kt_model_cache(o->model, &cache);
    ck_assert_uint_eq(cache.used_pages, 0);
    ck_assert_uint_eq(cache.n_sequences, 0);
    kt_model_close(o->model);
    kt_checkpoint_close(o->checkpoint);
    kt_context_destroy(o->context);
}
