/* SPDX-License-Identifier: Apache-2.0 */
/* chat.c - kt chat: questions and their answers. */
#include "tools/engine/chat/chat.h"
#include "tools/engine/chat/wake.h"
#include "tools/engine/text/utf8.h"

#include <inttypes.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_ANSWER \
    (UINT64_C(64) << 20) /* bytes: more than any context, so that no server fills the memory */
#define NEARLY_FULL 0.85 /* of the context */

/* ---- hearing an answer ---- */

/* Where reasoning and calls go: not into what a program reads. NULL: nowhere. */
static struct kt_screen *choose_screen(struct kt_chat *chat, enum kt_talk_kind kind)
{
    if (kind == KT_TALK_CONTENT || (chat->line && chat->answers.is_terminal))
        return &chat->answers;
    return chat->notes.is_terminal ? &chat->notes : NULL;
}

/* Between reasoning and answer; where nothing is dim, words say which is which. */
static void change_kind(struct kt_chat *chat, enum kt_talk_kind kind)
{
    static const char *const names[] = {"[reasoning]\n", "[answer]\n", "[call] "};
    struct kt_screen *before = chat->has_piece ? choose_screen(chat, chat->kind) : NULL;
    struct kt_screen *screen = choose_screen(chat, kind);
    if (before) {
        kt_screen_end_line(before);
        if (before == screen)
            kt_screen_put(screen, false, "\n", 1);
    }
    bool has_others = chat->has_piece || kind != KT_TALK_CONTENT;
    if (screen && has_others &&
        (kind == KT_TALK_CALL || (screen == choose_screen(chat, KT_TALK_REASONING) && !screen->has_dim)))
        kt_screen_put(screen, true, names[kind], strlen(names[kind]));
    chat->kind = kind;
    chat->has_piece = true;
}

static void take_piece(void *data, enum kt_talk_kind kind, const char *text, size_t length)
{
    struct kt_chat *chat = data;
    struct kt_buffer *kept = kind == KT_TALK_CONTENT ? &chat->content : &chat->reasoning;
    kt_progress_stop();
    if (!chat->has_piece || chat->kind != kind)
        change_kind(chat, kind);
    struct kt_screen *screen = choose_screen(chat, kind);
    if (screen)
        kt_screen_put(screen, kind != KT_TALK_CONTENT, text, length);
    if (kind != KT_TALK_CALL && !kt_buffer_add(kept, text, length))
        chat->is_large = true;
    if (chat->content.length + chat->reasoning.length > MOST_ANSWER)
        chat->is_large = true;
}

static void take_progress(void *data, uint64_t done, uint64_t total)
{
    struct kt_chat *chat = data;
    if (!chat->has_piece)
        kt_progress_update(done, total);
}

static bool is_to_stop(void *data)
{
    struct kt_chat *chat = data;
    if (kt_wake_take(SIGTSTP) && chat->line)
        kt_line_suspend(chat->line);
    return kt_wake_take(SIGINT) || kt_wake_ends() || chat->is_large || ferror(stdout);
}

/* ---- asking ---- */

/* What the answer took. */
static void show_end(struct kt_chat *chat)
{
    const struct kt_talk_end *end = &chat->end;
    struct kt_screen *notes = &chat->notes;
    kt_screen_say(notes, true, "[");
    if (end->n_answer > 0)
        kt_screen_say(notes, true, "%" PRIu64 " tokens, ", end->n_answer);
    if (end->rate > 0)
        kt_screen_say(notes, true, "%.1f tokens/s, ", end->rate);
    kt_screen_say(notes, true, "first after %.2f s", end->first);
    if (end->n_prompt > 0 && chat->talk->context > 0)
        kt_screen_say(notes, true, ", context %" PRIu64 "/%" PRIu64, end->n_prompt + end->n_answer,
                      chat->talk->context);
    kt_screen_say(notes, true, "%s]", end->reason == KT_TALK_BREAK ? ", stopped" : "");
    kt_screen_end_line(notes);
}

/* What to do about a conversation that is too long. */
static void advise(struct kt_chat *chat)
{
    kt_cli_note(chat->cli, "%s'%s N' gives more context", chat->line ? "/clear begins a new one, " : "",
                chat->talk->room);
}

