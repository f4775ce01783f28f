/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights in a store: what comes back is what was packed, on any nodes; nothing else is taken. */
#define _GNU_SOURCE /* memmem */
#include "tests/support/gguf_build.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"
#include "tests/support/write_faults.h"

#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { TOKENS = 9 };

/* ---- stores ---- */

static struct bytes source;
static char *source_path;
static struct kt_context *context;

/* Contexts see one node, or two that do not exist. */
static struct kt_context *make_context(const char *panel_rows, int nodes)
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

static void setup(void)
{
    struct model model = MODEL_INIT;
    sandbox_open();
    sandbox_folder("store");
    (void)sandbox_plugin("fake", "lib/kt_fake.so");
    model.has_bias = 1;
    source.size = 0;
    (void)build_model(&source, &model);
    source_path = write_file(source.data, source.size);
    context = make_context("4", 1);
}

static void teardown(void)
{
    kt_context_destroy(context);
    ck_assert_int_eq(unlink(source_path), 0);
    free(source_path);
    sandbox_close();
}

static struct kt_checkpoint *open_path(const char *path, enum kt_io io)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    params.io = io;
    ck_ok(kt_checkpoint_open(path, &params, &checkpoint, &ck_error));
    return checkpoint;
}

static struct kt_layer *make_layer(struct kt_context *of, const int64_t *map, const char *backend)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    params.n_experts = 2;
    params.top_k = 2;
    params.hidden_size = 32;
    params.intermediate_size = 32;
    params.max_tokens = 4;
    params.backend = backend;
    params.expert_map = map;
    params.name = "layer 3";
    ck_ok(kt_layer_create(of, &params, &layer, &ck_error));
    return layer;
}

static enum kt_status try_store(struct kt_context *of, const char *backend, struct kt_error *error)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_checkpoint *checkpoint = open_path(source_path, KT_IO_MMAP);
    struct kt_layer *layer = make_layer(of, NULL, backend);
    params.folder = sandbox_path("store");
    enum kt_status status = kt_layer_store(layer, checkpoint, 3, &params, error);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    return status;
}

static void store(void)
{
    ck_ok(try_store(context, "fake", &ck_error));
}

static enum kt_status forward(struct kt_layer *layer, float *output, struct kt_error *error)
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

static void run(struct kt_context *of, const char *path, enum kt_io io, const int64_t *map, float *output)
{
    struct kt_checkpoint *checkpoint = open_path(path, io);
    struct kt_layer *layer = make_layer(of, map, "fake");
    ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 3, &ck_error));
    kt_checkpoint_close(checkpoint); /* the layer keeps it */
    ck_ok(forward(layer, output, &ck_error));
    kt_layer_destroy(layer);
}

START_TEST(a_store_gives_the_same_bits_as_its_source)
{
    static const int64_t map[2] = {1, 0};
    float expected[TOKENS * 32], output[TOKENS * 32];
    store();
    struct kt_context *two = make_context("4", 2);
    for (int i = 0; i < 8; i++) {
        struct kt_context *of = i & 1 ? two : context;
        enum kt_io io = i & 2 ? KT_IO_READ : KT_IO_MMAP;
        const int64_t *of_map = i & 4 ? map : NULL;
        run(of, source_path, io, of_map, expected);
        memset(output, 0, sizeof output);
        run(of, sandbox_path("store"), io, of_map, output);
        ck_assert_msg(memcmp(expected, output, sizeof output) == 0, "case %d", i);
    }
    kt_context_destroy(two);
}
END_TEST

static enum kt_status store_views(uint32_t n_experts, uint64_t index, struct kt_error *error)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_checkpoint *checkpoint = open_path(source_path, KT_IO_MMAP);
    struct kt_layer *layer = make_layer(context, NULL, "fake");
    struct kt_expert experts[2];
    params.folder = sandbox_path("store");
    ck_ok(kt_checkpoint_experts(checkpoint, 3, experts, 2, &ck_error));
    enum kt_status status = kt_layer_store_experts(layer, experts, n_experts, index, &params, error);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    return status;
}

