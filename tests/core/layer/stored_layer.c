/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/core/layer/stored_layer.h"
#include "tests/support/gguf_build.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct bytes source;
static uint32_t activation;
char *store_source;
struct kt_context *store_context;

struct kt_context *store_make_context(const char *panel_rows, int nodes)
{
    char module[256], panel[64];
    (void)snprintf(module, sizeof module, "plugin.fake.module=%s", sandbox_path("lib/kt_fake.so"));
    (void)snprintf(panel, sizeof panel, "plugin.fake.panel_rows=%s", panel_rows);
    if (nodes > 1)
        ck_assert_int_eq(setenv("HWLOC_SYNTHETIC", "numa:2 core:1 pu:1", 1), 0);
    struct kt_context *made =
        fixture_context_with((const char *const[]){module, panel, "core.threads=2", "plugin.fake.stored=yes"},
                             4);
    ck_assert_int_eq(unsetenv("HWLOC_SYNTHETIC"), 0);
    return made;
}

void store_setup(void)
{
    struct model model = MODEL_INIT;
    sandbox_open();
    sandbox_folder("store");
    (void)sandbox_plugin("fake", "lib/kt_fake.so");
    model.has_bias = 1;
    activation = KT_ACTIVATION_SILU;
    source.size = 0;
    (void)build_model(&source, &model);
    store_source = write_file(source.data, source.size);
    store_context = store_make_context("4", 1);
}

void store_drop_gate(void)
{
    struct model model = MODEL_INIT;
    model.has_bias = model.no_gate = 1;
    model.architecture = "nemotron_h_moe";
    activation = KT_ACTIVATION_RELU2;
    source.size = 0;
    (void)build_model(&source, &model);
    ck_assert_int_eq(unlink(store_source), 0);
    free(store_source);
    store_source = write_file(source.data, source.size);
}

void store_teardown(void)
{
    kt_context_destroy(store_context);
    ck_assert_int_eq(unlink(store_source), 0);
    free(store_source);
    sandbox_close();
}

struct kt_checkpoint *store_open(const char *path, enum kt_io io)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    params.io = io;
    ck_ok(kt_checkpoint_open(path, &params, &checkpoint, &ck_error));
    return checkpoint;
}

struct kt_layer *store_make_layer(struct kt_context *of, const int64_t *map, const char *backend)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    params.n_experts = 2;
    params.top_k = 2;
    params.hidden_size = 32;
    params.intermediate_size = 32;
    params.max_tokens = 4;
    params.activation = activation;
    params.backend = backend;
    params.expert_map = map;
    params.name = "layer 3";
    ck_ok(kt_layer_create(of, &params, &layer, &ck_error));
    return layer;
}

enum kt_status store_try(struct kt_context *of, const char *backend, struct kt_error *error)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_checkpoint *checkpoint = store_open(store_source, KT_IO_MMAP);
    struct kt_layer *layer = store_make_layer(of, NULL, backend);
    params.folder = sandbox_path("store");
    enum kt_status status = kt_layer_store(layer, checkpoint, 3, &params, error);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    return status;
}

void store_layer(void)
{
    ck_ok(store_try(store_context, "fake", &ck_error));
}

enum kt_status store_forward(struct kt_layer *layer, float *output, struct kt_error *error)
{
    static float input[TOKENS * 32], router[TOKENS * 2];
    static int64_t ids[TOKENS * 2];
    struct kt_forward batch = KT_FORWARD_INIT;
    for (int i = 0; i < TOKENS * 32; i++)
        input[i] = (float)(i * 7 % 13 - 6) / 8;
    for (int i = 0; i < TOKENS * 2; i++) {
        ids[i] = i % 2;
        router[i] = i % 2 ? 0.25f : 0.75f;
    }
    batch.n_tokens = TOKENS;
    batch.expert_ids = ids;
    batch.router_weights = router;
    batch.input = input;
    batch.input_dtype = KT_DTYPE_F32;
    batch.output = output;
    batch.output_dtype = KT_DTYPE_F32;
    return kt_layer_forward(layer, &batch, error);
}

void store_run(struct kt_context *of, const char *path, enum kt_io io, const int64_t *map, float *output)
{
    struct kt_checkpoint *checkpoint = store_open(path, io);
    struct kt_layer *layer = store_make_layer(of, map, "fake");
    ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 3, &ck_error));
    kt_checkpoint_close(checkpoint); /* the layer keeps it */
    ck_ok(store_forward(layer, output, &ck_error));
    kt_layer_destroy(layer);
}

uint8_t *store_read(size_t *size)
{
    FILE *file = fopen(sandbox_path("store/layer-00003.safetensors"), "r");
    static uint8_t bytes[1 << 17];
    ck_assert_ptr_nonnull(file);
    *size = fread(bytes, 1, sizeof bytes, file);
    ck_assert(*size > 4096 && feof(file));
    ck_assert_int_eq(fclose(file), 0);
    return bytes;
}

enum kt_status store_load_and_run(enum kt_io io, struct kt_error *error)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    float output[TOKENS * 32];
    params.io = io;
    enum kt_status status = kt_checkpoint_open(sandbox_path("store"), &params, &checkpoint, error);
    if (status != KT_OK)
        return status;
    struct kt_layer *layer = store_make_layer(store_context, NULL, "fake");
    status = kt_layer_load_checkpoint(layer, checkpoint, 3, error);
    if (status == KT_OK)
        status = store_forward(layer, output, error);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    return status;
}
