/* SPDX-License-Identifier: Apache-2.0 */
/* module_check.c - checks the struct of a plugin before anything of it is called. */
#include "core/backend/module_check.h"

#include "core/backend/tables.h"
#include "core/backend/tunables.h"
#include "core/base/error.h"
#include "core/base/option.h"

#include <kt/plugin_attention.h>
#include <kt/plugin_rows.h>
#include <stddef.h>
#include <string.h>

/* The size of a struct that ends with this field. Used with the last field of ABI 1.0: later minors append
 * fields, so this stays. */
#define SIZE_WITH(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))

enum { LEVEL_LIMIT = 64, NAME_LIMIT = 31 };

static enum kt_status check_version(const struct kt_plugin *plugin, struct kt_error *error)
{
    if (plugin->abi_major != KT_PLUGIN_ABI_MAJOR)
        return kt_fail(error, KT_E_PLUGIN,
                       "it was built for plugin ABI %u, this core has %d; a plugin built for ABI %d "
                       "is needed",
                       plugin->abi_major, KT_PLUGIN_ABI_MAJOR, KT_PLUGIN_ABI_MAJOR);
    if (plugin->abi_minor > KT_PLUGIN_ABI_MINOR)
        return kt_fail(error, KT_E_PLUGIN,
                       "it was built for plugin ABI %u.%u, this core has %d.%d; update kt-kernel",
                       plugin->abi_major, plugin->abi_minor, KT_PLUGIN_ABI_MAJOR, KT_PLUGIN_ABI_MINOR);
    if (plugin->struct_size < SIZE_WITH(struct kt_plugin, close))
        return kt_fail(error, KT_E_PLUGIN,
                       "struct_size is %u, ABI 1.0 has %zu; start the struct with KT_PLUGIN_HEADER",
                       plugin->struct_size, SIZE_WITH(struct kt_plugin, close));
    return KT_OK;
}

static enum kt_status check_names(const struct kt_plugin *plugin, const char *name, struct kt_error *error)
{
    if (!kt_option_is_text(plugin->name) || !kt_option_is_text(plugin->version) ||
        !kt_option_is_text(plugin->description) || !kt_option_is_text(plugin->formats))
        return kt_fail(error, KT_E_PLUGIN, "its name, version, description or formats is NULL, or no text");
    if (strcmp(plugin->name, name) != 0)
        return kt_fail(error, KT_E_PLUGIN, "it calls itself \"%.31s\", its section is [plugin.%s]",
                       plugin->name, name);
    if (!plugin->levels || plugin->n_levels == 0 || plugin->n_levels > LEVEL_LIMIT)
        return kt_fail(error, KT_E_PLUGIN, "it has %u levels%s; 1 to %d are allowed", plugin->n_levels,
                       plugin->levels ? "" : " and no list of them", LEVEL_LIMIT);
    return KT_OK;
}

static enum kt_status check_ops(const struct kt_level *level, struct kt_error *error)
{
    const struct kt_ops *ops = level->ops;
    if (ops->struct_size < SIZE_WITH(struct kt_ops, thread_leave))
        return kt_fail(error, KT_E_PLUGIN, "its level %s has a struct kt_ops of %u bytes; ABI 1.0 has %zu",
                       level->name, ops->struct_size, SIZE_WITH(struct kt_ops, thread_leave));
    const char *missing = !ops->layout       ? "layout"
                          : !ops->act_pack   ? "act_pack"
                          : !ops->gate_up    ? "gate_up"
                          : !ops->down       ? "down"
                          : !ops->weight_row ? "weight_row"
                                             : NULL;
    if (missing)
        return kt_fail(error, KT_E_PLUGIN, "its level %s has no function %s, which is required", level->name,
                       missing);
    if (!ops->thread_enter != !ops->thread_leave)
        return kt_fail(error, KT_E_PLUGIN,
                       "its level %s has one of thread_enter and thread_leave; both or none", level->name);
    uint32_t n_tunables = KT_TUNABLES(ops, kt_ops);
    return n_tunables ? kt_tuned_check_list(level->name, ops->tunables, n_tunables, error) : KT_OK;
}