/* What a user should know. */
static void warn_end(struct kt_chat *chat)
{
    const struct kt_talk_end *end = &chat->end;
    uint64_t context = chat->talk->context, used = end->n_prompt + end->n_answer;
    if (end->reason == KT_TALK_LENGTH && chat->args->n > 0 &&
        (end->n_answer == 0 || end->n_answer >= chat->args->n))
        kt_cli_warn(chat->cli, "the response was truncated at %" PRIu64 " tokens by --tokens", chat->args->n);
    else if (end->reason == KT_TALK_LENGTH)
        kt_cli_warn(chat->cli, "the response was truncated because the context is full");
    if (end->n_prompt > 0 && context > 0 && (double)used >= NEARLY_FULL * (double)context) {
        kt_cli_warn(chat->cli, "the conversation takes %" PRIu64 " of the context's %" PRIu64 " tokens", used,
                    context);
        advise(chat);
    }
    if (end->reason != KT_TALK_BREAK && chat->content.length == 0 && chat->reasoning.length > 0)
        kt_cli_warn(chat->cli, "the model only reasoned, and gave no answer");
}

/* Asks for an answer to the messages, and adds it to them. */
static int hear(struct kt_chat *chat)
{
    const struct kt_talk_listener listener = {chat, take_piece, take_progress, is_to_stop};
    struct kt_error error;
    chat->content.length = chat->reasoning.length = 0;
    chat->has_piece = chat->is_large = false;
    kt_progress_start(chat->cli, "reading");
    enum kt_status status =
        chat->talk->send(chat->talk, chat->conversation.messages, &listener, &chat->end, &error);
    kt_progress_stop();
    if (chat->has_piece && choose_screen(chat, KT_TALK_REASONING))
        kt_screen_end_line(choose_screen(chat, KT_TALK_REASONING));
    if (chat->line || chat->answers.is_terminal || chat->content.length > 0)
        kt_screen_end_line(&chat->answers);
    if (status != KT_OK) {
        (void)kt_cli_fail(chat->cli, &error);
        if (status == KT_E_RANGE)
            advise(chat);
        return KT_EXIT_PROBLEM;
    }
    if (chat->is_large)
        return kt_cli_error(chat->cli, "the answer is larger than %d MiB", (int)(MOST_ANSWER >> 20));
    if (chat->end.reason == KT_TALK_BREAK && chat->content.length == 0) {
        kt_screen_say(&chat->notes, true, "[stopped]\n");
        return KT_EXIT_PROBLEM;
    }
    show_end(chat);
    warn_end(chat);
    return kt_conversation_add(&chat->conversation, "assistant", chat->content.data, chat->content.length,
                               chat->reasoning.data, chat->reasoning.length)
               ? KT_EXIT_OK
               : kt_cli_error(chat->cli, "the answer is not UTF-8, or there is no memory for it");
}

static void set_question(struct kt_chat *chat, const char *text, size_t length)
{
    char *copy = text ? malloc(length + 1) : NULL;
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    free(chat->question);
    chat->question = copy;
}

/* Adds the question, or makes the last one the last message again; 0, or 1 after a message. */
static int pose(struct kt_chat *chat, const char *text, size_t length)
{
    if (!text && !chat->question) {
        if (!kt_conversation_ends_with(&chat->conversation, "assistant"))
            return kt_cli_error(chat->cli, "no question to repeat");
        if (chat->talk->is_fixed)
            kt_cli_note(chat->cli, "the temperature is 0, so the same answer will come");
        kt_conversation_pop(&chat->conversation);
        return KT_EXIT_OK;
    }
    if (!text) {
        text = chat->question;
        length = strlen(text);
    }
    size_t valid = kt_utf8_valid(text, length);
    if (valid < length)
        return kt_cli_error(chat->cli, "the question is not UTF-8 from its byte %zu on", valid + 1);
    return kt_conversation_add(&chat->conversation, "user", text, length, NULL, 0)
               ? KT_EXIT_OK
               : kt_cli_error(chat->cli, "out of memory");
}

int kt_chat_ask(struct kt_chat *chat, const char *text, size_t length)
{
    json_t *before = json_copy(chat->conversation.messages);
    if (!before)
        return kt_cli_error(chat->cli, "out of memory");
    int code = pose(chat, text, length);
    if (code == KT_EXIT_OK) {
        code = hear(chat);
        if (text || code == KT_EXIT_OK)
            set_question(chat, code == KT_EXIT_OK ? NULL : text, length);
    }
    if (code != KT_EXIT_OK) {
        json_decref(chat->conversation.messages);
        chat->conversation.messages = before;
    } else {
        json_decref(before);
    }
    return code;
}

/* ---- one question ---- */

