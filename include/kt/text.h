/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kt/text.h - what a language model reads and writes, as text: tokenizers, chat templates, and the parser of
 * a model's output. A part of libktengine (pkg-config kt-kernel-engine), which may be used alone:
 *
 *     kt_tokenizer_open()     a vocabulary: GGUF, a model's folder, tokenizer.json or a tiktoken file
 *     kt_template_open()      the chat template of that model
 *     kt_template_render()    messages -> text, each piece marked as the template's or as content
 *     kt_tokenizer_encode()   such text -> ids; content never becomes a control token
 *     kt_detokenizer_add()    ids, as they are generated -> text, whole characters only
 *     kt_parser_add()         that text -> reasoning, answer and calls of tools
 *
 * Text is UTF-8 of a given length and may hold zero bytes. What is no UTF-8 is taken byte by byte where the
 * vocabulary has bytes.
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

/** A piece of text and where it is from. */
struct kt_text_part {
    const char *text;
    uint64_t length;     /**< bytes */
    uint32_t is_content; /**< not 0: from a user, a tool or a document, so it has no control tokens */
    uint32_t reserved;   /**< 0 */
};

/* ---- tokenizers ------------------------------------------------------------------------------- */

/** How a vocabulary cuts words into tokens. */
enum kt_tokenizer_kind {
    KT_TOKENIZER_BPE = 1, /**< pairs of bytes by rank (GPT-2 and its like) */
    KT_TOKENIZER_SPM = 2  /**< pairs of characters by score, with bytes for what is unknown (SentencePiece) */
};

/** What a token is, with the numbers of GGUF. */
enum kt_token_type {
    KT_TOKEN_NORMAL = 1,
    KT_TOKEN_UNKNOWN = 2,
    KT_TOKEN_CONTROL = 3, /**< such as <|im_end|>: a part of the template's language, never of content */
    KT_TOKEN_USER = 4, /**< added to the vocabulary, and found in content too, unless it is called <|..|> or
                          stands in a chat template of the model, as <think> and <tool_call> do */
    KT_TOKEN_UNUSED = 5,
    KT_TOKEN_BYTE = 6 /**< a byte of SentencePiece's, <0x0A> */
};

/** Strings live as long as the tokenizer. */
struct kt_tokenizer_info {
    uint32_t kind;        /**< enum kt_tokenizer_kind */
    uint32_t n_tokens;    /**< ids are 0 .. n_tokens - 1; some may have no token */
    const char *pre;      /**< how text is cut into words: "qwen2", "deepseek-v3", or "custom", a regex of the
                               file's own; "" for SentencePiece */
    const char *source;   /**< the file, "/models/x/tokenizer.json" */
    int32_t bos_token_id; /**< -1: none; likewise the others */
    int32_t eos_token_id;
    int32_t unk_token_id;
    int32_t pad_token_id;
    uint32_t adds_bos;   /**< not 0: the model expects its text to begin with BOS */
    uint32_t adds_eos;   /**< not 0: the tokenizer's own rules end a text with EOS */
    uint32_t normalizes; /**< not 0: decoding gives the normalized text, such as NFC, not always the same */
};

/** A token. */
struct kt_token {
    const char *text; /**< its bytes as they stand in decoded text, which need not be whole characters */
    uint64_t length;
    uint32_t type; /**< enum kt_token_type */
    uint32_t ends; /**< not 0: it ends the model's turn (eos, eot, generation_config.json's list) */
};

/**
 * Opens the tokenizer of `path`: a GGUF file, the folder of a model (or a file that stands for it, as for
 * kt_checkpoint_open), a tokenizer.json or a tiktoken file. A folder's tokenizer is that of its GGUF file, if
 * kt_checkpoint_open opens that, else its tokenizer.json or tiktoken file. Files beside it that say more
 * (tokenizer_config.json, special_tokens_map.json, generation_config.json, chat_template.jinja) are read
 * where they are. KT_E_UNSUPPORTED names a kind, a normalizer or a pre-tokenizer that cannot be computed
 * exactly; KT_E_FORMAT a damaged file.
 */
