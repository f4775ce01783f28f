/* SPDX-License-Identifier: Apache-2.0 */
/* config_files.c - finds and reads the files of all layers. */
#define _GNU_SOURCE
#include "core/config/config_files.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/config/config_dropin.h"
#include "core/config/config_env.h"
#include "core/config/config_schema.h"
#include "core/config/config_store.h"
#include "core/config/tuned_file.h"
#include "core/config/ini.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The state of one reading of all layers. */
struct scan {
    struct kt_config *config;
    const struct config_visit *visit;
    struct kt_error first;   /* of the first file that failed */
    enum kt_status status;   /* its status */
    enum config_layer layer; /* of the file being read */
    const char *path;
    bool told;                  /* the visitor, of its errors */
    struct kt_tuned_file tuned; /* of a tuned.ini */
};

static bool is_dropin(const struct scan *scan)
{
    return scan->layer == LAYER_SHIPPED || scan->layer == LAYER_DROPIN;
}

static enum kt_status take_section(void *data, const char *section, unsigned line, struct kt_error *error)
{
    struct scan *scan = data;
    enum kt_status status = kt_config_check_section(scan->config, section, error);
    if (status == KT_OK)
        status = kt_tuned_file_section(&scan->tuned, section, error);
    if (status != KT_OK || scan->tuned.reading)
        return status;
    const char *name = kt_config_plugin_of(section);
    if (!name && is_dropin(scan))
        return kt_fail(error, KT_E_CONFIG,
                       "[%s]: a drop-in may hold sections [plugin.NAME] only; %s settings go to "
                       "kt.ini",
                       section, section);
    if (!name)
        return KT_OK;
    char *origin;
    if (asprintf(&origin, "%s:%u", scan->path, line) < 0)
        return kt_fail(error, KT_E_NOMEM, "no memory for the configuration");
    status = kt_config_declare(scan->config, scan->layer, name, scan->path, origin, error);
    free(origin);
    return status;
}

static enum kt_status take_setting(void *data, const char *section, const char *key, const char *value,
                                   unsigned line, struct kt_error *error)
{
    struct scan *scan = data;
    bool taken = false;
    enum kt_status status = kt_tuned_file_setting(&scan->tuned, section, key, value, &taken, error);
    if (status != KT_OK || taken)
        return status;
    char *origin;
    if (asprintf(&origin, "%s:%u", scan->path, line) < 0)
        return kt_fail(error, KT_E_NOMEM, "no memory for the configuration");
    status = kt_config_put(scan->config, scan->layer, section, key, value, origin, error);
    free(origin);
    return status;
}

static void tell(const struct scan *scan, const char *path, enum kt_config_file_state state,
                 const char *message)
{
    const struct kt_config_file file = {path, state, message};
    if (scan->visit->file)
        scan->visit->file(scan->visit->data, &file);
}

/* A visitor wants to know each error of a file, and not only the first. */
static void tell_fault(void *data, const struct kt_error *error)
{
    struct scan *scan = data;
    scan->told = true;
    tell(scan, scan->path, KT_CONFIG_FILE_FAILED, error->message);
}

static struct kt_ini_handler handle(struct scan *scan)
{
    return (struct kt_ini_handler){scan, take_section, take_setting, scan->visit->file ? tell_fault : NULL};
}

/* Reports a file to the visitor, and keeps its error if it is the first. True: go on. */
static bool report(struct scan *scan, const char *path, enum kt_status status, bool may_be_absent,
                   const struct kt_error *error)
{
    bool absent = status == KT_E_NOT_FOUND && may_be_absent;
    bool told = scan->told;
    scan->told = false;
    if (status != KT_OK && !absent && scan->status == KT_OK) {
        scan->status = status == KT_E_NOT_FOUND ? KT_E_IO : status;
        scan->first = *error;
        scan->first.status = scan->status;
    }
    if (!told)
        tell(scan, path,
             status == KT_OK ? KT_CONFIG_FILE_READ
             : absent        ? KT_CONFIG_FILE_ABSENT
                             : KT_CONFIG_FILE_FAILED,
             status == KT_OK || absent ? "" : error->message);
    return scan->status == KT_OK || scan->visit->file;
}

