/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/run.h"
#include "tools/kt/model/registry.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define TEXT(word, field, shown, about)                                                                      \
    {                                                                                                        \
        .name = word, .type = KT_CLI_TEXT, .offset = offsetof(struct kt_run_args, field), .argument = shown, \
        .help = about                                                                                        \
    }
#define UINT(word, field, least, most, about)                                                              \
    {                                                                                                      \
        .name = word, .type = KT_CLI_UINT, .offset = offsetof(struct kt_run_args, field), .argument = "N", \
        .minimum = least, .maximum = most, .help = about                                                   \
    }
#define REAL(word, field, about)                                                                           \
    {                                                                                                      \
        .name = word, .type = KT_CLI_REAL, .offset = offsetof(struct kt_run_args, field), .argument = "X", \
        .help = about                                                                                      \
    }

#define OLDER(word, kind, field)                                                                 \
    {                                                                                            \
        .name = word, .type = kind, .offset = offsetof(struct kt_run_args, field), .minimum = 1, \
        .hidden = true                                                                           \
    }
#define OLDER_SETTING(word, key, most)                                                       \
    {                                                                                        \
        .name = word, .type = KT_CLI_SETTING, .values = key, .maximum = most, .hidden = true \
    }
/* Other names that KTransformers and SGLang have for options of both engines. */
#define OLDER_NAMES                                                                                        \
    OLDER("model-path", KT_CLI_TEXT, model), OLDER("weights-path", KT_CLI_TEXT, experts),                  \
        OLDER("kt-weight-path", KT_CLI_TEXT, experts),                                                     \
        OLDER("max-running-requests", KT_CLI_UINT, max_running),                                           \
        OLDER_SETTING("cpu-threads", "core.threads", 4096),                                                \
        OLDER_SETTING("kt-cpuinfer", "core.threads", 4096), OLDER_SETTING("kt-method", "core.backend", 0), \
        OLDER_SETTING("kt-numa-nodes", "core.numa_nodes", 0)

