/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vendor/library.h - finds a vendor's library when the option `library` asks for it. It is never unloaded:
 * a library with threads of its own does not survive that.
 */
#ifndef KT_PLUGINS_COMMON_VENDOR_LIBRARY_H
#define KT_PLUGINS_COMMON_VENDOR_LIBRARY_H

#include "plugins/common/vendor/vendor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* What is looked for. */
struct library {
    const char *const *names; /* tried in order: for the dynamic linker, or absolute paths */
    size_t n_names;
    /* Is an open library what is looked for, and does it compute? Then its functions go to `found`. */
    enum kt_status (*take)(const struct kt_host *host, void *handle, const char *name, void *found,
                           struct kt_error *error);
};

/* dlsym returns the address of an object, which C does not convert to a function's. */
static bool find_function(void *handle, const char *symbol, void *function)
{
    void *address = dlsym(handle, symbol);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

/* Does the dynamic linker say that there is no such library, or what is wrong with it? */
static bool is_missing(const char *name, const char *text)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && strstr(text, "No such file or directory");
}

static enum kt_status open_one(const struct kt_host *host, const struct library *library, const char *name,
                               void *found, struct kt_error *error)
{
    enum kt_status status = name[0] == '/' ? host->trust(host, name, error) : KT_OK;
    if (status)
        return status;
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle)
        return library->take(host, handle, name, found, error);
    const char *text = dlerror();
    text = text ? text : name;
    return kt_plugin_fail(error, is_missing(name, text) ? KT_E_NOT_FOUND : KT_E_UNSUPPORTED, "%s", text);
}

static enum kt_status open_any(const struct kt_host *host, const struct library *library, void *found,
                               struct kt_error *error)
{
    char text[sizeof error->message] = "";
    size_t used = 0;
    for (size_t i = 0; i < library->n_names; i++) {
        struct kt_error cause = {KT_OK, ""};
        enum kt_status status = open_one(host, library, library->names[i], found, &cause);
        if (status == KT_OK || status == KT_E_NOMEM)
            return status ? kt_plugin_fail(error, status, "%s", cause.message) : KT_OK;
        if (status == KT_E_NOT_FOUND)
            continue;
        int length = snprintf(text + used, sizeof text - used, "%s%s", used ? "; " : "", cause.message);
        used += length > 0 ? (size_t)length : 0;
        used = used < sizeof text ? used : sizeof text - 1;
    }
    if (used)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "%s", text);
    for (size_t i = 0; i < library->n_names; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", library->names[i]);
    return kt_plugin_fail(error, KT_E_UNSUPPORTED, "the dynamic linker finds none of %s", text);
}

/* `value` is the option's: LIBRARY_AUTO, LIBRARY_NONE, an absolute path, which must be as safe as a plugin's,
 * or a name for the dynamic linker. KT_E_UNSUPPORTED says what is wrong with each library that was tried. */
static enum kt_status open_library(const struct kt_host *host, const struct library *library,
                                   const char *value, void *found, struct kt_error *error)
{
    if (strcmp(value, LIBRARY_NONE) == 0)
        return kt_plugin_fail(error, KT_E_UNSUPPORTED, "library = " LIBRARY_NONE);
    if (strcmp(value, LIBRARY_AUTO) == 0)
        return open_any(host, library, found, error);
    if (value[0] == '\0' || (value[0] != '/' && strchr(value, '/')))
        return kt_plugin_fail(error, KT_E_INVALID,
                              "library = %s: neither an absolute path nor a name "
                              "without /",
                              value);
    return open_one(host, library, value, found, error);
}

#endif