enum kt_status kt_tokenizer_open(const char *path, struct kt_tokenizer **tokenizer, struct kt_error *error);
/** The same of an open checkpoint, which may be closed afterwards. */
enum kt_status kt_tokenizer_create(struct kt_checkpoint *checkpoint, struct kt_tokenizer **tokenizer,
                                   struct kt_error *error);
/** Detokenizers that were made of it must be gone. `tokenizer` may be NULL. */
void kt_tokenizer_destroy(struct kt_tokenizer *tokenizer);

void kt_tokenizer_info(const struct kt_tokenizer *tokenizer, struct kt_tokenizer_info *info);
/** KT_E_RANGE: there is no such id. */
enum kt_status kt_tokenizer_token(const struct kt_tokenizer *tokenizer, int64_t id, struct kt_token *token,
                                  struct kt_error *error);
/** The id of the token with exactly this text, -1 if there is none. Of two, the added one. */
int32_t kt_tokenizer_find(const struct kt_tokenizer *tokenizer, const char *text, uint64_t length);

/** Bits of kt_tokenizer_encode. */
enum kt_encode_flag {
    KT_ENCODE_BOS = 1 /**< begin with BOS where the model wants it, unless the text does so already */
};

/**
 * The ids of a text that is given in parts, which are read as one: a word may go from one part into the next;
 * a control token is found only where all of it is the template's. *ids is allocated: free it by
 * kt_ids_free(). An empty text has no ids but BOS. The same text in other parts of the same kind has the same
 * ids. KT_E_UNSUPPORTED: a byte that the vocabulary cannot write, and it has no token for unknown ones.
 */
enum kt_status kt_tokenizer_encode(const struct kt_tokenizer *tokenizer, const struct kt_text_part *parts,
                                   uint64_t n_parts, uint32_t flags, int32_t **ids, uint64_t *n_ids,
                                   struct kt_error *error);
void kt_ids_free(int32_t *ids);

/** Bits of decoding. */
enum kt_decode_flag {
    KT_DECODE_NO_CONTROL = 1 /**< leave control tokens out */
};

/**
 * The text of ids, allocated, with a zero byte behind it that `length` does not count: free it by
 * kt_text_free(). Bytes that are no UTF-8 become U+FFFD, one for each longest piece that could have begun a
 * character, as Unicode advises. KT_E_RANGE names an id that is no token.
 */
enum kt_status kt_tokenizer_decode(const struct kt_tokenizer *tokenizer, const int32_t *ids, uint64_t n_ids,
                                   uint32_t flags, char **text, uint64_t *length, struct kt_error *error);
void kt_text_free(char *text);

/**
 * The same as ids come: after each call, *text is what can be shown now, whole characters only. At most three
 * bytes are held back. The text lives until the next call. `flags`: of enum kt_decode_flag.
 */
enum kt_status kt_detokenizer_create(const struct kt_tokenizer *tokenizer, uint32_t flags,
                                     struct kt_detokenizer **detokenizer, struct kt_error *error);
void kt_detokenizer_destroy(struct kt_detokenizer *detokenizer);
enum kt_status kt_detokenizer_add(struct kt_detokenizer *detokenizer, const int32_t *ids, uint64_t n_ids,
                                  const char **text, uint64_t *length, struct kt_error *error);
/** What was held back, as U+FFFD. The detokenizer may then begin again. */
enum kt_status kt_detokenizer_end(struct kt_detokenizer *detokenizer, const char **text, uint64_t *length,
                                  struct kt_error *error);

/* ---- chat templates --------------------------------------------------------------------------- */

