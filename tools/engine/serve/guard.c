/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/guard.h"
#include "tools/engine/base/fail.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- keys ---- */

bool kt_keys_add(struct kt_keys *keys, const char *key)
{
    char **grown = realloc(keys->keys, (keys->n + 1) * sizeof(*grown));
    if (!grown)
        return false;
    keys->keys = grown;
    grown[keys->n] = strdup(key);
    if (!grown[keys->n])
        return false;
    keys->n++;
    return true;
}

void kt_keys_free(struct kt_keys *keys)
{
    for (size_t i = 0; i < keys->n; i++) {
        explicit_bzero(keys->keys[i], strlen(keys->keys[i]));
        free(keys->keys[i]);
    }
    free(keys->keys);
    *keys = (struct kt_keys){.keys = NULL};
}

static enum kt_status read_lines(struct kt_keys *keys, FILE *file, const char *path, struct kt_error *error)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    enum kt_status status = KT_OK;
    while (status == KT_OK && (length = getline(&line, &capacity, file)) >= 0) {
        while (length > 0 && strchr(" \t\r\n", line[length - 1]))
            line[--length] = '\0';
        const char *key = line + strspn(line, " \t");
        if (*key && *key != '#' && !kt_keys_add(keys, key))
            status = kt_engine_fail(error, KT_E_NOMEM, "%s: no memory for its keys", path);
    }
    if (line)
        explicit_bzero(line, capacity);
    free(line);
    if (status == KT_OK && ferror(file))
        return kt_engine_fail(error, KT_E_IO, "%s: cannot be read", path);
    return status;
}

enum kt_status kt_keys_read(struct kt_keys *keys, const char *path, struct kt_error *error)
{
    struct stat about;
    FILE *file = fopen(path, "re");
    if (!file)
        return kt_engine_fail(error, KT_E_IO, "%s: %s", path, strerror(errno));
    size_t before = keys->n;
    enum kt_status status = KT_OK;
    if (fstat(fileno(file), &about) != 0)
        status = kt_engine_fail(error, KT_E_IO, "%s: %s", path, strerror(errno));
    else if (about.st_mode & (S_IRWXG | S_IRWXO))
        status = kt_engine_fail(error, KT_E_INVALID, "%s: others than its owner may use it; say chmod 600 %s",
                                path, path);
    if (status == KT_OK)
        status = read_lines(keys, file, path, error);
    (void)fclose(file);
    if (status == KT_OK && keys->n == before)
        status = kt_engine_fail(error, KT_E_INVALID, "%s: it has no key; one is expected on each line", path);
    return status;
}

/* Looks at all bytes of the given key, wherever the first wrong one is. */
static bool is_same(const char *key, const char *given)
{
    size_t length = strlen(key), n = strlen(given);
    volatile unsigned char differs = length != n;
    for (size_t i = 0; i < n; i++)
        differs = (unsigned char)(differs |
                                  ((unsigned char)given[i] ^ (unsigned char)key[length ? i % length : 0]));
    return !differs;
}

size_t kt_keys_find(const struct kt_keys *keys, const char *key)
{
    size_t found = 0;
    for (size_t i = 0; i < keys->n; i++)
        found |= is_same(keys->keys[i], key) && !found ? i + 1 : 0;
    return found;
}

/* ---- names ---- */

/* "name", "name:80", "[::1]:80" -> the name's length, its start in *name. */
static size_t cut_port(const char *header, const char **name)
{
    const char *end;
    if (*header == '[') {
        *name = header + 1;
        end = strchr(header, ']');
        return end ? (size_t)(end - header - 1) : 0;
    }
    *name = header;
    end = strchr(header, ':');
    /* More than one colon: an address of IPv6 without brackets. */
    return end && !strchr(end + 1, ':') ? (size_t)(end - header) : strlen(header);
}

static bool is_local(const char *name, size_t length)
{
    static const char word[] = "localhost";
    const size_t n = sizeof(word) - 1;
    if (length > 0 && name[length - 1] == '.')
        length--;
    if (length >= n && strncasecmp(name + length - n, word, n) == 0)
        return length == n || name[length - n - 1] == '.';
    if (length >= 4 && memcmp(name, "127.", 4) == 0)
        return strspn(name, "0123456789.") >= length;
    return length == 3 && memcmp(name, "::1", 3) == 0;
}

bool kt_host_is_local(const char *host)
{
    return is_local(host, strlen(host));
}

bool kt_host_allows(const char *bound, const char *header)
{
    const char *name;
    size_t length = cut_port(header, &name);
    return !kt_host_is_local(bound) || is_local(name, length) ||
           (length == strlen(bound) && strncasecmp(name, bound, length) == 0);
}

bool kt_origin_allows(const char *origin, const char *host)
{
    if (!origin)
        return true;
    const char *name = strstr(origin, "://");
    return name && host && strcasecmp(name + 3, host) == 0;
}
