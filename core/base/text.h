/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - text from files, before it becomes part of a message. */
#ifndef KT_CORE_BASE_TEXT_H
#define KT_CORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Is it UTF-8 without control characters, so that it can be a line of a message? */
bool kt_name_valid(const char *text, size_t size);

/* Makes it such a text: what is not UTF-8 or a control character becomes '?', a tab or a line's end a space.
 */
void kt_text_mend(char *text);

#endif
