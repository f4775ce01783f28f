/* SPDX-License-Identifier: Apache-2.0 */
/* rounding.c - does packing keep the source's weights, or round them once more? */
#include "core/layer/rounding.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The first minor of the plugin ABI that has kt_layout.rounding. */
#define FIRST_MINOR 4

/* Is it one of the words? */
static bool has_word(const char *words, const char *word)
{
    static const char separators[] = " ,;";
    size_t length = strlen(word);
    for (const char *at = words; at && *at;) {
        at += strspn(at, separators);
        size_t n = strcspn(at, separators);
        if (n == length && strncmp(at, word, n) == 0)
            return true;
        at += n;
    }
    return false;
}

static bool names_formats(const struct kt_plugin *plugin, const struct kt_shape *shape)
{
    for (int p = 0; p < 3; p++)
        if (!has_word(plugin->formats, kt_dtype_name(shape->format[p].dtype)))
            return false;
    return true;
}

void kt_rounding_find(const struct kt_backend *backend, const struct kt_layout *layout,
                      char rounding[KT_ROUNDING_SIZE])
{
    const struct kt_plugin *plugin = backend->plugin;
    rounding[0] = '\0';
    if (plugin->abi_minor >= FIRST_MINOR)
        (void)snprintf(rounding, KT_ROUNDING_SIZE, "%s", layout->rounding ? layout->rounding : "");
    else if (!names_formats(plugin, &layout->shape))
        (void)snprintf(rounding, KT_ROUNDING_SIZE, "unknown: a plugin of ABI %u.%u", plugin->abi_major,
                       plugin->abi_minor);
}
