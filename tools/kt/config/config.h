/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h - shared by the sources of kt config: changes to the text of a configuration file, and the file
 * that is locked, read and replaced as a whole.
 */
#ifndef KT_TOOL_CONFIG_H
#define KT_TOOL_CONFIG_H

#include "tools/kt/base/cli.h"

#include <sys/stat.h>

/* "section.key", cut at its last dot. */
struct config_key {
    const char *text;
    char section[128], key[64];
};

/* ---- text.c -------------------------------------------------------------------------- */

/* The bytes of an INI file; owned. */
struct ini_text {
    char *text;
    size_t size;
};

/* Puts `key = value` into the section: in place of the value that is there, else below a line that has it as
 * a comment, else behind the section's last setting, else at the end. All other bytes stay. Returns the
 * number of the line. */
unsigned ini_text_set(const struct kt_cli *cli, struct ini_text *ini, const struct config_key *key,
                      const char *value);

/* Removes the lines that set the key, and the header of a section [plugin.NAME] without any settings left:
 * it would still configure the plugin. Returns the number of the first, 0: there is none. */
unsigned ini_text_unset(const struct kt_cli *cli, struct ini_text *ini, const struct config_key *key);

/* Removes a section: its header, its settings and what stands between them. Comments and blank lines behind
 * the last setting stay, for they may speak of the next section. Returns the header's line, 0: there is none.
 */
unsigned ini_text_remove(const struct kt_cli *cli, struct ini_text *ini, const char *section);
/* Gives the section another name. */
unsigned ini_text_rename(const struct kt_cli *cli, struct ini_text *ini, const char *section,
                         const char *name);

/* A section's header, or a setting: then `value` is not NULL. Not terminated. */
struct ini_item {
    unsigned line;
    const char *name, *value;
    size_t name_length, value_length;
};
/* Shows all headers and settings to `take`, in order, while it returns true. Returns 0, or the number of the
 * first line that is neither, nor a comment, nor blank. */
unsigned ini_text_walk(const struct ini_text *ini, bool (*take)(void *data, const struct ini_item *item),
                       void *data);

/* ---- file.c -------------------------------------------------------------------------- */

struct config_file {
    char *path;   /* as the library names it */
    char *target; /* where links lead */
    int folder;   /* the target's, locked against other changes by kt */
    bool exists;
    struct stat stat;
    struct ini_text ini;
};

/* The user's kt.ini, or whichever file is read in its place, as the library finds it; with `system` that of
 * the machine. NULL after a message. */
char *config_file_path(const struct kt_cli *cli, bool system);

/* Locks and reads the file; makes the folders that are missing with `mode`, unless that is 0. Returns 0, or
 * an exit code after a message. */
int config_file_open(const struct kt_cli *cli, struct config_file *file, const char *path, mode_t mode);

/* Writes the text to a temporary file. If `check` (may be NULL) returns 0 for its path, that replaces the
 * file, and keeps its mode and owner. */
int config_file_write(const struct kt_cli *cli, struct config_file *file,
                      int (*check)(const char *temporary, void *data), void *data);
void config_file_close(struct config_file *file);

/* ---- key.c --------------------------------------------------------------------------- */

int config_get(struct kt_cli *cli, const char *text);
int config_set(struct kt_cli *cli, const char *text, const char *value, bool system);
int config_unset(struct kt_cli *cli, const char *text, bool system);

#endif
