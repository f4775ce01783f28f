/* SPDX-License-Identifier: Apache-2.0 */
/* arguments.h - arguments of calls, which the wire has as JSON text and most templates want as objects. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_ARGUMENTS_H
#define KT_ENGINE_TEXT_TEMPLATE_ARGUMENTS_H

#include "tools/engine/text/template/value.h"

/** messages[].tool_calls[].function.arguments and messages[].function_call.arguments of j->variables: a text
 * that is a JSON object becomes one; others stay. */
void jinja_parse_arguments(struct jinja *j);

#endif
