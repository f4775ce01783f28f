/* SPDX-License-Identifier: Apache-2.0 */
/* Models in several GGUF files: any of them stands for all, and what does not agree is refused. */
#include "tests/support/folder_build.h"
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST "m-00001-of-00003.gguf"
#define SECOND "m-00002-of-00003.gguf"
#define THIRD "m-00003-of-00003.gguf"

static const char *const names[] = {FIRST, SECOND, THIRD};
static struct kt_error error;
static struct bytes file, whole;

/* Six tensors: gate, up and down of layers 0 and 3. */
static struct part parts[3];

static void set_parts(unsigned first_end, unsigned second_end)
{
    for (unsigned i = 0; i < 3; i++)
        parts[i] = (struct part){.no = i, .count = 3, .tensors = 6, .has_model_keys = i == 0};
    parts[0].end = parts[1].begin = first_end;
    parts[1].end = parts[2].begin = second_end;
    parts[2].end = 6;
}

static void write_part(const struct part *part, const char *name)
{
    struct model model = MODEL_INIT;
    build_part(&file, &model, part);
    folder_write(name, file.data, file.size);
}

static void write_parts(void)
{
    for (int i = 0; i < 3; i++)
        write_part(&parts[i], names[i]);
}

static void make(void)
{
    folder_make();
    set_parts(2, 3);
    write_parts();
}

static void expect(const char *name, enum kt_status status, const char *fragment)
{
    for (int io = KT_IO_MMAP; io <= KT_IO_READ; io++) {
        struct kt_checkpoint *checkpoint = NULL;
        memset(&error, 0, sizeof error);
        enum kt_status found = folder_open(name, (enum kt_io)io, &checkpoint, &error);
        ck_assert_msg(found == status && error.status == status, "%s: %s: %s", fragment,
                      kt_status_name(found), error.message);
        ck_assert_msg(strstr(error.message, fragment) != NULL, "\"%s\" is not in: %s", fragment,
                      error.message);
        ck_assert_ptr_null(checkpoint);
    }
}

/* Opens it and compares every expert with the model in one file. */
static void expect_whole(const char *name, uint64_t files, enum kt_io io)
{
    struct model model = MODEL_INIT;
    struct kt_checkpoint *one, *split;
    struct kt_checkpoint_info info;
    build_model(&whole, &model);
    ck_assert_int_eq(open_bytes(whole.data, whole.size, KT_IO_MMAP, &one, &error), KT_OK);
    ck_assert_msg(folder_open(name, io, &split, &error) == KT_OK, "%s: %s", name, error.message);
    kt_checkpoint_info(split, &info);
    ck_assert_str_eq(info.format, "gguf");
    ck_assert_str_eq(info.architecture, "testmoe");
    ck_assert_uint_eq(info.n_files, files);
    ck_assert_uint_eq(info.n_tensors, 6);
    ck_assert_uint_eq(info.n_layers, 4);
    ck_assert_uint_eq(info.n_moe_layers, 2);
    for (uint64_t layer = 0; layer < 4; layer += 3) {
        struct kt_expert found[2], expected[2];
        ck_assert_int_eq(kt_checkpoint_experts(one, layer, expected, 2, &error), KT_OK);
        ck_assert_msg(kt_checkpoint_experts(split, layer, found, 2, &error) == KT_OK, "%s", error.message);
        for (int e = 0; e < 2; e++) {
            const struct kt_view *a[] = {&found[e].gate, &found[e].up, &found[e].down};
            const struct kt_view *b[] = {&expected[e].gate, &expected[e].up, &expected[e].down};
            for (int p = 0; p < 3; p++) {
                ck_assert_str_eq(a[p]->name, b[p]->name);
                ck_assert_uint_eq(a[p]->size, b[p]->size);
                ck_assert_mem_eq(a[p]->data, b[p]->data, a[p]->size);
            }
        }
    }
    kt_checkpoint_close(split);
    kt_checkpoint_close(one);
}