static int ask_once(struct kt_chat *chat)
{
    struct kt_buffer text = {.data = NULL};
    const char *file = chat->args->file ? chat->args->file : chat->args->prompt ? NULL : "-";
    bool done = true;
    int code = KT_EXIT_OK;
    if (chat->args->prompt)
        done = kt_buffer_add_text(&text, chat->args->prompt) && (!file || kt_buffer_add(&text, "\n\n", 2));
    if (!done)
        code = kt_cli_error(chat->cli, "out of memory");
    if (code == KT_EXIT_OK && file)
        code = kt_input_read(chat->cli, file, &text);
    while (text.length > 0 && strchr("\r\n", text.data[text.length - 1]))
        text.length--;
    if (code == KT_EXIT_OK && text.length == 0)
        code = kt_cli_error(chat->cli, "the question is empty");
    if (code == KT_EXIT_OK)
        code = kt_chat_ask(chat, text.data, text.length);
    kt_buffer_free(&text);
    return code;
}

/* ---- a conversation ---- */

/* Reads further lines of a message: after a backslash at the end of a line, or until three quotation marks.
 * `text` has the first line, and then all. */
static enum kt_line_result read_rest(struct kt_chat *chat, struct kt_buffer *text)
{
    static const char quotes[] = "\"\"\"";
    struct kt_buffer more = {.data = NULL};
    enum kt_line_result result = KT_LINE_TEXT;
    bool is_block = text->length >= 3 && memcmp(text->data, quotes, 3) == 0, is_closed = false;
    if (is_block) {
        text->length -= 3;
        memmove(text->data, text->data + 3, text->length + 1);
    }
    for (;;) {
        bool has_end = text->length >= 3 && memcmp(text->data + text->length - 3, quotes, 3) == 0;
        if (is_block && has_end) {
            text->length -= 3;
            is_closed = true;
        } else if (!is_block && text->length > 0 && text->data[text->length - 1] == '\\') {
            text->length--;
        } else if (!is_block) {
            is_closed = true;
        }
        if (is_closed)
            break;
        result = kt_line_read(chat->line, "... ", &more);
        bool is_first = is_block && text->length == 0; /* nothing stands behind the opening marks */
        if (result != KT_LINE_TEXT ||
            !((is_first || kt_buffer_add(text, "\n", 1)) && kt_buffer_add_text(text, more.data)))
            break;
    }
    if (is_closed && is_block && text->length > 0 && text->data[text->length - 1] == '\n')
        text->length--;
    kt_buffer_free(&more);
    if (result == KT_LINE_EMPTY) /* the message held something */
        result = KT_LINE_EMPTIED;
    return kt_buffer_add_text(text, "") ? result : KT_LINE_END;
}

/* What a person has typed. */
static void take_text(struct kt_chat *chat, const struct kt_buffer *text)
{
    const char *line = text->data;
    if (strspn(line, " \t\n") == text->length)
        return;
    kt_line_remember(chat->line, line);
    if (chat->history)
        kt_typed_add(chat->history, line);
    bool is_one_line = strchr(line, '\n') == NULL;
    if (*line == '/' && line[1] != '/' && is_one_line) {
        kt_chat_command_run(chat, line);
    } else {
        size_t skipped = *line == '/' && line[1] == '/';
        (void)kt_chat_ask(chat, line + skipped, text->length - skipped);
    }
}

void kt_chat_name(const struct kt_chat *chat, char *text, size_t size)
{
    const struct kt_talk *talk = chat->talk;
    (void)snprintf(text, size, "%s%s%s", *talk->model ? talk->model : "a model",
                   *talk->where ? " at " : " in this process", talk->where);
}

static void greet(struct kt_chat *chat)
{
    const struct kt_talk *talk = chat->talk;
    char name[1024];
    kt_chat_name(chat, name, sizeof(name));
    kt_screen_say(&chat->notes, true, "%s", name);
    if (talk->context > 0)
        kt_screen_say(&chat->notes, true, ", %" PRIu64 " tokens of context", talk->context);
    kt_screen_say(&chat->notes, true, "\n/help lists commands, Ctrl-D ends.");
    kt_screen_end_line(&chat->notes);
}

static int converse(struct kt_chat *chat)
{
    struct kt_buffer text = {.data = NULL};
    struct kt_error error;
    bool was_empty = false;
    if (!kt_wake_install())
        return kt_cli_error(chat->cli, "cannot create a pipe for signals");
    if (kt_line_open(chat->answers.is_terminal ? stdout : stderr, &chat->line, &error) != KT_OK)
        return kt_cli_fail(chat->cli, &error);
    chat->history = chat->args->no_history ? NULL : kt_typed_path();
    if (chat->history)
        kt_typed_read(chat->history, chat->line);
    greet(chat);
    while (!chat->is_over && !kt_wake_ends() && !ferror(stdout)) {
        enum kt_line_result result = kt_line_read(chat->line, "> ", &text);
        if (result == KT_LINE_TEXT)
            result = read_rest(chat, &text);
        if (result == KT_LINE_TEXT)
            take_text(chat, &text);
        chat->is_over |= result == KT_LINE_END || (result == KT_LINE_EMPTY && was_empty);
        if (result == KT_LINE_EMPTY && !chat->is_over)
            kt_screen_say(&chat->notes, true, "[Ctrl-C again, or Ctrl-D, ends kt chat]\n");
        was_empty = result == KT_LINE_EMPTY;
    }
    kt_line_close(chat->line);
    chat->line = NULL;
    kt_buffer_free(&text);
    return KT_EXIT_OK;
}

