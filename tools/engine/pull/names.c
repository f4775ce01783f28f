/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - names of files and addresses that come from elsewhere. */
#include "tools/engine/pull/pull.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_safe_part(const char *part, size_t length)
{
    static const char own[] = ".part", sums[] = ".kt-pull";
    if (length == 0 || length > 200 || (length == 1 && part[0] == '.') ||
        (length == 2 && memcmp(part, "..", 2) == 0))
        return false;
    if (length >= sizeof(own) - 1 &&
        strncasecmp(part + length - (sizeof(own) - 1), own, sizeof(own) - 1) == 0)
        return false;
    return length < sizeof(sums) - 1 || strncasecmp(part, sums, sizeof(sums) - 1) != 0;
}

bool pull_is_safe(const char *path)
{
    size_t total = strlen(path);
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7F || strchr("\\:*?\"<>|", *c))
            return false;
    for (const char *part = path;; part++) {
        size_t length = strcspn(part, "/");
        if (!is_safe_part(part, length))
            return false;
        part += length;
        if (!*part)
            return total < 1000;
    }
}

static size_t count_digits(const char *text)
{
    size_t n = 0;
    while (isdigit((unsigned char)text[n]))
        n++;
    return n;
}

size_t pull_split(const char *path)
{
    static const char form[] = "-00001-of-00001.gguf";
    size_t length = strlen(path), n = sizeof(form) - 1;
    const char *end = path + length - n;
    if (length <= n || *end != '-' || count_digits(end + 1) != 5 || strncmp(end + 6, "-of-", 4) != 0 ||
        count_digits(end + 10) != 5 || strcasecmp(end + 15, ".gguf") != 0)
        return 0;
    return length - n;
}

bool pull_is_repository(const char *text)
{
    size_t owner = strcspn(text, "/");
    char part[101];
    if (owner == 0 || owner >= sizeof(part) || text[owner] != '/')
        return false;
    memcpy(part, text, owner);
    part[owner] = '\0';
    return registry_is_name(part) && registry_is_name(text + owner + 1);
}

char *pull_escape(const struct kt_cli *cli, const char *text, bool keep_slashes)
{
    static const char digits[] = "0123456789ABCDEF";
    char *escaped = kt_cli_alloc(cli, 3 * strlen(text) + 1, 1), *end = escaped;
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (isalnum(*c) || strchr("-._~", *c) || (keep_slashes && *c == '/')) {
            *end++ = (char)*c;
        } else {
            *end++ = '%';
            *end++ = digits[*c >> 4];
            *end++ = digits[*c & 15];
        }
    }
    return escaped;
}

/* ---- addresses ------------------------------------------------------------------------------ */

struct origin {
    char *scheme, *host, *port;
};

static bool read_origin(const char *url, struct origin *origin)
{
    CURLU *handle = curl_url();
    *origin = (struct origin){.scheme = NULL};
    bool read = handle && curl_url_set(handle, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(handle, CURLUPART_SCHEME, &origin->scheme, 0) == CURLUE_OK &&
                curl_url_get(handle, CURLUPART_HOST, &origin->host, 0) == CURLUE_OK &&
                curl_url_get(handle, CURLUPART_PORT, &origin->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    curl_url_cleanup(handle);
    return read;
}

static void free_origin(struct origin *origin)
{
    curl_free(origin->scheme);
    curl_free(origin->host);
    curl_free(origin->port);
}

bool pull_same_origin(const char *url, const char *other)
{
    struct origin a, b = {.scheme = NULL};
    bool same = read_origin(url, &a) && read_origin(other, &b) && strcasecmp(a.scheme, b.scheme) == 0 &&
                strcasecmp(a.host, b.host) == 0 && strcmp(a.port, b.port) == 0;
    free_origin(&a);
    free_origin(&b);
    return same;
}

bool pull_is_loopback(const char *url)
{
    struct origin origin;
    bool is = false;
    if (read_origin(url, &origin)) {
        /* 127.x.y.z, not a name that begins so */
        bool is_v4 =
            strncmp(origin.host, "127.", 4) == 0 && strspn(origin.host, "0123456789.") == strlen(origin.host);
        is = is_v4 || strcasecmp(origin.host, "localhost") == 0 || strcmp(origin.host, "[::1]") == 0;
    }
    free_origin(&origin);
    return is;
}

static bool has_scheme(const char *url, const char *scheme)
{
    size_t length = strlen(scheme);
    return strncasecmp(url, scheme, length) == 0 && strncmp(url + length, "://", 3) == 0;
}

bool pull_may_ask(const char *url, const char *from, bool allow_http)
{
    if (has_scheme(url, "https"))
        return true;
    if (!has_scheme(url, "http"))
        return false;
    return allow_http ||
           (pull_is_loopback(url) && (!from || (has_scheme(from, "http") && pull_is_loopback(from))));
}
