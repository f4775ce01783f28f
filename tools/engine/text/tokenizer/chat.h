/* SPDX-License-Identifier: Apache-2.0 */
/* chat.h - the chat templates that a tokenizer's files have. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_CHAT_H
#define KT_ENGINE_TEXT_TOKENIZER_CHAT_H

#include <stddef.h>
#include <stdint.h>

struct kt_tokenizer;

/** Strings live as long as the tokenizer. */
struct kt_chat_source {
    const char *name; /**< "default", "tool_use" */
    const char *text; /**< ends with a zero byte */
    uint64_t length;
    const char *file; /**< where it stands, for messages */
};

/** Template number `index`, the default one first; false: there is none. */
_Bool kt_tokenizer_chat(const struct kt_tokenizer *tokenizer, size_t index, struct kt_chat_source *source);

#endif
