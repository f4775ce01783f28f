/* SPDX-License-Identifier: Apache-2.0 */
/* pre.h - how families of vocabularies cut words, by the name that GGUF files have for it. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_PRE_H
#define KT_ENGINE_TEXT_TOKENIZER_PRE_H

#include "tools/engine/text/tokenizer/tokenizer.h"

/** Sets the name, kind, has_bytes, splitter, normalizer, ignores_merges and adds_bos. KT_E_UNSUPPORTED lists
 * the names that there are. */
enum kt_status kt_pre_set(struct kt_tokenizer *tokenizer, const char *name, struct kt_error *error);
/** Writes spaces of text as SentencePiece does, U+2581. */
enum kt_status kt_pre_write_spaces(struct kt_tokenizer *tokenizer, struct kt_error *error);

#endif
