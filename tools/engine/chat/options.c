/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/chat/chat.h"

#define args kt_chat_args /* as the rows that verbs share call it */

#define TEXT(word, field, shown, about)                                                               \
    {                                                                                                 \
        .name = word, .type = KT_CLI_TEXT, .offset = offsetof(struct args, field), .argument = shown, \
        .help = about                                                                                 \
    }

static const struct kt_cli_option options[] =
    {{.name = "prompt",
      .letter = 'q',
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, prompt),
      .argument = "TEXT",
      .help = "ask this, print the answer alone, and end"},
     {.name = "file",
      .letter = 'f',
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, file),
      .argument = "FILE",
      .help = "the same with the text of FILE, - for standard input; behind --prompt, if that is given"},
     {.name = "host",
      .letter = 'H',
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, host),
      .argument = "ADDRESS",
      .help = "the server's address, or a URL, https://example.org/v1 (default: 127.0.0.1)"},
     {.name = "port",
      .letter = 'p',
      .type = KT_CLI_UINT,
      .offset = offsetof(struct args, port),
      .argument = "N",
      .minimum = 1,
      .maximum = 65535,
      .help = "its port (default: 30000)"},
     TEXT("api-key", key, "KEY",
          "the server's key; KT_API_KEY in the environment hides it from other users of this machine"),
     {.name = "model",
      .letter = 'm',
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, model),
      .argument = "NAME",
      .help = "which of the server's models is to answer (default: its first)"},
     TEXT("system", system, "TEXT", "the system's message"),
     {.name = "tokens",
      .letter = 'n',
      .type = KT_CLI_UINT,
      .offset = offsetof(struct args, n),
      .argument = "N",
      .minimum = 1,
      .maximum = UINT32_MAX,
      .help = "an answer has at most N tokens (default: as many as fit)"},
     {.name = "no-think",
      .type = KT_CLI_FLAG,
      .offset = offsetof(struct args, no_think),
      .help = "ask the model not to reason before it answers, if its template can"},
     {.name = "no-save-history",
      .type = KT_CLI_FLAG,
      .offset = offsetof(struct args, no_history),
      .help = "neither read nor keep lines that were typed"},
     TEXT("chat-template", chat_template, "FILE",
          "with MODEL: this template instead of its own: a file, or a built-in one as of kt template"),
     {.name = "context",
      .type = KT_CLI_UINT,
      .offset = offsetof(struct args, context),
      .argument = "N",
      .minimum = 1,
      .maximum = UINT32_MAX,
      .help = "with MODEL: tokens of the conversation (default: what it was made for, at most 32768)"},
     {.name = "kv",
      .type = KT_CLI_CHOICE,
      .offset = offsetof(struct args, kv),
      .values = "bf16|q8_0|f32",
      .argument = "TYPE",
      .help = "with MODEL: the type of keys and values: bf16 (default), q8_0 or f32"},
     KT_SAMPLING_OPTIONS,
     KT_EXPERTS_OPTION(struct args, experts),
     KT_CLI_BACKEND,
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     {.name = "max-tokens", /* as KTransformers calls it */
      .type = KT_CLI_UINT,
      .offset = offsetof(struct args, n),
      .argument = "N",
      .minimum = 1,
      .maximum = UINT32_MAX,
      .hidden = true},
     {.name = NULL}};

const struct kt_cli_command kt_chat_command =
    {.usage = "[MODEL]",
     .about = "Talks with a model: with the one that a running server has, such as kt run, or with MODEL, a "
              "GGUF file or a folder of safetensors files, which is then loaded into this process. What is "
              "typed is a message, or a command: /help lists them. Where standard input is no terminal, all "
              "of it is one question, and only the answer goes to standard output.",
     .options = options,
     .arguments = "MODEL",
     .min_arguments = 0,
     .max_arguments = 1,
     .opens_checkpoint = true,
     .serves = true};
