/* SPDX-License-Identifier: Apache-2.0 */
/* builtin.h - which built-in template a vocabulary asks for. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_BUILTIN_H
#define KT_ENGINE_TEXT_TEMPLATE_BUILTIN_H

#include <kt/text.h>

/** A control token that only this family's vocabularies have; NULL: there are no more families. */
const char *jinja_builtin_token(size_t index);

#endif
