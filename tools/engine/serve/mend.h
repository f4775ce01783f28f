/* SPDX-License-Identifier: Apache-2.0 */
/* mend.h - arguments of calls as models write them and clients send them back. */
#ifndef KT_ENGINE_SERVE_MEND_H
#define KT_ENGINE_SERVE_MEND_H

#include <jansson.h>
#include <stdbool.h>

/**
 * An object, whatever the arguments are. Text that is cut off is closed where it ends; no text, and null, are
 * no arguments; anything else is the only member, "arguments". NULL: no memory.
 */
json_t *kt_mend_arguments(json_t *arguments);

#endif
