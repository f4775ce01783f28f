/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/launch/watch.h"

#include <stdio.h>
#include <string.h>

/* What is logged when a layer is made, by SGLang's wrapper and by this package's kt_kernel. */
static const char *const signs[] = {"[KT] Created shared staging buffer", "kt_kernel: layer ", NULL};
static const char *const ready[] = {"The server is fired up and ready to roll", NULL};
/* SGLang goes on without kt_kernel after any of these. */
static const char *const causes[] = {"Could not determine num_layers or num_experts",
                                     "kt_num_gpu_experts or kt_gpu_experts_ratio is required but not set",
                                     "Ignore import error when loading sglang.srt.models.deepseek_v4",
                                     "kt_kernel is not installed", NULL};

static bool has_any(const char *line, const char *const *texts)
{
    while (*texts && !strstr(line, *texts))
        texts++;
    return *texts != NULL;
}

static void shout(const struct kt_watch *watch)
{
    static const char bar[] = "**********************************************************************";
    kt_cli_warn(watch->cli, "%s", bar);
    kt_cli_warn(watch->cli,
                "kt_kernel IS NOT ACTIVE: SGLang serves, but its log does not say that a layer's experts "
                "are computed on the CPU; the GPU has them all, or is slow or full");
    if (*watch->cause)
        kt_cli_warn(watch->cli, "it said: %s", watch->cause);
    kt_cli_warn(watch->cli, "%s", bar);
}

static void tell(struct kt_watch *watch)
{
    if (!watch->is_ready || watch->is_told)
        return;
    watch->is_told = true;
    if (watch->is_active)
        kt_cli_note(watch->cli, "kt_kernel is active: SGLang's log says so");
    else if (watch->expects)
        shout(watch);
}

void kt_watch_line(void *data, const char *line)
{
    struct kt_watch *watch = data;
    if (!line) {
        tell(watch); /* not before: of its two outputs, either may be read first */
        return;
    }
    watch->is_active = watch->is_active || has_any(line, signs);
    if (!*watch->cause && has_any(line, causes))
        (void)snprintf(watch->cause, sizeof(watch->cause), "%s", line);
    watch->is_ready = watch->is_ready || has_any(line, ready);
}

void kt_watch_end(struct kt_watch *watch)
{
    tell(watch);
    if (watch->expects && !watch->is_active && (watch->is_ready || *watch->cause))
        shout(watch);
}
