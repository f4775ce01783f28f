/* SPDX-License-Identifier: Apache-2.0 */
/* Safetensors headers: malformed files by name, right ones, files cut off. */
#include "core/weights/table/checkpoint.h"
#include "core/weights/table/parts.h"
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct kt_error error;
static struct bytes file;

/* A header and the bytes of data after it. */
static void make(const char *header, size_t data)
{
    file.size = 0;
    put_string(&file, header);
    for (size_t i = 0; i < data; i++)
        put_u8(&file, (uint8_t)i);
}

#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define A8 "\"a\":" T("F32", "[2]", "[0,8]")

static const struct {
    const char *name;
    const char *header;
    size_t data;
    enum kt_status status;
    const char *fragment;
} cases[] = {
    {"cut JSON", "{" A8, 8, KT_E_FORMAT, "the header is not JSON"},
    {"two objects", "{" A8 "}{}", 8, KT_E_FORMAT, "the header is not JSON"},
    {"garbage after the object", "{" A8 "}  x", 8, KT_E_FORMAT, "the header is not JSON"},
    {"same name twice", "{" A8 "," A8 "}", 8, KT_E_FORMAT, "two tensors have the name"},
    {"same key twice in an entry",
     "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, KT_E_FORMAT,
     "duplicate"},
    {"entry is a number", "{\"a\":1}", 8, KT_E_FORMAT, "must be an object of dtype"},
    {"entry is an array", "{\"a\":[1,2,3]}", 8, KT_E_FORMAT, "must be an object of dtype"},
    {"entry without dtype", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, KT_E_FORMAT,
     "tensor \"a\" must be"},
    {"entry without shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, KT_E_FORMAT,
     "tensor \"a\" must be"},
    {"entry without offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, KT_E_FORMAT,
     "tensor \"a\" must be"},
    {"entry with more", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":0}}", 8,
     KT_E_FORMAT, "tensor \"a\" must be"},
    {"dtype is a number", "{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, KT_E_FORMAT,
     "dtype must be a string"},
    {"F4 counts elements", "{\"a\":" T("F4", "[8]", "[0,8]") "}", 8, KT_E_FORMAT,
     "span 8 bytes, but 8 elements of F4 take 4 bits each"},
    {"half a byte of F4", "{\"a\":" T("F4", "[15]", "[0,8]") "}", 8, KT_E_FORMAT, "15 elements of F4"},
    {"F6 counts elements", "{\"a\":" T("F6_E3M2", "[8]", "[0,8]") "}", 8, KT_E_FORMAT,
     "8 elements of F6_E3M2 take 6 bits each"},
    {"C64 takes 8 bytes", "{\"a\":" T("C64", "[2]", "[0,8]") "}", 8, KT_E_FORMAT,
     "2 elements of C64 take 8 bytes each"},
    {"unknown dtype beyond the end", "{\"a\":" T("X9", "[2]", "[0,9]") "}", 8, KT_E_FORMAT,
     "ends at byte 9 of the data"},
    {"unknown dtype, a gap after it", "{\"a\":" T("X9", "[2]", "[0,7]") "}", 8, KT_E_FORMAT,
     "1 bytes after the last tensor"},
    {"shape is a number", "{\"a\":" T("F32", "2", "[0,8]") "}", 8, KT_E_FORMAT, "shape must be"},
    {"shape of 9 dimensions", "{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,3]", "[0,8]") "}", 8, KT_E_FORMAT,
     "but 3 elements"},
    {"9 dimensions that overflow", "{\"a\":" T("F32", "[4294967296,4294967296,1,1,1,1,1,1,2]", "[0,8]") "}",
     8, KT_E_FORMAT, "element 1 of shape"},
    {"shape of a real number", "{\"a\":" T("F32", "[2.0]", "[0,8]") "}", 8, KT_E_FORMAT,
     "element 0 of shape"},
    {"shape of a string", "{\"a\":" T("F32", "[1,\"2\"]", "[0,8]") "}", 8, KT_E_FORMAT, "element 1 of shape"},
    {"negative shape", "{\"a\":" T("F32", "[-2]", "[0,8]") "}", 8, KT_E_FORMAT, "element 0"},
    {"negative shape twice", "{\"a\":" T("F32", "[-2,-1]", "[0,8]") "}", 8, KT_E_FORMAT, "element 0"},
    {"shape overflows", "{\"a\":" T("F32", "[4294967296,4294967296]", "[0,8]") "}", 8, KT_E_FORMAT,
     "the product overflows"},
    {"bytes overflow", "{\"a\":" T("F64", "[2305843009213693953]", "[0,8]") "}", 8, KT_E_FORMAT,
     "take 8 bytes each"},
    {"number beyond 64 bits", "{\"a\":" T("F32", "[18446744073709551617]", "[0,8]") "}", 8, KT_E_FORMAT,
     "too big integer"},
    {"offsets are strings", "{\"a\":" T("F32", "[2]", "[\"0\",\"8\"]") "}", 8, KT_E_FORMAT,
     "data_offsets must be two"},
    {"one offset", "{\"a\":" T("F32", "[2]", "[8]") "}", 8, KT_E_FORMAT, "data_offsets must be two"},
    {"three offsets", "{\"a\":" T("F32", "[2]", "[0,8,8]") "}", 8, KT_E_FORMAT, "data_offsets must be two"},
    {"offsets are an object", "{\"a\":" T("F32", "[2]", "{}") "}", 8, KT_E_FORMAT,
     "data_offsets must be two"},
    {"offsets fall", "{\"a\":" T("F32", "[2]", "[8,0]") "}", 8, KT_E_FORMAT, "begin <= end"},
    {"negative offset", "{\"a\":" T("F32", "[2]", "[-8,0]") "}", 8, KT_E_FORMAT, "begin <= end"},
    {"offset beyond the end", "{\"a\":" T("F32", "[2]", "[0,8]") "}", 7, KT_E_FORMAT,
     "ends at byte 8 of the data, which has 7"},
    {"offset 2^63-1", "{\"a\":" T("U8", "[9223372036854775807]", "[0,9223372036854775807]") "}", 8,
     KT_E_FORMAT, "ends at byte 9223372036854775807"},
    {"size and shape differ", "{\"a\":" T("F32", "[3]", "[0,8]") "}", 8, KT_E_FORMAT,
     "span 8 bytes, but 3 elements of F32 take 4 bytes each"},
    {"overlap", "{" A8 ",\"b\":" T("U8", "[8]", "[4,12]") "}", 12, KT_E_FORMAT, "tensor \"a\", 8 bytes"},
    {"same place", "{" A8 ",\"b\":" T("U8", "[8]", "[0,8]") "}", 8, KT_E_FORMAT, "overlaps"},
    {"gap", "{" A8 ",\"b\":" T("U8", "[8]", "[9,17]") "}", 17, KT_E_FORMAT,
     "1 bytes before tensor \"b\" belong to none"},
    {"gap before the first", "{\"b\":" T("U8", "[8]", "[1,9]") "}", 9, KT_E_FORMAT,
     "1 bytes before tensor \"b\""},
    {"bytes after the last", "{" A8 "}", 9, KT_E_FORMAT, "1 bytes after the last tensor"},
    {"data without tensors", "{}", 4, KT_E_FORMAT, "4 bytes after the last tensor"},
    {"metadata twice", "{\"__metadata__\":{\"x\":\"1\"}," A8 ",\"__metadata__\":{\"y\":\"1\"}}", 8,
     KT_E_FORMAT, "is a duplicate"},
    {"a member is empty", "{" A8 ",}", 8, KT_E_FORMAT, "a member is missing"},
    {"the first member is empty", "{," A8 "}", 8, KT_E_FORMAT, "a member is missing"},
    {"no comma", "{" A8 "\"b\":" T("U8", "[0]", "[8,8]") "}", 8, KT_E_FORMAT, "the header is not JSON"},
    {"closed by a bracket", "{" A8 "]", 8, KT_E_FORMAT, "not closed by }"},
    {"closed too early", "{" A8 "},\"b\":1}", 8, KT_E_FORMAT, "something follows its object"},
    {"brackets do not match", "{\"a\":" T("U8", "[8}", "[0,8]") "}", 8, KT_E_FORMAT,
     "the header is not JSON"},
    {"metadata is a string", "{\"__metadata__\":\"x\"," A8 "}", 8, KT_E_FORMAT, "__metadata__ must"},
    {"metadata holds a number", "{\"__metadata__\":{\"x\":1}," A8 "}", 8, KT_E_FORMAT, "__metadata__ must"},
    {"name is empty", "{\"\":" T("F32", "[2]", "[0,8]") "}", 8, KT_E_FORMAT, "has 0 characters"},
    {"name with an escape", "{\"\\u001b\":" T("F32", "[2]", "[0,8]") "}", 8, KT_E_FORMAT,
     "control character"},
    {"name with a NUL", "{\"a\\u0000b\":" T("F32", "[2]", "[0,8]") "}", 8, KT_E_FORMAT,
     "the header is not JSON"},
    {"name that is not UTF-8", "{\"\xff\xfe\":" T("F32", "[2]", "[0,8]") "}", 8, KT_E_FORMAT,
     "the header is not JSON"},
    {"9 deep", "{\"a\":{\"b\":{\"c\":{\"d\":[[[[[0]]]]]}}}}                                              ", 8,
     KT_E_FORMAT, "nests deeper than 8"},
};

