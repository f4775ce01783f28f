/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of safetensors files: what stands for one, its index, files that are missing or wrong. */
#include "core/weights/table/checkpoint.h"
#include "core/weights/table/parts.h"
#include "tests/support/folder_build.h"
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "model.safetensors.index.json"
#define FIRST "model-00001-of-00002.safetensors"
#define SECOND "model-00002-of-00002.safetensors"

static struct kt_error error;
static struct shard shard;

static struct kt_checkpoint *open_good(const char *name, enum kt_io io)
{
    struct kt_checkpoint *checkpoint;
    ck_assert_msg(folder_open(name, io, &checkpoint, &error) == KT_OK, "%s: %s", name, error.message);
    return checkpoint;
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
        ck_assert_msg(strstr(error.message, "kt-test-") && !strchr(error.message, '\n'), "%s", error.message);
        ck_assert_ptr_null(checkpoint);
    }
}

static void expect_count(const char *name, uint64_t files, uint64_t tensors, uint64_t layers)
{
    struct kt_checkpoint_info info;
    struct kt_checkpoint *checkpoint = open_good(name, KT_IO_MMAP);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_msg(info.n_files == files && info.n_tensors == tensors && info.n_moe_layers == layers,
                  "%s: %d files, %d tensors, %d layers", name, (int)info.n_files, (int)info.n_tensors,
                  (int)info.n_moe_layers);
    kt_checkpoint_close(checkpoint);
}

static void add(const char *name)
{
    shard_add(&shard, name, "BF16", 2, (uint64_t[]){4, 4});
}

/* One expert, whose down projection is in the second file, and a tensor of its own in each. */
static void write_files(void)
{
    shard_begin(&shard);
    shard_metadata(&shard, "{\"format\":\"pt\",\"part\":\"one\"}");
    add("layers.0.experts.0.w1.weight");
    add("layers.0.experts.0.w3.weight");
    add("first");
    shard_write(&shard, FIRST);
    shard_begin(&shard);
    add("second");
    add("layers.0.experts.0.w2.weight");
    shard_metadata(&shard, "{\"part\":\"two\"}");
    shard_write(&shard, SECOND);
}

#define ENTRY(tensor, file) "\"" tensor "\":\"" file "\""
#define FIRST_ENTRIES                            \
    ENTRY("layers.0.experts.0.w1.weight", FIRST) \
    "," ENTRY("layers.0.experts.0.w3.weight", FIRST) "," ENTRY("first", FIRST)
#define SECOND_ENTRIES ENTRY("layers.0.experts.0.w2.weight", SECOND) "," ENTRY("second", SECOND)
#define GOOD_INDEX "{\"metadata\":{\"total_size\":160},\"weight_map\":{" FIRST_ENTRIES "," SECOND_ENTRIES "}}"

static void write_folder(void)
{
    write_files();
    folder_text(INDEX, "%s", GOOD_INDEX);
    folder_text("config.json", "{\"num_experts\":1,\"hidden_size\":4}");
}

START_TEST(what_stands_for_a_folder)
{
    static const char *const names[] = {"", "/", "config.json", INDEX, FIRST, SECOND};
    write_folder();
    shard_begin(&shard);
    add("third");
    shard_write(&shard, "alone.safetensors");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect_count(names[i], 2, 5, 1);
    expect_count("alone.safetensors", 1, 1, 0);
    /* Without an index all files belong to the checkpoint, and each is also one by itself. */
    folder_delete(INDEX);
    folder_write("model.gguf", "x", 1);
    folder_write(".hidden.safetensors", "x", 1);
    folder_write("safetensors", "x", 1);
    folder_write("model.safetensors.bak", "x", 1);
    expect_count("", 3, 6, 1);
    expect_count("config.json", 3, 6, 1);
    expect_count("alone.safetensors", 1, 1, 0);
    expect(FIRST, KT_E_FORMAT, "if this is one file of several, open their folder");
    /* Names without a folder: that is the current one. */
    char *before = getcwd(NULL, 0);
    struct kt_checkpoint *checkpoint;
    ck_assert_int_eq(chdir(folder_path("")), 0);
    ck_assert_int_eq(kt_checkpoint_open("config.json", NULL, &checkpoint, &error), KT_OK);
    kt_checkpoint_close(checkpoint);
    ck_assert_int_eq(kt_checkpoint_open(".", NULL, &checkpoint, &error), KT_OK);
    kt_checkpoint_close(checkpoint);
    ck_assert_int_eq(chdir(before), 0);
    free(before);
}
END_TEST