START_TEST(any_file_stands_for_all)
{
    static const unsigned cuts[][2] = {{2, 3}, {0, 3}, {1, 1}, {6, 6}};
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        set_parts(cuts[c][0], cuts[c][1]);
        write_parts();
        for (int i = 0; i < 3; i++)
            expect_whole(names[i], 3, (enum kt_io)_i);
        expect_whole("", 3, (enum kt_io)_i);
        expect_whole("/", 3, (enum kt_io)_i);
    }
    /* As any type of integer; with the architecture in each file; a hidden file does not matter. */
    for (int i = 0; i < 3; i++) {
        parts[i].key_type = i == 0 ? 10 : 5;
        parts[i].architecture = i == 0 ? NULL : "testmoe";
    }
    write_parts();
    folder_write(".hidden.gguf", "x", 1);
    folder_write("config.json", "{}", 2);
    expect_whole(SECOND, 3, (enum kt_io)_i);
    expect_whole("", 3, (enum kt_io)_i);
    expect_whole("config.json", 3, (enum kt_io)_i);
}
END_TEST

START_TEST(names_without_a_folder)
{
    char *before = getcwd(NULL, 0);
    struct kt_checkpoint *checkpoint;
    struct kt_tensor_info tensor;
    ck_assert_int_eq(chdir(folder_path("")), 0);
    ck_assert_msg(kt_checkpoint_open(THIRD, NULL, &checkpoint, &error) == KT_OK, "%s", error.message);
    ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, 2, &tensor, &error), KT_OK);
    ck_assert_str_eq(tensor.file, SECOND);
    ck_assert_str_eq(tensor.name, "blk.0.ffn_down_exps.weight");
    kt_checkpoint_close(checkpoint);
    ck_assert_int_eq(chdir(before), 0);
    free(before);
}
END_TEST

/* One file is a model as well, also one that was merged of several. */
START_TEST(models_of_one_file)
{
    struct part part = {.end = 6, .has_model_keys = 1, .tensors = 6};
    for (int i = 0; i < 3; i++)
        folder_delete(names[i]);
    for (part.count = 0; part.count <= 1; part.count++) {
        write_part(&part, "merged.gguf");
        expect_whole("merged.gguf", 1, KT_IO_MMAP);
        expect_whole("", 1, KT_IO_READ);
    }
    folder_delete("merged.gguf");
    part.count = UINT64_MAX;
    write_part(&part, "m-00001-of-00001.gguf");
    expect_whole("m-00001-of-00001.gguf", 1, KT_IO_MMAP);
    expect_whole("", 1, KT_IO_MMAP);
}
END_TEST

START_TEST(a_missing_file)
{
    for (int missing = 0; missing < 3; missing++) {
        write_parts();
        folder_delete(names[missing]);
        char text[64];
        (void)snprintf(text, sizeof text, "%s: cannot be opened", names[missing]);
        expect("", KT_E_IO, text);
        expect(names[(missing + 1) % 3], KT_E_IO, text);
        expect(names[(missing + 2) % 3], KT_E_IO, "is one of 3 files of a model, all of which are");
    }
}
END_TEST

START_TEST(a_wrong_order)
{
    write_part(&parts[1], THIRD);
    write_part(&parts[2], SECOND);
    expect("", KT_E_FORMAT, SECOND ": named as file 2 of 3, but key \"split.no\"");
    expect(FIRST, KT_E_FORMAT, SECOND ": named as file 2 of 3, but key \"split.no\"");
    expect(THIRD, KT_E_FORMAT, THIRD ": named as file 3 of 3, but key \"split.no\"");
    write_part(&parts[1], "m.gguf");
    expect("m.gguf", KT_E_FORMAT, "m.gguf: is one of 3 files of a model, so its name must end in");
    write_part(&parts[1], "m-2-of-3.gguf");
    expect("m-2-of-3.gguf", KT_E_FORMAT, "so its name must end in -00001-of-00003.gguf");
    write_part(&parts[1], "m-00002-of-00004.gguf");
    expect("m-00002-of-00004.gguf", KT_E_FORMAT, "named as file 2 of 4, but key \"split.count\" is 3");
}
END_TEST

