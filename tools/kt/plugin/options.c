/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - checks a level with each value of each option: all choices, the least and the largest
 * number. */
#include "tools/kt/plugin/plugin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool plugin_option_value(const struct kt_option *option, unsigned n, char text[128],
                         struct kt_option_value *value)
{
    const char *word = option->type == KT_OPTION_ENUM   ? option->choices
                       : option->type == KT_OPTION_BOOL ? "no|yes"
                                                        : "";
    int64_t number = n;
    if (option->type == KT_OPTION_INT && n < 2) {
        number = n == 0 ? option->minimum : option->maximum;
        snprintf(text, 128, "%" PRId64, number);
    } else {
        for (unsigned i = 0; i < n && *word; i++) {
            word += strcspn(word, "|");
            word += *word == '|';
        }
        if (!*word)
            return false;
        snprintf(text, 128, "%.*s", (int)strcspn(word, "|"), word);
    }
    *value = (struct kt_option_value){text, number};
    return true;
}

/* open or the level may refuse a value with a reason. */
static bool open_instance(struct plugin_run *run)
{
    struct kt_error error = {.message = ""};
    run->instance = NULL;
    enum kt_status status =
        run->plugin->open ? run->plugin->open(&run->host, &run->caps, run->values, &run->instance, &error)
                          : KT_OK;
    if (status == KT_OK)
        return true;
    if (!error.message[0])
        plugin_fail(run, "it failed with status %d and does not say why", (int)status);
    return false;
}

/* Runs a case of the first format that the plugin takes, one of a linear, and one of attention. */
static bool try_value(struct plugin_run *run, const char *key, const char *text)
{
    static const uint32_t dtypes[] = {KT_DTYPE_BF16,    KT_DTYPE_F32, KT_DTYPE_F16,     KT_DTYPE_Q8_0,
                                      KT_DTYPE_Q4_K,    KT_DTYPE_I8,  KT_DTYPE_F8_E4M3, KT_DTYPE_INT4,
                                      KT_DTYPE_F4_E2M1, KT_DTYPE_NONE};
    struct kt_error error;
    bool taken = false, attends = false;
    snprintf(run->of, sizeof(run->of), ", %s = %s", key, text);
    plugin_where(run, "open%s", run->of);
    if (!open_instance(run))
        return false;
    bool ready = plugin_ready(run, &error) == KT_OK;
    bool experts = ready && run->level->ops;
    if (ready && PLUGIN_FIELD(run->level, attention))
        attends = plugin_attention_run(run, true, &error);
    for (const uint32_t *dtype = dtypes; *dtype && experts && !taken && !plugin_failed(run); dtype++) {
        taken = plugin_case_run(run, *dtype, 1, plugin_step_option);
        if (taken && !plugin_failed(run))
            (void)plugin_linear_run(run, *dtype, 1, plugin_step_option);
    }
    plugin_detach(run);
    return taken || attends;
}

void plugin_job_options(void *data, struct plugin_child *child)
{
    struct plugin_run *run = data;
    unsigned n_values = 0, n_taken = 0;
    if (!plugin_attach(run, child))
        return;
    for (uint32_t i = 0; i < run->plugin->n_options; i++) {
        const struct kt_option_value kept = run->values[i];
        char text[128];
        for (unsigned n = 0;
             !plugin_failed(run) && plugin_option_value(&run->plugin->options[i], n, text, &run->values[i]);
             n++, n_values++)
            n_taken += try_value(run, run->plugin->options[i].key, text);
        run->values[i] = kept;
    }
    if (plugin_host_live() != 0)
        plugin_fail(run, "%llu blocks of the host's memory were not given back",
                    (unsigned long long)plugin_host_live());
    if (plugin_failed(run))
        return;
    if (n_values == 0)
        plugin_say(&child->verdict, PLUGIN_SKIPPED, "it has none with a list or a range of values");
    else
        plugin_say(&child->verdict, PLUGIN_OK, "%u values, %u of them with a layer", n_values, n_taken);
}