START_TEST(files_are_links)
{
    char target[PATH_MAX];
    write_folder();
    (void)snprintf(target, sizeof target, "%s", folder_path("blob"));
    ck_assert_int_eq(rename(folder_path(SECOND), target), 0);
    ck_assert_int_eq(symlink(target, folder_path(SECOND)), 0);
    expect_count("", 2, 5, 1);
    /* A link to nothing is a missing file. */
    ck_assert_int_eq(unlink(target), 0);
    expect("", KT_E_IO, SECOND ": cannot be opened");
}
END_TEST

START_TEST(tensors_and_their_files)
{
    static const char *const names[] = {"layers.0.experts.0.w1.weight", "layers.0.experts.0.w3.weight",
                                        "first", "second", "layers.0.experts.0.w2.weight"};
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    struct kt_expert expert;
    struct stat first, second;
    write_folder();
    ck_assert_int_eq(stat(folder_path(FIRST), &first), 0);
    ck_assert_int_eq(stat(folder_path(SECOND), &second), 0);
    struct kt_checkpoint *checkpoint = open_good("", (enum kt_io)_i);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_str_eq(info.format, "safetensors");
    ck_assert_uint_eq(info.size, (uint64_t)(first.st_size + second.st_size));
    for (uint64_t i = 0; i < 5; i++) {
        const void *data;
        uint16_t bits;
        uint64_t index;
        ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, i, &tensor, &error), KT_OK);
        ck_assert_str_eq(tensor.name, names[i]);
        ck_assert_str_eq(tensor.file, i < 3 ? FIRST : SECOND);
        ck_assert_int_eq(kt_checkpoint_find(checkpoint, names[i], &index, &error), KT_OK);
        ck_assert_uint_eq(index, i);
        ck_assert_int_eq(kt_checkpoint_data(checkpoint, i, &data, &error), KT_OK);
        for (uint64_t j = 0; j < 16; j++) {
            float value = value_of(names[i], "BF16", j);
            uint32_t expected;
            memcpy(&expected, &value, sizeof expected);
            memcpy(&bits, (const uint8_t *)data + 2 * j, sizeof bits);
            ck_assert_uint_eq(bits, expected >> 16);
        }
    }
    ck_assert_str_eq(kt_checkpoint_metadata(checkpoint, 0, "part"), "one");
    ck_assert_str_eq(kt_checkpoint_metadata(checkpoint, 1, "part"), "two");
    ck_assert_ptr_null(kt_checkpoint_metadata(checkpoint, 1, "format"));
    /* A file that shrinks is named. */
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, &expert, 1, &error), KT_OK);
    ck_assert_int_eq(truncate(folder_path(SECOND), second.st_size - 1), 0);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 0, &expert, 1, &error), KT_E_IO);
    ck_assert_ptr_nonnull(strstr(error.message, SECOND ": size changed from"));
    kt_checkpoint_close(checkpoint);
}
END_TEST

static const struct {
    const char *index;
    enum kt_status status;
    const char *fragment;
} bad_indexes[] = {
    {"", KT_E_FORMAT, INDEX ": is empty"},
    {"{", KT_E_FORMAT, INDEX ": byte 1: the index is not JSON"},
    {"[]", KT_E_FORMAT, INDEX ": must be an object with the object \"weight_map\""},
    {"{}", KT_E_FORMAT, "must be an object with the object \"weight_map\""},
    {"{\"weight_map\":[]}", KT_E_FORMAT, "must be an object with the object \"weight_map\""},
    {"{\"weight_map\":{}}", KT_E_FORMAT, "weight_map names no tensor"},
    {"{\"weight_map\":{\"\":\"a.safetensors\"}}", KT_E_FORMAT, "in weight_map has 0 characters"},
    {"{\"weight_map\":{\"\\u001b\":\"a.safetensors\"}}", KT_E_FORMAT, "control character"},
    {"{\"weight_map\":{\"first\":1}}", KT_E_FORMAT, "tensor \"first\": weight_map must give"},
    {"{\"weight_map\":{" ENTRY("first", "") "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", ".safetensors") "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "..") "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "../" FIRST) "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "/etc/a.safetensors") "}}", KT_E_FORMAT, "or below it"},
    {"{\"weight_map\":{" ENTRY("first", "sub/../" FIRST) "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "sub//" FIRST) "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "sub/.hidden.safetensors") "}}", KT_E_FORMAT,
     "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "sub/.safetensors") "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "sub/" FIRST) "}}", KT_E_IO, "sub/" FIRST ": cannot be opened"},
    {"{\"weight_map\":{" ENTRY("first", "./" FIRST) "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "model.bin") "}}", KT_E_FORMAT, "must give the name of"},
    {"{\"weight_map\":{" ENTRY("first", "a\\n.safetensors") "}}", KT_E_FORMAT, "must give the name"},
    {"{\"weight_map\":{" ENTRY("first", "absent.safetensors") "}}", KT_E_IO,
     "absent.safetensors: cannot be opened: No such file"},
    {"{\"weight_map\":{" ENTRY("first", FIRST) "," ENTRY("first", SECOND) "}}", KT_E_FORMAT, "duplicate"},
    {"{\"weight_map\":{" FIRST_ENTRIES "," SECOND_ENTRIES "," ENTRY("third", SECOND) "}}", KT_E_FORMAT,
     "tensor \"third\" is said to be in " SECOND ", but it is in no file"},
    {"{\"weight_map\":{" FIRST_ENTRIES "}}", KT_E_FORMAT,
     "layer 0, expert 0: tensor \"layers.0.experts.0.w2.weight\" is missing"},
    {"{\"a\":[[[[[[[[0]]]]]]]]}", KT_E_FORMAT, INDEX ": byte 12: the index nests deeper than 8"},
};