START_TEST(malformed_files)
{
    struct kt_checkpoint *checkpoint = NULL;
    for (int io = KT_IO_MMAP; io <= KT_IO_READ; io++) {
        make(cases[_i].header, cases[_i].data);
        memset(&error, 0, sizeof error);
        enum kt_status status = open_bytes(file.data, file.size, (enum kt_io)io, &checkpoint, &error);
        ck_assert_msg(status == cases[_i].status && error.status == status, "%s: %s: %s", cases[_i].name,
                      kt_status_name(status), error.message);
        ck_assert_msg(strstr(error.message, cases[_i].fragment) != NULL, "%s: \"%s\" is not in: %s",
                      cases[_i].name, cases[_i].fragment, error.message);
        ck_assert_msg(strstr(error.message, "kt-test-") != NULL && !strchr(error.message, '\n'), "%s: %s",
                      cases[_i].name, error.message);
        ck_assert_ptr_null(checkpoint);
    }
}
END_TEST

static void expect_length(uint64_t length, const char *fragment)
{
    struct kt_checkpoint *checkpoint;
    make("{" A8 "}", 8);
    for (int i = 0; i < 8; i++)
        file.data[i] = (uint8_t)(length >> 8 * i);
    ck_assert_int_eq(open_bytes(file.data, file.size, KT_IO_MMAP, &checkpoint, &error), KT_E_FORMAT);
    ck_assert_msg(strstr(error.message, fragment) != NULL, "%s", error.message);
}

