/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/config.h - the configuration: files, environment and settings of the caller. Part of <kt/kt.h>, which
 * includes it and describes what all functions have in common.
 */
#ifndef KT_CONFIG_H
#define KT_CONFIG_H

#include <kt/types.h>

#ifdef __cplusplus
/* A struct and the function that fills it have one name, as stat(2) has. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#endif

struct kt_config;

/** Receives one line of text without a newline; may be called from any thread. */
typedef void (*kt_log_fn)(void *data, enum kt_log_level level, const char *message);

struct kt_config_params {
    size_t struct_size;
    const char *file;            /**< read only this file and the shipped drop-ins; NULL: all layers */
    const char *const *settings; /**< [n_settings]: "section.key=value", override files and environment */
    size_t n_settings;
    kt_log_fn log; /**< NULL: messages are dropped */
    void *log_data;
    const char *plugin_folder; /**< absolute; searched for plugins after core.plugin_path; NULL: the folder
                                  that was set when the library was built. Copied. */
    const char *dropin_folder; /**< absolute; the shipped drop-ins, unless KT_KERNEL_PLUGINCONFDIR is set;
                                      NULL: likewise */
};
#define KT_CONFIG_PARAMS_INIT KT_INIT(kt_config_params)

/** A setting: its value and where it comes from. Strings live as long as the config. */
struct kt_setting {
    const char *section; /**< "core", "plugin.llamafile" */
    const char *key;
    const char *value;
    const char *origin; /**< "default", "/etc/kt-kernel/kt.ini:12", "environment KT_...", "parameter" */
    const char *help;   /**< one line, or "" */
};

/** The state of a configuration file. */
enum kt_config_file_state {
    KT_CONFIG_FILE_READ = 0,
    KT_CONFIG_FILE_ABSENT = 1,
    KT_CONFIG_FILE_FAILED = 2,
    KT_CONFIG_FILE_IGNORED = 3 /**< values of kt tune for another CPU, or parts of it */
};
struct kt_config_file {
    const char *path;
    enum kt_config_file_state state;
    const char *message; /**< why it failed or is ignored, "" otherwise */
};

/**
 * Reads the configuration, in ascending precedence: shipped drop-ins, /etc drop-ins, /etc kt.ini, the user's
 * kt.ini, the shipped tuned.ini, the user's, environment KT_KERNEL_*, params->settings. If an existing file
 * cannot be read or is invalid, the call fails, and the message has file:line and what to do; nothing in an
 * invalid file is used. An invalid drop-in does not fail the call: it is logged as a warning, and its
 * backends cannot be used (KT_BACKEND_FAILED). `params` may be NULL.
 */
enum kt_status kt_config_create(const struct kt_config_params *params, struct kt_config **config,
                                struct kt_error *error);
/** `config` may be NULL. Contexts made from it keep what they need. */
void kt_config_destroy(struct kt_config *config);

/** Settings in order of section and key; every known core setting and everything that was set. */
size_t kt_config_setting_count(const struct kt_config *config);
enum kt_status kt_config_setting(const struct kt_config *config, size_t index, struct kt_setting *setting,
                                 struct kt_error *error);

/**
 * Opens each enabled plugin in a child process, for at most timeout_ms each. One that crashes, ends the
 * process or does not return is then a failed plugin with that reason, and kt_context_create does not open
 * it. Without this call, such a plugin would end the caller's process. Call it before the configuration is
 * used and before the program starts threads, because it forks. Costs as much as opening the plugins.
 * KT_E_SYSTEM: a process cannot be started; nothing has changed.
 */
enum kt_status kt_config_try_plugins(struct kt_config *config, uint32_t timeout_ms, struct kt_error *error);

/**
 * Lists the configuration files in reading order with their state, even if kt_config_create fails: reads
 * all files and continues after an error, also within a file. `visit` is called once per file, and for a
 * failed file once per invalid line, as KT_CONFIG_FILE_FAILED with its message. Returns the same as
 * kt_config_create: the first error in a file other than a drop-in, in the environment or in the settings.
 */
enum kt_status kt_config_check(const struct kt_config_params *params,
                               void (*visit)(void *data, const struct kt_config_file *file), void *data,
                               struct kt_error *error);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
