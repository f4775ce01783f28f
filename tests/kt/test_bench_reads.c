/* SPDX-License-Identifier: Apache-2.0 */
/* How kt bench reads memory, by every instruction set that this CPU has. */
#include "core/machine/cpu.h"
#include "tools/kt/bench/bench.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* Every way reads every byte once: its sum is the sum. */
static unsigned check_reads(const struct bench_isa *isa, uint64_t cpu)
{
    enum { STREAM = 128 * 37, STRIDE = STREAM + 192, SIZE = 8 * STRIDE + 4096 };
    if ((cpu & isa->cpu) != isa->cpu)
        return 0;
    unsigned char *data = aligned_alloc(4096, (SIZE + 4095) / 4096 * 4096);
    ck_assert_ptr_nonnull(data);
    struct bench_random random;
    bench_random_seed(&random, 5);
    for (size_t at = 0; at < SIZE; at += 8) {
        uint64_t bits = bench_random_next(&random);
        memcpy(data + at, &bits, 8);
    }
    for (size_t way = 0; way < isa->n_reads; way++) {
        const struct bench_read *read = &isa->reads[way];
        uint64_t sum = 0;
        for (unsigned stream = 0; stream < read->streams; stream++)
            for (size_t at = 0; at < STREAM; at += 8) {
                uint64_t bits;
                memcpy(&bits, data + stream * STRIDE + at, 8);
                sum += bits;
            }
        ck_assert_uint_eq(read->run(data, STRIDE, STREAM), sum);
    }
    free(data);
    return (unsigned)isa->n_reads;
}

START_TEST(reads_cover_every_byte)
{
    struct kt_caps caps;
    ck_assert_int_eq(kt_cpu_detect(NULL, &caps, NULL), KT_OK);
    ck_assert_uint_eq(check_reads(&bench_isa_base, caps.cpu), 12);
#ifdef BENCH_AVX2
    check_reads(&bench_isa_avx2, caps.cpu);
#endif
#ifdef BENCH_AVX512
    check_reads(&bench_isa_avx512, caps.cpu);
#endif
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench reads");
    TCase *tcase = tcase_create("reads");
    tcase_add_test(tcase, reads_cover_every_byte);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