START_TEST(lengths)
{
    make("{" A8 "}", 8);
    uint64_t right = file.size - 16;
    expect_length(UINT64_MAX, "18446744073709551615 bytes");
    expect_length(UINT64_MAX - 7, "is said to take");
    expect_length(UINT64_C(1) << 63, "is said to take");
    expect_length(100000001, "100000000 are allowed");
    expect_length(file.size - 7, "is said to take");
    expect_length(right - 1, "not JSON");
    expect_length(right + 1, "holds control character 00");
    expect_length(0, "not JSON");
    expect_length(1, "not JSON");
}
END_TEST

/* Deep nesting and many containers must not reach the JSON library: it recurses and allocates. */
START_TEST(bombs)
{
    static char text[60000];
    static const struct {
        const char *text, *part;
    } units[] = {
        {"[", "nests deeper than 8"},
        {"{\"a\":", "nests deeper than 8"},
        {"[],", "objects and arrays, the most"},
        {"{},", "objects and arrays, the most"},
    };
    struct kt_checkpoint *checkpoint;
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        size_t length = strlen(units[u].text), used = 0;
        memcpy(text, "{\"a\":[", 6);
        for (used = 6; used + length + 1 < sizeof text; used += length)
            memcpy(text + used, units[u].text, length);
        text[used] = 0;
        make(text, 0);
        ck_assert_int_eq(open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error), KT_E_FORMAT);
        ck_assert_msg(strstr(error.message, units[u].part) != NULL, "%s", error.message);
    }
    /* Brackets inside of texts are not containers. */
    make("{\"__metadata__\":{\"x\":\"[[[[[[[[[[[[[[{{{{{{{{{{{\\\"[[[[[[\\\\\"}," A8 "}   ", 8);
    ck_assert_msg(open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* Every way to write a letter, and names longer than any buffer that a parser begins with. */
START_TEST(strings)
{
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"\\u0041\\u00e4\\u20AC\\ud83d\\ude00\\u007f \\b\\f\\n\\r\\t\\\"\\\\\\/ "
        "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\",\"\\u0061b\\/\":\"\"},"
        "\"a name that is longer than thirty-two letters \\u00e4\":" T("F32", "[2]", "[0,8]") "}";
    struct kt_checkpoint *checkpoint;
    uint64_t index;
    make(header, 8);
    ck_assert_msg(open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    ck_assert_str_eq(kt_checkpoint_metadata(checkpoint, 0, "a"),
                     "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\x7f \b\f\n\r\t\"\\/ "
                     "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    ck_assert_str_eq(kt_checkpoint_metadata(checkpoint, 0, "ab/"), "");
    ck_assert_int_eq(kt_checkpoint_find(checkpoint, "a name that is longer than thirty-two letters \xc3\xa4",
                                        &index, &error),
                     KT_OK);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(right_file)
{
    struct kt_checkpoint *checkpoint;
    struct kt_checkpoint_info info;
    struct kt_tensor_info tensor;
    const void *data;
    uint64_t index;
    make("{\"__metadata__\":{\"format\":\"pt\"},\"z\":" T("BF16", "[2,1]", "[0,4]") ",\"none\":" T(
             "I64", "[3,0]", "[4,4]") ",\"scalar\":" T("U8", "[]", "[4,5]") ",\"a\":" T("F32", "[1,2]",
                                                                                        "[5,13]") "}  ",
         13);
    ck_assert_msg(open_bytes(file.data, file.size, (enum kt_io)_i, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    kt_checkpoint_info(checkpoint, &info);
    ck_assert_str_eq(info.format, "safetensors");
    ck_assert_str_eq(info.architecture, "");
    ck_assert_uint_eq(info.n_tensors, 4);
    ck_assert_uint_eq(info.size, file.size);
    static const char *const names[] = {"z", "none", "scalar", "a"};
    static const uint64_t sizes[] = {4, 0, 1, 8}, dims[] = {2, 2, 0, 2};
    uint64_t begin = file.size - 13;
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, i, &tensor, &error), KT_OK);
        ck_assert_str_eq(tensor.name, names[i]);
        ck_assert_uint_eq(tensor.size, sizes[i]);
        ck_assert_uint_eq(tensor.n_dims, dims[i]);
        ck_assert_uint_eq(tensor.offset, begin);
        ck_assert_int_eq(kt_checkpoint_find(checkpoint, names[i], &index, &error), KT_OK);
        ck_assert_uint_eq(index, i);
        ck_assert_int_eq(kt_checkpoint_data(checkpoint, i, &data, &error), KT_OK);
        ck_assert_int_eq(memcmp(data, file.data + begin, tensor.size), 0);
        begin += tensor.size;
    }
    /* Numbers at odd offsets are handed out aligned. */
    ck_assert_uint_eq((uintptr_t)data % 4, 0);
    struct kt_moe_info moe;
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 0, &moe, &error), KT_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "family of models"));
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* Types that are not known are listed under the names that they have; only who needs their values fails. */
START_TEST(unknown_types)
{
    static const struct {
        const char *name, *type;
        uint64_t size;
    } wanted[] = {{"four", "f4_e2m1", 8},     {"six", "F6_E2M3", 6}, {"complex", "C64", 8},
                  {"fnuz", "F8_E4M3FNUZ", 2}, {"new", "X9", 3},      {"lower", "f32", 8},
                  {"escape", "?", 1},         {"f32", "f32", 8}};
    struct kt_checkpoint *checkpoint;
    struct kt_tensor_info info;
    struct kt_view view;
    const void *data;
    make(
        "{\"four\":" T("F4", "[2,8]", "[0,8]") ",\"six\":" T("F6_E2M3", "[8]", "[8,14]") ",\"complex\":" T("C64", "[1]", "[14,22]") ",\"fnuz\":" T(
            "F8_E4M3FNUZ", "[2]",
            "[22,24]") ",\"new\":" T("X9", "[7,7]",
                                     "[24,27]") ",\"lower\":" T("f32", "[2]",
                                                                "[27,35]") ",\"escape\":" T("\\u001b[2J",
                                                                                            "[2]",
                                                                                            "[35,36]") ",\"f32\":" T("F32",
                                                                                                                     "[2]",
                                                                                                                     "[36,44]") "}",
        44);
    ck_assert_msg(open_bytes(file.data, file.size, (enum kt_io)_i, &checkpoint, &error) == KT_OK, "%s",
                  error.message);
    for (uint64_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, i, &info, &error), KT_OK);
        ck_assert_str_eq(info.name, wanted[i].name);
        ck_assert_uint_eq(info.size, wanted[i].size);
        ck_assert_str_eq(kt_checkpoint_tensor_type(checkpoint, i), wanted[i].type);
        ck_assert_int_eq(kt_checkpoint_data(checkpoint, i, &data, &error), KT_OK);
    }
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "f32", &view, NULL, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_weight(checkpoint, "six", &view, NULL, &error), KT_E_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "tensor \"six\" is of type F6_E2M3, which cannot be read") != NULL,
                  "%s", error.message);
    kt_checkpoint_close(checkpoint);
}
END_TEST

