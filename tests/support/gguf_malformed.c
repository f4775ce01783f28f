/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_malformed.c - malformed GGUF files by name, each with its status and what the message must
 * say. */
#include "tests/support/gguf_build.h"

#include <stdio.h>

static struct bytes file;

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };
enum { TYPE_F32 = 0, TYPE_Q4_K = 12, TYPE_Q8_0 = 8 };

static void start(uint64_t n_tensors, uint64_t n_keys)
{
    file.size = 0;
    put_header(&file, 3, n_tensors, n_keys);
}

/* a: version */
static void make_version(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    file.size = 0;
    put_header(&file, (uint32_t)a, 0, 0);
    put_zeros(&file, 64);
}

/* a: tensors, b: keys */
static void make_counts(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    start(a, b);
    put_zeros(&file, 300);
}

/* a: length of a key's name, b: bytes that follow */
static void make_key_name(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    start(0, 1);
    put_u64(&file, a);
    for (uint64_t i = 0; i < b; i++)
        put_u8(&file, 'k');
}

/* a: a byte inside the name of a key */
static void make_key_letter(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    char name[] = "some?key";
    name[4] = (char)a;
    start(0, 1);
    put_u64(&file, 8);
    put_raw(&file, name, 8);
    put_u32(&file, U32);
    put_u32(&file, 1);
    put_zeros(&file, 64);
}

/* a: type of a key, b: value */
static void make_key_type(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    start(0, 1);
    put_key(&file, "some.key", (uint32_t)a, b);
    put_zeros(&file, 64);
}

/* a: length of a string value, b: 0 some key, 1 the name, 2 the architecture */
static void make_string(uint64_t a, uint64_t b, uint64_t c)
{
    static const char *const names[] = {"some.key", "general.name", "general.architecture"};
    (void)c;
    start(0, 1);
    put_string(&file, names[b]);
    put_u32(&file, STRING);
    put_u64(&file, a);
    for (int i = 0; i < 100; i++)
        put_u8(&file, 'a');
}

/* a: element type, b: count, c: bytes that follow */
static void make_array(uint64_t a, uint64_t b, uint64_t c)
{
    start(0, 1);
    put_string(&file, "some.array");
    put_u32(&file, ARRAY);
    put_u32(&file, (uint32_t)a);
    put_u64(&file, b);
    put_zeros(&file, c);
}

/* a: arrays inside of each other, the innermost of u16, b: its count, c: bytes that follow */
static void make_nested(uint64_t a, uint64_t b, uint64_t c)
{
    start(0, 1);
    put_string(&file, "some.array");
    put_u32(&file, ARRAY);
    for (uint64_t i = 1; i < a; i++) {
        put_u32(&file, ARRAY);
        put_u64(&file, 1);
    }
    put_u32(&file, U16);
    put_u64(&file, b);
    put_zeros(&file, c);
}

/* a: type of the array in an array, after an empty one and one of strings */
static void make_nested_type(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(0, 1);
    put_string(&file, "some.array");
    put_u32(&file, ARRAY);
    put_u32(&file, ARRAY);
    put_u64(&file, 3);
    put_u32(&file, ARRAY);
    put_u64(&file, 0);
    put_u32(&file, STRING);
    put_u64(&file, 1);
    put_string(&file, "text");
    put_u32(&file, (uint32_t)a);
    put_u64(&file, 1);
    put_zeros(&file, 64);
}

/* a: length of a key's name, of a whole number */
static void make_long_key(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(0, 1);
    put_u64(&file, a);
    for (uint64_t i = 0; i < a; i++)
        put_u8(&file, 'k');
    put_u32(&file, U32);
    put_u32(&file, 1);
}

/* A list of strings like a tokenizer's, the second of which claims a bytes. */
static void make_tokens(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(0, 1);
    put_string(&file, "tokenizer.ggml.tokens");
    put_u32(&file, ARRAY);
    put_u32(&file, STRING);
    put_u64(&file, 3);
    put_string(&file, "one");
    put_u64(&file, a);
    put_zeros(&file, 40);
}

static void put_data(void)
{
    put_padding(&file, 32);
    put_zeros(&file, 512);
}

