/* SPDX-License-Identifier: Apache-2.0 */
/* module.h - finds, checks and opens the shared object of a plugin. */
#ifndef KT_CORE_BACKEND_MODULE_H
#define KT_CORE_BACKEND_MODULE_H

#include <kt/plugin.h>

struct kt_module {
    void *handle;
    int fd; /* of the file that was checked; open as long as it is loaded */
    const struct kt_plugin *plugin;
};

/**
 * The path of a plugin's file, to be freed: `module` itself if it is absolute, else the first
 * folder of `path` (absolute folders separated by ':') or else `last` that holds it.
 * Never the current folder. KT_E_NOT_FOUND names all folders that were searched.
 */
enum kt_status kt_module_find(const char *module, const char *path, const char *last, char **file,
                              struct kt_error *error);

/** Checks owner, mode, ELF header and ABI of the file, and opens it as plugin `name`. Gives its
 * real path, to be freed. KT_E_PLUGIN. */
enum kt_status kt_module_open(const char *file, const char *name, struct kt_module *module, char **real,
                              struct kt_error *error);
void kt_module_close(struct kt_module *module);

#endif
