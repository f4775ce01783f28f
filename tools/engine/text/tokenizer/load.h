/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - tokenizers of each kind of file, and the files beside them. */
#ifndef KT_ENGINE_TEXT_TOKENIZER_LOAD_H
#define KT_ENGINE_TEXT_TOKENIZER_LOAD_H

#include "tools/engine/text/tokenizer/merges_text.h"
#include "tools/engine/text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <kt/kt.h>

/** Where files of a model are read: a folder, or an open checkpoint. */
struct kt_files {
    const char *folder;
    struct kt_checkpoint *checkpoint; /**< NULL: the folder */
};

/** A file's bytes, `name` without slash. KT_E_NOT_FOUND: there is none. */
enum kt_status kt_files_read(const struct kt_files *files, const char *name, struct kt_buffer *bytes,
                             struct kt_error *error);
/** Bytes that were read, as a JSON object to be freed; `name` is what errors call them. */
enum kt_status kt_files_parse(const struct kt_files *files, const char *name, const struct kt_buffer *bytes,
                              json_t **value, struct kt_error *error);
/** Both. */
enum kt_status kt_files_json(const struct kt_files *files, const char *name, json_t **value,
                             struct kt_error *error);

/** The vocabulary of a GGUF file. */
enum kt_status kt_load_gguf(struct kt_tokenizer *tokenizer, struct kt_checkpoint *checkpoint,
                            struct kt_error *error);
/** A tokenizer.json; its merges may have been cut out. */
enum kt_status kt_load_json(struct kt_tokenizer *tokenizer, const json_t *root,
                            const struct kt_merges_text *merges, struct kt_error *error);
/** normalizer and pre_tokenizer of a tokenizer.json. */
enum kt_status kt_load_json_steps(struct kt_tokenizer *tokenizer, const json_t *root, struct kt_error *error);
/** A tiktoken file; its special tokens are in tokenizer_config.json. */
enum kt_status kt_load_tiktoken(struct kt_tokenizer *tokenizer, const struct kt_buffer *bytes,
                                struct kt_error *error);
/** What tokenizer_config.json, special_tokens_map.json, generation_config.json and chat_template.jinja say,
 * of a vocabulary that is loaded. Files that are not there say nothing. */
enum kt_status kt_load_config(struct kt_tokenizer *tokenizer, const struct kt_files *files,
                              struct kt_error *error);
/** Adds a token that is found in text as it stands. Where the vocabulary has this id already, text is joined
 * to it as before, too. */
enum kt_status kt_load_added(struct kt_tokenizer *tokenizer, uint64_t id, const json_t *token,
                             struct kt_error *error);

#endif
