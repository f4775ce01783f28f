/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - kt generate: a model goes on with a text, or answers it. */
#include "tools/engine/command/command.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    const char *prompt, *file, *system, *chat_template;
    uint64_t n, context;
    bool chat, ignore_eos;
};

static const struct kt_cli_option options[] =
    {{.name = "prompt",
      .letter = 'p',
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, prompt),
      .argument = "TEXT",
      .help = "the text to go on with"},
     {.name = "file",
      .letter = 'f',
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, file),
      .argument = "FILE",
      .help = "read the text from FILE, - for standard input"},
     {.name = "tokens",
      .letter = 'n',
      .type = KT_CLI_UINT,
      .offset = offsetof(struct args, n),
      .argument = "N",
      .maximum = 1 << 20,
      .help = "write at most N tokens (default: 256)"},
     {.name = "chat",
      .type = KT_CLI_FLAG,
      .offset = offsetof(struct args, chat),
      .help = "the text is a message to be answered: it is wrapped in the model's chat template"},
     {.name = "system",
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, system),
      .argument = "TEXT",
      .help = "with --chat: the system's message before it"},
     {.name = "chat-template",
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct args, chat_template),
      .argument = "FILE",
      .help = "this template instead of the model's: a file, or a built-in one as of kt template"},
     {.name = "ignore-eos",
      .type = KT_CLI_FLAG,
      .offset = offsetof(struct args, ignore_eos),
      .help = "go on behind tokens that end the text"},
     {.name = "context",
      .type = KT_CLI_UINT,
      .offset = offsetof(struct args, context),
      .argument = "N",
      .minimum = 1,
      .maximum = UINT32_MAX,
      .help = "room for N tokens (default: those of the text and --tokens)"},
     KT_CLI_BACKEND,
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     {.name = NULL}};
static const struct kt_cli_command command =
    {.usage = "MODEL -p TEXT",
     .about =
         "Goes on with a text as a language model would, each time with the likeliest token, and prints what "
         "it adds. MODEL is a GGUF file or a folder of safetensors files with its tokenizer.",
     .options = options,
     .arguments = "MODEL",
     .min_arguments = 1,
     .max_arguments = 1,
     .opens_checkpoint = true};

/* What is measured. */
struct speed {
    double prompt, decode; /* seconds */
    uint64_t n_prompt, n_decode;
};