START_TEST(weights_of_the_callers_own_are_stored_alike)
{
    float expected[TOKENS * 32], output[TOKENS * 32];
    struct kt_error error = {KT_OK, ""};
    struct kt_checkpoint *checkpoint;
    struct kt_moe_info info;
    ck_ok(store_views(2, 3, &ck_error));
    ck_ok(store_views(2, 0, &ck_error));
    run(context, source_path, KT_IO_MMAP, NULL, expected);
    run(context, sandbox_path("store"), KT_IO_MMAP, NULL, output);
    ck_assert_mem_eq(expected, output, sizeof output);
    checkpoint = open_path(sandbox_path("store"), KT_IO_MMAP);
    for (uint64_t l = 0; l <= 3; l += 3) {
        ck_ok(kt_checkpoint_moe(checkpoint, l, &info, &ck_error));
        ck_ok(kt_checkpoint_verify(checkpoint, l, &ck_error));
        ck_assert_str_eq(info.stored_source, "");
        ck_assert_str_eq(info.stored_layers, "...");
    }
    kt_checkpoint_close(checkpoint);
    ck_assert_int_eq(store_views(3, 3, &error), KT_E_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "3 are given"));
    ck_assert_int_eq(store_views(2, UINT64_MAX, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_layer_store_experts(NULL, NULL, 0, 0, NULL, &error), KT_E_INVALID);
    store(); /* layer 3 is now of the checkpoint, layer 0 is not */
    ck_assert_int_eq(kt_checkpoint_open(sandbox_path("store"), NULL, &checkpoint, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "packed from another checkpoint"));
}
END_TEST

START_TEST(a_store_says_what_it_holds)
{
    struct kt_moe_info info, original;
    struct kt_plan plan;
    char fingerprint[17];
    store();
    struct kt_checkpoint *checkpoint = open_path(sandbox_path("store"), KT_IO_MMAP);
    struct kt_checkpoint *from = open_path(source_path, KT_IO_MMAP);
    ck_ok(kt_checkpoint_moe(checkpoint, 3, &info, &ck_error));
    ck_ok(kt_checkpoint_moe(from, 3, &original, &ck_error));
    ck_ok(kt_checkpoint_fingerprint(from, fingerprint, &ck_error));
    ck_assert_str_eq(info.stored_backend, "fake");
    ck_assert_str_eq(info.stored_form, "fake-p4-1");
    ck_assert_str_eq(info.stored_source, fingerprint);
    ck_assert_str_eq(original.stored_backend, "");
    ck_assert_uint_eq(info.has_bias, 7);
    ck_assert_mem_eq(info.dtype, original.dtype, sizeof info.dtype);
    struct kt_layer *layer = make_layer(context, NULL, NULL);
    ck_ok(kt_layer_plan_checkpoint(layer, checkpoint, 3, &plan, &ck_error));
    ck_assert_str_eq(plan.form, "fake-p4-1");
    kt_layer_destroy(layer);
    ck_ok(kt_checkpoint_verify(checkpoint, 3, &ck_error));
    ck_assert_int_eq(kt_checkpoint_verify(from, 3, NULL), KT_E_UNSUPPORTED);
    kt_checkpoint_close(from);
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* The file's bytes, and the file rewritten with a change. */
static uint8_t *read_store(size_t *size)
{
    FILE *file = fopen(sandbox_path("store/layer-00003.safetensors"), "r");
    static uint8_t bytes[1 << 17];
    ck_assert_ptr_nonnull(file);
    *size = fread(bytes, 1, sizeof bytes, file);
    ck_assert(*size > 4096 && feof(file));
    ck_assert_int_eq(fclose(file), 0);
    return bytes;
}

static enum kt_status load_and_run(enum kt_io io, struct kt_error *error)
{
    struct kt_checkpoint_params params = KT_CHECKPOINT_PARAMS_INIT;
    struct kt_checkpoint *checkpoint;
    float output[TOKENS * 32];
    params.io = io;
    enum kt_status status = kt_checkpoint_open(sandbox_path("store"), &params, &checkpoint, error);
    if (status != KT_OK)
        return status;
    struct kt_layer *layer = make_layer(context, NULL, "fake");
    status = kt_layer_load_checkpoint(layer, checkpoint, 3, error);
    if (status == KT_OK)
        status = forward(layer, output, error);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    return status;
}

static atomic_bool go_on;

static void *stop_loads(void *layer)
{
    while (atomic_load(&go_on))
        kt_layer_load_stop(layer);
    return NULL;
}

/* Packing, and copying out of a store. */
START_TEST(a_load_is_watched_and_stopped)
{
    struct kt_layer *layer = make_layer(context, NULL, "fake");
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = KT_OK;
    struct kt_layer_info info;
    uint64_t done, total;
    pthread_t thread;
    store();
    struct kt_checkpoint *checkpoint = open_path(_i ? sandbox_path("store") : source_path, KT_IO_READ);
    kt_layer_load_progress(layer, &done, &total);
    ck_assert(done == 0 && total == 0);
    for (int again = 0; again < 2; again++) {
        ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 3, &ck_error));
        kt_layer_load_progress(layer, &done, &total);
        kt_layer_info(layer, &info);
        ck_assert(done == total && total == info.packed_size && total > 0);
        if (again)
            break;
        atomic_store(&go_on, true);
        ck_assert_int_eq(pthread_create(&thread, NULL, stop_loads, layer), 0);
        while (status == KT_OK)
            status = kt_layer_load_checkpoint(layer, checkpoint, 3, &error);
        atomic_store(&go_on, false);
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
        ck_assert_int_eq(status, KT_E_STATE);
        ck_assert_str_eq(error.message, "layer 3: loading was stopped");
        kt_layer_load_progress(layer, &done, &total);
        ck_assert(done == 0 && total == 0);
    }
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(damage_anywhere_is_found)
{
    size_t size;
    store();
    uint8_t *bytes = read_store(&size);
    for (size_t at = 4096 + 1; at < size; at += 997) {
        struct kt_error error = {KT_OK, ""};
        bytes[at] ^= 0x10;
        sandbox_write_bytes("store/layer-00003.safetensors", bytes, size);
        ck_assert_msg(load_and_run(at % 2 ? KT_IO_MMAP : KT_IO_READ, &error) == KT_E_FORMAT, "byte %zu: %s",
                      at, error.message);
        ck_assert_ptr_nonnull(strstr(error.message, "layer-00003.safetensors"));
        bytes[at] ^= 0x10;
    }
    sandbox_write_bytes("store/layer-00003.safetensors", bytes, size);
    ck_ok(load_and_run(KT_IO_MMAP, &ck_error));
}
END_TEST

