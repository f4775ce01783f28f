/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/number.h"

#include <stdlib.h>

locale_t kt_number_begin(void)
{
    /* The C locale is a constant of the C library: nothing is allocated, and there is nothing to free. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain ? uselocale(plain) : (locale_t)0;
}

void kt_number_end(locale_t before)
{
    if (before)
        (void)uselocale(before);
}

double kt_number_read(const char *text, char **end)
{
    locale_t before = kt_number_begin();
    double number = strtod(text, end);
    kt_number_end(before);
    return number;
}
