/* SPDX-License-Identifier: Apache-2.0 */
/* arguments.h - messages as templates want them: arguments of calls, which the wire has as JSON text, are
 * objects to most of them. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_ARGUMENTS_H
#define KT_ENGINE_TEXT_TEMPLATE_ARGUMENTS_H

#include "tools/engine/text/template/value.h"

/** What Hugging Face's transformers do to each message: fields that are null are left out, and its reasoning
 * is there as `reasoning_content` and as `thinking`, if it has one of these or `reasoning`. */
void jinja_tidy_messages(struct jinja *j);
/** messages[].tool_calls[].function.arguments and messages[].function_call.arguments of j->variables: a text
 * that is a JSON object becomes one; others stay. */
void jinja_parse_arguments(struct jinja *j);

#endif