START_TEST(indexes_that_are_wrong)
{
    write_folder();
    folder_text(INDEX, "%s", bad_indexes[_i].index);
    expect("", bad_indexes[_i].status, bad_indexes[_i].fragment);
    expect("config.json", bad_indexes[_i].status, bad_indexes[_i].fragment);
    expect(INDEX, bad_indexes[_i].status, bad_indexes[_i].fragment);
}
END_TEST

START_TEST(an_index_that_lists_less)
{
    write_folder();
    folder_text(INDEX, "{\"weight_map\":{" ENTRY("first", FIRST) "," ENTRY("second", SECOND) "}}");
    expect_count("", 2, 5, 1);
}
END_TEST

/* The value of the first number of a tensor tells which file it comes of. */
static void expect_value(const char *name, const char *tensor, double value)
{
    for (int io = KT_IO_MMAP; io <= KT_IO_READ; io++) {
        struct kt_checkpoint *checkpoint = open_good(name, (enum kt_io)io);
        struct kt_view view;
        float row[4];
        ck_assert_msg(kt_checkpoint_weight(checkpoint, tensor, &view, NULL, &error) == KT_OK, "%s",
                      error.message);
        ck_assert_int_eq(kt_view_row(&view, 0, row, &error), KT_OK);
        ck_assert_msg((double)row[0] == value, "%s: %g, not %g", tensor, (double)row[0], value);
        kt_checkpoint_close(checkpoint);
    }
}

/* A file of tensors of four numbers, all of which are `value`: "a,b" */
static void write_values(const char *file, const char *names, float value)
{
    char list[64], *rest = list;
    const float row[] = {value, value, value, value};
    shard_begin(&shard);
    (void)snprintf(list, sizeof list, "%s", names);
    for (const char *name; (name = strsep(&rest, ","));)
        shard_put(&shard, name, "F32", 2, (uint64_t[]){1, 4}, row);
    shard_write(&shard, file);
}

/* A tensor that stands in several files is that of the file in the index; one that stands in another file
 * only comes of that. The copies are not listed. */
START_TEST(an_index_decides)
{
    write_values(FIRST, "a,b,stale", 1);
    write_values(SECOND, "stale,b,c,a", 2);
    write_values("third.safetensors", "stale", 3);
    folder_text(INDEX, "{\"weight_map\":{" ENTRY("a", FIRST) "," ENTRY("b", SECOND) "," ENTRY(
                           "stale", "third.safetensors") "," ENTRY("c", FIRST) "}}");
    expect_count("", 3, 4, 0);
    expect_count(FIRST, 3, 4, 0);
    expect_value("", "a", 1);
    expect_value("", "b", 2);
    expect_value("", "stale", 3);
    expect_value("", "c", 2);
    /* An index that says nothing of it, or names a file that has none, leaves it open. */
    folder_text(INDEX, "{\"weight_map\":{" ENTRY("a", FIRST) "," ENTRY("b", SECOND) "}}");
    expect("", KT_E_FORMAT, "tensor \"stale\" is also in ");
    write_values("third.safetensors", "d", 3);
    folder_text(INDEX,
                "{\"weight_map\":{" ENTRY("a", FIRST) "," ENTRY("b",
                                                                SECOND) "," ENTRY("stale",
                                                                                  "third.safetensors") "}}");
    expect("", KT_E_FORMAT, "tensor \"stale\" is also in ");
    /* A copy may not break its file. */
    folder_text(INDEX,
                "{\"weight_map\":{" ENTRY("stale", FIRST) "," ENTRY("b", SECOND) "," ENTRY("a", FIRST) "}}");
    expect_value("", "stale", 1);
    struct stat second;
    ck_assert_int_eq(stat(folder_path(SECOND), &second), 0);
    ck_assert_int_eq(truncate(folder_path(SECOND), second.st_size - 1), 0);
    expect("", KT_E_FORMAT, "the file is truncated");
}
END_TEST

