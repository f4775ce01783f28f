/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/engine/serve/turn.h"

#include <string.h>

static json_t *make_text(const struct kt_buffer *text)
{
    return kt_json_text(text->data ? text->data : "", text->length);
}

static bool add_message(struct kt_turn *turn)
{
    bool has_calls = json_array_size(turn->calls) > 0;
    json_t *message = json_pack("{s:s, s:o}", "role", turn->role, "content",
                                has_calls && !turn->has_text ? json_null() : make_text(&turn->text));
    if (json_array_append_new(turn->messages, message) != 0)
        return false;
    return (!has_calls || json_object_set(message, "tool_calls", turn->calls) == 0) &&
           (turn->reasoning.length == 0 ||
            json_object_set_new(message, "reasoning_content", make_text(&turn->reasoning)) == 0);
}

bool kt_turn_end(struct kt_turn *turn, struct kt_problem *problem)
{
    /* Of a user nothing but results of tools may have come, which are messages already. */
    bool is_empty = !turn->role || (!turn->has_text && strcmp(turn->role, "assistant") != 0);
    bool done = is_empty || add_message(turn) || kt_problem_memory(problem);
    kt_buffer_free(&turn->text);
    kt_buffer_free(&turn->reasoning);
    json_decref(turn->calls);
    *turn = (struct kt_turn){.messages = turn->messages};
    return done;
}

bool kt_turn_begin(struct kt_turn *turn, const char *role, struct kt_problem *problem)
{
    if (turn->role && strcmp(turn->role, role) != 0 && !kt_turn_end(turn, problem))
        return false;
    turn->role = role;
    return true;
}

static bool add_line(struct kt_buffer *to, bool is_first, const json_t *text, struct kt_problem *problem)
{
    return ((is_first || kt_buffer_add(to, "\n", 1)) &&
            kt_buffer_add(to, text ? json_string_value(text) : "", json_string_length(text))) ||
           kt_problem_memory(problem);
}

bool kt_turn_text(struct kt_turn *turn, const json_t *text, struct kt_problem *problem)
{
    bool is_first = !turn->has_text;
    turn->has_text = true;
    return add_line(&turn->text, is_first, text, problem);
}

bool kt_turn_reasoning(struct kt_turn *turn, const json_t *text, struct kt_problem *problem)
{
    return add_line(&turn->reasoning, turn->reasoning.length == 0, text, problem);
}

bool kt_turn_call(struct kt_turn *turn, json_t *id, json_t *name, json_t *arguments,
                  struct kt_problem *problem)
{
    json_t *call = json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", id, "type", "function", "function", "name",
                             name, "arguments", arguments);
    if (!turn->calls)
        turn->calls = json_array();
    return json_array_append_new(turn->calls, call) == 0 || kt_problem_memory(problem);
}

bool kt_turn_result(struct kt_turn *turn, json_t *id, json_t *text, struct kt_problem *problem)
{
    json_t *message = json_pack("{s:s, s:O, s:o}", "role", "tool", "tool_call_id", id, "content", text);
    if (!kt_turn_end(turn, problem)) {
        json_decref(message);
        return false;
    }
    return json_array_append_new(turn->messages, message) == 0 || kt_problem_memory(problem);
}
