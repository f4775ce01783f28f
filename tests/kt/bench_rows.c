/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the JSON of `kt bench` and checks that a row has exactly the documented fields and that
 * they agree with one another. No time is judged. bench_rows N_ROWS MAX_KERNEL_ERROR
 * RUNS_TIMES_REPEATS < json
 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n_failed;

static void expect(int good, const char *what, size_t row)
{
    if (good)
        return;
    fprintf(stderr, "row %zu: %s\n", row, what);
    n_failed++;
}

static const char *const texts[] = {"backend", "level", "source_type", "kind", "model_layers", "activation"};
static const char *const numbers[] = {
    "hidden_size",  "intermediate_size", "n_experts",    "top_k",
    "n_tokens",     "n_threads",         "ms_median",    "ms_min",
    "ms_max",       "repeats",           "tokens_per_s", "weight_bytes",
    "packed_bytes", "weight_gbps",       "read_gbps",    "tops",
    "peak_tops",    "roofline_fraction", "kernel_error", "total_error",
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static double number(json_t *row, const char *name)
{
    return json_number_value(json_object_get(row, name));
}

static int near(double a, double b)
{
    return fabs(a - b) <= 1e-3 * fabs(b);
}

/* Formats that llamafile packs into other codes: bytes of 256 weights in the source, and packed. */
static const struct repacked {
    const char *type;
    double source, packed;
} repacked[] = {
    {"iq1_s", 50, 106},   {"iq1_m", 56, 114},  {"iq2_xxs", 66, 106}, {"iq2_xs", 74, 114}, {"iq2_s", 82, 114},
    {"iq3_xxs", 98, 138}, {"iq3_s", 110, 138}, {"tq1_0", 54, 66},    {"nvfp4", 144, 160}, {"q2_0", 72, 80},
};

/* Packed bytes for each byte of the source. */
static double find_ratio(json_t *row)
{
    const char *type = json_string_value(json_object_get(row, "source_type"));
    for (size_t i = 0; type != NULL && i < COUNT(repacked); i++)
        if (strcmp(repacked[i].type, type) == 0)
            return repacked[i].packed / repacked[i].source;
    return 1;
}

static void check_row(json_t *row, size_t index, double max_error, double repeats)
{
    expect(json_object_size(row) == COUNT(texts) + COUNT(numbers), "fields are missing or too many", index);
    for (size_t i = 0; i < COUNT(texts); i++)
        expect(json_is_string(json_object_get(row, texts[i])), texts[i], index);
    for (size_t i = 0; i < COUNT(numbers); i++)
        expect(json_is_number(json_object_get(row, numbers[i])), numbers[i], index);

    double ms = number(row, "ms_median"), tokens = number(row, "n_tokens");
    double weights = number(row, "weight_bytes"), packed = number(row, "packed_bytes");
    const char *kind = json_string_value(json_object_get(row, "kind"));
    const char *activation = json_string_value(json_object_get(row, "activation"));
    double matrices = kind != NULL && strcmp(kind, "linear") == 0              ? 1
                      : activation != NULL && strcmp(activation, "relu2") == 0 ? 2
                                                                               : 3;
    double operations = 2 * matrices * number(row, "hidden_size") * number(row, "intermediate_size") *
                        number(row, "top_k") * tokens;
    double memory = weights / number(row, "read_gbps") / 1e6;
    double product = operations / number(row, "peak_tops") / 1e9;
    expect(ms > 0 && number(row, "ms_min") <= ms && ms <= number(row, "ms_max"),
           "ms_min, ms_median, ms_max are out of order", index);
    expect(number(row, "repeats") == repeats, "repeats", index);
    expect(near(number(row, "tokens_per_s"), tokens / ms * 1e3), "tokens_per_s", index);
    expect(near(number(row, "weight_gbps"), weights / ms / 1e6), "weight_gbps", index);
    expect(near(number(row, "tops"), operations / ms / 1e9), "tops", index);
    expect(near(number(row, "roofline_fraction"), fmax(memory, product) / ms), "roofline_fraction", index);
    double wanted = weights * find_ratio(row);
    expect(packed > 0.9999 * wanted && packed <= 1.05 * wanted, "packed_bytes", index);
    expect(number(row, "kernel_error") > 0 && number(row, "kernel_error") < max_error, "kernel_error", index);
    expect(number(row, "total_error") > 0 && number(row, "total_error") < max_error, "total_error", index);
    /* One token touches top_k experts; their nominal bytes are known for these types. */
    const char *type = json_string_value(json_object_get(row, "source_type"));
    double bits = type == NULL ? 0 : strcmp(type, "q4_k") == 0 ? 4.5 : strcmp(type, "bf16") == 0 ? 16 : 0;
    if (tokens == 1 && bits > 0)
        expect(weights == operations / 2 * bits / 8, "weight_bytes", index);
}

int main(int argc, char **argv)
{
    json_error_t error;
    json_t *root = argc == 4 ? json_loadf(stdin, 0, &error) : NULL;
    if (root == NULL) {
        fprintf(stderr, "no JSON: %s\n", argc == 4 ? error.text : "three arguments are needed");
        return 1;
    }
    json_t *rows = json_object_get(root, "rows"), *limits = json_object_get(root, "limits");
    size_t n_rows = strtoul(argv[1], NULL, 10);
    expect(json_array_size(rows) == n_rows, "number of rows", 0);
    expect(json_array_size(limits) >= 2, "limits", 0);
    for (size_t i = 0; i < json_array_size(rows); i++)
        check_row(json_array_get(rows, i), i, strtod(argv[2], NULL), strtod(argv[3], NULL));
    json_decref(root);
    return n_failed != 0;
}