/* A change of the header that keeps its length: what stands there, what comes in its place. What is
 * read before the checksum of the header is said itself. */
static const struct {
    const char *from, *to;
    enum kt_status status;
    const char *fragment;
} changes[] = {
    {"\"kt.version\":\"2\"", "\"kt.version\":\"1\"", KT_E_UNSUPPORTED, "of version 1"},
    {"\"kt.version\":\"2\"", "\"kt.version\":\"x\"", KT_E_FORMAT, "kt.version is \"x\""},
    {"\"kt.version\"", "\"kt.versioN\"", KT_E_FORMAT, "lacks kt.version"},
    {"\"kt.shards\":\"1\"", "\"kt.shards\":\"2\"", KT_E_UNSUPPORTED, "2 shards"},
    {"\"kt.form\":\"fake-p4-1\"", "\"kt.form\":\"fake-p8-1\"", KT_E_FORMAT, "not what was stored"},
    {"\"kt.backend\":\"fake\"", "\"kt.backend\":\"gone\"", KT_E_FORMAT, "not what was stored"},
    {"\"kt.shape\":\"2 2 32 32\"", "\"kt.shape\":\"3 2 32 32\"", KT_E_FORMAT, "not what was stored"},
    {"\"kt.shape\":\"2 2 32 32\"", "\"kt.shape\":\"2 3 32 32\"", KT_E_FORMAT, "beyond any model"},
    {"\"kt.shape\":\"2 2 32 32\"", "\"kt.shape\":\"2 2 32   \"", KT_E_FORMAT, "kt.shape"},
    {"\"kt.shape\":\"2 2 32 32\"", "\"kt.shape\":\"2 2 00 32\"", KT_E_FORMAT, "beyond any model"},
    {"\"kt.layer\":\"3\"", "\"kt.layer\":\"4\"", KT_E_FORMAT, "not what was stored"},
    {"\"kt.activation\":\"0 ", "\"kt.activation\":\"1 ", KT_E_FORMAT, "not what was stored"},
    {"\"kt.activation\":\"0 ", "\"kt.activation\":\"9 ", KT_E_FORMAT, "kt.activation"},
    {"\"kt.activation\":\"0 0", "\"kt.activation\":\"0 x", KT_E_FORMAT, "kt.activation"},
    {"\"kt.source_types\":\"36 ", "\"kt.source_types\":\"99 ", KT_E_FORMAT, "type 99"},
    {"\"kt.source_types\":\"36 ", "\"kt.source_types\":\"17 ", KT_E_FORMAT, "no int4 weights have"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"1 0 0 0 ", KT_E_FORMAT,
     "says 1 0 0 0 of projection 0, which no q8_0 weights have"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"0 9 0 0 ", KT_E_FORMAT, "says 0 9 0 0"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"0 0 1 0 ", KT_E_FORMAT, "says 0 0 1 0"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"9 0 1 1 ", KT_E_FORMAT, "says 9 0 1 1"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"3 9 8 8 ", KT_E_FORMAT,
     "not what was stored"},
    {"\"kt.source_scales\"", "\"kt.source_scalez\"", KT_E_FORMAT, "lacks kt.source_scales"},
    {"\"kt.source\":\"", "\"kt.source\":\"z", KT_E_FORMAT, "not what was stored"},
    {"\"kt.layers\":\"0", "\"kt.layers\":\"1", KT_E_FORMAT, "not what was stored"},
    {"\"kt.xxh3\":\"", "\"kt.xxh3\":\"z", KT_E_FORMAT, "not what was stored"},
    {"\"kt.xxh3_header\":\"", "\"kt.xxh3_header\":\"z", KT_E_FORMAT, "not what was stored"},
    {"\"kt.format\"", "\"kt.formaT\"", KT_E_NOT_FOUND, "no layer with experts"},
    {"layers.3.experts.1.down", "layers.3.experts.1.dowm", KT_E_FORMAT, "layers.3.experts.1.down"},
    {"layers.3.up_bias", "layers.3.Up_bias", KT_E_FORMAT, "does not belong here"},
};

