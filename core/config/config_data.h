/* SPDX-License-Identifier: Apache-2.0 */
/* config_data.h - a configuration while it is built. */
#ifndef KT_CORE_CONFIG_CONFIG_DATA_H
#define KT_CORE_CONFIG_CONFIG_DATA_H

#include "core/base/log.h"

#include <kt/kt.h>
#include <stdatomic.h>
#include <stddef.h>

/* A setting of a later layer replaces one of an earlier layer. */
enum config_layer {
    LAYER_DEFAULT,
    LAYER_SHIPPED,  /* drop-ins that come with the plugins */
    LAYER_DROPIN,   /* the administrator's drop-ins */
    LAYER_SYSTEM,   /* kt.ini */
    LAYER_USER,     /* the user's kt.ini, or the file that the caller named */
    LAYER_MEASURED, /* tuned.ini that is installed: of known CPUs */
    LAYER_TUNED,    /* tuned.ini beside the user's kt.ini, as kt tune writes it */
    LAYER_ENVIRONMENT,
    LAYER_PARAMETER
};

/* Owns its strings, except `help`. */
struct stored_setting {
    struct kt_setting setting;
    enum config_layer layer;
};

struct stored_plugin {
    char *name;
    char *origin; /* the first line of its section */
    char *file;   /* the last file with its section, and that file's layer */
    enum config_layer layer;
    char *broken; /* why a drop-in about it, or itself, cannot be used, or NULL */
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

#endif