/* a: type of general.alignment, b: value */
static void make_alignment(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    start(1, 1);
    put_key(&file, "general.alignment", (uint32_t)a, b);
    put_tensor(&file, "t", 1, (uint64_t[]){8}, TYPE_F32, 0);
    put_data();
}

static void make_alignment_array(uint64_t a, uint64_t b, uint64_t c)
{
    (void)a, (void)b, (void)c;
    start(0, 1);
    put_string(&file, "general.alignment");
    put_u32(&file, ARRAY);
    put_u32(&file, U32);
    put_u64(&file, 1);
    put_u32(&file, 32);
    put_data();
}

static void make_duplicate_key(uint64_t a, uint64_t b, uint64_t c)
{
    (void)a, (void)b, (void)c;
    start(0, 3);
    put_key(&file, "one.key", U32, 1);
    put_key(&file, "other.key", U32, 1);
    put_key(&file, "one.key", U8, 1);
    put_data();
}

/* a: 0 wrong type of the architecture, 1 of the name */
static void make_string_type(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(0, 1);
    put_key(&file, a ? "general.name" : "general.architecture", U32, 1);
    put_data();
}

/* a: number of dimensions, as claimed; four follow */
static void make_dims(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(1, 0);
    put_string(&file, "t");
    put_u32(&file, (uint32_t)a);
    for (int i = 0; i < 4; i++)
        put_u64(&file, 2);
    put_u32(&file, TYPE_F32);
    put_u64(&file, 0);
    put_data();
}

/* A tensor of dimensions a x b of type c. */
static void make_shape(uint64_t a, uint64_t b, uint64_t c)
{
    start(1, 0);
    put_tensor(&file, "t", 2, (uint64_t[]){a, b}, (uint32_t)c, 0);
    put_data();
}

/* A tensor of 4 dimensions a x b x c x c of Q4_K. */
static void make_blocks(uint64_t a, uint64_t b, uint64_t c)
{
    start(1, 0);
    put_tensor(&file, "t", 4, (uint64_t[]){a, b, c, c}, TYPE_Q4_K, 0);
    put_data();
}

/* One of 8 floats at offset a. */
static void make_offset(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(1, 0);
    put_tensor(&file, "t", 1, (uint64_t[]){8}, TYPE_F32, a);
    put_data();
}

/* Two tensors of a and b floats, the second at offset c. */
static void make_two(uint64_t a, uint64_t b, uint64_t c)
{
    start(2, 0);
    put_tensor(&file, "first", 1, (uint64_t[]){a}, TYPE_F32, 0);
    put_tensor(&file, "second", 1, (uint64_t[]){b}, TYPE_F32, c);
    put_data();
}

/* A hundred tensors of a bytes each, one after the other as they claim. */
static void make_many(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(100, 0);
    for (uint64_t i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", (int)i);
        put_tensor(&file, name, 1, (uint64_t[]){a / 4}, TYPE_F32, i * a);
    }
    put_data();
}

/* a and b: types of two tensors at one place */
static void make_twins(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    start(2, 0);
    put_tensor(&file, "first", 1, (uint64_t[]){8}, (uint32_t)a, 0);
    put_tensor(&file, "second", 1, (uint64_t[]){8}, (uint32_t)b, 0);
    put_data();
}

static void make_scalar(uint64_t a, uint64_t b, uint64_t c)
{
    (void)a, (void)b, (void)c;
    start(1, 0);
    put_tensor(&file, "t", 0, NULL, TYPE_F32, 0);
    put_data();
}

static void make_same_names(uint64_t a, uint64_t b, uint64_t c)
{
    (void)a, (void)b, (void)c;
    start(3, 0);
    put_tensor(&file, "twin", 1, (uint64_t[]){8}, TYPE_F32, 0);
    put_tensor(&file, "other", 1, (uint64_t[]){8}, TYPE_F32, 32);
    put_tensor(&file, "twin", 1, (uint64_t[]){8}, TYPE_F32, 64);
    put_data();
}

/* A name is cut off by the end of the file: the duplicate check must not see it. */
static void make_half_name(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(1, 1);
    put_key(&file, "some.key", U32, 1);
    put_u64(&file, a);
    put_raw(&file, "tens", 4);
    put_zeros(&file, 28);
}

