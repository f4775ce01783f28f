/* SPDX-License-Identifier: Apache-2.0 */
/* Stores that are damaged, cut off or lie: each is refused, and says where. */
#define _GNU_SOURCE /* memmem */
#include "tests/core/layer/stored_layer.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(damage_anywhere_is_found)
{
    size_t size;
    store_layer();
    uint8_t *bytes = store_read(&size);
    for (size_t at = 4096 + 1; at < size; at += 997) {
        struct kt_error error = {KT_OK, ""};
        bytes[at] ^= 0x10;
        sandbox_write_bytes("store/layer-00003.safetensors", bytes, size);
        ck_assert_msg(store_load_and_run(at % 2 ? KT_IO_MMAP : KT_IO_READ, &error) == KT_E_FORMAT,
                      "byte %zu: %s", at, error.message);
        ck_assert_ptr_nonnull(strstr(error.message, "layer-00003.safetensors"));
        bytes[at] ^= 0x10;
    }
    sandbox_write_bytes("store/layer-00003.safetensors", bytes, size);
    ck_ok(store_load_and_run(KT_IO_MMAP, &ck_error));
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
    {"\"kt.activation\":\"0 ", "\"kt.activation\":\"3 ", KT_E_FORMAT, "kt.activation"},
    {"\"kt.activation\":\"0 0", "\"kt.activation\":\"0 x", KT_E_FORMAT, "kt.activation"},
    {"\"kt.source_types\":\"36 ", "\"kt.source_types\":\"99 ", KT_E_FORMAT, "type 99"},
    {"\"kt.source_types\":\"36 ", "\"kt.source_types\":\"17 ", KT_E_FORMAT, "int4 weights never have"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"1 0 0 0 ", KT_E_FORMAT,
     "says 1 0 0 0 of projection 0, which q8_0 weights never have"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"0 9 0 0 ", KT_E_FORMAT, "says 0 9 0 0"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"0 0 1 0 ", KT_E_FORMAT, "says 0 0 1 0"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"9 0 1 1 ", KT_E_FORMAT, "says 9 0 1 1"},
    {"\"kt.source_scales\":\"0 0 0 0 ", "\"kt.source_scales\":\"5 0 1 1 ", KT_E_FORMAT, "says 5 0 1 1"},
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
    store_layer();
    uint8_t *bytes = store_read(&size);
    size_t length = strlen(changes[_i].from);
    uint8_t *at = memmem(bytes, size, changes[_i].from, length);
    ck_assert_msg(at != NULL, "%s is not in the header", changes[_i].from);
    memcpy(at, changes[_i].to, strlen(changes[_i].to));
    sandbox_write_bytes("store/layer-00003.safetensors", bytes, size);
    ck_assert_msg(store_load_and_run(KT_IO_MMAP, &error) == changes[_i].status, "%s: %s",
                  kt_status_name(error.status), error.message);
    ck_assert_msg(strstr(error.message, changes[_i].fragment) != NULL, "%s", error.message);
}
END_TEST

START_TEST(a_store_that_is_cut_off_is_refused)
{
    size_t size;
    store_layer();
    uint8_t *bytes = store_read(&size);
    for (size_t left = 0; left < size; left += left < 4200 ? 61 : 4001) {
        struct kt_error error = {KT_OK, ""};
        sandbox_write_bytes("store/layer-00003.safetensors", bytes, left);
        ck_assert_int_eq(store_load_and_run(KT_IO_MMAP, &error), KT_E_FORMAT);
    }
}
END_TEST

/* A file under another layer's name would be replaced by that layer. */
START_TEST(a_file_is_called_after_its_layer)
{
    struct kt_error error = {KT_OK, ""};
    store_layer();
    char *from = strdup(sandbox_path("store/layer-00003.safetensors"));
    ck_assert_int_eq(rename(from, sandbox_path("store/layer-00002.safetensors")), 0);
    free(from);
    ck_assert_int_eq(store_load_and_run(KT_IO_MMAP, &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "call it layer-00003.safetensors"));
}
END_TEST

/* Whoever asks for weights gets those that were stored, or an error; also before any forward. */
START_TEST(damaged_weights_are_not_handed_out)
{
    struct kt_error error = {KT_OK, ""};
    static float row[2][32];
    size_t size;
    store_layer();
    uint8_t *bytes = store_read(&size);
    bytes[4096 + 100] ^= 0x10; /* of expert 0 */
    sandbox_write_bytes("store/layer-00003.safetensors", bytes, size);
    struct kt_checkpoint *checkpoint = store_open(sandbox_path("store"), KT_IO_MMAP);
    struct kt_layer *layer = store_make_layer(store_context, NULL, "fake");
    ck_ok(kt_layer_load_checkpoint(layer, checkpoint, 3, &ck_error));
    ck_assert_int_eq(kt_layer_weights(layer, 0, KT_UP, 0, 1, row[0], &error), KT_E_FORMAT);
    ck_assert_ptr_nonnull(strstr(error.message, "layer-00003.safetensors"));
    ck_assert_int_eq(kt_layer_weights(layer, 0, KT_DOWN, 0, 1, row[0], &error), KT_E_FORMAT);
    ck_ok(kt_layer_weights(layer, 1, KT_UP, 0, 1, row[0], &ck_error));
    kt_layer_destroy(layer);
    kt_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("store damage");
    tcase_add_checked_fixture(tests, store_setup, store_teardown);
    tcase_add_test(tests, damage_anywhere_is_found);
    tcase_add_loop_test(tests, a_header_that_lies_is_refused, 0, (int)(sizeof changes / sizeof changes[0]));
    tcase_add_test(tests, a_store_that_is_cut_off_is_refused);
    tcase_add_test(tests, a_file_is_called_after_its_layer);
    tcase_add_test(tests, damaged_weights_are_not_handed_out);
    return run_tests("store damage", tests);
}
