/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - what a checkpoint says of its model, in the metadata of a GGUF file or in config.json, read in
 * one way. A setting has two names: a GGUF key without "ARCHITECTURE." before it, and a key of config.json,
 * in which a slash leads into an object ("rope_scaling/factor"). NULL: that kind of file has no such setting.
 *
 * After the first failure, which `status` and `error` keep, all functions return their fallbacks.
 */
#ifndef KT_ENGINE_MODEL_CONFIG_SETTINGS_H
#define KT_ENGINE_MODEL_CONFIG_SETTINGS_H

#include <jansson.h>
#include <kt/kt.h>
#include <stdbool.h>

#define KT_SETTINGS_READ 160

/** What a class of config.json calls a setting that others call otherwise. */
struct kt_own_name {
    const char *usual, *own;
};

struct kt_settings {
    struct kt_checkpoint *checkpoint; /**< NULL: there is config.json only */
    bool is_gguf;
    const char *architecture; /**< of a GGUF file, or the class of config.json */
    json_t *root;             /**< of config.json */
    const json_t *model;      /**< its root, or "text_config" where models for images have theirs */
    struct kt_error *error;
    enum kt_status status;
    const char *read[KT_SETTINGS_READ]; /**< names that were asked for */
    uint32_t n_read;
    const struct kt_own_name *own_names; /**< up to one without names; NULL: none */
    const char *rope_part; /**< "rope_scaling/X" is of that type of layers, where these have one each */
};

enum kt_status kt_settings_open(struct kt_settings *settings, struct kt_checkpoint *checkpoint,
                                struct kt_error *error);
/** Those of a config.json without a checkpoint. */
enum kt_status kt_settings_open_text(struct kt_settings *settings, const char *json, uint64_t size,
                                     struct kt_error *error);
void kt_settings_close(struct kt_settings *settings);

bool kt_settings_has(struct kt_settings *settings, const char *gguf, const char *json);
/** Whether config.json says null, which need not be what a key that is missing says. */
bool kt_settings_is_null(const struct kt_settings *settings, const char *json);
/** What config.json has under a name, without reading it; NULL: nothing, or null. */
const json_t *kt_settings_json(const struct kt_settings *settings, const char *json);
/** How many elements a list has; 1: it is not a list, 0: there is none. */
uint64_t kt_settings_count(struct kt_settings *settings, const char *gguf, const char *json);

bool kt_settings_is_list(struct kt_settings *settings, const char *gguf);

/** A number, or element `index` of a list; a number that is not a list serves for each index. */
uint64_t kt_settings_uint_at(struct kt_settings *settings, const char *gguf, const char *json, uint64_t index,
                             uint64_t fallback);
uint64_t kt_settings_uint(struct kt_settings *settings, const char *gguf, const char *json,
                          uint64_t fallback);
/** One that must be there. */
uint64_t kt_settings_need(struct kt_settings *settings, const char *gguf, const char *json);
/** Of a list, null is 0. */
double kt_settings_real_at(struct kt_settings *settings, const char *gguf, const char *json, uint64_t index,
                           double fallback);
double kt_settings_real(struct kt_settings *settings, const char *gguf, const char *json, double fallback);
/** null in config.json is false. */
bool kt_settings_flag(struct kt_settings *settings, const char *gguf, const char *json, bool fallback);
/** Element `index` of a list of truths, or of numbers that are 0 or not. */
bool kt_settings_flag_at(struct kt_settings *settings, const char *gguf, uint64_t index);
/** A text, or element `index` of a list; "" where there is none. */
void kt_settings_text(struct kt_settings *settings, const char *gguf, const char *json, uint64_t index,
                      char *text, size_t size);

/** Keeps the first failure; the message is given the place before it. */
void kt_settings_fail(struct kt_settings *settings, enum kt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Whether a setting was asked for, by the name that it has in this kind of file. */
bool kt_settings_was_read(const struct kt_settings *settings, const char *name);
/** Fails on settings that change what is computed and that nobody asked for, unread.c. */
void kt_settings_refuse_unread(struct kt_settings *settings);

#endif
