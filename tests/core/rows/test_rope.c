/* SPDX-License-Identifier: Apache-2.0 */
/* test_rope.c - rotations of every level against their formula in double, and tables against numbers that
 * transformers of Hugging Face gives. */
#include "tests/core/rows/rows_model.h"
#include "tests/support/sandbox.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void check_rotation(const struct kt_rows *rows, uint32_t size, uint32_t pairing, bool picked,
                           uint64_t *seed)
{
    enum { ROWS = 4, HEADS = 3, TABLE_ROWS = 7 };
    static const uint32_t picks[ROWS] = {6, 0, 3, 3};
    struct plane data = plane_make(KT_DTYPE_F32, ROWS, HEADS, size + size / 2, 3, 1.0, seed), old = data;
    struct plane table = plane_make(KT_DTYPE_F32, TABLE_ROWS, 1, size, 2, 1.0, seed);
    struct kt_rows_rotate job = KT_ROWS_ROTATE_INIT;
    old.data = old.before;
    job.pairing = pairing;
    job.n_rows = ROWS;
    job.n_heads = HEADS;
    job.size = size;
    job.data = (float *)(void *)data.data;
    job.stride = data.stride;
    job.head_stride = data.part_stride;
    job.table = (const float *)(const void *)table.data;
    job.table_stride = table.stride;
    job.n_table_rows = TABLE_ROWS;
    job.table_row = picked ? picks : NULL;
    ck_ok(kt_rows_rotate(rows, &job, &ck_error));
    ck_holds(plane_gaps_kept(&data));
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t h = 0; h < HEADS; h++) {
            for (uint32_t i = 0; i < size / 2; i++) {
                uint32_t at = pairing == KT_ROPE_NEOX ? i : 2 * i;
                uint32_t other = pairing == KT_ROPE_NEOX ? i + size / 2 : 2 * i + 1,
                         t = picked ? picks[r] : r;
                double a = plane_get(&old, r, h, at), b = plane_get(&old, r, h, other);
                double c = plane_get(&table, t, 0, 2 * i), s = plane_get(&table, t, 0, 2 * i + 1);
                ck_near(plane_get(&data, r, h, at), a * c - b * s, 2 * UNIT * (fabs(a * c) + fabs(b * s)));
                ck_near(plane_get(&data, r, h, other), a * s + b * c, 2 * UNIT * (fabs(a * s) + fabs(b * c)));
            }
            for (uint32_t i = size; i < data.size; i++)
                ck_holds(plane_get(&data, r, h, i) == plane_get(&old, r, h, i));
        }
    plane_free(&data);
    plane_free(&table);
}

START_TEST(rotations_are_the_formula)
{
    static const uint32_t sizes[] = {2, 6, 16, 30, 32, 34, 64, 128, 256, 1024};
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 1;
    for (unsigned round = 0; rows && round < 4 * sizeof sizes / sizeof *sizes; round++)
        check_rotation(rows, sizes[round / 4], round % 2, round / 2 % 2, &seed);
    level_close();
}
END_TEST

/* NaN in a head stays there. */
START_TEST(nan_stays_in_its_pair)
{
    const struct kt_rows *rows = level_open(_i);
    uint64_t seed = 2;
    float table[64];
    struct kt_rope_params params = KT_ROPE_PARAMS_INIT;
    params.size = 64;
    params.base = 10000;
    ck_ok(kt_rope_table(&params, 5, 1, table, 0, &ck_error));
    for (uint32_t pairing = 0; rows && pairing < 2; pairing++) {
        float *x = floats_make(192, 1.0, &seed);
        struct kt_rows_rotate job = KT_ROWS_ROTATE_INIT;
        x[64 + 10] = NAN;
        job.pairing = pairing;
        job.n_rows = 1;
        job.n_heads = 3;
        job.size = 64;
        job.data = x;
        job.table = table;
        job.n_table_rows = 1;
        ck_ok(kt_rows_rotate(rows, &job, &ck_error));
        for (uint32_t i = 0; i < 192; i++)
            ck_holds(isnan(x[i]) == (i == 64 + 10 || i == 64 + (pairing ? 11 : 42)));
        free(x);
    }
    level_close();
}
END_TEST

/* ---- tables ---------------------------------------------------------------------------------------- */