/* A name is as long as GGUF's keys may be; of more than 8 dimensions, the slowest are one. */
START_TEST(wide_limits)
{
    static char header[140000];
    struct kt_checkpoint *checkpoint;
    struct kt_tensor_info info;
    for (int size = 257; size <= 65536; size = size == 257 ? 65535 : size + 1) {
        int used = snprintf(header, sizeof header, "{\"");
        memset(header + used, 'n', (size_t)size);
        snprintf(header + used + size, sizeof header - (size_t)(used + size), "\":%s}",
                 T("U8", "[2,2,1,1,1,1,1,1,2]", "[0,8]"));
        make(header, 8);
        enum kt_status status = open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error);
        ck_assert_msg(status == (size <= 65535 ? KT_OK : KT_E_FORMAT), "%s", error.message);
        if (status != KT_OK)
            break;
        ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, 0, &info, &error), KT_OK);
        ck_assert_int_eq((int)strlen(info.name), size);
        ck_assert_uint_eq(info.n_dims, 8);
        ck_assert_uint_eq(info.dims[0], 4);
        ck_assert_uint_eq(info.dims[1], 1);
        ck_assert_uint_eq(info.dims[7], 2);
        kt_checkpoint_close(checkpoint);
    }
    ck_assert_ptr_nonnull(strstr(error.message, "has 65536 characters; 1 to 65535"));
}
END_TEST