static bool read_file(struct scan *scan, enum config_layer layer, const char *path, bool may_be_absent)
{
    const struct kt_ini_handler handler = handle(scan);
    struct kt_error error = {0};
    scan->layer = layer;
    scan->path = path;
    kt_log_write(&scan->config->log, KT_LOG_DEBUG, "config: reading %s", path);
    enum kt_status status = kt_ini_read(path, &handler, &error);
    return report(scan, path, status, may_be_absent, &error);
}

static bool fail_memory(struct scan *scan, const char *path)
{
    struct kt_error error;
    (void)kt_fail(&error, KT_E_NOMEM, "%s: no memory to read it", path);
    return report(scan, path, KT_E_NOMEM, false, &error);
}

/* One that is not there is not worth a word. */
static bool read_tuned(struct scan *scan, enum config_layer layer, const char *path)
{
    const struct kt_ini_handler handler = handle(scan);
    struct kt_error error = {0};
    scan->layer = layer;
    scan->path = path;
    kt_tuned_file_begin(&scan->tuned);
    enum kt_status status = kt_ini_read(path, &handler, &error);
    bool ignored = status == KT_OK && layer == LAYER_TUNED && *scan->tuned.other;
    scan->tuned.reading = false;
    if (status == KT_E_NOT_FOUND)
        return true;
    if (!ignored)
        return report(scan, path, status, true, &error);
    (void)kt_fail(&error, KT_OK, "for %s, this is %s: kt tune measures again", scan->tuned.other,
                  scan->tuned.own);
    kt_log_write(&scan->config->log, KT_LOG_WARNING, "config: %s: %s", path, error.message);
    tell(scan, path, KT_CONFIG_FILE_IGNORED, error.message);
    return true;
}

/* tuned.ini in the folder of `file`, or of a folder. */
static bool read_tuned_beside(struct scan *scan, enum config_layer layer, const char *file)
{
    size_t length = strlen(file);
    while (length > 1 && file[length - 1] == '/')
        length--;
    while (length > 0 && file[length - 1] != '/')
        length--;
    char *path;
    if (asprintf(&path, "%.*stuned.ini", (int)length, file) < 0)
        return fail_memory(scan, file);
    bool more = read_tuned(scan, layer, path);
    free(path);
    return more;
}

/* A drop-in that cannot be used is reported, and the others are read. Only what may be over soon, such as a
 * lack of memory, ends it all. */
static bool read_dropin(struct scan *scan, enum config_layer layer, const char *path)
{
    struct kt_config *draft = calloc(1, sizeof *draft);
    struct kt_error error = {0};
    if (!draft)
        return fail_memory(scan, path);
    struct scan inner = {.config = draft, .visit = scan->visit, .layer = layer, .path = path};
    const struct kt_ini_handler handler = handle(&inner);
    kt_log_write(&scan->config->log, KT_LOG_DEBUG, "config: reading %s", path);
    enum kt_status status = kt_ini_read(path, &handler, &error);
    if (status == KT_OK)
        status = kt_config_merge(scan->config, draft, &error);
    bool refused = status != KT_OK && !kt_status_passes(status);
    if (refused) {
        struct kt_error cause = error;
        kt_log_write(&scan->config->log, KT_LOG_WARNING, "config: %s", cause.message);
        if (!inner.told)
            tell(scan, path, KT_CONFIG_FILE_FAILED, cause.message);
        status = kt_config_blame(scan->config, draft, layer, path, cause.message, &error);
    }
    kt_config_free(draft);
    return refused && status == KT_OK ? true : report(scan, path, status, false, &error);
}

static int is_ini(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return entry->d_name[0] != '.' && length > 4 && strcmp(entry->d_name + length - 4, ".ini") == 0;
}