static int32_t choose(const float *logits, uint64_t n)
{
    uint64_t best = 0;
    for (uint64_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

static int read_prompt(const struct kt_cli *cli, const struct args *args,
                       const struct kt_tokenizer *tokenizer, int32_t **ids, uint64_t *n_ids)
{
    struct kt_buffer bytes = {.data = NULL};
    struct kt_template *chat = NULL;
    struct kt_error error = {KT_OK, ""};
    int code = args->prompt ? KT_EXIT_OK : kt_input_read(cli, args->file, &bytes);
    struct kt_text_part part = {.text = args->prompt ? args->prompt : bytes.data,
                                .length = args->prompt ? strlen(args->prompt) : bytes.length};
    if (code == KT_EXIT_OK && args->chat && args->chat_template)
        code = kt_chat_read(cli, args->chat_template, &chat);
    else if (code == KT_EXIT_OK && args->chat && kt_template_open(tokenizer, NULL, &chat, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    if (code == KT_EXIT_OK && args->chat)
        code = kt_chat_encode(cli, tokenizer, chat, args->system, part.text, part.length, ids, n_ids);
    else if (code == KT_EXIT_OK &&
             kt_tokenizer_encode(tokenizer, &part, 1, KT_ENCODE_BOS, ids, n_ids, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    kt_template_destroy(chat);
    kt_buffer_free(&bytes);
    if (code == KT_EXIT_OK && *n_ids == 0) {
        kt_ids_free(*ids);
        code = kt_cli_error(cli, "the text is empty, and the model has no token to begin with");
    }
    return code;
}

static bool ends(const struct kt_tokenizer *tokenizer, int32_t id)
{
    struct kt_token token;
    return kt_tokenizer_token(tokenizer, id, &token, NULL) == KT_OK && token.ends;
}

/* Writes a token's text, as far as it is whole characters. */
static int print_token(const struct kt_cli *cli, struct kt_detokenizer *detokenizer, const int32_t *id)
{
    struct kt_error error;
    const char *text;
    uint64_t length;
    enum kt_status status = id ? kt_detokenizer_add(detokenizer, id, 1, &text, &length, &error)
                               : kt_detokenizer_end(detokenizer, &text, &length, &error);
    if (status != KT_OK)
        return kt_cli_fail(cli, &error);
    (void)fwrite(text, 1, length, stdout);
    return kt_cli_flush(cli);
}

static int go_on(const struct kt_cli *cli, const struct args *args, const struct kt_loaded *loaded,
                 struct kt_session *session, struct kt_detokenizer *detokenizer, const int32_t *ids,
                 uint64_t n_ids, float *logits, struct speed *speed)
{
    struct kt_model_info info;
    struct kt_error error;
    int32_t id = 0;
    struct kt_step step = {session, ids, (uint32_t)n_ids, 1, logits};
    int code = KT_EXIT_OK;
    double start = kt_cli_now();
    kt_model_info(loaded->model, &info);
    speed->n_prompt = n_ids;
    for (uint64_t i = 0; i < args->n && code == KT_EXIT_OK; i++) {
        if (kt_model_step(loaded->model, &step, 1, &error) != KT_OK)
            return kt_cli_fail(cli, &error);
        double now = kt_cli_now();
        *(i ? &speed->decode : &speed->prompt) += now - start;
        start = now;
        speed->n_decode += i > 0;
        id = choose(logits, info.vocabulary);
        if (!args->ignore_eos && ends(loaded->tokenizer, id))
            break;
        code = print_token(cli, detokenizer, &id);
        step.ids = &id;
        step.n_ids = 1;
    }
    return code == KT_EXIT_OK ? print_token(cli, detokenizer, NULL) : code;
}

static int generate(const struct kt_cli *cli, const struct args *args, const struct kt_loaded *loaded,
                    const int32_t *ids, uint64_t n_ids)
{
    struct kt_session *session = NULL;
    struct kt_detokenizer *detokenizer = NULL;
    struct kt_model_info info;
    struct kt_error error;
    struct speed speed = {.prompt = 0};
    kt_model_info(loaded->model, &info);
    float *logits = kt_cli_alloc(cli, info.vocabulary, sizeof(*logits));
    int code = KT_EXIT_OK;
    if (kt_session_open(loaded->model, &session, &error) != KT_OK ||
        kt_detokenizer_create(loaded->tokenizer, KT_DECODE_NO_CONTROL, &detokenizer, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    if (code == KT_EXIT_OK)
        code = go_on(cli, args, loaded, session, detokenizer, ids, n_ids, logits, &speed);
    if (code == KT_EXIT_OK) {
        if (isatty(STDOUT_FILENO))
            putchar('\n');
        (void)kt_cli_flush(cli);
        fprintf(stderr,
                "kt generate: %" PRIu64 " tokens read, %.1f tokens/s; %" PRIu64 " written, %.1f tokens/s\n",
                speed.n_prompt, speed.prompt > 0 ? (double)speed.n_prompt / speed.prompt : 0.0,
                speed.n_decode + 1, speed.decode > 0 ? (double)speed.n_decode / speed.decode : 0.0);
    }
    kt_detokenizer_destroy(detokenizer);
    kt_session_close(session);
    free(logits);
    return code;
}

/* The prompt decides how much room is needed, so the tokenizer is asked before the model is loaded. */
static int count_tokens(const struct kt_cli *cli, const struct args *args, const char *path, int32_t **ids,
                        uint64_t *n_ids)
{
    struct kt_tokenizer *tokenizer;
    int code = kt_input_tokenizer(cli, path, &tokenizer);
    if (code != KT_EXIT_OK)
        return code;
    code = read_prompt(cli, args, tokenizer, ids, n_ids);
    kt_tokenizer_destroy(tokenizer);
    return code;
}

int kt_cmd_generate(struct kt_cli *cli, int argc, char **argv)
{
    struct args args = {.n = 256};
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_loaded loaded;
    int32_t *ids = NULL;
    uint64_t n_ids = 0;
    if (!kt_cli_parse(cli, &command, argc, argv, &args))
        return cli->exit_code;
    if (!args.prompt == !args.file)
        return kt_cli_usage(cli, "one of --prompt and --file is needed");
    if (args.system && !args.chat)
        return kt_cli_usage(cli, "--system goes with --chat");
    if (args.chat_template && !args.chat)
        return kt_cli_usage(cli, "--chat-template goes with --chat");
    if (cli->format != KT_FORMAT_TABLE)
        return kt_cli_usage(cli, "the output is text; --format does not go with it");
    int code = count_tokens(cli, &args, cli->arguments[0], &ids, &n_ids);
    if (code != KT_EXIT_OK)
        return code;
    params.max_tokens = args.context ? args.context : n_ids + args.n;
    if (n_ids > params.max_tokens)
        code = kt_cli_error(cli, "the text has %" PRIu64 " tokens, more than the room for %" PRIu64, n_ids,
                            params.max_tokens);
    if (code == KT_EXIT_OK) {
        if (args.n > params.max_tokens - n_ids + 1)
            args.n = params.max_tokens - n_ids + 1;
        code = kt_loaded_open(cli, cli->arguments[0], &params, &loaded);
        if (code == KT_EXIT_OK)
            code = generate(cli, &args, &loaded, ids, n_ids);
        kt_loaded_close(&loaded);
    }
    kt_ids_free(ids);
    return code;
}