START_TEST(a_header_that_lies_is_refused)
{
    size_t size;
    struct kt_error error = {KT_OK, ""};
    store();
    uint8_t *bytes = read_store(&size);
    size_t length = strlen(changes[_i].from);
    uint8_t *at = memmem(bytes, size, changes[_i].from, length);
    ck_assert_msg(at != NULL, "%s is not in the header", changes[_i].from);
    memcpy(at, changes[_i].to, strlen(changes[_i].to));
    sandbox_write_bytes("store/layer-00003.safetensors", bytes, size);
    ck_assert_msg(load_and_run(KT_IO_MMAP, &error) == changes[_i].status, "%s: %s",
                  kt_status_name(error.status), error.message);
    ck_assert_msg(strstr(error.message, changes[_i].fragment) != NULL, "%s", error.message);
}
END_TEST

START_TEST(a_store_that_is_cut_off_is_refused)
{
    size_t size;
    store();
    uint8_t *bytes = read_store(&size);
    for (size_t left = 0; left < size; left += left < 4200 ? 61 : 4001) {
        struct kt_error error = {KT_OK, ""};
        sandbox_write_bytes("store/layer-00003.safetensors", bytes, left);
        ck_assert_int_eq(load_and_run(KT_IO_MMAP, &error), KT_E_FORMAT);
    }
}
END_TEST

/* A file under another layer's name would be replaced by that layer. */
START_TEST(a_file_is_called_after_its_layer)
{
    struct kt_error error = {KT_OK, ""};
    store();
    char *from = strdup(sandbox_path("store/layer-00003.safetensors"));
    ck_assert_int_eq(rename(from, sandbox_path("store/layer-00002.safetensors")), 0);
    free(from);
    ck_assert_int_eq(load_and_run(KT_IO_MMAP, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "call it layer-00003.safetensors"));
}
END_TEST

