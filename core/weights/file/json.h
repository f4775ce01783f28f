/* SPDX-License-Identifier: Apache-2.0 */
/* json.h - JSON in files: bounded in cost before it is parsed. */
#ifndef KT_CORE_WEIGHTS_FILE_JSON_H
#define KT_CORE_WEIGHTS_FILE_JSON_H

#include "core/weights/file/file.h"

#include <jansson.h>

/* The limits of a text. It may have one object or array for each 16 bytes, and `spare` more. */
struct kt_json_bounds {
    const char *what; /* "the header", for messages */
    uint64_t largest; /* bytes */
    uint32_t depth;
    uint32_t spare;
};

/* Of the header of a safetensors file, which the format limits to 100 MB. The entry of a tensor has 3
 * containers in more than 48 bytes, so there are fewer than bytes / 16, except for the outermost ones. */
extern const struct kt_json_bounds kt_safetensors_bounds;

/* Parses an object, `size` bytes of the file from byte `offset` on, member by member: strict JSON, and each
 * costs memory of its own only. `take` gets the key and the value, which it may keep a reference of; a key
 * that occurs twice is its to find. */
typedef enum kt_status (*kt_json_member_fn)(void *data, const char *key, json_t *value,
                                            struct kt_error *error);
enum kt_status kt_json_members(const struct kt_file *file, uint64_t offset, uint64_t size,
                               const struct kt_json_bounds *bounds, kt_json_member_fn take, void *data,
                               struct kt_error *error);

/* Opens the file at `path`, which is JSON from its first to its last byte. `label` gets the path as
 * messages show it. */
enum kt_status kt_json_open(const char *path, const struct kt_json_bounds *bounds, char label[KT_LABEL_SIZE],
                            json_t **root, struct kt_error *error);

/* The text of a value, to be freed: read back within `bounds` it is the same value. `label`: of the file that
 * it is for; `root` may be NULL: there was no memory to make it. */
enum kt_status kt_json_text(const char *label, const json_t *root, const struct kt_json_bounds *bounds,
                            char **text, size_t *size, struct kt_error *error);

/* The value of a key of an object; NULL: it is not there or null. */
const json_t *kt_json_find(const json_t *object, const char *key);

/* A whole number and the key that it stood under; key NULL: it was not there. */
struct kt_json_count {
    uint64_t value;
    const char *key;
};

/* A whole number of 0 to `largest`, or an error; `key` must outlive `count`. */
enum kt_status kt_json_read_count(const char *label, const struct json_t *value, const char *key,
                                  uint64_t largest, struct kt_json_count *said, struct kt_error *error);
/* A string, if `value` is not NULL. */
enum kt_status kt_json_read_text(const char *label, const struct json_t *value, const char *key, char *text,
                                 size_t size, struct kt_error *error);

#endif
