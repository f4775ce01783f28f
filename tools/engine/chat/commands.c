/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c - lines that begin with a slash. */
#define _GNU_SOURCE

#include "tools/engine/chat/chat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name, *argument, *help;
    void (*run)(struct kt_chat *chat, const char *argument); /* "": none was given */
};

static void help(struct kt_chat *chat, const char *argument);

static void say(struct kt_chat *chat, const char *label, const char *text)
{
    kt_screen_say(&chat->notes, false, "%-9s %s\n", label, text);
}

static void set_system(struct kt_chat *chat, const char *argument)
{
    const char *now = kt_conversation_system(&chat->conversation);
    if (!*argument) {
        say(chat, "system", *now ? now : "none; /system TEXT sets it");
        return;
    }
    if (!kt_conversation_set_system(&chat->conversation, strcmp(argument, "-") == 0 ? NULL : argument))
        (void)kt_cli_error(chat->cli, "/system: out of memory");
}

static void clear(struct kt_chat *chat, const char *argument)
{
    (void)argument;
    kt_conversation_clear(&chat->conversation);
    free(chat->question);
    chat->question = NULL;
    kt_screen_say(&chat->notes, true, "[a new conversation]\n");
}

static void retry(struct kt_chat *chat, const char *argument)
{
    (void)argument;
    (void)kt_chat_ask(chat, NULL, 0);
}

static void info(struct kt_chat *chat, const char *argument)
{
    const struct kt_talk *talk = chat->talk;
    const struct kt_talk_end *end = &chat->end;
    char text[1024];
    (void)argument;
    kt_chat_name(chat, text, sizeof(text));
    say(chat, "model", text);
    if (talk->context > 0) {
        (void)snprintf(text, sizeof(text), "%" PRIu64 " of %" PRIu64 " tokens, at the last answer's end",
                       end->n_prompt + end->n_answer, talk->context);
        say(chat, "context", text);
    }
    if (end->n_prompt > 0) {
        (void)snprintf(text, sizeof(text),
                       "%" PRIu64 " tokens, of which %" PRIu64 " were known; answer %" PRIu64, end->n_prompt,
                       end->n_cached, end->n_answer);
        say(chat, "prompt", text);
    }
    say(chat, "sampling", *talk->sampling ? talk->sampling : "the likeliest token each time");
    (void)snprintf(text, sizeof(text), "%zu", kt_conversation_count(&chat->conversation));
    say(chat, "messages", text);
    say(chat, "system", *kt_conversation_system(&chat->conversation) ? "set; /system shows it" : "none");
    say(chat, "history", chat->history ? chat->history : "not kept");
}

static void show_history(struct kt_chat *chat, const char *argument)
{
    const json_t *message;
    size_t i;
    (void)argument;
    json_array_foreach (chat->conversation.messages, i, message) {
        const char *role = json_string_value(json_object_get(message, "role"));
        const json_t *text = json_object_get(message, "content");
        kt_screen_say(&chat->answers, true, "%s:", role ? role : "");
        kt_screen_put(&chat->answers, false, "\n", 1);
        kt_screen_put(&chat->answers, false, json_string_value(text), json_string_length(text));
        kt_screen_end_line(&chat->answers);
    }
    if (json_array_size(chat->conversation.messages) == 0)
        kt_screen_say(&chat->notes, true, "[nothing was said yet]\n");
}

/* The file that is meant, malloc'ed: "~/x" is below the home folder, none is that of the last /save or /load.
 * NULL after a message. */
static char *choose_path(struct kt_chat *chat, const char *command, const char *argument)
{
    const char *home = getenv("HOME");
    char *path = NULL;
    if (!*argument && !chat->path) {
        (void)kt_cli_error(chat->cli, "%s FILE: a file's name is needed", command);
        return NULL;
    }
    int n = strncmp(argument, "~/", 2) == 0 && home
                ? asprintf(&path, "%s%s", home, argument + 1)
                : asprintf(&path, "%s", *argument ? argument : chat->path);
    if (n < 0)
        (void)kt_cli_error(chat->cli, "out of memory");
    return n < 0 ? NULL : path;
}

static void keep_path(struct kt_chat *chat, char *path, const char *done)
{
    kt_screen_say(&chat->notes, true, "[%zu messages %s %s]\n", kt_conversation_count(&chat->conversation),
                  done, path);
    free(chat->path);
    chat->path = path;
}