static enum kt_status check_attention(const struct kt_level *level, struct kt_error *error)
{
    const struct kt_attention_ops *ops = KT_LEVEL_TABLE(level, attention);
    if (ops->struct_size < SIZE_WITH(struct kt_attention_ops, thread_leave))
        return kt_fail(error, KT_E_PLUGIN,
                       "its level %s has a struct kt_attention_ops of %u bytes; ABI 1.6 has %zu", level->name,
                       ops->struct_size, SIZE_WITH(struct kt_attention_ops, thread_leave));
    const char *missing = !ops->layout   ? "layout"
                          : !ops->attend ? "attend"
                          : !ops->merge  ? "merge"
                          : !ops->finish ? "finish"
                                         : NULL;
    if (missing)
        return kt_fail(error, KT_E_PLUGIN, "its level %s has no function %s, which attention requires",
                       level->name, missing);
    if (!ops->thread_enter != !ops->thread_leave)
        return kt_fail(error, KT_E_PLUGIN,
                       "its level %s has one of attention's thread_enter and thread_leave; both or none",
                       level->name);
    uint32_t n_tunables = KT_TUNABLES(ops, kt_attention_ops);
    return n_tunables ? kt_tuned_check_list(level->name, ops->tunables, n_tunables, error) : KT_OK;
}

static enum kt_status check_rows(const struct kt_level *level, struct kt_error *error)
{
    const struct kt_rows_ops *ops = KT_LEVEL_TABLE(level, rows);
    if (ops->struct_size < SIZE_WITH(struct kt_rows_ops, delta_scratch))
        return kt_fail(error, KT_E_PLUGIN,
                       "its level %s has a struct kt_rows_ops of %u bytes; ABI 1.6 has %zu", level->name,
                       ops->struct_size, SIZE_WITH(struct kt_rows_ops, delta_scratch));
    const char *missing = !ops->norm            ? "norm"
                          : !ops->gate          ? "gate"
                          : !ops->rotate        ? "rotate"
                          : !ops->multiply      ? "multiply"
                          : !ops->route         ? "route"
                          : !ops->convolve      ? "convolve"
                          : !ops->decay         ? "decay"
                          : !ops->delta         ? "delta"
                          : !ops->delta_scratch ? "delta_scratch"
                                                : NULL;
    if (missing)
        return kt_fail(error, KT_E_PLUGIN, "its level %s has no function %s, which rows require", level->name,
                       missing);
    return KT_OK;
}

/* The tables of a level: at least one, and the same ones as the first level. */
static enum kt_status check_tables(const struct kt_plugin *plugin, const struct kt_level *level,
                                   struct kt_error *error)
{
    const struct kt_level *first = plugin->levels[0];
    const struct {
        const char *name;
        bool here, there;
    } tables[] = {
        {"ops", level->ops, first->ops},
        {"attention", KT_LEVEL_TABLE(level, attention), KT_LEVEL_TABLE(first, attention)},
        {"rows", KT_LEVEL_TABLE(level, rows), KT_LEVEL_TABLE(first, rows)},
    };
    bool any = false;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        any |= tables[i].here;
        if (tables[i].here != tables[i].there)
            return kt_fail(error, KT_E_PLUGIN,
                           "its level %s has %s functions \"%s\", its level %s has%s; all "
                           "levels or none",
                           level->name, tables[i].here ? "the" : "no", tables[i].name, first->name,
                           tables[i].there ? "" : " not");
    }
    if (!any)
        return kt_fail(error, KT_E_PLUGIN, "its level %s has no functions", level->name);
    enum kt_status status = level->ops ? check_ops(level, error) : KT_OK;
    if (status == KT_OK && tables[1].here)
        status = check_attention(level, error);
    return status == KT_OK && tables[2].here ? check_rows(level, error) : status;
}

static enum kt_status check_level(const struct kt_plugin *plugin, uint32_t index, struct kt_error *error)
{
    const struct kt_level *level = plugin->levels[index];
    if (!level)
        return kt_fail(error, KT_E_PLUGIN, "its level %u of %u is NULL", index, plugin->n_levels);
    if (level->struct_size < SIZE_WITH(struct kt_level, ops))
        return kt_fail(error, KT_E_PLUGIN, "its level %u has a struct kt_level of %u bytes; ABI 1.0 has %zu",
                       index, level->struct_size, SIZE_WITH(struct kt_level, ops));
    if (!level->name || !kt_option_is_word(level->name, NAME_LIMIT) || strcmp(level->name, "auto") == 0 ||
        !kt_option_is_text(level->instruction))
        return kt_fail(error, KT_E_PLUGIN,
                       "its level %u has no instruction, or no name of lower-case letters, digits "
                       "and _ (auto is taken)",
                       index);
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(plugin->levels[i]->name, level->name) == 0)
            return kt_fail(error, KT_E_PLUGIN, "two of its levels are called %s", level->name);
    }
    return check_tables(plugin, level, error);
}

enum kt_status kt_module_check(const struct kt_plugin *plugin, const char *name, struct kt_error *error)
{
    enum kt_status status = check_version(plugin, error);
    if (status == KT_OK)
        status = check_names(plugin, name, error);
    for (uint32_t i = 0; status == KT_OK && i < plugin->n_levels; i++)
        status = check_level(plugin, i, error);
    return status == KT_OK ? kt_option_check(plugin->options, plugin->n_options, error) : status;
}
