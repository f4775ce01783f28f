/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/model/world.h"

#include "tests/engine/families/opened.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *world_tiny(void)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/tiny-moe/tiny-moe-q4_k_m.gguf", getenv("KT_TEST_DATA"));
    return path;
}

struct kt_context *world_context(int threads, const char *level)
{
    char wish[64];
    snprintf(wish, sizeof(wish), "plugin.attention.level=%s", level);
    return opened_context(threads, wish);
}

bool world_open(struct world *w, const char *path, int threads, const struct kt_model_params *params)
{
    struct kt_error error = {KT_OK, ""};
    memset(w, 0, sizeof(*w));
    w->context = world_context(threads, "scalar");
    if (!w->context)
        return false;
    struct kt_model_params own = KT_MODEL_PARAMS_INIT;
    if (params)
        own = *params;
    own.cache_dtype = KT_DTYPE_F32;
    ck_assert(kt_checkpoint_open(path, NULL, &w->checkpoint, NULL) == KT_OK);
    ck_assert_msg(kt_model_open(w->context, w->checkpoint, &own, &w->model, &error) == KT_OK, "%s",
                  error.message);
    ck_assert(kt_session_open(w->model, &w->session, NULL) == KT_OK);
    for (int i = 0; i < N_IDS; i++)
        w->ids[i] = (7 * i * i + 11 * i + 5) % 2000;
    return true;
}

void world_close(struct world *w)
{
    kt_session_close(w->session);
    kt_model_close(w->model);
    kt_checkpoint_close(w->checkpoint);
    kt_context_destroy(w->context);
}

float *world_step(struct world *w, struct kt_session *session, const int32_t *ids, uint32_t n)
{
    struct kt_error error = {KT_OK, ""};
    float *logits = malloc((size_t)n * VOCABULARY * sizeof(*logits));
    const struct kt_step one = {session, ids, n, n, logits};
    ck_assert_msg(kt_model_step(w->model, &one, 1, &error) == KT_OK, "%s", error.message);
    return logits;
}
