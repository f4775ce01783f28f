/* SPDX-License-Identifier: Apache-2.0 */
/* roofline.c - the least time for a layer by the limits of memory and multiply instructions. */
#include "tools/kt/bench/bench.h"

enum kt_status bench_roofline_create(struct kt_cli *cli, uint64_t cpu, const struct bench_set *set,
                                     const struct bench_schedule *schedule, struct bench_roofline *roofline,
                                     struct kt_error *error)
{
    uint64_t size = set->packed_size * set->n_copies;
    *roofline = (struct bench_roofline){.slice_ns = BENCH_SLICE_NS * bench_haste(schedule)};
    roofline->n_loops = bench_find_peaks(cpu, set->level, set->instruction, roofline->loops, BENCH_MAX_WAYS);
    if (roofline->n_loops == 0)
        kt_cli_warn(cli,
                    "the peak of %s, the instruction of %s at %s, is not known here: "
                    "roofline_fraction counts the memory only",
                    *set->instruction ? set->instruction : "an unnamed instruction", set->backend,
                    set->level);
    return bench_buffer_create(&roofline->buffer, size < (2 << 20) ? 2 << 20 : size, error);
}

enum kt_status bench_roofline_measure(struct kt_context *context, struct bench_roofline *roofline,
                                      struct kt_error *error)
{
    enum kt_status status =
        bench_measure_reads(context, &roofline->buffer, 3, roofline->reads, &roofline->n_reads, error);
    for (size_t i = 0; i < roofline->n_reads && status == KT_OK; i++)
        if (roofline->reads[i].rate > roofline->read.rate)
            roofline->read = roofline->reads[i];
    for (size_t i = 0; i < roofline->n_loops && status == KT_OK; i++)
        status = bench_measure_peak(context, roofline->loops[i], roofline->slice_ns, &roofline->peak, error);
    return status;
}

double bench_roofline_time(const struct bench_roofline *roofline, double weight_bytes, double operations)
{
    double memory = weight_bytes / roofline->read.rate;
    double product = roofline->peak.rate > 0 ? operations / roofline->peak.rate : 0;
    return memory > product ? memory : product;
}