/* model.safetensors is the whole model, whatever stands beside it, but for an index that lists it. */
START_TEST(a_whole_model_beside_others)
{
    write_values("model.safetensors", "a", 1);
    write_values("consolidated.safetensors", "a,tok_embeddings", 2);
    expect_count("", 1, 1, 0);
    expect_value("", "a", 1);
    expect_value("consolidated.safetensors", "a", 2);
    write_values(FIRST, "a", 3);
    folder_text(INDEX, "{\"weight_map\":{" ENTRY("a", FIRST) "," ENTRY("b", SECOND) "}}");
    expect_value("", "a", 1);
    folder_text("config.json", "{}");
    expect_value("config.json", "a", 1);
    folder_text(INDEX, "{\"weight_map\":");
    expect_value("", "a", 1);
    expect(INDEX, KT_E_FORMAT, "the index is not JSON");
    folder_text(INDEX, "{\"weight_map\":{\"a\":1,\"b\":[]}}"); /* damaged, and whole as JSON */
    expect_value("", "a", 1);
    folder_text(INDEX, "{\"weight_map\":{" ENTRY("a", FIRST) "}}");
    expect_value("", "a", 1);
    expect_value(INDEX, "a", 3);
    expect_value(FIRST, "a", 3);
    expect_value("model.safetensors", "a", 1);
    write_values("mtp.safetensors", "b", 4);
    folder_text(INDEX,
                "{\"weight_map\":{" ENTRY("a", "model.safetensors") "," ENTRY("b", "mtp.safetensors") "}}");
    expect_count("", 2, 2, 0);
}
END_TEST

/* Without an index: adapters, the makers' own names and variants are not a part of the model, unless nothing
 * else is there. */
START_TEST(files_that_are_left_out)
{
    write_values("adapter_model.safetensors", "a", 9);
    expect_value("", "a", 9);
    write_values("consolidated-00001-of-00002.safetensors", "a,b", 8);
    write_values(FIRST, "a", 1);
    write_values(SECOND, "b", 2);
    write_values("model.fp16-00001-of-00002.safetensors", "a", 7);
    write_values("model.fp16-00002-of-00002.safetensors", "b", 7);
    write_values("extra.safetensors", "c", 3);
    expect_count("", 3, 3, 0);
    expect_value("", "a", 1);
    expect_value("", "b", 2);
    expect_value("", "c", 3);
    folder_delete(FIRST);
    folder_delete(SECOND);
    expect_count("", 3, 3, 0);
    expect_value("", "a", 7);
    write_values("model.safetensors", "a", 4);
    expect_value("", "a", 4);
}
END_TEST

/* The index may name files of subfolders; its copies of one that holds none is none. */
START_TEST(files_in_subfolders)
{
    ck_assert_int_eq(mkdir(folder_path("sub"), 0700), 0);
    write_values("sub/" FIRST, "a", 1);
    write_values(SECOND, "b", 2);
    folder_text(INDEX, "{\"weight_map\":{" ENTRY("a", "sub/" FIRST) "," ENTRY("b", SECOND) "}}");
    expect_count("", 2, 2, 0);
    expect_value("", "a", 1);
    folder_delete("sub/" FIRST);
    ck_assert_int_eq(rmdir(folder_path("sub")), 0);
}
END_TEST