START_TEST(what_does_not_fit_is_refused_by_the_plan_too)
{
    struct kt_error error = {KT_OK, ""};
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    struct kt_plan plan;
    store();
    struct kt_checkpoint *checkpoint = open_path(sandbox_path("store"), KT_IO_MMAP);
    ck_ok(kt_checkpoint_layer_params(checkpoint, 3, &params, &ck_error));
    params.max_tokens = 1;
    params.intermediate_size = 16;
    ck_ok(kt_layer_create(context, &params, &layer, &ck_error));
    ck_assert_int_eq(kt_layer_plan_checkpoint(layer, checkpoint, 3, &plan, &error), KT_E_INVALID);
    ck_assert_int_eq(kt_layer_load_checkpoint(layer, checkpoint, 3, &error), KT_E_INVALID);
    params.struct_size = 8;
    ck_assert_int_eq(kt_checkpoint_layer_params(checkpoint, 3, &params, &error), KT_E_INVALID);
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(what_cannot_be_stored_is_said)
{
    struct kt_error error = {KT_OK, ""};
    ck_assert_int_eq(try_store(context, NULL, &error), KT_E_INVALID);
    ck_assert_int_eq(try_store(context, "reference", &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "cannot be stored"));
    ck_assert_int_eq(try_store(context, "nobody", &error), KT_E_NOT_FOUND);
    ck_assert_int_eq(rmdir(sandbox_path("store")), 0);
    ck_assert_int_eq(try_store(context, "fake", &error), KT_E_IO);
    ck_assert_ptr_nonnull(strstr(error.message, "store/.layer-00003.part"));
}
END_TEST

/* A write that fails leaves no file behind, whichever it is. */
START_TEST(a_full_disk_leaves_nothing)
{
    struct kt_error error = {KT_OK, ""};
    enum kt_status status = KT_E_IO;
    int n = 0;
    for (; status != KT_OK; n++) {
        write_faults_after(n);
        status = try_store(context, "fake", &error);
        write_faults_after(-1);
        ck_assert_msg(status == KT_OK || status == KT_E_IO, "call %d: %s", n, error.message);
        if (status == KT_OK || access(sandbox_path("store/layer-00003.safetensors"), F_OK) == 0)
            continue; /* whole, though the folder could not be synced */
        ck_assert_int_eq(rmdir(sandbox_path("store")), 0);
        sandbox_folder("store");
    }
    ck_assert_int_ge(n, 8);
    ck_ok(load_and_run(KT_IO_MMAP, &ck_error));
}
END_TEST

/* As it stands in a folder that others may write to. */
START_TEST(a_file_of_another_name_is_not_written)
{
    struct kt_error error = {KT_OK, ""};
    size_t size;
    sandbox_write("precious", "precious");
    ck_assert_int_eq(link(sandbox_path("precious"), sandbox_path("store/.layer-00003.part")), 0);
    ck_assert_int_eq(try_store(context, "fake", &error), KT_E_IO);
    ck_assert_ptr_nonnull(strstr(error.message, ".layer-00003.part: is a link to a file of another name"));
    FILE *file = fopen(sandbox_path("precious"), "r");
    char text[16] = "";
    size = fread(text, 1, sizeof text, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_uint_eq(size, 8);
    ck_assert_str_eq(text, "precious");
    ck_assert_int_eq(unlink(sandbox_path("store/.layer-00003.part")), 0);
    store();
}
END_TEST

/* Whoever asks for weights gets those that were stored, or an error; also before any forward. */
START_TEST(damaged_weights_are_not_handed_out)
{
    struct kt_error error = {KT_OK, ""};
    static float row[2][32];
    size_t size;
    store();
    uint8_t *bytes = read_store(&size);
    bytes[4096 + 100] ^= 0x10; /* of expert 0 */
    sandbox_write_bytes("store/layer-00003.safetensors", bytes, size);
    struct kt_checkpoint *checkpoint = open_path(sandbox_path("store"), KT_IO_MMAP);
    struct kt_layer *layer = make_layer(context, NULL, "fake");
    ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 3, &ck_error));
    ck_assert_int_eq(kt_layer_weights(layer, 0, KT_UP, 0, 1, row[0], &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "layer-00003.safetensors"));
    ck_assert_int_eq(kt_layer_weights(layer, 0, KT_DOWN, 0, 1, row[0], &error), KT_E_FORMAT);
    ck_ok(kt_layer_weights(layer, 1, KT_UP, 0, 1, row[0], &ck_error));
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* A locale whose numbers have a comma; false: this system cannot make one. */
static bool take_comma(void)
{
    char command[512];
    sandbox_folder("locales");
    (void)snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s' >'%s' 2>&1",
                   sandbox_path("locales/de_DE.UTF-8"), sandbox_path("locales/words"));
    ck_assert_int_eq(setenv("LOCPATH", sandbox_path("locales"), 1), 0);
    if (system(command) != 0 || !setlocale(LC_ALL, "de_DE.UTF-8"))
        return false;
    (void)snprintf(command, sizeof command, "%.1f", 7.5);
    ck_assert_str_eq(command, "7,5");
    return true;
}

