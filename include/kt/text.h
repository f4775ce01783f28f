/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/text.h - the text side of language models: tokenizers, chat templates, and a parser of model output.
 * Part of libktengine (pkg-config kt-kernel-engine); it can be used alone:
 *
 *     kt_tokenizer_open()     a vocabulary: GGUF, a model's folder, tokenizer.json or a tiktoken file
 *     kt_template_open()      the chat template of that model
 *     kt_template_render()    messages -> text, each piece marked as the template's or as content
 *     kt_tokenizer_encode()   such text -> ids; content never becomes a control token
 *     kt_detokenizer_add()    ids, as they are generated -> text, complete characters only
 *     kt_parser_add()         that text -> reasoning, answer and tool calls
 *
 * Text is UTF-8 of a given length and may contain zero bytes. Invalid UTF-8 is encoded byte by byte if the
 * vocabulary has byte tokens.
 *
 * Thread-safety: a tokenizer and a template may be used by any number of threads at once; a detokenizer, a
 * rendering and an output parser by one at a time.
 */
#ifndef KT_TEXT_H
#define KT_TEXT_H

#include <kt/types.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* as in <kt/kt.h> */
extern "C" {
#endif

struct kt_checkpoint;
struct kt_tokenizer;
struct kt_detokenizer;
struct kt_template;
struct kt_rendering;
struct kt_parser;

/** A piece of text and its origin. */
struct kt_text_part {
    const char *text;
    uint64_t length;     /**< bytes */
    uint32_t is_content; /**< not 0: from a user, a tool or a document; no control tokens are recognized */
    uint32_t reserved;   /**< 0 */
};

/* ---- tokenizers ------------------------------------------------------------------------------- */

/** How a vocabulary splits words into tokens. */
enum kt_tokenizer_kind {
    KT_TOKENIZER_BPE = 1, /**< pairs of bytes by rank (GPT-2 and its like) */
    KT_TOKENIZER_SPM = 2  /**< pairs of characters by score, with bytes for unknown ones (SentencePiece) */
};

/** Types of tokens, with the numbers of GGUF. */
enum kt_token_type {
    KT_TOKEN_NORMAL = 1,
    KT_TOKEN_UNKNOWN = 2,
    KT_TOKEN_CONTROL = 3, /**< such as <|im_end|>: used by templates, never recognized in content */
    KT_TOKEN_USER = 4, /**< added to the vocabulary; also recognized in content, unless its name is <|..|> or
                          it occurs in a chat template of the model, such as <think> and <tool_call> */
    KT_TOKEN_UNUSED = 5,
    KT_TOKEN_BYTE = 6 /**< a byte token of SentencePiece, <0x0A> */
};

/** Strings live as long as the tokenizer. */
struct kt_tokenizer_info {
    uint32_t kind;      /**< enum kt_tokenizer_kind */
    uint32_t n_tokens;  /**< ids are 0 .. n_tokens - 1; some may have no token */
    const char *pre;    /**< how text is split into words: "qwen2", "deepseek-v3", or "custom", the file's own
                             regex; "" for SentencePiece */
    const char *source; /**< the file, "/models/x/tokenizer.json" */
    int32_t bos_token_id; /**< -1: none; likewise the others */
    int32_t eos_token_id;
    int32_t unk_token_id;
    int32_t pad_token_id;
    uint32_t adds_bos;   /**< not 0: the model expects its text to begin with BOS */
    uint32_t adds_eos;   /**< not 0: the tokenizer's own rules end a text with EOS */
    uint32_t normalizes; /**< not 0: decoding gives normalized text (such as NFC), which may differ */
};

/** A token. */
struct kt_token {
    const char *text; /**< its bytes in decoded text, possibly incomplete characters */
    uint64_t length;
    uint32_t type; /**< enum kt_token_type */
    uint32_t ends; /**< not 0: it ends the model's turn (eos, eot, generation_config.json's list) */
};

/**
 * Opens the tokenizer of `path`: a GGUF file, the folder of a model (or one of its files, as for
 * kt_checkpoint_open), a tokenizer.json or a tiktoken file. The tokenizer of a folder is that of its GGUF
 * file if kt_checkpoint_open opens that, else its tokenizer.json or tiktoken file. Other files in the same
 * folder (tokenizer_config.json, special_tokens_map.json, generation_config.json, chat_template.jinja) are
 * read as well. KT_E_UNSUPPORTED: a kind, normalizer or pre-tokenizer is not supported exactly; KT_E_FORMAT:
 * a file is damaged.
 */
enum kt_status kt_tokenizer_open(const char *path, struct kt_tokenizer **tokenizer, struct kt_error *error);
/** The same of an open checkpoint, which may be closed afterwards. */
enum kt_status kt_tokenizer_create(struct kt_checkpoint *checkpoint, struct kt_tokenizer **tokenizer,
                                   struct kt_error *error);
/** Its detokenizers must be destroyed first. `tokenizer` may be NULL. */
void kt_tokenizer_destroy(struct kt_tokenizer *tokenizer);

void kt_tokenizer_info(const struct kt_tokenizer *tokenizer, struct kt_tokenizer_info *info);
/** KT_E_RANGE: there is no such id. */
enum kt_status kt_tokenizer_token(const struct kt_tokenizer *tokenizer, int64_t id, struct kt_token *token,
                                  struct kt_error *error);
/** The id of the token with exactly this text, -1 if there is none. Of two, the added one. */
int32_t kt_tokenizer_find(const struct kt_tokenizer *tokenizer, const char *text, uint64_t length);

/** Bits of kt_tokenizer_encode. */
enum kt_encode_flag {
    KT_ENCODE_BOS = 1 /**< begin with BOS if the model uses it, unless the text already does */
};

/**
 * Encodes a text that is given in parts, which are treated as one: a word may continue in the next part; a
 * control token is only recognized if all of it is not content. *ids is allocated: free it with
 * kt_ids_free(). An empty text has no ids except BOS. Dividing a text into other parts of the same kind does
 * not change its ids. KT_E_UNSUPPORTED: the vocabulary has no token for a byte, nor one for unknown bytes.
 */
enum kt_status kt_tokenizer_encode(const struct kt_tokenizer *tokenizer, const struct kt_text_part *parts,
                                   uint64_t n_parts, uint32_t flags, int32_t **ids, uint64_t *n_ids,
                                   struct kt_error *error);
void kt_ids_free(int32_t *ids);

/** Bits of decoding. */
enum kt_decode_flag {
    KT_DECODE_NO_CONTROL = 1 /**< omit control tokens */
};

/**
 * Decodes ids. The text is allocated, with a zero byte after it that `length` does not count: free it with
 * kt_text_free(). Invalid UTF-8 becomes U+FFFD, one for each maximal subpart, as Unicode recommends.
 * KT_E_RANGE: an id is not a token.
 */
enum kt_status kt_tokenizer_decode(const struct kt_tokenizer *tokenizer, const int32_t *ids, uint64_t n_ids,
                                   uint32_t flags, char **text, uint64_t *length, struct kt_error *error);
void kt_text_free(char *text);

/**
 * Decodes incrementally: after each call, *text is the text that can be shown now, complete characters only.
 * At most three bytes are held back. The text lives until the next call. `flags`: see enum kt_decode_flag.
 */
enum kt_status kt_detokenizer_create(const struct kt_tokenizer *tokenizer, uint32_t flags,
                                     struct kt_detokenizer **detokenizer, struct kt_error *error);
void kt_detokenizer_destroy(struct kt_detokenizer *detokenizer);
enum kt_status kt_detokenizer_add(struct kt_detokenizer *detokenizer, const int32_t *ids, uint64_t n_ids,
                                  const char **text, uint64_t *length, struct kt_error *error);
/** Returns the bytes held back, as U+FFFD. The detokenizer can then be reused. */
enum kt_status kt_detokenizer_end(struct kt_detokenizer *detokenizer, const char **text, uint64_t *length,
                                  struct kt_error *error);

/* ---- chat templates --------------------------------------------------------------------------- */

/** How a model writes reasoning and tool calls. */
enum kt_output_format {
    KT_OUTPUT_PLAIN = 0,    /**< no calls; <think> ... </think> for reasoning */
    KT_OUTPUT_HERMES = 1,   /**< <tool_call>{"name": .., "arguments": {..}}</tool_call> (Qwen3) */
    KT_OUTPUT_FUNCTION = 2, /**< <tool_call><function=N><parameter=K>V.. (Qwen3-Coder, Qwen3.5, Step) */
    KT_OUTPUT_GLM = 3,      /**< <tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value>.. (GLM-4.5 on) */
    KT_OUTPUT_DEEPSEEK = 4, /**< tool▁calls▁begin, with ```json (V3, R1) or without (V3.1) */
    KT_OUTPUT_DSML = 5,     /**< <｜DSML｜function_calls> (DeepSeek V3.2) */
    KT_OUTPUT_KIMI = 6,     /**< <|tool_calls_section_begin|> (Kimi-K2) */
    KT_OUTPUT_MINIMAX = 7,  /**< <minimax:tool_call><invoke name="N"> (MiniMax-M2) */
    KT_OUTPUT_HARMONY = 8,  /**< channels (gpt-oss) */
    KT_OUTPUT_MISTRAL = 9,  /**< [TOOL_CALLS]N[ARGS]{..} or [TOOL_CALLS][{..}] */
    KT_OUTPUT_JSON = 10,    /**< the whole answer is {"name": .., "parameters": {..}} (Llama 3.1), or a list
                                 of these after a tag (Granite's <|tool_call|>, LFM2) */
    KT_OUTPUT_LONGCAT = 11, /**< as HERMES, with tags <longcat_tool_call>, <longcat_think> (LongCat-Flash) */
    KT_OUTPUT_LONGCAT_MARKUP = 12 /**< as GLM, with <longcat_arg_key> and its like (LongCat-Flash-Lite) */
};

/** What a template supports, determined by rendering it. Strings live as long as the template. */
struct kt_template_info {
    const char *source;         /**< "/models/x/tokenizer_config.json", "built-in chatml" */
    uint32_t format;            /**< enum kt_output_format */
    uint32_t takes_system;      /**< not 0: messages of the role "system"; likewise the others */
    uint32_t takes_tools;       /**< `tools` */
    uint32_t takes_calls;       /**< assistant's `tool_calls`, and messages of the role "tool" */
    uint32_t takes_parallel;    /**< several calls in one message */
    uint32_t takes_parts;       /**< content as a list of {"type": "text", "text": ..} */
    uint32_t takes_reasoning;   /**< `reasoning_content` of the assistant's last message is shown */
    uint32_t switches_thinking; /**< enable_thinking, thinking or reasoning_effort changes the text */
    uint32_t starts_reasoning;  /**< the prompt of a new turn ends within reasoning, "<think>\n" */
    uint32_t wants_text;        /**< requires arguments of calls as JSON text, not as objects */
};

/**
 * Compiles a template. `name` is used in error messages, and copied. At most 4 MiB, else KT_E_RANGE.
 * KT_E_FORMAT: the message has line and column; KT_E_UNSUPPORTED: an unsupported feature, which real
 * templates do not use (import, include, extends, recursive loops ...).
 */
enum kt_status kt_template_create(const char *source, uint64_t length, const char *name,
                                  struct kt_template **chat, struct kt_error *error);
/** The template called `name` (NULL: the default one) of a tokenizer's model; if the model has none, the
 * built-in one that matches its control tokens. KT_E_NOT_FOUND: the message lists the available ones. */
enum kt_status kt_template_open(const struct kt_tokenizer *tokenizer, const char *name,
                                struct kt_template **chat, struct kt_error *error);
/** A built-in template: "chatml", "llama3", "mistral", "deepseek", "gemma". */
enum kt_status kt_template_builtin(const char *family, struct kt_template **chat, struct kt_error *error);
/** The names of built-in templates, 0 .. n - 1; NULL above. Static. */
const char *kt_template_builtin_name(size_t index);
/** `chat` may be NULL. Renderings remain valid. */
void kt_template_destroy(struct kt_template *chat);
/** Fails like kt_template_render, with the template's own message, if it cannot even render a single user
 * message. */
enum kt_status kt_template_info(const struct kt_template *chat, struct kt_template_info *info,
                                struct kt_error *error);

/** Limits of rendering, because templates are downloaded with models, and the current time. */
struct kt_render_params {
    size_t struct_size;
    uint64_t max_steps;  /**< 0: 10 million */
    uint64_t max_output; /**< bytes; 0: 64 MiB */
    uint32_t max_depth; /**< of macros, expressions and values; 0: 100, which requires up to 256 KiB of stack;
                             at most 200 */
    uint32_t has_time;  /**< not 0: strftime_now reads `time`, else the clock */
    int64_t time;       /**< seconds since 1970, shown as local time */
    uint32_t parse_arguments; /**< not 0: arguments of calls that are JSON text become objects, for templates
                                 that do not require text; 0: they are unchanged, as in Hugging Face */
    uint32_t tidy_messages;   /**< not 0: fields of messages that are null are removed, and reasoning (named
                                   reasoning_content, thinking or reasoning) is available under the first two
                                   names, as in Hugging Face's transformers 5.24; 0: unchanged */
};
#define KT_RENDER_PARAMS_INIT KT_INIT(kt_render_params)

/**
 * Renders a template with `variables`, a JSON object: messages, tools, add_generation_prompt, bos_token and
 * others that the template uses. Its strings are content, except top-level ones whose names end in "_token".
 * KT_E_INVALID: the template called raise_exception; the message is that of the template. KT_E_FORMAT: not a
 * JSON object. KT_E_UNSUPPORTED: an operation on values of the wrong type, with line and column. KT_E_RANGE:
 * a limit was exceeded.
 */
enum kt_status kt_template_render(const struct kt_template *chat, const char *variables, uint64_t length,
                                  const struct kt_render_params *params, struct kt_rendering **rendering,
                                  struct kt_error *error);
/** The text, with a zero byte after it that `length` (may be NULL) does not count. */
const char *kt_rendering_text(const struct kt_rendering *rendering, uint64_t *length);
/** The same in parts, for kt_tokenizer_encode. */
const struct kt_text_part *kt_rendering_parts(const struct kt_rendering *rendering, uint64_t *n_parts);
void kt_rendering_destroy(struct kt_rendering *rendering);

/* ---- output ----------------------------------------------------------------------------------- */

struct kt_parser_params {
    size_t struct_size;
    uint32_t format;           /**< enum kt_output_format */
    uint32_t starts_reasoning; /**< not 0: the prompt ended within reasoning */
    const char *tools;         /**< the request's `tools`, JSON as in OpenAI's API: argument types for formats
                                    without types; NULL: unknown, then a value that is JSON is parsed as JSON */
    uint64_t tools_length;
};
#define KT_PARSER_PARAMS_INIT KT_INIT(kt_parser_params)

enum kt_output_kind {
    KT_OUTPUT_REASONING = 1, /**< text of the reasoning */
    KT_OUTPUT_CONTENT = 2,   /**< text of the answer */
    KT_OUTPUT_CALL = 3, /**< a call begins: text is the complete name of the tool; id if the model gave one */
    KT_OUTPUT_ARGUMENTS = 4,    /**< the next piece of its arguments; together they are a JSON object */
    KT_OUTPUT_CALL_END = 5,     /**< is_cut: the call is incomplete: the output ended before it, or its
                                     arguments are not a JSON object. id: may also follow the arguments */
    KT_OUTPUT_REASONING_END = 6 /**< is_cut: the output ended before the reasoning. A model that stopped by
                                     itself may have meant it as the answer */
};

/** A piece of output. Strings are not ended by zero and live until the parser's next call. */
struct kt_parser_event {
    uint32_t kind;   /**< enum kt_output_kind */
    uint32_t call;   /**< number of the call, from 0 */
    uint32_t is_cut; /**< of KT_OUTPUT_CALL_END and KT_OUTPUT_REASONING_END */
    uint32_t reserved;
    const char *text;
    uint64_t length;
    const char *id;
    uint64_t id_length;
};

/**
 * Parses the output of a model incrementally, including control tokens except the one that ends the model's
 * turn. A tag that is split between two calls is held back until it is complete. The events do not depend on
 * how the text is divided, except that pieces of one kind may be joined. Text that looks like a call but is
 * not one is returned unchanged.
 *
 * Reasoning ends at its closing tag or at a call. Newlines next to the tags of reasoning are removed, and so
 * is white space before a call's tag if the template writes some, and after a call unless text follows.
 * Arguments that the model writes as JSON are passed on unchanged, except that control characters in strings
 * are escaped; a JSON string that contains an object is replaced by that object.
 */
enum kt_status kt_parser_create(const struct kt_parser_params *params, struct kt_parser **parser,
                                struct kt_error *error);
void kt_parser_destroy(struct kt_parser *parser);
/** KT_E_NOMEM: the parser can then only be destroyed. */
enum kt_status kt_parser_add(struct kt_parser *parser, const char *text, uint64_t length,
                             const struct kt_parser_event **events, uint64_t *n_events,
                             struct kt_error *error);
/** Ends the output and returns text held back. The parser can then be reused for another output. */
enum kt_status kt_parser_end(struct kt_parser *parser, const struct kt_parser_event **events,
                             uint64_t *n_events, struct kt_error *error);
/** "hermes" for KT_OUTPUT_HERMES; NULL for an unknown number. Static. */
const char *kt_output_format_name(uint32_t format);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