/* Frequencies out of a table: the angle at position 1, where cos and sin are not scaled. */
static void find_frequencies(const struct kt_rope_params *params, double *frequency, double *amplitude)
{
    float table[1024];
    ck_ok(kt_rope_table(params, 1, 1, table, 0, &ck_error));
    *amplitude = hypot((double)table[0], (double)table[1]);
    for (uint32_t i = 0; i < params->size / 2; i++) {
        frequency[i] = atan2((double)table[2 * i + 1], (double)table[2 * i]);
        ck_near(hypot((double)table[2 * i], (double)table[2 * i + 1]), *amplitude, 4 * UNIT * *amplitude);
    }
}

/* Frequencies of some pairs and the factor of cos and sin, for configurations of models: from a script in
 * Python after ROPE_INIT_FUNCTIONS of transformers (modeling_rope_utils.py), in double. */
static const struct {
    struct kt_rope_params params;
    uint32_t pair[6];
    double frequency[6], amplitude;
} known[] = {
    /* Qwen3 */
    {{.size = 128, .base = 1e6},
     {1, 16, 24, 32, 40, 63},
     {0.805842187761482, 0.0316227766016838, 0.00562341325190349, 0.001, 0.000177827941003892,
      1.24093776075172e-06},
     1},
    /* linear */
    {{.size = 64, .base = 1e4, .scaling = KT_ROPE_LINEAR, .factor = 4},
     {1, 8, 12, 16, 20, 31},
     {0.187473552333114, 0.025, 0.00790569415042095, 0.0025, 0.000790569415042095, 3.33380358040831e-05},
     1},
    /* DeepSeek-V3 */
    {{.size = 64,
      .base = 1e4,
      .scaling = KT_ROPE_YARN,
      .factor = 40,
      .original_positions = 4096,
      .beta_fast = 32,
      .beta_slow = 1,
      .mscale = 1,
      .mscale_all_dim = 1},
     {1, 8, 12, 16, 20, 31},
     {0.749894209332456, 0.1, 0.0268793601114312, 0.0055, 0.000790569415042095, 3.33380358040831e-06},
     1},
    /* gpt-oss */
    {{.size = 64,
      .base = 150000,
      .scaling = KT_ROPE_YARN,
      .factor = 32,
      .original_positions = 4096,
      .no_truncate = 1},
     {1, 8, 12, 16, 20, 31},
     {0.689044305888163, 0.0508132748154615, 0.00679495948973222, 0.000456483919223241, 1.81883366816896e-05,
      3.02351142811921e-07},
     1.3465735902799727},
    /* Qwen3 yarn */
    {{.size = 128, .base = 1e6, .scaling = KT_ROPE_YARN, .factor = 4, .original_positions = 32768},
     {1, 16, 24, 32, 40, 63},
     {0.805842187761482, 0.0316227766016838, 0.0053753214907901, 0.000602941176470588, 4.44569852509731e-05,
      3.1023444018793e-07},
     1.1386294361119891},
    /* given */
    {{.size = 128,
      .base = 1e6,
      .scaling = KT_ROPE_YARN,
      .factor = 4,
      .original_positions = 32768,
      .attention_factor = 1.5,
      .mscale = 0.707,
      .mscale_all_dim = 0.5},
     {1, 16, 24, 32, 40, 63},
     {0.805842187761482, 0.0316227766016838, 0.0053753214907901, 0.000602941176470588, 4.44569852509731e-05,
      3.1023444018793e-07},
     1.5},
    /* ratio */
    {{.size = 64,
      .base = 1e4,
      .scaling = KT_ROPE_YARN,
      .factor = 40,
      .original_positions = 4096,
      .mscale = 0.707,
      .mscale_all_dim = 1.2},
     {1, 8, 12, 16, 20, 31},
     {0.749894209332456, 0.1, 0.0268793601114312, 0.0055, 0.000790569415042095, 3.33380358040831e-06},
     0.87394045761851213},
    /* Llama-3.1 */
    {{.size = 128,
      .base = 5e5,
      .scaling = KT_ROPE_LLAMA3,
      .factor = 8,
      .original_positions = 8192,
      .low_frequency = 1,
      .high_frequency = 4},
     {1, 16, 24, 32, 40, 63},
     {0.814617233856545, 0.0376060309308639, 0.00729266473721711, 0.000524846160992955, 3.42810219595259e-05,
      3.06892598891451e-07},
     1},
};

START_TEST(tables_are_those_of_transformers)
{
    double frequency[512], amplitude;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct kt_rope_params params = known[k].params;
        params.struct_size = sizeof params;
        find_frequencies(&params, frequency, &amplitude);
        ck_near(amplitude, known[k].amplitude, 4 * UNIT * amplitude);
        for (unsigned i = 0; i < 6; i++)
            ck_near(frequency[known[k].pair[i]], known[k].frequency[i], 4 * UNIT * known[k].frequency[i]);
    }
}
END_TEST

