/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata of a GGUF file by key, and what is said where it is of another type. */
#include "tests/support/gguf_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>

static struct kt_error error;
static struct bytes file;
static struct kt_checkpoint *checkpoint;

static void put_array(const char *name, uint32_t element, uint64_t count)
{
    put_string(&file, name);
    put_u32(&file, 9);
    put_u32(&file, element);
    put_u64(&file, count);
}

/* A key of each type, and arrays. */
static void build(void)
{
    static const char *const tokens[] = {"<s>", "", "\xff\n a"};
    file.size = 0;
    put_header(&file, 3, 1, 16);
    put_key_string(&file, "general.architecture", "test");
    put_key(&file, "u8", KT_VALUE_U8, 255);
    put_key(&file, "i8", KT_VALUE_I8, 0xfe);
    put_key(&file, "u16", KT_VALUE_U16, 65535);
    put_key(&file, "i16", KT_VALUE_I16, 0x8000);
    put_key(&file, "u32", KT_VALUE_U32, UINT32_MAX);
    put_key(&file, "i32", KT_VALUE_I32, 7);
    put_key(&file, "f32", KT_VALUE_F32, 0x3fc00000);
    put_key(&file, "truth", KT_VALUE_BOOL, 1);
    put_key(&file, "u64", KT_VALUE_U64, UINT64_MAX);
    put_key(&file, "i64", KT_VALUE_I64, (uint64_t)-5);
    put_key(&file, "f64", KT_VALUE_F64, 0xbff8000000000000);
    put_array("tokens", KT_VALUE_TEXT, 3);
    for (int i = 0; i < 3; i++)
        put_string(&file, tokens[i]);
    put_array("scores", KT_VALUE_F32, 2);
    put_u32(&file, 0x40000000);
    put_u32(&file, 0xbf800000);
    put_array("types", KT_VALUE_I8, 3);
    put_raw(&file, "\x01\x80\x7f", 3);
    put_array("none", KT_VALUE_U32, 0);
    put_tensor(&file, "t", 1, (uint64_t[]){8}, 0, 0);
    put_padding(&file, 32);
    put_zeros(&file, 64);
}

static void open_file(enum kt_io io)
{
    build();
    ck_assert_msg(open_bytes(file.data, file.size, io, &checkpoint, &error) == KT_OK, "%s", error.message);
}

static struct kt_value find(const char *key)
{
    struct kt_value value;
    ck_assert_msg(kt_checkpoint_value_find(checkpoint, key, &value, &error) == KT_OK, "%s", error.message);
    ck_assert_str_eq(value.key, key);
    return value;
}

