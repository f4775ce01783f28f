/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - the configuration as the rest of the core reads it. */
#ifndef KT_CORE_CONFIG_CONFIG_H
#define KT_CORE_CONFIG_CONFIG_H

#include "core/base/log.h"

#include <kt/kt.h>
#include <stdbool.h>

/* A config is shared by count: kt_config_destroy gives one back. */
struct kt_config *kt_config_retain(const struct kt_config *config);

/* The log that kt_config_params named. */
const struct kt_log *kt_config_log(const struct kt_config *config);

/* The setting, or NULL if nobody set it and it has no default. */
const struct kt_setting *kt_config_find(const struct kt_config *config, const char *section, const char *key);

/* Value of a known core setting, which is always there and was checked when it was read. */
const char *kt_config_text(const struct kt_config *config, const char *section, const char *key);
int64_t kt_config_int(const struct kt_config *config, const char *section, const char *key);
bool kt_config_bool(const struct kt_config *config, const char *section, const char *key);

/* The plugins' names: NAME of every section plugin.NAME, in order of name. */
size_t kt_config_plugin_count(const struct kt_config *config);
const char *kt_config_plugin(const struct kt_config *config, size_t index);

/* The first line of that section: "/usr/share/kt-kernel/plugins.d/llamafile.ini:3". */
const char *kt_config_plugin_origin(const struct kt_config *config, size_t index);

/* Why a drop-in about the plugin of this name, or the plugin, cannot be used, or NULL. */
const char *kt_config_plugin_broken(const struct kt_config *config, const char *name);

/* Makes a plugin one that cannot be used, for a reason. */
enum kt_status kt_config_break(struct kt_config *config, const char *name, const char *reason,
                               struct kt_error *error);

/* Writes no more log. */
void kt_config_silence(struct kt_config *config);

/* The folder that is searched for plugins after those of core.plugin_path. */
const char *kt_config_plugin_folder(const struct kt_config *config);

/*
 * Known settings of [core]:
 *   threads          int 0..4096     0    threads of all nodes; 0: one per core of the cpuset, but no
 *                                         more than the control groups' quota of CPU time suffices for
 *   numa_nodes       text            all  "all", or a list "0,2-3" of OS node numbers
 *   spin_us          int 0..1000000  1000 how long an idle worker spins before it sleeps
 *   huge_pages       bool            yes  advise huge pages for weights and buffers
 *   backend          text            auto preferred backend: auto or a name
 *   strict           bool            no   a fallback from the preferred backend is an error
 *   queue_depth      int 1..65536    256  tickets that may be outstanding
 *   cpu_variant      text            ""   mask of CPU features (environment KT_KERNEL_CPU_VARIANT)
 *   plugin_path      text            ""   folders searched for plugins besides the compiled-in one,
 *                                         separated by ':', absolute
 *   debug            bool            no   debug messages (environment KT_KERNEL_DEBUG)
 * Known settings of [plugin.NAME], besides the plugin's own options, which the registry checks;
 * a section that exists has them all:
 *   enabled          no|yes|required      module (absolute path or file name; default kt_NAME.so)
 *   cpu              features needed, "avx2 fma"      level (auto or a level's name)
 *   priority         int -1000..1000 (default 0)
 */

#endif