/* alphasort follows the locale; drop-ins are read in the same order everywhere. */
static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool read_folder(struct scan *scan, enum config_layer layer, const char *folder)
{
    struct dirent **entries;
    struct stat link;
    int n = scandir(folder, &entries, is_ini, by_bytes);
    if (n < 0) {
        struct kt_error error;
        int number = errno;
        bool absent = number == ENOENT && lstat(folder, &link) != 0;
        enum kt_status status =
            kt_fail(&error, absent ? KT_E_NOT_FOUND : kt_status_of_errno(number, KT_E_IO),
                    "%s: the folder of drop-ins cannot be read: %s", folder, strerror(number));
        return report(scan, folder, status, true, &error);
    }
    bool more = true;
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        if (more && asprintf(&path, "%s/%s", folder, entries[i]->d_name) < 0) {
            path = NULL;
            more = fail_memory(scan, folder);
        } else if (more) {
            more = read_dropin(scan, layer, path);
        }
        free(path);
        free(entries[i]);
    }
    free(entries);
    return more;
}

static const char *or_built_in(const char *variable, const char *built_in)
{
    const char *text = kt_config_environment(variable);
    return text ? text : built_in;
}

/* A file in a home folder that this process cannot read is taken as absent. */
static bool read_user_file(struct scan *scan)
{
    const char *home = kt_config_environment("XDG_CONFIG_HOME");
    const char *below = "kt-kernel/kt.ini";
    if (!home || home[0] != '/') { /* the base directory specification ignores relative ones */
        home = kt_config_environment("HOME");
        below = ".config/kt-kernel/kt.ini";
    }
    if (!home || home[0] != '/')
        return true;
    char *path;
    if (asprintf(&path, "%s/%s", home, below) < 0)
        return fail_memory(scan, below);
    struct stat file;
    bool more = true;
    if (lstat(path, &file) != 0 && errno == EACCES) {
        struct kt_error error;
        more = report(scan, path, kt_fail(&error, KT_E_NOT_FOUND, "%s: its folder may not be read", path),
                      true, &error);
    } else {
        more = read_file(scan, LAYER_USER, path, true) && read_tuned_beside(scan, LAYER_TUNED, path);
    }
    free(path);
    return more;
}

static bool read_system(struct scan *scan)
{
    const char *folder = or_built_in("KT_KERNEL_SYSCONFDIR", KT_SYSCONFDIR);
    char *path;
    if (asprintf(&path, "%s/plugins.d", folder) < 0)
        return fail_memory(scan, folder);
    bool more = read_folder(scan, LAYER_DROPIN, path);
    free(path);
    if (!more)
        return false;
    if (asprintf(&path, "%s/kt.ini", folder) < 0)
        return fail_memory(scan, folder);
    more = read_file(scan, LAYER_SYSTEM, path, true);
    free(path);
    return more;
}

enum kt_status kt_config_read_files(struct kt_config *config, const struct kt_config_params *params,
                                    const struct config_visit *visit, struct kt_error *error)
{
    struct scan scan = {.config = config, .visit = visit, .status = KT_OK};
    const char *dropins = params->dropin_folder ? params->dropin_folder : KT_PLUGINCONFDIR;
    const char *file = params->file;
    const char *shipped = or_built_in("KT_KERNEL_PLUGINCONFDIR", dropins);
    bool more =
        read_folder(&scan, LAYER_SHIPPED, shipped) && read_tuned_beside(&scan, LAYER_MEASURED, shipped);
    if (!file)
        file = kt_config_environment("KT_KERNEL_CONFIG");
    if (more && file)
        (void)(read_file(&scan, LAYER_USER, file, false) && read_tuned_beside(&scan, LAYER_TUNED, file));
    else if (more && read_system(&scan))
        (void)read_user_file(&scan);
    if (scan.status != KT_OK && error)
        *error = scan.first;
    return scan.status;
}
