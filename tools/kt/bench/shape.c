/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - shapes of kt bench, by name or as numbers. */
#include "tools/kt/bench/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_SIZE (UINT64_C(1) << 20) /* of hidden_size and intermediate_size */

static const struct bench_shape known[] = {
    {"qwen3-30b-a3b", 2048, 768, 128, 8, 128, false},
    {"deepseek-v3", 7168, 2048, 32, 8, 256, false},
    {"mixtral-8x7b", 4096, 14336, 8, 2, 8, false},
    {"kimi-k2", 7168, 2048, 32, 8, 384, false},
};

int bench_shape_choose(const struct kt_cli *cli, const char *text, struct bench_shape *shape)
{
    const char *names[COUNT(known)];
    for (size_t i = 0; i < COUNT(known); i++) {
        names[i] = known[i].name;
        if (strcasecmp(text, known[i].name) != 0)
            continue;
        *shape = known[i];
        if (known[i].n_experts < known[i].model_experts)
            kt_cli_note(cli, "%s: %" PRIu32 " of the model's %" PRIu32 " experts", names[i],
                        known[i].n_experts, known[i].model_experts);
        return KT_EXIT_OK;
    }
    if (strchr(text, ',') == NULL) {
        return kt_cli_usage(cli,
                            "--shape %s is not known%s; shapes are qwen3-30b-a3b, "
                            "deepseek-v3, mixtral-8x7b, kimi-k2 and H,I,E,K",
                            text, kt_cli_hint(text, names, COUNT(known)).text);
    }
    uint64_t n[4];
    size_t count = kt_cli_list(cli, "shape", text, n, 4);
    if (count == 0)
        return KT_EXIT_USAGE;
    if (count != 4)
        return kt_cli_usage(cli,
                            "--shape %s: four numbers are needed, hidden size, "
                            "intermediate size, experts and experts a token",
                            text);
    if (n[0] < 1 || n[0] > MAX_SIZE || n[1] < 1 || n[1] > MAX_SIZE)
        return kt_cli_usage(cli, "--shape %s: sizes must be 1 to %" PRIu64, text, MAX_SIZE);
    if (n[2] < 1 || n[2] > 65536 || n[3] < 1 || n[3] > n[2])
        return kt_cli_usage(cli,
                            "--shape %s: experts must be 1 to 65536, experts a token 1 to "
                            "the number of experts",
                            text);
    *shape = (struct bench_shape){.name = "",
                                  .hidden_size = n[0],
                                  .intermediate_size = n[1],
                                  .n_experts = (uint32_t)n[2],
                                  .top_k = (uint32_t)n[3],
                                  .model_experts = (uint32_t)n[2]};
    return KT_EXIT_OK;
}

size_t bench_shape_linears(const struct kt_cli *cli, const char *text, struct bench_shape *shapes, size_t max)
{
    size_t n = 0;
    for (const char *at = text; at != NULL; n++) {
        int read = 0;
        uint64_t rows, cols;
        bool fits = sscanf(at, "%8" SCNu64 "x%8" SCNu64 "%n", &rows, &cols, &read) == 2 && read > 0 &&
                    *at >= '1' && *at <= '9' && (at[read] == 0 || at[read] == ',');
        if (!fits || rows < 1 || cols < 1 || rows > MAX_SIZE || cols > MAX_SIZE || n == max) {
            kt_cli_usage(cli,
                         "--linear %s: matrices such as 4096x2048,2048x4096 are needed, 1 to %zu with sizes "
                         "of 1 to %" PRIu64,
                         text, max, MAX_SIZE);
            return 0;
        }
        shapes[n] = (struct bench_shape){.name = kt_cli_format(cli, "%" PRIu64 "x%" PRIu64, rows, cols),
                                         .hidden_size = rows,
                                         .intermediate_size = cols,
                                         .n_experts = 1,
                                         .top_k = 1,
                                         .model_experts = 1,
                                         .linear = true};
        at = at[read] == ',' ? at + read + 1 : NULL;
    }
    return n;
}