static void make_tensor_name(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    start(1, 0);
    put_u64(&file, a);
    put_zeros(&file, 400);
}

static void make_text(uint64_t a, uint64_t b, uint64_t c)
{
    (void)c;
    file.size = 0;
    put_number(&file, a, 8);
    put_zeros(&file, b);
}

#define NONE 0, 0, 0
const struct malformed malformed_gguf[] = {
    {"n_kv 2^32-1 (CVE-2024-23605)", make_counts, 0, UINT32_MAX, 0, KT_E_FORMAT,
     "claims 4294967295 metadata keys"},
    {"n_kv 2^61 (CVE-2024-23605)", make_counts, 0, UINT64_C(1) << 61, 0, KT_E_FORMAT,
     "claims 2305843009213693952 metadata keys"},
    {"n_kv 2^64-1 (CVE-2024-23605)", make_counts, 0, UINT64_MAX, 0, KT_E_FORMAT,
     "claims 18446744073709551615 metadata keys; the 300 bytes"},
    {"n_kv one too many", make_counts, 0, 22, 0, KT_E_FORMAT, "hold at most 21"},
    {"n_tensors 2^64-1 (CVE-2024-21836)", make_counts, UINT64_MAX, 0, 0, KT_E_FORMAT,
     "claims 18446744073709551615 tensors"},
    {"n_tensors 2^58 (CVE-2024-21836)", make_counts, UINT64_C(1) << 58, 0, 0, KT_E_FORMAT,
     "claims 288230376151711744 tensors"},
    {"n_tensors one too many", make_counts, 13, 0, 0, KT_E_FORMAT, "hold at most 12"},
    {"n_dims 5 (CVE-2024-21802)", make_dims, 5, 0, 0, KT_E_FORMAT,
     "tensor \"t\" has 5 dimensions; at most 4"},
    {"n_dims 2^32-1 (CVE-2024-21802)", make_dims, UINT32_MAX, 0, 0, KT_E_FORMAT, "4294967295 dimensions"},
    {"array n * size wraps (CVE-2024-21825)", make_array, U64, UINT64_C(1) << 61, 64, KT_E_FORMAT,
     "2305843009213693952 elements of u64; the 64 bytes left hold at most 8"},
    {"array n * size wraps to little (CVE-2024-21825)", make_array, U32, (UINT64_C(1) << 62) + 1, 64,
     KT_E_FORMAT, "elements of u32"},
    {"array of strings, count 2^60 (CVE-2024-21825)", make_array, STRING, UINT64_C(1) << 60, 64, KT_E_FORMAT,
     "elements of string; the 64 bytes left hold at most 8"},
    {"array of u8, count 2^64-1", make_array, U8, UINT64_MAX, 64, KT_E_FORMAT,
     "18446744073709551615 elements of u8"},
    {"array one too long", make_array, U16, 33, 64, KT_E_FORMAT, "at most 32"},
    {"string length 2^64-1 (CVE-2024-23496)", make_string, UINT64_MAX, 0, 0, KT_E_FORMAT,
     "the value of key \"some.key\" takes 18446744073709551615 bytes"},
    {"name length 2^64-1 (CVE-2024-23496)", make_string, UINT64_MAX, 1, 0, KT_E_FORMAT,
     "\"general.name\" takes 18446744073709551615 bytes"},
    {"architecture length 2^64-1 (CVE-2024-23496)", make_string, UINT64_MAX, 2, 0, KT_E_FORMAT,
     "not a name of 1 to 63 characters"},
    {"key length 2^64-1 (CVE-2024-23496)", make_key_name, UINT64_MAX, 50, 0, KT_E_FORMAT,
     "18446744073709551615 characters; 1 to 65535"},
    {"key length 1 GiB (llama.cpp 19003)", make_key_name, 1 << 30, 50, 0, KT_E_FORMAT,
     "1073741824 characters"},
    {"string of 1 GiB (llama.cpp 19003)", make_string, 1 << 30, 0, 0, KT_E_FORMAT,
     "takes 1073741824 bytes, but the file ends after 100"},
    {"token of 2^31 bytes (CVE-2025-49847)", make_tokens, UINT64_C(1) << 31, 0, 0, KT_E_FORMAT,
     "\"tokenizer.ggml.tokens\" takes 2147483648 bytes"},
    {"token of 2^64-8 bytes (CVE-2025-52566)", make_tokens, UINT64_MAX - 7, 0, 0, KT_E_FORMAT,
     "takes 18446744073709551608 bytes"},
    {"name cut off before the duplicate check (CVE-2024-41130)", make_half_name, 200, 0, 0, KT_E_FORMAT,
     "the name of a tensor takes 200 bytes, but the file ends after 32"},
    {"name of zeros", make_half_name, 8, 0, 0, KT_E_FORMAT, "control character"},
    {"two tensors of 2^63-64 bytes (CVE-2025-53630)", make_two, 0x1FFFFFFFFFFFFFF0, 0x1FFFFFFFFFFFFFF0,
     0x7FFFFFFFFFFFFFC0, KT_E_FORMAT, "tensor \"first\", 9223372036854775744 bytes"},
    {"sum of padded sizes wraps (CVE-2026-27940)", make_many, UINT64_C(1) << 58, 0, 0, KT_E_FORMAT,
     "beyond the end of the file"},
    {"size of quantized type wraps (CVE-2026-33298)", make_shape, UINT64_C(1) << 32, (UINT64_C(1) << 31) - 1,
     2, KT_E_FORMAT, "beyond the end of the file"},
    {"size of a long row wraps (CVE-2026-33298)", make_shape, UINT64_C(1) << 62, 8, TYPE_Q8_0, KT_E_FORMAT,
     "dimension 1 of tensor \"t\" is 8; each must be"},
    {"blocks of 4 dimensions wrap (CVE-2026-33298)", make_blocks, 256, UINT64_C(1) << 20, UINT64_C(1) << 20,
     KT_E_FORMAT, "product below 2^63"},
    {"F32 bytes wrap to 0 (CVE-2026-33298)", make_shape, UINT64_C(1) << 61, 2, TYPE_F32, KT_E_FORMAT,
     "overflows"},
    {"f64 bytes wrap to 0", make_shape, UINT64_C(1) << 61, 1, 28, KT_E_FORMAT, "overflows"},
    {"size near SIZE_MAX (llama.cpp 26318)", make_shape, UINT64_MAX, 1, TYPE_F32, KT_E_FORMAT,
     "is 18446744073709551615; each must be"},
    {"size near SIZE_MAX, alignment 2^31 (llama.cpp 26318)", make_alignment, U32, UINT64_C(1) << 31, 0,
     KT_E_FORMAT, "from byte 2147483648"},
    {"dimension 0", make_shape, 0, 4, TYPE_F32, KT_E_FORMAT, "dimension 0 of tensor \"t\" is 0"},
    {"dimension 0 after a large one", make_shape, UINT64_MAX, 0, TYPE_F32, KT_E_FORMAT, "dimension 0"},
    {"alignment is i32 (llama.cpp 26318)", make_alignment, I32, 32, 0, KT_E_FORMAT,
     "\"general.alignment\" is of type i32; u32 is needed"},
    {"alignment is u64", make_alignment, U64, 32, 0, KT_E_FORMAT, "of type u64"},
    {"alignment is an array", make_alignment_array, NONE, KT_E_FORMAT, "of type array of u32"},
    {"alignment 0 (CVE-2025-0315)", make_alignment, U32, 0, 0, KT_E_FORMAT, "is 0; a power of two"},
    {"alignment 13", make_alignment, U32, 13, 0, KT_E_FORMAT, "is 13; a power of two"},
    {"alignment 2^32-1", make_alignment, U32, UINT32_MAX, 0, KT_E_FORMAT, "power of two"},
    {"offset not aligned", make_offset, 4, 0, 0, KT_E_FORMAT,
     "the offset of tensor \"t\" is 4; a multiple of general.alignment, 32"},
    {"offset beyond the end (CVE-2026-7482)", make_offset, 512, 0, 0, KT_E_FORMAT, "tensor \"t\", 32 bytes"},
    {"size beyond the end (CVE-2026-7482)", make_shape, 129, 1, TYPE_F32, KT_E_FORMAT,
     "tensor \"t\", 516 bytes"},
    {"offset 2^63 (CVE-2026-7482)", make_offset, UINT64_C(1) << 63, 0, 0, KT_E_FORMAT, "beyond the end"},
    {"offset wraps", make_offset, UINT64_MAX - 31, 0, 0, KT_E_FORMAT, "beyond the end"},
    {"huge dimensions (CVE-2024-12055 and like it)", make_shape, UINT64_C(1) << 40, UINT64_C(1) << 20,
     TYPE_F32, KT_E_FORMAT, "beyond the end"},
    {"overlap", make_two, 16, 8, 32, KT_E_FORMAT, "tensor \"first\", 64 bytes"},
    {"overlap by one byte", make_two, 9, 8, 32, KT_E_FORMAT, "overlaps tensor \"second\""},
    {"same place", make_two, 8, 8, 0, KT_E_FORMAT, "overlaps"},
    {"two tensors of one name", make_same_names, NONE, KT_E_FORMAT, "two tensors have the name \"twin\""},
    {"two keys of one name", make_duplicate_key, NONE, KT_E_FORMAT,
     "key \"one.key\" is a duplicate, at byte 24 and at byte 72"},
    {"arrays in an array, one too many", make_array, ARRAY, 6, 64, KT_E_FORMAT,
     "6 elements of array; the 64 bytes left hold at most 5"},
    {"an array in an array, count 2^60", make_nested, 2, UINT64_C(1) << 60, 64, KT_E_FORMAT,
     "1152921504606846976 elements of u16; the 64 bytes left hold at most 32"},
    {"an array in an array, of an unknown type", make_nested_type, 13, 0, 0, KT_E_FORMAT, "array of type 13"},
    {"arrays 17 deep", make_nested, 17, 1, 64, KT_E_UNSUPPORTED, "nests arrays deeper than 16"},
    {"array of an unknown type", make_array, 13, 1, 64, KT_E_FORMAT, "array of type 13"},
    {"array of type 2^32-1", make_array, UINT32_MAX, 1, 64, KT_E_FORMAT, "array of type 4294967295"},
    {"key of an unknown type", make_key_type, 13, 0, 0, KT_E_FORMAT,
     "key \"some.key\" is of type 13; 0 to 12"},
    {"key of type 2^32-1", make_key_type, UINT32_MAX, 0, 0, KT_E_FORMAT, "is of type 4294967295"},
    {"bool 2", make_key_type, BOOL, 2, 0, KT_E_FORMAT, "is a bool of value 2"},
    {"architecture is a number", make_string_type, 0, 0, 0, KT_E_FORMAT,
     "\"general.architecture\" is of type u32"},
    {"name is a number", make_string_type, 1, 0, 0, KT_E_FORMAT, "\"general.name\" is of type u32"},
    {"architecture is empty", make_string, 0, 2, 0, KT_E_FORMAT, "not a name of 1 to 63 characters"},
    {"architecture is long", make_string, 64, 2, 0, KT_E_FORMAT, "not a name of 1 to 63 characters"},
    {"key without a name", make_key_name, 0, 50, 0, KT_E_FORMAT, "0 characters"},
    {"key of 65536 letters", make_key_name, 65536, 66000, 0, KT_E_FORMAT, "65536 characters; 1 to 65535"},
    {"key with a newline", make_key_letter, '\n', 0, 0, KT_E_FORMAT,
     "byte 24: the name of a metadata key holds a control character"},
    {"key with a NUL", make_key_letter, 0, 0, 0, KT_E_FORMAT, "control character"},
    {"key with an escape", make_key_letter, 27, 0, 0, KT_E_FORMAT, "control character"},
    {"key with half a letter", make_key_letter, 0xc3, 0, 0, KT_E_FORMAT, "not UTF-8"},
    {"key with a stray byte", make_key_letter, 0x80, 0, 0, KT_E_FORMAT, "not UTF-8"},
    {"key with byte 0xff", make_key_letter, 0xff, 0, 0, KT_E_FORMAT, "not UTF-8"},
    {"tensor without a name", make_tensor_name, 0, 0, 0, KT_E_FORMAT,
     "the name of a tensor has 0 characters"},
    {"tensor name of 2^64-1", make_tensor_name, UINT64_MAX, 0, 0, KT_E_FORMAT,
     "18446744073709551615 characters"},
    {"two unknown types at one place", make_twins, 43, 44, 0, KT_E_FORMAT, "overlaps tensor"},
    {"row cuts a block", make_shape, 48, 4, TYPE_Q8_0, KT_E_FORMAT,
     "a row of tensor \"t\" has 48 weights; type q8_0 needs a multiple of 32"},
    {"row cuts a superblock", make_shape, 128, 4, TYPE_Q4_K, KT_E_FORMAT, "q4_k needs a multiple of 256"},
    {"version 0", make_version, 0, 0, 0, KT_E_UNSUPPORTED, "GGUF version 0"},
    {"version 1", make_version, 1, 0, 0, KT_E_UNSUPPORTED, "GGUF version 1; versions 2 and 3"},
    {"version 4", make_version, 4, 0, 0, KT_E_UNSUPPORTED, "GGUF version 4"},
    {"big-endian, version 3", make_version, 0x03000000, 0, 0, KT_E_UNSUPPORTED, "big-endian"},
    {"big-endian, version 2", make_version, 0x02000000, 0, 0, KT_E_UNSUPPORTED, "big-endian"},
    {"short file (CVE-2024-39720)", make_text, 0x46554747, 0, 0, KT_E_UNSUPPORTED, "version 0"},
    {"four bytes of zeros", make_text, 0, 0, 0, KT_E_FORMAT, "neither a GGUF nor a safetensors file"},
    {"wrong magic", make_text, 0x46554748, 200, 0, KT_E_FORMAT, "begin with 48 47 55 46"},
};

