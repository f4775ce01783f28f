/* SPDX-License-Identifier: Apache-2.0 */
/* pre.h - how the families of byte-level vocabularies cut words, by the name that GGUF files have for it. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_PRE_H
#define KT_ENGINE_TEXT_TOKENIZER_PRE_H

#include "tools/engine/text/tokenizer/tokenizer.h"

/** Sets splitter, normalizer, ignores_merges and the name. KT_E_UNSUPPORTED lists the names that there are.
 */
enum kt_status kt_pre_set(struct kt_tokenizer *tokenizer, const char *name, struct kt_error *error);

#endif