/** How a model writes reasoning and calls of tools. */
enum kt_output_format {
    KT_OUTPUT_PLAIN = 0,    /**< no calls; <think> ... </think> where it reasons */
    KT_OUTPUT_HERMES = 1,   /**< <tool_call>{"name": .., "arguments": {..}}</tool_call> (Qwen3) */
    KT_OUTPUT_FUNCTION = 2, /**< <tool_call><function=N><parameter=K>V.. (Qwen3-Coder, Qwen3.5, Step) */
    KT_OUTPUT_GLM = 3,      /**< <tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value>.. (GLM-4.5 on) */
    KT_OUTPUT_DEEPSEEK = 4, /**< tool▁calls▁begin, with ```json (V3, R1) or without (V3.1) */
    KT_OUTPUT_DSML = 5,     /**< <｜DSML｜function_calls> (DeepSeek V3.2) */
    KT_OUTPUT_KIMI = 6,     /**< <|tool_calls_section_begin|> (Kimi-K2) */
    KT_OUTPUT_MINIMAX = 7,  /**< <minimax:tool_call><invoke name="N"> (MiniMax-M2) */
    KT_OUTPUT_HARMONY = 8,  /**< channels (gpt-oss) */
    KT_OUTPUT_MISTRAL = 9,  /**< [TOOL_CALLS]N[ARGS]{..} or [TOOL_CALLS][{..}] */
    KT_OUTPUT_JSON = 10     /**< the whole answer is {"name": .., "parameters": {..}} (Llama 3.1), or a list
                                 of such behind a tag (Granite's <|tool_call|>, LFM2) */
};

/** What a template can do, found by rendering it. Strings live as long as the template. */
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
    uint32_t wants_text;        /**< arguments of calls are to be given as JSON text, not as objects */
};

/**
 * Reads a template. `name` is how errors call it, copied. At most 4 MiB: KT_E_RANGE. KT_E_FORMAT says line
 * and column; KT_E_UNSUPPORTED names what real templates do not use (import, include, extends, recursive
 * loops ...).
 */
enum kt_status kt_template_create(const char *source, uint64_t length, const char *name,
                                  struct kt_template **chat, struct kt_error *error);
/** The template called `name` (NULL: the default one) of a tokenizer's model; where the model has none, the
 * built-in one that its control tokens speak for. KT_E_NOT_FOUND lists what there is. */
enum kt_status kt_template_open(const struct kt_tokenizer *tokenizer, const char *name,
                                struct kt_template **chat, struct kt_error *error);
/** A built-in template: "chatml", "llama3", "mistral", "deepseek". */
enum kt_status kt_template_builtin(const char *family, struct kt_template **chat, struct kt_error *error);
/** The names of built-in templates, 0 .. n - 1; NULL above. Static. */
const char *kt_template_builtin_name(size_t index);
/** `chat` may be NULL. Renderings do not need it any more. */
void kt_template_destroy(struct kt_template *chat);
/** Fails as kt_template_render does, with the template's own words, where it renders not even a user's
 * message alone. */
enum kt_status kt_template_info(const struct kt_template *chat, struct kt_template_info *info,
                                struct kt_error *error);

/** What a rendering may cost, since templates come with downloads, and what time it is. */
struct kt_render_params {
    size_t struct_size;
    uint64_t max_steps;  /**< 0: 10 million */
    uint64_t max_output; /**< bytes; 0: 64 MiB */
    uint32_t max_depth;  /**< of macros, expressions and values; 0: 100, which need up to 256 KiB of stack; at
                              most 200 */
    uint32_t has_time;   /**< not 0: strftime_now reads `time`, else the clock */
    int64_t time;        /**< seconds since 1970, shown as local time */
    uint32_t
        parse_arguments; /**< not 0: arguments of calls that are JSON text become objects, for templates that
                              do not want text; 0: they stay as they are, as Hugging Face renders them */
    uint32_t tidy_messages; /**< not 0: of each message, fields that are null are left out, and its
                                 reasoning, called reasoning_content, thinking or reasoning, is there by the
                                 first two names, as in Hugging Face's transformers 5.24; 0: as it is */
};
#define KT_RENDER_PARAMS_INIT KT_INIT(kt_render_params)

