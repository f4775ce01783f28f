/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - numbers as text with a point, whatever the locale of the program. */
#ifndef KT_CORE_BASE_NUMBER_H
#define KT_CORE_BASE_NUMBER_H

#include <locale.h>

/* From begin to end, the calling thread's printf and strtod write and read numbers as C does. */
locale_t kt_number_begin(void);
void kt_number_end(locale_t before);

/* strtod in the C locale. */
double kt_number_read(const char *text, char **end);

#endif