static void store_activation(void)
{
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    struct kt_layer_params layer_params = KT_LAYER_PARAMS_INIT;
    struct kt_checkpoint *checkpoint = open_path(source_path, KT_IO_MMAP);
    struct kt_layer *layer;
    ck_ok(kt_checkpoint_layer_params(checkpoint, 3, &layer_params, &ck_error));
    layer_params.max_tokens = 4;
    layer_params.backend = "fake";
    layer_params.activation = KT_ACTIVATION_SWIGLUOAI;
    layer_params.limit = 7.5f;
    layer_params.alpha = 1.702f;
    ck_ok(kt_layer_create(context, &layer_params, &layer, &ck_error));
    params.folder = sandbox_path("store");
    ck_ok(kt_layer_store(layer, checkpoint, 3, &params, &ck_error));
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
}

/* A program that called setlocale writes the same bytes, and reads those of any other. */
START_TEST(stores_know_no_locale)
{
    static uint8_t before[1 << 17];
    struct kt_moe_info info;
    size_t size, again;
    store_activation();
    memcpy(before, read_store(&size), sizeof before);
    if (!take_comma())
        return;
    struct kt_checkpoint *checkpoint = open_path(sandbox_path("store"), KT_IO_MMAP);
    ck_ok(kt_checkpoint_moe(checkpoint, 3, &info, &ck_error));
    ck_assert(info.limit == 7.5f && info.alpha == 1.702f);
    kt_checkpoint_close(checkpoint);
    store_activation();
    ck_assert(memcmp(before, read_store(&again), size) == 0 && again == size);
    struct kt_error error;
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_layer *layer;
    params.n_experts = params.top_k = 1;
    params.hidden_size = params.intermediate_size = 32;
    params.activation = KT_ACTIVATION_SWIGLU;
    params.limit = -1.5f;
    ck_assert_int_ne(kt_layer_create(context, &params, &layer, &error), KT_OK);
    ck_assert_msg(strstr(error.message, "-1.5") != NULL, "%s", error.message);
}
END_TEST

START_TEST(two_writers_do_not_meet)
{
    struct kt_error error = {KT_OK, ""};
    int fd = open(sandbox_path("store/.layer-00003.part"), O_RDWR | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    ck_assert_int_eq(try_store(context, "fake", &error), KT_E_BUSY);
    ck_assert_int_eq(close(fd), 0);
    store(); /* what a killed run left is no hindrance */
    ck_assert_int_ne(access(sandbox_path("store/.layer-00003.part"), F_OK), 0);
    ck_ok(load_and_run(KT_IO_MMAP, &ck_error));
}
END_TEST

START_TEST(other_options_and_backends_are_refused)
{
    struct kt_error error = {KT_OK, ""};
    store();
    struct kt_context *eight = make_context("8", 1);
    struct kt_checkpoint *checkpoint = open_path(sandbox_path("store"), KT_IO_MMAP);
    struct kt_layer *layer = make_layer(eight, NULL, NULL);
    ck_assert_int_eq(kt_layer_load_checkpoint(layer, checkpoint, 3, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "fake-p8-1"));
    kt_layer_destroy(layer);
    layer = make_layer(context, NULL, "reference");
    ck_assert_int_eq(kt_layer_load_checkpoint(layer, checkpoint, 3, &error), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "stored for backend fake"));
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
    kt_context_destroy(eight);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tcase = tcase_create("store");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_store_gives_the_same_bits_as_its_source);
    tcase_add_test(tcase, weights_of_the_callers_own_are_stored_alike);
    tcase_add_test(tcase, a_store_says_what_it_holds);
    tcase_add_loop_test(tcase, a_load_is_watched_and_stopped, 0, 2);
    tcase_add_test(tcase, damage_anywhere_is_found);
    tcase_add_loop_test(tcase, a_header_that_lies_is_refused, 0, (int)(sizeof changes / sizeof changes[0]));
    tcase_add_test(tcase, a_store_that_is_cut_off_is_refused);
    tcase_add_test(tcase, a_file_is_called_after_its_layer);
    tcase_add_test(tcase, what_does_not_fit_is_refused_by_the_plan_too);
    tcase_add_test(tcase, what_cannot_be_stored_is_said);
    tcase_add_test(tcase, a_full_disk_leaves_nothing);
    tcase_add_test(tcase, a_file_of_another_name_is_not_written);
    tcase_add_test(tcase, damaged_weights_are_not_handed_out);
    tcase_add_test(tcase, stores_know_no_locale);
    tcase_add_test(tcase, two_writers_do_not_meet);
    tcase_add_test(tcase, other_options_and_backends_are_refused);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