START_TEST(counts_that_do_not_agree)
{
    parts[2].count = 2;
    write_parts();
    expect(FIRST, KT_E_FORMAT, THIRD ": named as file 3 of 3, but key \"split.count\" is 2");
    expect(THIRD, KT_E_FORMAT, THIRD ": named as file 3 of 3, but key \"split.count\" is 2");
    set_parts(2, 3);
    parts[2].tensors = 7;
    write_parts();
    expect(FIRST, KT_E_FORMAT, THIRD ": key \"split.tensors.count\" is 7, in ");
    for (int i = 0; i < 3; i++)
        parts[i].tensors = 7;
    write_parts();
    expect(FIRST, KT_E_FORMAT, FIRST ": key \"split.tensors.count\" is 7, but the 3 files hold 6 tensors");
    set_parts(2, 3);
    parts[1].architecture = "other";
    write_parts();
    expect(THIRD, KT_E_FORMAT, SECOND ": key \"general.architecture\" is \"other\", in ");
    set_parts(2, 3);
    parts[0].count = 4097;
    write_parts();
    expect(FIRST, KT_E_UNSUPPORTED, FIRST ": key \"split.count\" is 4097; at most 4096 files");
    set_parts(2, 3);
    parts[0].key_type = 5;
    parts[0].count = (uint32_t)-3;
    write_parts();
    expect(FIRST, KT_E_FORMAT, "key \"split.count\" is -3, below 0");
    parts[0].key_type = 6;
    write_parts();
    expect(FIRST, KT_E_FORMAT, "is of type f32; a whole number is needed");
}
END_TEST

START_TEST(tensors_that_stand_twice)
{
    parts[2].begin--;
    for (int i = 0; i < 3; i++)
        parts[i].tensors = 7;
    write_parts();
    expect(FIRST, KT_E_FORMAT, "tensor \"blk.0.ffn_down_exps.weight\" is also in ");
    ck_assert_ptr_nonnull(strstr(error.message, SECOND));
    ck_assert_ptr_nonnull(strstr(error.message, THIRD));
}
END_TEST

START_TEST(files_that_are_wrong)
{
    /* The keys of the split are missing. */
    struct part alone = {.begin = 2, .end = 3, .count = UINT64_MAX};
    write_part(&alone, SECOND);
    expect(FIRST, KT_E_FORMAT, SECOND ": named as file 2 of 3, but key \"split.count\"");
    expect(SECOND, KT_E_FORMAT, "rename the file if it is a complete model");
    folder_write(SECOND, "GGML0123456789012345678901234567890123456789", 40);
    expect(FIRST, KT_E_FORMAT, SECOND ": not a GGUF file");
    write_part(&parts[1], SECOND);
    ck_assert_int_eq(truncate(folder_path(SECOND), (off_t)file.size - 1), 0);
    expect(THIRD, KT_E_FORMAT, SECOND ": tensor \"blk.0.ffn_down_exps.weight\"");
    ck_assert_int_eq(truncate(folder_path(SECOND), 50), 0);
    expect(THIRD, KT_E_FORMAT, SECOND ": ");
    write_part(&parts[1], SECOND);
    /* A layer whose tensors do not fit each other names the file of the tensor. */
    struct model model = MODEL_INIT;
    model.reshaped = "blk.0.ffn_down_exps.weight";
    build_part(&file, &model, &parts[1]);
    folder_write(SECOND, file.data, file.size);
    expect(FIRST, KT_E_FORMAT, SECOND ": tensor \"blk.0.ffn_down_exps.weight\" is [3]");
}
END_TEST

/* Every byte of the second file's header set to bad values: an error or not, never anything else. */
START_TEST(every_byte_changed)
{
    static const uint8_t values[] = {0x00, 0x01, 0x80, 0xff};
    struct model model = MODEL_INIT;
    size_t refused = 0, header = build_part(&file, &model, &parts[1]);
    for (size_t at = 0; at < header; at++)
        for (size_t v = 0; v < sizeof values; v++) {
            struct kt_checkpoint *checkpoint = NULL;
            uint8_t saved = file.data[at];
            file.data[at] = values[v];
            folder_write(SECOND, file.data, file.size);
            file.data[at] = saved;
            enum kt_status status = folder_open(FIRST, (enum kt_io)(v % 2), &checkpoint, &error);
            if ((status == KT_OK) != (checkpoint != NULL))
                ck_abort_msg("byte %d", (int)at);
            refused += status != KT_OK;
            kt_checkpoint_close(checkpoint);
        }
    ck_assert_uint_gt(refused, header);
}
END_TEST