static void save(struct kt_chat *chat, const char *argument)
{
    struct kt_error error;
    char *path = choose_path(chat, "/save", argument);
    if (!path)
        return;
    if ((!chat->path || strcmp(chat->path, path) != 0) && access(path, F_OK) == 0) {
        (void)kt_cli_error(chat->cli, "/save: %s is there already; name another file, or remove it", path);
    } else if (kt_conversation_save(&chat->conversation, path, &error) != KT_OK) {
        (void)kt_cli_error(chat->cli, "/save: %s", error.message);
    } else {
        keep_path(chat, path, "in");
        return;
    }
    free(path);
}

static void load(struct kt_chat *chat, const char *argument)
{
    struct kt_error error;
    char *path = choose_path(chat, "/load", argument);
    if (!path)
        return;
    if (kt_conversation_load(&chat->conversation, path, &error) != KT_OK) {
        (void)kt_cli_error(chat->cli, "/load: %s", error.message);
        free(path);
        return;
    }
    free(chat->question);
    chat->question = NULL;
    /* A question that was left without its answer waits to be asked. */
    if (kt_conversation_ends_with(&chat->conversation, "user")) {
        const json_t *messages = chat->conversation.messages;
        const json_t *last = json_array_get(messages, json_array_size(messages) - 1);
        const char *text = json_string_value(json_object_get(last, "content"));
        chat->question = text ? strdup(text) : NULL;
        kt_conversation_pop(&chat->conversation);
        kt_screen_say(&chat->notes, true, "[its last question has no answer: /retry asks it]\n");
    }
    keep_path(chat, path, "of");
}

static void quit(struct kt_chat *chat, const char *argument)
{
    (void)argument;
    chat->is_over = true;
}

static const struct command commands[] = {
    {"/help", "", "this list", help},
    {"/system", "[TEXT]", "shows the system's message, or sets it; - takes it away", set_system},
    {"/clear", "", "begins a new conversation; the system's message stays", clear},
    {"/retry", "", "asks the last question again", retry},
    {"/info", "", "the model, its context, what the last answer took", info},
    {"/history", "", "shows the conversation", show_history},
    {"/save", "[FILE]", "writes the conversation to a file, as JSON", save},
    {"/load", "[FILE]", "reads it from there", load},
    {"/quit", "", "ends kt chat", quit},
    {NULL, NULL, NULL, NULL},
};

static void help(struct kt_chat *chat, const char *argument)
{
    static const char *const keys[][2] = {
        {"\\ at the end of a line", "the message goes on in the next one"},
        {"\"\"\"", "the message goes on until the next three quotation marks"},
        {"Alt-Enter", "a new line; pasted text keeps its own"},
        {"//text", "a message that begins with a slash"},
        {"Ctrl-C", "stops the answer; at an empty line, twice, ends kt chat"},
        {"Ctrl-D", "ends kt chat"},
    };
    (void)argument;
    for (const struct command *c = commands; c->name; c++) {
        char word[32];
        (void)snprintf(word, sizeof(word), "%s %s", c->name, c->argument);
        kt_screen_say(&chat->notes, false, "%-24s%s\n", word, c->help);
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        kt_screen_say(&chat->notes, false, "%-24s%s\n", keys[i][0], keys[i][1]);
}

void kt_chat_command_run(struct kt_chat *chat, const char *line)
{
    const char *names[16];
    size_t n = 0, length = strcspn(line, " \t");
    for (const struct command *c = commands; c->name; c++) {
        names[n++] = c->name;
        if (strlen(c->name) != length || strncmp(c->name, line, length) != 0)
            continue;
        char *argument = strdup(line + length + strspn(line + length, " \t"));
        size_t end = argument ? strlen(argument) : 0;
        while (end > 0 && strchr(" \t", argument[end - 1]))
            argument[--end] = '\0';
        if (!argument)
            (void)kt_cli_error(chat->cli, "out of memory");
        else if (*argument && !*c->argument)
            (void)kt_cli_error(chat->cli, "%s does not take an argument", c->name);
        else
            c->run(chat, argument);
        free(argument);
        return;
    }
    char word[64];
    (void)snprintf(word, sizeof(word), "%.*s", (int)length, line);
    (void)kt_cli_error(chat->cli, "%s is not a command%s; /help lists them, and //%s is a message", word,
                       kt_cli_hint(word, names, n).text, word + 1);
}