START_TEST(numbers_of_each_type)
{
    static const struct {
        const char *key;
        uint64_t whole;
        bool is_negative;
        double real;
    } numbers[] = {{"u8", 255, false, 255},
                   {"i8", (uint64_t)-2, true, -2},
                   {"u16", 65535, false, 65535},
                   {"i16", (uint64_t)-32768, true, -32768},
                   {"u32", UINT32_MAX, false, 4294967295.0},
                   {"i32", 7, false, 7},
                   {"u64", UINT64_MAX, false, 18446744073709551615.0},
                   {"i64", (uint64_t)-5, true, -5}};
    open_file(_i ? KT_IO_READ : KT_IO_MMAP);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct kt_value value = find(numbers[i].key);
        uint64_t whole;
        int64_t signed_one;
        double real;
        ck_assert_uint_eq(value.count, 1);
        ck_assert_uint_eq(value.is_array, 0);
        ck_assert_int_eq(kt_value_real(&value, 0, &real, &error), KT_OK);
        ck_assert_double_eq(real, numbers[i].real);
        enum kt_status status = kt_value_uint(&value, 0, &whole, &error);
        ck_assert_int_eq(status, numbers[i].is_negative ? KT_E_FORMAT : KT_OK);
        if (status == KT_OK)
            ck_assert_uint_eq(whole, numbers[i].whole);
        else
            ck_assert_ptr_nonnull(strstr(error.message, "below 0"));
        status = kt_value_int(&value, 0, &signed_one, &error);
        ck_assert_int_eq(status, numbers[i].real > 9e18 ? KT_E_FORMAT : KT_OK);
        if (status == KT_OK)
            ck_assert_int_eq(signed_one, (int64_t)numbers[i].whole);
    }
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(reals_and_truth)
{
    double real;
    int truth;
    open_file(KT_IO_MMAP);
    struct kt_value f32 = find("f32"), f64 = find("f64"), yes = find("truth");
    ck_assert_int_eq(kt_value_real(&f32, 0, &real, &error), KT_OK);
    ck_assert_double_eq(real, 1.5);
    ck_assert_int_eq(kt_value_real(&f64, 0, &real, &error), KT_OK);
    ck_assert_double_eq(real, -1.5);
    ck_assert_int_eq(kt_value_bool(&yes, 0, &truth, &error), KT_OK);
    ck_assert_int_eq(truth, 1);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(arrays_and_texts)
{
    uint64_t at = 0, length, n = 0;
    const char *text;
    double real;
    int64_t whole;
    open_file(_i ? KT_IO_READ : KT_IO_MMAP);
    struct kt_value tokens = find("tokens"), scores = find("scores"), types = find("types"),
                    none = find("none"), name = find("general.architecture");
    ck_assert_uint_eq(tokens.count, 3);
    static const uint64_t lengths[] = {3, 0, 4};
    for (; at < tokens.size; n++) {
        ck_assert_int_eq(kt_value_text(&tokens, &at, &text, &length, &error), KT_OK);
        ck_assert_uint_eq(length, lengths[n]);
        ck_assert_int_eq(memcmp(text, n == 0 ? "<s>" : "\xff\n a", (size_t)length), 0);
    }
    ck_assert_uint_eq(n, 3);
    ck_assert_int_eq(kt_value_text(&tokens, &at, &text, &length, &error), KT_E_RANGE);
    at = 1; /* no text begins there */
    ck_assert_int_eq(kt_value_text(&tokens, &at, &text, &length, &error), KT_E_RANGE);
    at = 0;
    ck_assert_int_eq(kt_value_text(&name, &at, &text, &length, &error), KT_OK);
    ck_assert_uint_eq(length, 4);
    ck_assert_uint_eq(at, name.size);
    ck_assert_int_eq(kt_value_real(&scores, 1, &real, &error), KT_OK);
    ck_assert_double_eq(real, -1);
    ck_assert_int_eq(kt_value_int(&types, 1, &whole, &error), KT_OK);
    ck_assert_int_eq(whole, -128);
    ck_assert_int_eq(kt_value_int(&types, 3, &whole, &error), KT_E_RANGE);
    ck_assert_ptr_nonnull(strstr(error.message, "key \"types\": element 3 was asked for; it has 3"));
    ck_assert_uint_eq(none.count, 0);
    ck_assert_int_eq(kt_value_int(&none, 0, &whole, &error), KT_E_RANGE);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(other_types_are_named)
{
    uint64_t whole, at = 0, length;
    const char *text;
    double real;
    int truth;
    open_file(KT_IO_MMAP);
    struct kt_value name = find("general.architecture"), f32 = find("f32"), scores = find("scores"),
                    truth_value = find("truth");
    ck_assert_int_eq(kt_value_uint(&name, 0, &whole, &error), KT_E_FORMAT);
    ck_assert_str_eq(error.message,
                     "key \"general.architecture\" is of type string; a whole number is needed");
    ck_assert_int_eq(kt_value_uint(&f32, 0, &whole, &error), KT_E_FORMAT);
    ck_assert_int_eq(kt_value_uint(&truth_value, 0, &whole, &error), KT_E_FORMAT);
    ck_assert_int_eq(kt_value_real(&truth_value, 0, &real, &error), KT_E_FORMAT);
    ck_assert_int_eq(kt_value_bool(&f32, 0, &truth, &error), KT_E_FORMAT);
    ck_assert_int_eq(kt_value_text(&scores, &at, &text, &length, &error), KT_E_FORMAT);
    ck_assert_str_eq(error.message, "key \"scores\" is of type array of f32; a string is needed");
    ck_assert_int_eq(kt_value_uint(NULL, 0, &whole, &error), KT_E_INVALID);
    kt_checkpoint_close(checkpoint);
}
END_TEST

START_TEST(keys_in_order)
{
    struct kt_value value, before = {0};
    open_file(KT_IO_MMAP);
    uint64_t n = kt_checkpoint_value_count(checkpoint);
    ck_assert_uint_eq(n, 16);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_int_eq(kt_checkpoint_value(checkpoint, i, &value, &error), KT_OK);
        ck_assert(!before.key || strcmp(before.key, value.key) < 0);
        before = value;
    }
    ck_assert_int_eq(kt_checkpoint_value(checkpoint, n, &value, &error), KT_E_RANGE);
    ck_assert_int_eq(kt_checkpoint_value_find(checkpoint, "general.nam", &value, &error), KT_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.message, "has no key \"general.nam\" among its 16"));
    ck_assert_uint_eq(kt_checkpoint_value_count(NULL), 0);
    kt_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("values");
    tcase_add_loop_test(tests, numbers_of_each_type, 0, 2);
    tcase_add_test(tests, reals_and_truth);
    tcase_add_loop_test(tests, arrays_and_texts, 0, 2);
    tcase_add_test(tests, other_types_are_named);
    tcase_add_test(tests, keys_in_order);
    return run_tests("values", tests);
}