START_TEST(folders_that_are_wrong)
{
    static const char *const large = "an index of more than 100 MB";
    expect("", KT_E_NOT_FOUND, "the folder holds no .safetensors and no .gguf file; name the folder");
    expect("config.json", KT_E_NOT_FOUND, "the folder holds no .safetensors and no .gguf file");
    expect(INDEX, KT_E_IO, INDEX ": cannot be opened");
    write_files();
    shard_begin(&shard);
    add("first");
    shard_write(&shard, "again.safetensors");
    expect("", KT_E_FORMAT, "tensor \"first\" is also in ");
    folder_write("again.safetensors", "1234", 4);
    expect("", KT_E_FORMAT, "again.safetensors: is no safetensors file: it has 4 bytes");
    folder_write("again.safetensors", "GGUF34567890", 12);
    expect("", KT_E_FORMAT, "again.safetensors: the header is said to take");
    folder_write("again.safetensors", "", 0);
    expect("", KT_E_FORMAT, "again.safetensors: is empty");
    folder_delete("again.safetensors");
    ck_assert_int_eq(mkdir(folder_path("again.safetensors"), 0700), 0);
    expect("", KT_E_IO, "again.safetensors: is a folder; a file is needed here");
    ck_assert_int_eq(rmdir(folder_path("again.safetensors")), 0);
    /* A gap in the second file is found, and it is named. */
    size_t size;
    const uint8_t *bytes = shard_bytes(&shard, &size);
    folder_write("again.safetensors", bytes, size - 1);
    expect("", KT_E_FORMAT, "again.safetensors: tensor \"first\" ends at byte 32 of the data");
    folder_delete("again.safetensors");
    ck_assert_int_eq(mkfifo(folder_path("config.json"), 0600), 0);
    expect("", KT_E_IO, "config.json: is not a regular file");
    folder_delete("config.json");
    folder_text(INDEX, "%s", GOOD_INDEX);
    ck_assert_msg(truncate(folder_path(INDEX), 100000001) == 0, "%s", large);
    expect("", KT_E_FORMAT, "the index takes 100000001 bytes; at most 100000000 are read");
    folder_delete(INDEX);
    folder_text("config.json", "{}");
    ck_assert_int_eq(truncate(folder_path("config.json"), (1 << 26) + 1), 0);
    expect("", KT_E_FORMAT, "the configuration takes 67108865 bytes");
}
END_TEST

static void cut(const char *name, const char *text, size_t size)
{
    for (size_t length = 0; length < size; length++) {
        struct kt_checkpoint *checkpoint = NULL;
        folder_write(name, text, length);
        enum kt_status status = folder_open("", KT_IO_READ, &checkpoint, &error);
        ck_assert_msg(status == KT_E_FORMAT && strstr(error.message, name), "%d bytes of %s: %s: %s",
                      (int)length, name, kt_status_name(status), error.message);
    }
    folder_write(name, text, size);
}

START_TEST(cut_at_every_byte)
{
    static const char config[] =
        "{\"model_type\":\"a\",\"num_experts\":1,\"text_config\":{\"hidden_size\":4},"
        "\"quantization_config\":{\"weight_block_size\":[128,128]}}";
    size_t size;
    write_folder();
    cut("config.json", config, sizeof config - 1);
    cut(INDEX, GOOD_INDEX, sizeof GOOD_INDEX - 1);
    const uint8_t *bytes = shard_bytes(&shard, &size);
    cut(SECOND, (const char *)bytes, size);
    expect_count("", 2, 5, 1);
}
END_TEST

/* Whatever byte stands anywhere, the answer is an answer. */
START_TEST(every_byte_changed)
{
    static const char values[] = {0, ' ', '"', '0', '9', '-', '{', '}', '[', ',', ':', '/', '\\'};
    static const char *const names[] = {"config.json", INDEX};
    const char *texts[] = {"{\"num_experts\":1,\"hidden_size\":4,\"num_hidden_layers\":2}", GOOD_INDEX};
    size_t refused = 0;
    write_folder();
    for (int n = 0; n < 2; n++) {
        char text[sizeof GOOD_INDEX];
        size_t size = strlen(texts[n]);
        for (size_t at = 0; at < size; at++)
            for (size_t v = 0; v < sizeof values; v++) {
                struct kt_checkpoint *checkpoint = NULL;
                memcpy(text, texts[n], size);
                text[at] = values[v];
                folder_write(names[n], text, size);
                enum kt_status status = folder_open("", KT_IO_READ, &checkpoint, &error);
                ck_assert_msg((status == KT_OK) == (checkpoint != NULL), "byte %d", (int)at);
                refused += status != KT_OK;
                kt_checkpoint_close(checkpoint);
            }
        folder_write(names[n], texts[n], size);
    }
    ck_assert_uint_gt(refused, 1000);
}
END_TEST

/* ---- a trained model, written again as a folder -------------------------------------------- */

