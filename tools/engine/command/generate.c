/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - kt generate: a model continues with a text, or answers it. */
#include "tools/engine/prompt/prompt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct args {
    const char *prompt, *file, *system, *chat_template, *experts, *schema;
    uint64_t n, context;
    bool chat, ignore_eos, json;
    int speculate; /* enum kt_speculation */
    struct kt_sampling_args sampling;
};

static const struct kt_cli_option options[] =
    {OPTION_TEXT("prompt", 'p', prompt, "TEXT", "the prompt"),
     OPTION_TEXT("file", 'f', file, "FILE", "read the text from FILE (-: standard input)"),
     OPTION_UINT("tokens", 'n', n, 0, 1 << 20, "N", "maximum number of tokens to generate (default: 256)"),
     OPTION_FLAG("chat", 0, chat,
                 "treat the prompt as a message to answer: wrap it in the model's chat template"),
     OPTION_TEXT("system", 0, system, "TEXT", "with --chat: system message before it"),
     OPTION_TEXT("chat-template", 0, chat_template, "FILE",
                 "use this chat template instead of the model's: a file, or a built-in one (see kt "
                 "template)"),
     OPTION_FLAG("json", 0, json, "generate a JSON object"),
     OPTION_TEXT("json-schema", 0, schema, "FILE", "generate JSON that matches the JSON Schema in FILE"),
     OPTION_FLAG("ignore-eos", 0, ignore_eos, "continue after tokens that end the text"),
     OPTION_UINT("context", 0, context, 1, UINT32_MAX, "N",
                 "size of the context in tokens (default: the prompt and --tokens)"),
     KT_SPECULATE_OPTION(struct args, speculate),
     KT_SAMPLING_OPTIONS,
     KT_CLI_EXPERTS(struct args),
     KT_CLI_BACKEND,
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     {.name = NULL}};
const struct kt_cli_command kt_generate_command =
    {.usage = "MODEL -p TEXT [OPTION]...",
     .about = "Generates text from a prompt and prints it. Sampling parameters are those that the model "
              "recommends; without any, the most likely token is always chosen. MODEL is a GGUF file or a "
              "folder of safetensors files with its tokenizer.",
     .options = options,
     .arguments = "MODEL",
     .min_arguments = 1,
     .max_arguments = 1,
     .opens_checkpoint = true};

/* What is to be written: behind which prompt, and in which form. */
struct task {
    int32_t *ids;
    uint64_t n_ids;
    struct kt_grammar *grammar; /* NULL: any text */
};

/* What is measured. */
struct speed {
    double prompt, decode; /* seconds */
    uint64_t n_prompt, n_written;
};