START_TEST(cut_at_every_byte)
{
    struct kt_checkpoint *checkpoint;
    make("{\"__metadata__\":{\"format\":\"pt\"}," A8 ",\"b\":" T("U8", "[16]", "[8,24]") "}  ", 24);
    ck_assert_int_eq(open_bytes(file.data, file.size, (enum kt_io)_i, &checkpoint, &error), KT_OK);
    kt_checkpoint_close(checkpoint);
    for (size_t size = 0; size < file.size; size++) {
        enum kt_status status = open_bytes(file.data, size, (enum kt_io)_i, &checkpoint, &error);
        ck_assert_msg(status == KT_E_FORMAT, "%d bytes: %s", (int)size, kt_status_name(status));
    }
}
END_TEST

START_TEST(every_byte_changed)
{
    static const uint8_t values[] = {0, ' ', '"', '0', '9', '-', '{', '}', '[', ',', ':', '\\', 0xff};
    size_t refused = 0;
    make("{\"__metadata__\":{\"format\":\"pt\"}," A8 ",\"b\":" T("U8", "[16]", "[8,24]") "}  ", 24);
    for (size_t at = 0; at < file.size - 24; at++)
        for (size_t v = 0; v < sizeof values; v++) {
            struct kt_checkpoint *checkpoint = NULL;
            uint8_t saved = file.data[at];
            file.data[at] = values[v];
            enum kt_status status = open_bytes(file.data, file.size, KT_IO_READ, &checkpoint, &error);
            file.data[at] = saved;
            ck_assert_msg((status == KT_OK) == (checkpoint != NULL), "byte %d", (int)at);
            refused += status != KT_OK;
            kt_checkpoint_close(checkpoint);
        }
    ck_assert_uint_gt(refused, 500);
}
END_TEST

START_TEST(recorded_trace)
{
    struct kt_checkpoint *checkpoint;
    struct kt_tensor_info info;
    const void *data;
    uint64_t index;
    char *path = data_path("tiny-moe/trace.safetensors");
    ck_assert_msg(kt_checkpoint_open(path, NULL, &checkpoint, &error) == KT_OK, "%s", error.message);
    free(path);
    ck_assert_int_eq(kt_checkpoint_find(checkpoint, "layers.3.topk_ids", &index, &error), KT_OK);
    ck_assert_int_eq(kt_checkpoint_tensor(checkpoint, index, &info, &error), KT_OK);
    ck_assert_uint_eq(info.dtype, KT_DTYPE_I64);
    ck_assert_uint_eq(info.n_dims, 2);
    ck_assert_uint_eq(info.dims[0], 128);
    ck_assert_uint_eq(info.dims[1], 2);
    ck_assert_int_eq(kt_checkpoint_data(checkpoint, index, &data, &error), KT_OK);
    const int64_t *ids = data;
    for (int i = 0; i < 256; i++)
        ck_assert(ids[i] >= 0 && ids[i] < 8 && ids[i] != ids[i ^ 1]);
    kt_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("safetensors");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, malformed_files, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(tests, lengths);
    tcase_add_test(tests, bombs);
    tcase_add_test(tests, strings);
    tcase_add_loop_test(tests, right_file, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_loop_test(tests, unknown_types, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, wide_limits);
    tcase_add_loop_test(tests, cut_at_every_byte, KT_IO_MMAP, KT_IO_READ + 1);
    tcase_add_test(tests, every_byte_changed);
    tcase_add_test(tests, recorded_trace);
    return run_tests("safetensors", tests);
}
