/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/launch/gpus.h"

#include "tools/engine/launch/process.h"
#include "tools/engine/serve/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PER_LANE 0.8e9 /* bytes a second that copies reach of 0.985 GB/s, a lane of the third generation */

/* The next field of a line of CSV, without blanks around it; "" behind the last one. */
static char *take_field(char **line)
{
    char *field = *line + strspn(*line, " ");
    size_t length = strcspn(field, ",");
    *line = field + length + (field[length] == ',');
    field[length] = '\0';
    while (length > 0 && field[length - 1] == ' ')
        field[--length] = '\0';
    return field;
}

static bool read_line(char *line, bool is_long, struct kt_gpu *gpu)
{
    *gpu = (struct kt_gpu){.index = strtoull(take_field(&line), NULL, 10)};
    (void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", take_field(&line));
    gpu->memory = strtoull(take_field(&line), NULL, 10) << 20;
    gpu->used = strtoull(take_field(&line), NULL, 10) << 20;
    if (is_long) {
        double capability = strtod(take_field(&line), NULL);
        unsigned long generation = strtoul(take_field(&line), NULL, 10);
        unsigned long lanes = strtoul(take_field(&line), NULL, 10);
        gpu->capability = capability < 100 ? (unsigned)(capability * 10 + 0.5) : 0;
        if (generation > 0 && generation < 8 && lanes <= 32)
            gpu->bus_bandwidth = PER_LANE * (double)lanes * (double)(1U << generation) / 8;
    }
    (void)snprintf(gpu->name, sizeof(gpu->name), "%s", take_field(&line));
    return gpu->memory > 0;
}

/* Older drivers do not know the fields of a GPU's bus and capability. */
static int ask(const struct kt_cli *cli, struct kt_gpus *gpus)
{
    static const char *const queries[] = {
        "--query-gpu=index,uuid,memory.total,memory.used,compute_cap,pcie.link.gen.max,pcie.link.width.max,name",
        "--query-gpu=index,uuid,memory.total,memory.used,name"};
    for (size_t i = 0; i < COUNT(queries); i++) {
        const char *const words[] = {"nvidia-smi", queries[i], "--format=csv,noheader,nounits", NULL};
        struct kt_captured captured;
        char *at = NULL;
        kt_process_capture(cli, words, NULL, 0, &captured);
        if (captured.status == KT_PROCESS_MISSING)
            gpus->missing = "there is no nvidia-smi, which comes with the driver of NVIDIA's GPUs";
        else
            gpus->missing = "nvidia-smi lists none";
        for (char *line = captured.status == 0 ? strtok_r(captured.text, "\n", &at) : NULL;
             line && gpus->n < COUNT(gpus->gpu); line = strtok_r(NULL, "\n", &at))
            gpus->n += read_line(line, i == 0, &gpus->gpu[gpus->n]);
        free(captured.text);
        if (gpus->n > 0 || captured.status == KT_PROCESS_MISSING)
            break;
    }
    return KT_EXIT_OK;
}

/* The number of the GPU that an entry of CUDA_VISIBLE_DEVICES names, an index or the beginning of a UUID; n:
 * none. */
static size_t find_gpu(const struct kt_gpus *gpus, const char *entry)
{
    char *end;
    unsigned long long index = strtoull(entry, &end, 10);
    bool is_number = end > entry && *end == '\0';
    size_t i = 0;
    while (i < gpus->n && !(is_number ? gpus->gpu[i].index == index
                                      : *entry && strncmp(gpus->gpu[i].uuid, entry, strlen(entry)) == 0))
        i++;
    return i;
}

/* As CUDA reads it: the first entry that names none ends the list. */
static void keep_visible(struct kt_gpus *gpus)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    struct kt_gpus kept = {.missing = "CUDA_VISIBLE_DEVICES hides all of them"};
    if (!visible || gpus->n == 0)
        return;
    char *text = strdup(visible), *rest = text;
    while (rest && *rest && kept.n < COUNT(kept.gpu)) {
        size_t i = find_gpu(gpus, take_field(&rest));
        if (i == gpus->n)
            break;
        kept.gpu[kept.n++] = gpus->gpu[i];
    }
    free(text);
    *gpus = kept;
}

static int read_memory(const struct kt_cli *cli, const char *text, struct kt_gpus *gpus)
{
    char *copy = kt_cli_format(cli, "%s", text), *rest = copy;
    bool is_right = true;
    while (is_right && *rest && gpus->n < COUNT(gpus->gpu)) {
        struct kt_gpu *gpu = &gpus->gpu[gpus->n];
        *gpu = (struct kt_gpu){.index = gpus->n, .name = "as --gpu-memory says"};
        is_right = kt_cli_size(take_field(&rest), &gpu->memory);
        gpus->n += is_right;
    }
    is_right = is_right && !*rest && gpus->n > 0;
    free(copy);
    return is_right
               ? KT_EXIT_OK
               : kt_cli_usage(cli, "--gpu-memory '%s': the memory of each GPU is needed, as 24G or 24G,24G",
                              text);
}

int kt_gpus_find(const struct kt_cli *cli, const char *text, struct kt_gpus *gpus)
{
    *gpus = (struct kt_gpus){.n = 0};
    if (text)
        return read_memory(cli, text, gpus);
    int code = ask(cli, gpus);
    keep_visible(gpus);
    return code;
}
