/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/chat/chat.h"

#define args kt_chat_args /* as the rows that verbs share call it */

static const struct kt_cli_option options[] =
    {OPTION_TEXT("prompt", 'q', prompt, "TEXT", "ask this question, print only the response, and exit"),
     OPTION_TEXT("file", 'f', file, "FILE",
                 "read the question from FILE (-: standard input); appended to --prompt if both are given"),
     OPTION_TEXT("host", 'H', host, "ADDRESS",
                 "address of the server, or a URL such as https://example.org/v1 (default: 127.0.0.1)"),
     OPTION_UINT("port", 'p', port, 1, 65535, "N", "port of the server (default: 30000)"),
     OPTION_TEXT("api-key", 0, key, "KEY",
                 "API key of the server; KT_API_KEY in the environment hides it from other users of this "
                 "machine"),
     OPTION_TEXT("model", 'm', model, "NAME", "model of the server to use (default: the first one)"),
     OPTION_TEXT("system", 0, system, "TEXT", "system message"),
     OPTION_UINT("tokens", 'n', n, 1, UINT32_MAX, "N",
                 "maximum number of tokens in a response (default: as many as fit)"),
     OPTION_FLAG("no-think", 0, no_think, "turn off reasoning, if the model's template supports that"),
     OPTION_FLAG("no-save-history", 0, no_history, "neither read nor write the history of typed lines"),
     OPTION_TEXT("chat-template", 0, chat_template, "FILE",
                 "with MODEL: use this chat template instead of its own: a file, or a built-in one (see "
                 "kt template)"),
     OPTION_UINT("context", 0, context, 1, UINT32_MAX, "N",
                 "with MODEL: maximum tokens of the conversation (default: its context length, at most "
                 "32768)"),
     OPTION_CHOICE("kv", 0, kv, KT_CLI_CACHES, "TYPE",
                   "with MODEL: data type of the KV cache: bf16 (default), q8_0 or f32"),
     KT_SAMPLING_OPTIONS,
     KT_CLI_EXPERTS(struct args),
     KT_CLI_BACKEND,
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     /* As KTransformers calls them; the last two are what happens without them. */
     {.name = "max-tokens",
      .type = KT_CLI_UINT,
      .offset = offsetof(struct args, n),
      .argument = "N",
      .minimum = 1,
      .maximum = UINT32_MAX,
      .hidden = true},
     {.name = "temp",
      .letter = 't',
      .type = KT_CLI_REAL,
      .offset = offsetof(struct args, sampling.temperature),
      .hidden = true},
     {.name = "system-message",
      .letter = 's',
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, system),
      .hidden = true},
     {.name = "save-history",
      .type = KT_CLI_FLAG,
      .offset = offsetof(struct args, is_as_ever),
      .hidden = true},
     {.name = "stream", .type = KT_CLI_FLAG, .offset = offsetof(struct args, is_as_ever), .hidden = true},
     {.name = NULL}};

const struct kt_cli_command kt_chat_command =
    {.usage = "[MODEL] [OPTION]...",
     .about = "Talks with a model: with the one that a running server has, such as kt run, or with MODEL, a "
              "GGUF file or a folder of safetensors files, which is then loaded into this process; a URL "
              "names the server. What is "
              "typed is a message, or a command: /help lists them. Where standard input is not a "
              "terminal, all "
              "of it is one question, and only the answer goes to standard output.",
     .options = options,
     .arguments = "MODEL",
     .min_arguments = 0,
     .max_arguments = 1,
     .opens_checkpoint = true,
     .serves = true};