/**
 * Renders a template with `variables`, a JSON object: messages, tools, add_generation_prompt, bos_token and
 * whatever else the template asks for. Its strings are content, but for those at the top whose names end in
 * "_token".
 * KT_E_INVALID: the template itself refused, by raise_exception: the message is its own words and nothing
 * else. KT_E_FORMAT: no JSON object. KT_E_UNSUPPORTED: an operation on values that it does not fit, with line
 * and column. KT_E_RANGE: a limit.
 */
enum kt_status kt_template_render(const struct kt_template *chat, const char *variables, uint64_t length,
                                  const struct kt_render_params *params, struct kt_rendering **rendering,
                                  struct kt_error *error);
/** The text, with a zero byte behind it that `length` (may be NULL) does not count. */
const char *kt_rendering_text(const struct kt_rendering *rendering, uint64_t *length);
/** The same in parts, for kt_tokenizer_encode. */
const struct kt_text_part *kt_rendering_parts(const struct kt_rendering *rendering, uint64_t *n_parts);
void kt_rendering_destroy(struct kt_rendering *rendering);

/* ---- output ----------------------------------------------------------------------------------- */

struct kt_parser_params {
    size_t struct_size;
    uint32_t format;           /**< enum kt_output_format */
    uint32_t starts_reasoning; /**< not 0: the prompt ended within reasoning */
    const char *tools;         /**< the request's `tools`, JSON as OpenAI has it: types of arguments where the
                                    format has none; NULL: unknown, then a value that is JSON is taken as such */
    uint64_t tools_length;
};
#define KT_PARSER_PARAMS_INIT KT_INIT(kt_parser_params)

enum kt_output_kind {
    KT_OUTPUT_REASONING = 1, /**< text of the reasoning */
    KT_OUTPUT_CONTENT = 2,   /**< text of the answer */
    KT_OUTPUT_CALL = 3, /**< a call begins: text is the tool's name, whole; id where the model gave one */
    KT_OUTPUT_ARGUMENTS = 4,    /**< the next piece of its arguments; together they are a JSON object */
    KT_OUTPUT_CALL_END = 5,     /**< is_cut: the call is not whole: the output ended before it did, or its
                                     arguments are no JSON object. id: also one that stood behind them */
    KT_OUTPUT_REASONING_END = 6 /**< is_cut: the output ended before the reasoning did. A model that
                                     stopped by itself there may have meant it as the answer */
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
 * Parses what a model writes, as it comes, control tokens included, but for the token that ends the model's
 * turn. A tag that is cut between two calls is held back until it is whole; the events are the same however
 * the text is cut, but for pieces of one kind, which may be joined. What looks like a call and is none is
 * text, as it stands.
 *
 * Reasoning ends at its closing tag or at a call. Newlines next to the tags of reasoning belong to them, and
 * so does white space before a call's tag where the template writes some, and behind a call unless text
 * follows. Arguments that the model writes as JSON go out as they stand, with control characters in strings
 * escaped; arguments that are a JSON string which holds an object are that object.
 */
enum kt_status kt_parser_create(const struct kt_parser_params *params, struct kt_parser **parser,
                                struct kt_error *error);
void kt_parser_destroy(struct kt_parser *parser);
/** KT_E_NOMEM: the parser can then only be destroyed. */
enum kt_status kt_parser_add(struct kt_parser *parser, const char *text, uint64_t length,
                             const struct kt_parser_event **events, uint64_t *n_events,
                             struct kt_error *error);
/** The output is over: what was held back. The parser may then begin again, with another output. */
enum kt_status kt_parser_end(struct kt_parser *parser, const struct kt_parser_event **events,
                             uint64_t *n_events, struct kt_error *error);
/** "hermes" for KT_OUTPUT_HERMES; NULL for an unknown number. Static. */
const char *kt_output_format_name(uint32_t format);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif
#endif