static const struct kt_cli_option options[] =
    {{.name = "host",
      .letter = 'H',
      .type = KT_CLI_TEXT,
      .offset = offsetof(struct kt_run_args, host),
      .argument = "ADDRESS",
      .help = "address to listen on (default: 127.0.0.1, this machine only; 0.0.0.0: all interfaces)"},
     {.name = "port",
      .letter = 'p',
      .type = KT_CLI_UINT,
      .offset = offsetof(struct kt_run_args, port),
      .argument = "N",
      .maximum = 65535,
      .help = "port to listen on (default: 30000; 0: any free port)"},
     UINT("context", context, 1, UINT32_MAX,
          "maximum tokens of a prompt and its response (default: the model's context length, at most 32768)"),
     TEXT("kv-size", kv_size, "SIZE",
          "memory for keys and values of all requests and kept prefixes, 8G (default: two contexts)"),
     UINT("max-total-tokens", max_tokens, 1, UINT32_MAX, "instead of --kv-size: tokens that have room"),
     TEXT("max-memory", max_memory, "SIZE",
          "memory that loaded models may take together, 64G (default: what is free); of several, the least "
          "recently used one is unloaded when another needs its room"),
     {.name = "kv",
      .type = KT_CLI_CHOICE,
      .offset = offsetof(struct kt_run_args, kv),
      .values = KT_CLI_CACHES,
      .argument = "TYPE",
      .help = "data type of the KV cache: bf16 (default), q8_0 or f32"},
     UINT("max-running", max_running, 1, 1024, "maximum number of requests processed at once (default: 32)"),
     UINT("max-queue", max_queue, 1, 1 << 20,
          "maximum number of waiting requests; more get status 429 (default: 256)"),
     UINT("max-connections", max_connections, 1, 1 << 16, "connections at once (default: 512)"),
     UINT("max-body", max_body, 1024, 1 << 30,
          "bytes of a request (default: 64 for each token of the context, at least 4 MiB)"),
     UINT("timeout", timeout, 1, 86400, "seconds that a client may be silent (default: 60)"),
     UINT("drain", drain, 0, 86400,
          "seconds that answers have to end after SIGTERM, before they are cut (default: 30)"),
     {.name = "speculate",
      .type = KT_CLI_CHOICE,
      .offset = offsetof(struct kt_run_args, speculate),
      .values = "auto|off|lookup|mtp",
      .argument = "HOW",
      .help = "speculative decoding while few requests run: auto (default; while it is faster), off, "
              "lookup (drafts from the text), mtp (drafts from the model's own block)"},
     {.name = "pooling",
      .type = KT_CLI_CHOICE,
      .offset = offsetof(struct kt_run_args, pooling),
      .values = "auto|last|mean",
      .argument = "HOW",
      .help =
          "the vector of an embedded text: auto (default; the model's pooling_type, or last), last (its last "
          "token's hidden state) or mean (of all tokens)"},
     TEXT("served-model-name", names, "NAME,...",
          "model names for clients (default: the name of the file or folder)"),
     TEXT("chat-template", chat_template, "FILE",
          "use this chat template instead of the model's: a file, or a built-in one (see kt template)"),
     TEXT("system", system, "TEXT", "the system's message of chats that have none"),
     TEXT("json-schema", schema, "FILE",
          "answers of chats that ask for no form, and have no tools, are JSON that fits this JSON Schema"),
     TEXT("api-key", key, "KEY",
          "answer only who sends this key; other users of this machine may see it here"),
     TEXT("api-key-file", key_file, "FILE", "keys, one a line, of a file that only its owner may read"),
     {.name = "share-prefixes",
      .type = KT_CLI_FLAG,
      .offset = offsetof(struct kt_run_args, share_prefixes),
      .help = "share cached prefixes between API keys: faster, but reveals to clients what others ask"},
     TEXT("cors", origin, "ORIGIN", "allow web pages of this origin, such as https://example.org; *: all"),
     REAL("temperature", temperature,
          "default temperature of requests (default: the model's "
          "recommendation, or 1)"),
     REAL("top-p", top_p, "likewise, 0 .. 1"),
     UINT("top-k", top_k, 0, INT32_MAX, "likewise; 0: all"),
     REAL("min-p", min_p, "likewise, 0 .. 1"),
     REAL("repetition-penalty", repetition_penalty, "likewise; 1: none"),
     REAL("presence-penalty", presence_penalty, "likewise, 0 .. 2"),
     REAL("frequency-penalty", frequency_penalty, "likewise, 0 .. 2"),
     {.name = "measure-memory",
      .type = KT_CLI_FLAG,
      .offset = offsetof(struct kt_run_args, measure_memory),
      .help = "measure the memory bandwidth first, and report the fraction reached in /metrics and timings"},
     {.name = "log-level",
      .type = KT_CLI_CHOICE,
      .offset = offsetof(struct kt_run_args, log),
      .values = "error|access|debug",
      .argument = "LEVEL",
      .help = "error, access (default; one line per request), or debug (adds messages of the HTTP library)"},
     {.name = "dry-run",
      .type = KT_CLI_FLAG,
      .offset = offsetof(struct kt_run_args, dry_run),
      .help = "print the plan and exit"},
     KT_CLI_EXPERTS(struct kt_run_args),
     KT_CLI_BACKEND,
     KT_CLI_THREADS,
     KT_CLI_NUMA_NODES,
     {.name = "engine",
      .type = KT_CLI_CHOICE,
      .offset = offsetof(struct kt_run_args, engine),
      .values = "kt|sglang",
      .argument = "NAME",
      .help =
          "kt (default), or sglang: SGLang on GPUs with experts on the CPU; the following options require "
          "sglang"},
     KT_LAUNCH_OPTIONS,
     OLDER_NAMES,
     {.name = NULL}};

const struct kt_cli_command kt_run_command =
    {.usage = "MODEL... [OPTION]...\n"
              "--engine sglang MODEL [OPTION]... [-- SGLANG-OPTION...]",
     .about =
         "Serves a model over an OpenAI-compatible HTTP API: chat and text completions, a chat page for "
         "browsers at /, and Prometheus metrics at /metrics. MODEL is a GGUF file, or a folder of "
         "safetensors files with its tokenizer. Of several models, the first is loaded at startup, and the "
         "others when they are asked for. On SIGTERM or Ctrl-C, running responses are finished first.",
     .options = options,
     .arguments = "MODEL",
     .max_arguments = INT_MAX, /* kt_cmd_run counts them */
     .opens_checkpoint = true,
     .serves = true};

const struct kt_run_args kt_run_defaults = {.host = "127.0.0.1",
                                            .port = 30000,
                                            .max_running = 32,
                                            .max_queue = 256,
                                            .max_connections = 512,
                                            .timeout = 60,
                                            .drain = 30,
                                            .temperature = -1,
                                            .top_p = -1,
                                            .min_p = -1,
                                            .repetition_penalty = -1,
                                            .presence_penalty = -1,
                                            .frequency_penalty = -1,
                                            .top_k = UINT64_MAX,
                                            .log = KT_SERVE_LOG_ACCESS};

