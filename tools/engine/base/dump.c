/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/base/dump.h"
#include "tools/engine/base/big.h"

#include <stdlib.h>

/* Into a buffer of the right size jansson writes without memory for the text; what it allocates besides, to
 * find loops, it looks at. */
char *kt_json_dump(const json_t *value, size_t flags)
{
    size_t size = value ? json_dumpb(value, NULL, 0, flags) : 0;
    char *text = size > 0 ? malloc(size + 1) : NULL;
    if (text && json_dumpb(value, text, size, flags) != size) {
        free(text);
        return NULL;
    }
    if (text) {
        text[size] = '\0';
        (void)kt_json_unwrap(text, size);
    }
    return text;
}