static const char *const trained_names[] = {"gate", "up", "down"};

/* Writes the experts of a layer of the GGUF file, one tensor a projection of an expert. */
static void write_layer(struct kt_checkpoint *gguf, uint64_t layer, const char *name)
{
    struct kt_expert experts[8];
    char header[8192];
    uint64_t at = 0, used = 1;
    ck_assert_int_eq(kt_checkpoint_experts(gguf, layer, experts, 8, &error), KT_OK);
    header[0] = '{';
    for (int e = 0; e < 8; e++)
        for (int p = 0; p < 3; p++, at += 256 * 256 * 2)
            used +=
                (uint64_t)snprintf(header + used, sizeof header - used,
                                   "%s\"model.layers.%d.mlp.experts.%d.%s_proj.weight\":{\"dtype\":\"BF16\","
                                   "\"shape\":[256,256],\"data_offsets\":[%d,%d]}",
                                   used > 1 ? "," : "", (int)layer, e, trained_names[p], (int)at,
                                   (int)at + 256 * 256 * 2);
    header[used++] = '}';
    ck_assert_uint_lt(used, sizeof header);
    FILE *file = fopen(folder_path(name), "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 8; i++)
        ck_assert_int_ne(fputc((int)(used >> 8 * i & 255), file), EOF);
    ck_assert_uint_eq(fwrite(header, 1, used, file), used);
    for (int e = 0; e < 8; e++) {
        const struct kt_view *views[] = {&experts[e].gate, &experts[e].up, &experts[e].down};
        for (int p = 0; p < 3; p++)
            ck_assert_uint_eq(fwrite(views[p]->data, 1, views[p]->size, file), 256 * 256 * 2);
    }
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(trained_model)
{
    struct kt_checkpoint *gguf;
    struct kt_expert expected[8], experts[8];
    struct kt_moe_info info;
    char *path = data_path("tiny-moe/tiny-moe-bf16-l0-l3.gguf");
    ck_assert_msg(kt_checkpoint_open(path, NULL, &gguf, &error) == KT_OK, "%s", error.message);
    free(path);
    write_layer(gguf, 0, FIRST);
    write_layer(gguf, 3, SECOND);
    folder_text("config.json", "{\"model_type\":\"qwen3_moe\",\"hidden_size\":256,\"num_experts\":8,"
                               "\"num_experts_per_tok\":2,\"moe_intermediate_size\":256,"
                               "\"num_hidden_layers\":4,\"intermediate_size\":512}");
    struct kt_checkpoint *folder = open_good("", (enum kt_io)_i);
    for (uint64_t layer = 0; layer < 4; layer += 3) {
        ck_assert_int_eq(kt_checkpoint_moe(folder, layer, &info, &error), KT_OK);
        ck_assert_uint_eq(info.top_k, 2);
        ck_assert_int_eq(kt_checkpoint_experts(gguf, layer, expected, 8, &error), KT_OK);
        ck_assert_int_eq(kt_checkpoint_experts(folder, layer, experts, 8, &error), KT_OK);
        for (int e = 0; e < 8; e++) {
            ck_assert_mem_eq(experts[e].gate.data, expected[e].gate.data, 256 * 256 * 2);
            ck_assert_mem_eq(experts[e].up.data, expected[e].up.data, 256 * 256 * 2);
            ck_assert_mem_eq(experts[e].down.data, expected[e].down.data, 256 * 256 * 2);
        }
    }
    kt_checkpoint_close(folder);
    kt_checkpoint_close(gguf);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("folder");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, folder_make, folder_remove);
    tcase_add_test(tests, what_stands_for_a_folder);
    tcase_add_test(tests, files_are_links);
    tcase_add_loop_test(tests, tensors_and_their_files, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, indexes_that_are_wrong, 0, (int)(sizeof bad_indexes / sizeof bad_indexes[0]));
    tcase_add_test(tests, an_index_that_lists_less);
    tcase_add_test(tests, an_index_decides);
    tcase_add_test(tests, a_whole_model_beside_others);
    tcase_add_test(tests, files_that_are_left_out);
    tcase_add_test(tests, files_in_subfolders);
    tcase_add_test(tests, folders_that_are_wrong);
    tcase_add_test(tests, cut_at_every_byte);
    tcase_add_test(tests, every_byte_changed);
    tcase_add_loop_test(tests, trained_model, KT_IO_MMAP, KT_IO_READ + 1);
    return run_tests("folder", tests);
}