/* Far positions keep their angles, and rows are those of their positions. */
START_TEST(tables_are_double)
{
    struct kt_rope_params params = KT_ROPE_PARAMS_INIT;
    float table[3][66];
    params.size = 64;
    params.base = 1e7;
    for (uint64_t first = 0; first < 2000000; first = 3 * first + 1) {
        ck_ok(kt_rope_table(&params, first, 3, table[0], 66 * sizeof(float), &ck_error));
        for (uint32_t r = 0; r < 3; r++)
            for (uint32_t i = 0; i < 32; i++) {
                double angle = (double)(first + r) * pow(1e7, -(double)i / 32);
                ck_near(table[r][2 * i], cos(angle), UNIT + 0x1p-45 * angle);
                ck_near(table[r][2 * i + 1], sin(angle), UNIT + 0x1p-45 * angle);
            }
    }
}
END_TEST

START_TEST(wrong_tables_are_refused)
{
    struct kt_rope_params params = KT_ROPE_PARAMS_INIT;
    float table[64], divisors[32] = {0};
    double factor = 0;
    params.base = 10000;
    ck_fails(kt_rope_table(NULL, 0, 1, table, 0, &ck_error), KT_E_INVALID, "KT_ROPE_PARAMS_INIT");
    ck_fails(kt_rope_table(&params, 0, 1, table, 0, &ck_error), KT_E_INVALID,
             "size is 0, expected is 2 to 1024");
    params.size = 63;
    ck_fails(kt_rope_table(&params, 0, 1, table, 0, &ck_error), KT_E_INVALID, "size is 63");
    params.size = 64;
    ck_fails(kt_rope_table(&params, 0, 1, NULL, 0, &ck_error), KT_E_INVALID, "NULL");
    ck_fails(kt_rope_table(&params, 0, 1, table, 6, &ck_error), KT_E_INVALID, "stride of 6 bytes");
    ck_fails(kt_rope_table(&params, UINT64_MAX, 1, table, 0, &ck_error), KT_E_RANGE, "2^52");
    params.divisors = divisors;
    ck_fails(kt_rope_table(&params, 0, 1, table, 0, &ck_error), KT_E_INVALID, "divisor 0 is 0");
    params.divisors = NULL;
    params.base = 1;
    ck_fails(kt_rope_table(&params, 0, 1, table, 0, &ck_error), KT_E_INVALID, "base is 1");
    params.base = 10000;
    params.scaling = 4;
    ck_fails(kt_rope_table(&params, 0, 1, table, 0, &ck_error), KT_E_INVALID, "scaling is 4");
    params.scaling = KT_ROPE_YARN;
    ck_fails(kt_rope_table(&params, 0, 1, table, 0, &ck_error), KT_E_INVALID, "factor is 0");
    params.factor = 40;
    ck_fails(kt_rope_table(&params, 0, 1, table, 0, &ck_error), KT_E_INVALID, "original_positions is 0");
    params.original_positions = 4096;
    params.mscale_all_dim = 1.0;
    ck_ok(kt_rope_softmax_factor(&params, &factor, &ck_error));
    ck_near(factor, pow(0.1 * log(40) + 1, 2), 1e-12);
    ck_fails(kt_rope_softmax_factor(&params, NULL, &ck_error), KT_E_INVALID, "NULL");
    params.scaling = KT_ROPE_LLAMA3;
    ck_ok(kt_rope_softmax_factor(&params, &factor, &ck_error));
    ck_holds(factor == 1.0);
    params.low_frequency = 4;
    ck_fails(kt_rope_table(&params, 0, 1, table, 0, &ck_error), KT_E_INVALID, "low_frequency is 4");
    ck_ok(kt_rope_table(&(struct kt_rope_params){.struct_size = sizeof params, .size = 2, .base = 10}, 0, 0,
                        NULL, 0, &ck_error));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rope");
    TCase *levels = tcase_create("levels"), *tables = tcase_create("tables");
    tcase_add_checked_fixture(levels, sandbox_open, sandbox_close);
    tcase_add_loop_test(levels, rotations_are_the_formula, 0, N_LEVELS);
    tcase_add_loop_test(levels, nan_stays_in_its_pair, 0, N_LEVELS);
    suite_add_tcase(suite, levels);
    tcase_add_test(tables, tables_are_those_of_transformers);
    tcase_add_test(tables, tables_are_double);
    tcase_add_test(tables, wrong_tables_are_refused);
    suite_add_tcase(suite, tables);
    return run_suite(suite);
}