/* ---- names ---- */

static bool add_name(struct kt_served *model, const char *name, size_t length)
{
    char **grown = realloc(model->names, (model->n_names + 1) * sizeof(*grown));
    if (!grown)
        return false;
    model->names = grown;
    grown[model->n_names] = strndup(name, length);
    if (!grown[model->n_names])
        return false;
    model->n_names++;
    return true;
}

/* The last part of a path, without ".gguf". */
static bool add_own_name(struct kt_served *model, const char *path)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (end - start > 5 && memcmp(path + end - 5, ".gguf", 5) == 0)
        end -= 5;
    return add_name(model, path + start, end - start);
}

static bool add_names(struct kt_served *model, const char *names)
{
    while (*names) {
        size_t length = strcspn(names, ",");
        if (length > 0 && !add_name(model, names, length))
            return false;
        names += length + (names[length] == ',');
    }
    return true;
}

/* ---- settings ---- */

static int check_sampling(const struct kt_cli *cli, const struct kt_run_args *args)
{
    const struct {
        const char *name;
        double value, most;
    } limits[] = {{"temperature", args->temperature, 2},
                  {"top-p", args->top_p, 1},
                  {"min-p", args->min_p, 1},
                  {"repetition-penalty", args->repetition_penalty, 100},
                  {"presence-penalty", args->presence_penalty, 2},
                  {"frequency-penalty", args->frequency_penalty, 2}};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
        if (limits[i].value > limits[i].most)
            return kt_cli_usage(cli, "--%s is %g, at most %g", limits[i].name, limits[i].value,
                                limits[i].most);
    return KT_EXIT_OK;
}

/* Checked once here; how it begins depends on the request. */
static int read_schema(const struct kt_cli *cli, const char *path, struct kt_server *server)
{
    struct kt_buffer text = {.data = NULL};
    struct kt_grammar *grammar = NULL;
    int code = kt_form_read(cli, path, NULL, &text, &grammar);
    kt_grammar_destroy(grammar);
    if (code == KT_EXIT_OK)
        server->schema = text.data; /* with a zero byte behind it */
    else
        kt_buffer_free(&text);
    return code;
}

int kt_run_name(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_served *model)
{
    const char *own = cli->model ? cli->model->name : cli->arguments[0];
    int code = check_sampling(cli, args);
    if (code != KT_EXIT_OK)
        return code;
    model->system = args->system;
    model->max_running = args->max_running;
    if (!(args->names ? add_names(model, args->names) : add_own_name(model, own)))
        return kt_cli_error(cli, "out of memory");
    if (model->n_names == 0)
        return kt_cli_usage(cli, "--served-model-name '%s' has no name", args->names ? args->names : "");
    return KT_EXIT_OK;
}

int kt_run_settings(const struct kt_cli *cli, const struct kt_run_args *args, struct kt_server *server)
{
    struct kt_error error;
    server->host = args->host;
    server->origin = args->origin;
    server->max_body = args->max_body;
    server->max_queue = args->max_queue;
    server->timeout = (unsigned)args->timeout;
    server->pooling = args->pooling; /* the order of the enum */
    server->log = (enum kt_serve_log)args->log;
    server->shares_prefixes = args->share_prefixes;
    if (args->max_memory && (!kt_cli_size(args->max_memory, &server->models.limit) || !server->models.limit))
        return kt_cli_usage(cli, "--max-memory '%s' is not a size; 64G or 500M are", args->max_memory);
    if (args->key && !kt_keys_add(&server->keys, args->key))
        return kt_cli_error(cli, "out of memory");
    if (args->key_file && kt_keys_read(&server->keys, args->key_file, &error) != KT_OK)
        return kt_cli_fail(cli, &error);
    int code = args->schema ? read_schema(cli, args->schema, server) : KT_EXIT_OK;
    if (code == KT_EXIT_OK && !kt_host_is_local(args->host) && server->keys.n == 0)
        kt_cli_warn(cli,
                    "--host %s allows access from other machines, but no API key is required; see "
                    "--api-key-file",
                    args->host);
    return code;
}

void kt_run_free(struct kt_server *server)
{
    kt_keys_free(&server->keys);
    free(server->schema);
}
