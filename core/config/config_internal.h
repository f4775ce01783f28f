/* SPDX-License-Identifier: Apache-2.0 */
/* config_internal.h - how a configuration is built; only for core/config*.c. */
#ifndef KT_CORE_CONFIG_CONFIG_INTERNAL_H
#define KT_CORE_CONFIG_CONFIG_INTERNAL_H

#include "core/config/config.h"
#include "core/base/option.h"

#include <stdatomic.h>

/* Rising: a setting of a later layer replaces that of an earlier one. */
enum config_layer {
    LAYER_DEFAULT,
    LAYER_SHIPPED, /* drop-ins that come with the plugins */
    LAYER_DROPIN,  /* the administrator's drop-ins */
    LAYER_SYSTEM,  /* kt.ini */
    LAYER_USER,    /* the user's kt.ini, or the file that the caller named */
    LAYER_ENVIRONMENT,
    LAYER_PARAMETER
};

/* Strings are owned, but for help. */
struct stored_setting {
    struct kt_setting setting;
    enum config_layer layer;
};

struct stored_plugin {
    char *name;
    char *origin; /* where its section stands first */
    char *file;   /* the last file that holds its section, and that file's layer */
    enum config_layer layer;
    char *broken; /* why a drop-in about it could not be used, or NULL */
};

struct kt_config {
    atomic_uint references;
    struct kt_log log;
    struct stored_setting *setting; /* in order of section and key */
    size_t n_settings, settings_room;
    struct stored_plugin *plugin; /* in order of name */
    size_t n_plugins, plugins_room;
    const char **plugin_names;
    char *plugin_folder; /* kt_config_params.plugin_folder */
};

/* config_schema.c: what may be set. */

extern const struct kt_option kt_config_core_options[];
extern const size_t kt_config_n_core_options;
extern const struct kt_option kt_config_plugin_options[]; /* of every [plugin.NAME] */
extern const size_t kt_config_n_plugin_options;

/* NAME of "plugin.NAME", or NULL if the section is not of that form. */
const char *kt_config_plugin_of(const char *section);

/* Is there such a section? With a suggestion from the plugins that are known. */
enum kt_status kt_config_check_section(const struct kt_config *config, const char *section,
                                       struct kt_error *error);

/* Key and value: of [core] wholly, of a plugin's section what the core reads itself. `help` is the
 * option's line or "". */
enum kt_status kt_config_check_setting(const char *section, const char *key, const char *value,
                                       const char **help, struct kt_error *error);

/* config_store.c: the growing config. Messages do not name the origin. */

enum kt_status kt_config_put(struct kt_config *config, enum config_layer layer, const char *section,
                             const char *key, const char *value, const char *origin, struct kt_error *error);

/* Notes that a plugin's section stands in `file`, and gives its keys their defaults. Two drop-ins
 * of one folder that hold the same section are an error. `file` "": not a file. */
enum kt_status kt_config_declare(struct kt_config *config, enum config_layer layer, const char *name,
                                 const char *file, const char *origin, struct kt_error *error);

struct stored_plugin *kt_config_find_plugin(const struct kt_config *config, const char *name);
void kt_config_free(struct kt_config *config);

/* config_dropin.c: drop-ins, which are read into a config of their own first, the draft. */

/* Takes all of the draft or, where one of its plugins stands in another drop-in of its layer, nothing. */
enum kt_status kt_config_merge(struct kt_config *config, const struct kt_config *draft,
                               struct kt_error *error);

/* Says of the plugins whose sections the draft has that they cannot be used; if it has none, of the one
 * that the file is called after. */
enum kt_status kt_config_blame(struct kt_config *config, const struct kt_config *draft,
                               enum config_layer layer, const char *path, const char *message,
                               struct kt_error *error);

/* config_files.c: the layers of files. */

struct config_visit {
    void (*file)(void *data, const struct kt_config_file *file); /* NULL: stop at the first error */
    void *data;
};

/* Reads all files, with params->file (may be NULL) instead of the last three layers. The first error. */
enum kt_status kt_config_read_files(struct kt_config *config, const struct kt_config_params *params,
                                    const struct config_visit *visit, struct kt_error *error);

/* config_env.c: environment and "section.key=value" texts. */

/* An environment variable that is set, not empty and may be trusted, or NULL. */
const char *kt_config_environment(const char *name);
enum kt_status kt_config_declare_texts(struct kt_config *config, const char *const *texts, size_t n,
                                       struct kt_error *error);
enum kt_status kt_config_read_texts(struct kt_config *config, const char *const *texts, size_t n,
                                    struct kt_error *error);
enum kt_status kt_config_read_environment(struct kt_config *config, struct kt_error *error);

#endif