/* A chat's answer may have reasoning before what has the form. */
static int read_form(const struct kt_cli *cli, const struct args *args, const struct kt_template *chat,
                     enum kt_thought thought, struct kt_grammar **grammar)
{
    struct kt_grammar_params params = KT_GRAMMAR_PARAMS_INIT;
    struct kt_template_info info;
    struct kt_buffer schema = {.data = NULL};
    struct kt_error error;
    if (!args->json && !args->schema)
        return KT_EXIT_OK;
    if (chat && kt_template_info(chat, &info, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    if (chat) {
        params.format = info.format;
        params.reasoning = kt_form_reasoning(&info, thought);
    }
    int code = kt_form_read(cli, args->schema, &params, &schema, grammar);
    kt_buffer_free(&schema);
    return code;
}

static int read_prompt(const struct kt_cli *cli, const struct args *args,
                       const struct kt_tokenizer *tokenizer, struct task *task)
{
    struct kt_buffer bytes = {.data = NULL};
    struct kt_template *chat = NULL;
    enum kt_thought thought = KT_THOUGHT_OPEN;
    struct kt_error error = {KT_OK, ""};
    int code = args->prompt ? KT_EXIT_OK : kt_input_read(cli, args->file, &bytes);
    struct kt_text_part part = {.text = args->prompt ? args->prompt : bytes.data,
                                .length = args->prompt ? strlen(args->prompt) : bytes.length};
    if (code == KT_EXIT_OK && args->chat && args->chat_template)
        code = kt_chat_read(cli, args->chat_template, &chat);
    else if (code == KT_EXIT_OK && args->chat && kt_template_open(tokenizer, NULL, &chat, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    if (code == KT_EXIT_OK && args->chat)
        code = kt_chat_encode(cli, tokenizer, chat, args->system, part.text, part.length, &task->ids,
                              &task->n_ids, &thought);
    else if (code == KT_EXIT_OK && kt_tokenizer_encode(tokenizer, &part, 1, KT_ENCODE_BOS, &task->ids,
                                                       &task->n_ids, &error) != KT_OK)
        code = kt_cli_fail(cli, &error);
    if (code == KT_EXIT_OK)
        code = read_form(cli, args, chat, thought, &task->grammar);
    kt_template_destroy(chat);
    kt_buffer_free(&bytes);
    if (code == KT_EXIT_OK && task->n_ids == 0)
        code = kt_cli_error(cli, "the text is empty, and the model has no token to begin with");
    return code;
}

static bool ends(const struct kt_tokenizer *tokenizer, int32_t id)
{
    struct kt_token token;
    return kt_tokenizer_token(tokenizer, id, &token, NULL) == KT_OK && token.ends;
}

/* What a session writes by. */
struct writer {
    const struct kt_cli *cli;
    const struct args *args;
    const struct kt_loaded *loaded;
    struct kt_session *session;
    struct kt_detokenizer *detokenizer;
    struct kt_sampler *sampler;
    struct kt_speculator *speculator;
    struct kt_stop *stop;
    uint64_t n_written;
    bool ends, stops; /* by a token, by a stop string */
    bool is_whole;    /* the form, where there is one */
    double first;     /* when the first token came */
    int code;
};

/* Writes a token's text, or what is left at the end, as far as it is whole characters and no stop string. */
static int print_token(struct writer *w, const int32_t *id)
{
    struct kt_error error;
    const char *text;
    uint64_t length;
    int64_t found = -1;
    enum kt_status status = id ? kt_detokenizer_add(w->detokenizer, id, 1, &text, &length, &error)
                               : kt_detokenizer_end(w->detokenizer, &text, &length, &error);
    if (status == KT_OK)
        status = kt_stop_add(w->stop, text, length, &text, &length, &found, &error);
    if (status == KT_OK)
        (void)fwrite(text, 1, length, stdout);
    if (status == KT_OK && !id && found < 0) {
        status = kt_stop_end(w->stop, &text, &length, &error);
        if (status == KT_OK)
            (void)fwrite(text, 1, length, stdout);
    }
    if (status != KT_OK)
        return kt_cli_fail(w->cli, &error);
    w->stops = found >= 0;
    return kt_cli_flush(w->cli);
}

static int take_token(void *data, const struct kt_choice *choice)
{
    struct writer *w = data;
    if (w->n_written++ == 0)
        w->first = kt_cli_now();
    w->ends = !w->args->ignore_eos && ends(w->loaded->tokenizer, choice->id);
    if (!w->ends)
        w->code = print_token(w, &choice->id);
    return w->ends || w->stops || w->code != KT_EXIT_OK;
}

static int go_on(struct writer *w, const struct task *task, struct speed *speed)
{
    struct kt_error error;
    double start = kt_cli_now();
    enum kt_status status = KT_OK;
    if (task->grammar)
        status = kt_form_write(w->loaded, w->session, w->sampler, task->grammar, task->ids, task->n_ids,
                               w->args->n, take_token, w, &w->is_whole, &error);
    else
        status = kt_speculator_add(w->speculator, task->ids, task->n_ids, &error);
    while (!task->grammar && status == KT_OK && w->n_written < w->args->n && !w->ends && !w->stops &&
           w->code == KT_EXIT_OK)
        status =
            kt_speculator_step(w->speculator, &w->session, w->args->n - w->n_written, take_token, w, &error);
    if (w->n_written > 0) {
        speed->prompt = w->first - start;
        speed->decode = kt_cli_now() - w->first;
    }
    speed->n_prompt = task->n_ids;
    speed->n_written = w->n_written;
    if (status != KT_OK)
        return kt_cli_fail(w->cli, &error);
    return w->code == KT_EXIT_OK && !w->stops ? print_token(w, NULL) : w->code;
}

static int open_writer(struct writer *w)
{
    struct kt_speculator_params params = KT_SPECULATOR_PARAMS_INIT;
    struct kt_error error;
    int code = kt_sampling_stop(w->cli, &w->args->sampling, &w->stop);
    if (code == KT_EXIT_OK)
        code = kt_sampling_start(w->cli, &w->args->sampling, w->loaded, &w->sampler);
    if (code != KT_EXIT_OK)
        return code;
    params.mode = (uint32_t)w->args->speculate;
    if (kt_session_open(w->loaded->model, &w->session, &error) != KT_OK ||
        kt_speculator_create(w->loaded->model, w->sampler, &params, &w->speculator, &error) != KT_OK ||
        kt_detokenizer_create(w->loaded->tokenizer, KT_DECODE_NO_CONTROL, &w->detokenizer, &error) != KT_OK)
        return kt_cli_fail(w->cli, &error);
    return KT_EXIT_OK;
}

static void close_writer(struct writer *w)
{
    kt_stop_destroy(w->stop);
    kt_speculator_destroy(w->speculator);
    kt_sampler_destroy(w->sampler);
    kt_detokenizer_destroy(w->detokenizer);
    kt_session_close(w->session);
}

static void show_speed(const struct writer *w, const struct speed *speed)
{
    struct kt_speculator_stats stats;
    uint64_t n_decode = speed->n_written > 0 ? speed->n_written - 1 : 0;
    kt_speculator_stats(w->speculator, &stats);
    fprintf(stderr, "kt generate: %" PRIu64 " tokens read, %.1f tokens/s; %" PRIu64 " written, %.1f tokens/s",
            speed->n_prompt, speed->prompt > 0 ? (double)speed->n_prompt / speed->prompt : 0.0,
            speed->n_written, speed->decode > 0 ? (double)n_decode / speed->decode : 0.0);
    if (stats.drafted > 0)
        fprintf(stderr, "; %" PRIu64 " of %" PRIu64 " drafted tokens accepted", stats.accepted,
                stats.drafted);
    fputc('\n', stderr);
}

static int generate(const struct kt_cli *cli, const struct args *args, const struct kt_loaded *loaded,
                    const struct task *task)
{
    struct writer writer = {.cli = cli, .args = args, .loaded = loaded};
    struct speed speed = {.prompt = 0};
    int code = open_writer(&writer);
    if (code == KT_EXIT_OK)
        code = go_on(&writer, task, &speed);
    if (code == KT_EXIT_OK) {
        if (isatty(STDOUT_FILENO))
            putchar('\n');
        (void)kt_cli_flush(cli);
        show_speed(&writer, &speed);
        if (task->grammar && !writer.is_whole)
            code = kt_cli_error(cli,
                                "the text ends before its form is whole, after %" PRIu64
                                " tokens; --tokens allows more",
                                speed.n_written);
    }
    close_writer(&writer);
    return code;
}

/* The prompt decides how much room is needed, so the tokenizer is asked before the model is loaded. */
static int read_task(const struct kt_cli *cli, const struct args *args, const char *path, struct task *task)
{
    struct kt_tokenizer *tokenizer;
    int code = kt_input_tokenizer(cli, path, &tokenizer);
    if (code != KT_EXIT_OK)
        return code;
    code = read_prompt(cli, args, tokenizer, task);
    kt_tokenizer_destroy(tokenizer);
    return code;
}

int kt_cmd_generate(struct kt_cli *cli, int argc, char **argv)
{
    /* Drafts only where they are asked for: the same seed gives the same text. */
    struct args args = {.n = 256, .speculate = KT_SPECULATE_OFF, .sampling = KT_SAMPLING_ARGS_INIT};
    struct kt_model_params params = KT_MODEL_PARAMS_INIT;
    struct kt_loaded loaded;
    struct task task = {.ids = NULL};
    if (!kt_cli_parse(cli, &kt_generate_command, argc, argv, &args))
        return cli->exit_code;
    if (!args.prompt == !args.file)
        return kt_cli_usage(cli, "one of --prompt and --file is needed");
    if (args.system && !args.chat)
        return kt_cli_usage(cli, "--system goes with --chat");
    if (args.chat_template && !args.chat)
        return kt_cli_usage(cli, "--chat-template goes with --chat");
    if (args.json && args.schema)
        return kt_cli_usage(cli, "--json and --json-schema exclude each other");
    if (cli->format != KT_FORMAT_TABLE)
        return kt_cli_usage(cli, "the output is text; --format does not go with it");
    int code = kt_sampling_check(cli, &args.sampling);
    if (code == KT_EXIT_OK)
        code = read_task(cli, &args, cli->arguments[0], &task);
    params.max_tokens = args.context ? args.context : task.n_ids + args.n;
    params.n_logits = 1;
    if (code == KT_EXIT_OK && task.n_ids > params.max_tokens)
        code = kt_cli_error(cli, "the text has %" PRIu64 " tokens, but the context has %" PRIu64, task.n_ids,
                            params.max_tokens);
    if (code == KT_EXIT_OK) {
        if (args.n > params.max_tokens - task.n_ids + 1)
            args.n = params.max_tokens - task.n_ids + 1;
        if (args.speculate !=
            KT_SPECULATE_OFF) { /* the other one keeps states, and shares pages but the last */
            params.max_sessions = 2;
            params.cache_tokens = params.max_tokens + 3 * KT_KV_PAGE;
            params.mtp = args.speculate != KT_SPECULATE_LOOKUP;
        }
        code = kt_loaded_open(cli, cli->arguments[0], args.experts, &params, &loaded);
        if (code == KT_EXIT_OK)
            code = generate(cli, &args, &loaded, &task);
        kt_loaded_close(&loaded);
    }
    kt_ids_free(task.ids);
    kt_grammar_destroy(task.grammar);
    return code;
}