/* ---- the verb ---- */

static int run(struct kt_chat *chat)
{
    int code = chat->cli->n_arguments > 0 ? kt_talk_engine(chat->cli, chat->args, &chat->talk)
                                          : kt_talk_client(chat->cli, chat->args, &chat->talk);
    if (code != KT_EXIT_OK)
        return code;
    bool is_one = chat->args->prompt || chat->args->file || !isatty(STDIN_FILENO);
    return is_one ? ask_once(chat) : converse(chat);
}

/* Takes a URL in MODEL's place for the server's. */
static int take_url(struct kt_cli *cli, struct kt_chat_args *args)
{
    bool is_url = cli->n_arguments > 0 && (strncmp(cli->arguments[0], "http://", 7) == 0 ||
                                           strncmp(cli->arguments[0], "https://", 8) == 0);
    if (is_url && args->host)
        return kt_cli_usage(cli, "--host and %s both name a server", cli->arguments[0]);
    if (is_url) {
        args->host = cli->arguments[0];
        cli->n_arguments = 0;
    }
    return KT_EXIT_OK;
}

/* Options that say something of a server, or of a model in this process. */
static int check_options(const struct kt_cli *cli, struct kt_chat_args *args)
{
    bool is_served = cli->n_arguments == 0;
    const struct {
        const char *name;
        bool is_given, is_of_server;
    } options[] = {{"host", args->host != NULL, true},
                   {"port", args->port > 0, true},
                   {"api-key", args->key != NULL, true},
                   {"model", args->model != NULL, true},
                   {"chat-template", args->chat_template != NULL, false},
                   {"context", args->context > 0, false},
                   {"kv", args->kv > 0, false},
                   {"experts", args->experts != NULL, false}};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (options[i].is_given && options[i].is_of_server != is_served)
            return kt_cli_usage(cli, "--%s %s", options[i].name,
                                is_served ? "needs a MODEL, which is then loaded into this process"
                                          : "is of a server; with a MODEL none is asked");
    if (!args->host)
        args->host = "127.0.0.1";
    if (args->port == 0)
        args->port = 30000;
    return kt_sampling_check(cli, &args->sampling);
}

/* Characters are UTF-8 where nobody says otherwise, as in a container. */
static void set_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    bool is_said = false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        is_said |= value && *value;
    }
    if (!setlocale(LC_CTYPE, is_said ? "" : "C.UTF-8"))
        (void)setlocale(LC_CTYPE, "");
}

int kt_cmd_chat(struct kt_cli *cli, int argc, char **argv)
{
    struct kt_chat_args args = {.sampling = KT_SAMPLING_ARGS_INIT};
    struct kt_chat chat = {.cli = cli, .args = &args};
    if (!kt_cli_parse(cli, &kt_chat_command, argc, argv, &args))
        return cli->exit_code;
    if (cli->format != KT_FORMAT_TABLE)
        return kt_cli_usage(cli, "the output is text; --format does not go with it");
    int code = take_url(cli, &args);
    if (code == KT_EXIT_OK)
        code = check_options(cli, &args);
    if (code != KT_EXIT_OK)
        return code;
    set_locale();
    kt_screen_open(&chat.answers, stdout);
    kt_screen_open(&chat.notes, stderr);
    if (!kt_conversation_open(&chat.conversation) ||
        !kt_conversation_set_system(&chat.conversation, args.system))
        code = kt_cli_error(cli, "--system is not UTF-8, or there is no memory");
    if (code == KT_EXIT_OK)
        code = run(&chat);
    if (chat.talk)
        chat.talk->close(chat.talk);
    kt_conversation_close(&chat.conversation);
    kt_screen_close(&chat.answers);
    kt_screen_close(&chat.notes);
    kt_buffer_free(&chat.content);
    kt_buffer_free(&chat.reasoning);
    free(chat.history);
    free(chat.question);
    free(chat.path);
    if (kt_wake_ends()) {
        (void)signal(kt_wake_ends(), SIG_DFL);
        (void)raise(kt_wake_ends());
    }
    return code;
}
