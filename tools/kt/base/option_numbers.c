/* SPDX-License-Identifier: Apache-2.0 */
/* option_numbers.c - numbers and lists of them in options. */
#include "tools/kt/base/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* strtoull accepts signs, spaces and an empty text, so check for digits first. */
static const char *read_uint(const char *text, uint64_t *number)
{
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno ? NULL : end;
}

bool kt_cli_take_uint(const struct kt_cli *cli, const struct kt_cli_option *row, const char *text,
                      uint64_t *value)
{
    uint64_t number;
    uint64_t maximum = row->maximum ? row->maximum : UINT64_MAX;
    const char *end = read_uint(text, &number);
    if (!end || *end || number < row->minimum || number > maximum) {
        kt_cli_usage(cli, "--%s %s: a number from %llu to %llu is needed", row->name, text,
                     (unsigned long long)row->minimum, (unsigned long long)maximum);
        return false;
    }
    *value = number;
    return true;
}

bool kt_cli_take_real(const struct kt_cli *cli, const struct kt_cli_option *row, const char *text,
                      double *value)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || number < 0 || *text == ' ') {
        kt_cli_usage(cli, "--%s %s: a number that is not negative is needed", row->name, text);
        return false;
    }
    *value = number;
    return true;
}

bool kt_cli_is_nodes(const char *text)
{
    if (strcmp(text, "all") == 0)
        return true;
    for (;;) {
        uint64_t first, last;
        text = read_uint(text, &first);
        last = first;
        if (text && *text == '-')
            text = read_uint(text + 1, &last);
        if (!text || last < first || last > 1023)
            return false;
        if (!*text)
            return true;
        if (*text++ != ',')
            return false;
    }
}

size_t kt_cli_list(const struct kt_cli *cli, const char *option, const char *text, uint64_t *numbers,
                   size_t max)
{
    const char *at = text;
    size_t n = 0;
    while (n < max) {
        uint64_t first, last;
        at = read_uint(at, &first);
        if (!at)
            break;
        last = first;
        if (*at == '-')
            at = read_uint(at + 1, &last);
        if (at && last < first) {
            kt_cli_usage(cli,
                         "--%s %s: %" PRIu64 "-%" PRIu64 " runs backwards: %" PRIu64 "-%" PRIu64
                         " is that range",
                         option, text, first, last, last, first);
            return 0;
        }
        if (!at || last - first >= max - n)
            break;
        for (uint64_t number = first; number <= last && n < max; number++)
            numbers[n++] = number;
        if (!*at)
            return n;
        if (*at++ != ',')
            break;
    }
    kt_cli_usage(cli, "--%s %s: numbers such as 1,8 or 0-3 are needed, at most %zu", option, text, max);
    return 0;
}