START_TEST(folders_of_several_models)
{
    struct part part = {.end = 6, .has_model_keys = 1, .count = UINT64_MAX};
    write_part(&part, "other.gguf");
    expect("", KT_E_INVALID, "are two models; name the file of one");
    ck_assert_ptr_nonnull(strstr(error.message, "other.gguf"));
    expect_whole("other.gguf", 1, KT_IO_MMAP);
    expect_whole(FIRST, 3, KT_IO_MMAP);
    folder_delete("other.gguf");
    write_part(&part, "n-00001-of-00003.gguf");
    expect("", KT_E_INVALID, "are two models; name the file of one");
    folder_delete("n-00001-of-00003.gguf");
    for (int i = 0; i < 3; i++)
        folder_delete(names[i]);
    /* The name says GGUF, the bytes do not. */
    folder_write("x.gguf", "\2\0\0\0\0\0\0\0{}", 10);
    expect("", KT_E_FORMAT, "x.gguf: not a GGUF file, whatever its name says");
    folder_write("x.gguf", "x", 1);
    expect("", KT_E_FORMAT, "x.gguf: is neither a GGUF nor a safetensors file");
}
END_TEST

/* What belongs to a model without being one is no second model; alone, it is what is opened. */
START_TEST(files_beside_a_model)
{
    struct part part = {.end = 6, .has_model_keys = 1, .count = UINT64_MAX};
    write_part(&part, "mmproj-F16.gguf");
    write_part(&part, "M-MMPROJ-f16.gguf");
    write_part(&part, "a.imatrix.gguf");
    write_part(&part, "imatrix_a.gguf");
    expect_whole("", 3, KT_IO_MMAP);
    for (int i = 0; i < 3; i++)
        folder_delete(names[i]);
    expect("", KT_E_INVALID, "are two models; name the file of one");
    folder_delete("M-MMPROJ-f16.gguf");
    folder_delete("imatrix_a.gguf");
    folder_delete("a.imatrix.gguf");
    expect_whole("", 1, KT_IO_MMAP);
    write_part(&part, "a.gguf");
    expect_whole("", 1, KT_IO_MMAP);
    /* An index of files that are not there is not of this model, but it counts as soon as one is. */
    static const char index[] = "model.safetensors.index.json", shard[] = "model-00001-of-00002.safetensors";
    folder_text(index, "{\"weight_map\":{\"a\":\"%s\",\"b\":\"%s\"}}", shard, "other.safetensors");
    expect_whole("", 1, KT_IO_MMAP);
    folder_write(shard, "", 0);
    expect("", KT_E_FORMAT, "model-00001-of-00002.safetensors: is empty");
    folder_delete(shard);
    folder_write("some.safetensors", "", 0);
    expect("", KT_E_IO, "model-00001-of-00002.safetensors: cannot be opened");
    folder_delete("some.safetensors");
    folder_text(index, "{");
    expect("", KT_E_FORMAT, "the index is not JSON");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gguf_split");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, make, folder_remove);
    tcase_add_loop_test(tests, any_file_stands_for_all, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, names_without_a_folder);
    tcase_add_test(tests, models_of_one_file);
    tcase_add_test(tests, a_missing_file);
    tcase_add_test(tests, a_wrong_order);
    tcase_add_test(tests, counts_that_do_not_agree);
    tcase_add_test(tests, tensors_that_stand_twice);
    tcase_add_test(tests, files_that_are_wrong);
    tcase_add_test(tests, every_byte_changed);
    tcase_add_test(tests, folders_of_several_models);
    tcase_add_test(tests, files_beside_a_model);
    return run_tests("gguf_split", tests);
}