const size_t n_malformed_gguf = sizeof malformed_gguf / sizeof malformed_gguf[0];

/* The builders of malformed files make right ones, too: it is the number that is refused. */
const struct malformed right_gguf[] = {
    {"no tensors, no keys", make_counts, 0, 0, 0, KT_OK, ""},
    {"version 2", make_version, 2, 0, 0, KT_OK, ""},
    {"alignment 1", make_alignment, U32, 1, 0, KT_OK, ""},
    {"alignment 32", make_alignment, U32, 32, 0, KT_OK, ""},
    {"alignment 256", make_alignment, U32, 256, 0, KT_OK, ""},
    {"4 dimensions", make_dims, 4, 0, 0, KT_OK, ""},
    {"no dimension", make_scalar, 0, 0, 0, KT_OK, ""},
    {"type 2^32-1", make_shape, 4, 4, UINT32_MAX, KT_OK, ""},
    {"type 4, which was removed", make_shape, 32, 4, 4, KT_OK, ""},
    {"type 43", make_shape, 32, 4, 43, KT_OK, ""},
    {"key of 257 letters", make_long_key, 257, 0, 0, KT_OK, ""},
    {"key of 65535 letters", make_long_key, 65535, 0, 0, KT_OK, ""},
    {"arrays 16 deep", make_nested, 16, 32, 64, KT_OK, ""},
    {"arrays in an array", make_nested_type, U8, 0, 0, KT_OK, ""},
    {"array as long as the file", make_array, U16, 32, 64, KT_OK, ""},
    {"empty array", make_array, STRING, 0, 0, KT_OK, ""},
    {"array of empty strings", make_array, STRING, 8, 64, KT_OK, ""},
    {"string as long as the file", make_string, 100, 0, 0, KT_OK, ""},
    {"architecture of 63 letters", make_string, 63, 2, 0, KT_OK, ""},
    {"key of a letter of two bytes", make_key_letter, 'x', 0, 0, KT_OK, ""},
    {"bool 1", make_key_type, BOOL, 1, 0, KT_OK, ""},
    {"f64", make_key_type, F64, 1, 0, KT_OK, ""},
    {"tokens", make_tokens, 4, 0, 0, KT_OK, ""},
    {"tensor up to the last byte", make_shape, 128, 1, TYPE_F32, KT_OK, ""},
    {"offset up to the last byte", make_offset, 480, 0, 0, KT_OK, ""},
    {"neighbors", make_two, 8, 8, 32, KT_OK, ""},
    {"a hole", make_two, 8, 8, 64, KT_OK, ""},
};

const size_t n_right_gguf = sizeof right_gguf / sizeof right_gguf[0];

const struct bytes *make_file(const struct malformed *description)
{
    description->make(description->a, description->b, description->c);
    return &file;
}
