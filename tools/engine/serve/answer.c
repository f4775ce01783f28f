/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - from ids to reasoning, content and calls of tools. */
#include "tools/engine/serve/job.h"
#include "tools/engine/text/output/parser.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool fail(struct kt_job *job, const struct kt_error *error)
{
    kt_problem_error(&job->problem, 500, error);
    return false;
}

static bool lack_memory(struct kt_job *job)
{
    return kt_problem_memory(&job->problem);
}

bool kt_answer_open(struct kt_job *job, struct kt_answer *answer, struct kt_problem *problem)
{
    const struct kt_ask *ask = &job->ask;
    struct kt_error error;
    /* A chat's parser reads control tokens; of a completion's text they are not a part. */
    uint32_t flags = ask->is_chat ? 0 : KT_DECODE_NO_CONTROL;
    enum kt_status status = kt_detokenizer_create(job->model->tokenizer, flags, &answer->detokenizer, &error);
    const struct kt_parser *first = job->answers[0].parser; /* it has read the tools */
    if (status == KT_OK && ask->is_chat)
        status = first ? kt_parser_create_like(first, &answer->parser, &error)
                       : kt_parser_create_of(&ask->parser, ask->tools, &answer->parser, &error);
    if (status == KT_OK && ask->n_stops > 0)
        status = kt_stop_create(ask->stops, ask->n_stops, 0, &answer->stop, &error);
    if (status != KT_OK)
        return kt_problem_error(problem, 400, &error);
    answer->stop_number = -1;
    answer->is_reasoning = ask->is_chat && ask->parser.starts_reasoning;
    answer->logprobs = ask->has_logprobs ? json_array() : NULL;
    answer->tokens = ask->lists_tokens ? json_array() : NULL;
    return ((answer->logprobs || !ask->has_logprobs) && (answer->tokens || !ask->lists_tokens)) ||
           kt_problem_memory(problem);
}

void kt_answer_close(struct kt_answer *answer)
{
    if (answer->ticket && !answer->has_ended)
        kt_scheduler_cancel(answer->ticket);
    kt_ticket_release(answer->ticket);
    kt_stop_destroy(answer->stop);
    kt_parser_destroy(answer->parser);
    kt_detokenizer_destroy(answer->detokenizer);
    kt_shape_free(answer);
    kt_buffer_free(&answer->thoughts);
    json_decref(answer->logprobs);
    json_decref(answer->tokens);
}

/* ---- pieces ---- */

static bool emit(struct kt_job *job, struct kt_answer *answer, enum kt_piece_kind kind, const char *text,
                 uint64_t length)
{
    const struct kt_piece piece = {.kind = kind, .text = text, .length = length};
    return length == 0 || kt_shape_piece(job, answer, &piece) || lack_memory(job);
}

/* The answer is over before the model has ended it. */
static bool finish_early(struct kt_job *job, struct kt_answer *answer, const char *why)
{
    answer->finish = why;
    kt_scheduler_cancel(answer->ticket);
    return kt_shape_finish(job, answer) || lack_memory(job);
}

/* From now on reasoning cannot be the answer. */
static void note_said(struct kt_answer *answer)
{
    answer->has_said = true;
    kt_buffer_free(&answer->thoughts);
}

static bool add_reasoning(struct kt_job *job, struct kt_answer *answer, const char *text, uint64_t length)
{
    answer->is_reasoning = answer->has_reasoned = true;
    if (!answer->has_said && !kt_buffer_add(&answer->thoughts, text, length))
        return lack_memory(job);
    return emit(job, answer, KT_PIECE_REASONING, text, length);
}

/* A model that ends its turn after reasoning alone meant that as the answer, or forgot to say where it
 * begins: who reads the content only is not left with nothing. */
static bool say_thoughts(struct kt_job *job, struct kt_answer *answer)
{
    bool is_none = answer->has_said || answer->end.reason != KT_END_STOP;
    return is_none || emit(job, answer, KT_PIECE_CONTENT, answer->thoughts.data, answer->thoughts.length);
}

static bool add_content(struct kt_job *job, struct kt_answer *answer, const char *text, uint64_t length)
{
    struct kt_error error;
    int64_t found = -1;
    for (uint64_t i = 0; i < length && !answer->has_said; i++)
        if (!strchr(" \t\r\n", text[i]) || !text[i])
            note_said(answer);
    if (answer->stop && kt_stop_add(answer->stop, text, length, &text, &length, &found, &error) != KT_OK)
        return fail(job, &error);
    bool is_over = kt_lines_end(job, answer, text, &length);
    if (!emit(job, answer, KT_PIECE_CONTENT, text, length))
        return false;
    if (is_over)
        return finish_early(job, answer, "length");
    answer->stop_number = found;
    return found < 0 || finish_early(job, answer, answer->n_calls > 0 ? "tool_calls" : "stop");
}

/* What the search for stop strings has held back. */
static bool flush_content(struct kt_job *job, struct kt_answer *answer)
{
    struct kt_error error;
    const char *text;
    uint64_t length;
    if (!answer->stop)
        return true;
    if (kt_stop_end(answer->stop, &text, &length, &error) != KT_OK)
        return fail(job, &error);
    return emit(job, answer, KT_PIECE_CONTENT, text, length);
}

static bool begin_call(struct kt_job *job, struct kt_answer *answer, const struct kt_parser_event *event)
{
    struct kt_piece piece = {.kind = KT_PIECE_CALL,
                             .text = event->text,
                             .length = event->length,
                             .call = event->call};
    if (!flush_content(job, answer))
        return false;
    if (job->ask.serial_calls && event->call > 0)
        return finish_early(job, answer, "tool_calls");
    if (event->id_length > 0 && event->id_length < sizeof(piece.id))
        memcpy(piece.id, event->id, event->id_length);
    else
        kt_make_id("call_", piece.id, sizeof(piece.id));
    return kt_shape_piece(job, answer, &piece) || lack_memory(job);
}

static bool take_event(struct kt_job *job, struct kt_answer *answer, const struct kt_parser_event *event)
{
    struct kt_piece piece = {.kind = KT_PIECE_ARGUMENTS,
                             .text = event->text,
                             .length = event->length,
                             .call = event->call};
    switch (event->kind) {
    case KT_OUTPUT_REASONING:
        return add_reasoning(job, answer, event->text, event->length);
    case KT_OUTPUT_REASONING_END:
        answer->is_reasoning = false;
        return true;
    case KT_OUTPUT_CONTENT:
        answer->is_reasoning = false;
        return add_content(job, answer, event->text, event->length);
    case KT_OUTPUT_CALL:
        answer->is_reasoning = false;
        note_said(answer);
        return begin_call(job, answer, event);
    case KT_OUTPUT_ARGUMENTS:
        return event->length == 0 || kt_shape_piece(job, answer, &piece) || lack_memory(job);
    case KT_OUTPUT_CALL_END:
        answer->n_calls += !event->is_cut;
        answer->is_cut |= event->is_cut != 0;
        return true;
    default:
        return true;
    }
}

/* Where all of an answer must be calls, the rest of one that was cut off is left out. */
static bool is_rest(const struct kt_job *job, const struct kt_answer *answer, uint32_t kind)
{
    return job->ask.must_call && answer->has_ended && answer->end.reason == KT_END_LENGTH &&
           kind == KT_OUTPUT_CONTENT;
}

static bool take_events(struct kt_job *job, struct kt_answer *answer, const struct kt_parser_event *events,
                        uint64_t n)
{
    for (uint64_t i = 0; i < n && !answer->finish; i++)
        if (!is_rest(job, answer, events[i].kind) && !take_event(job, answer, &events[i]))
            return false;
    return true;
}

static bool add_text(struct kt_job *job, struct kt_answer *answer, const char *text, uint64_t length)
{
    const struct kt_parser_event *events;
    struct kt_error error;
    uint64_t n;
    if (length == 0)
        return true;
    if (!answer->parser)
        return add_content(job, answer, text, length);
    if (kt_parser_add(answer->parser, text, length, &events, &n, &error) != KT_OK)
        return fail(job, &error);
    return take_events(job, answer, events, n);
}

/* ---- tokens ---- */

bool kt_answer_token(struct kt_job *job, struct kt_answer *answer, const struct kt_feed_event *event)
{
    struct kt_error error;
    const char *text;
    uint64_t length;
    if (answer->finish || job->ask.echoes_only)
        return true;
    answer->n_tokens++;
    if (answer->tokens && json_array_append_new(answer->tokens, json_integer(event->id)) != 0)
        return lack_memory(job);
    answer->logprob += (double)event->logprob;
    answer->n_weighed++;
    if (answer->logprobs && !kt_shape_logprob(job, answer, event))
        return lack_memory(job);
    if (kt_detokenizer_add(answer->detokenizer, &event->id, 1, &text, &length, &error) != KT_OK)
        return fail(job, &error);
    /* Text may be held back, so a token between two of reasoning is one, too; the tag that ends it is not. */
    bool was_reasoning = answer->is_reasoning;
    answer->has_reasoned = false;
    bool done = add_text(job, answer, text, length);
    answer->n_reasoning += answer->has_reasoned || (was_reasoning && answer->is_reasoning);
    return done;
}

static bool flush(struct kt_job *job, struct kt_answer *answer)
{
    const struct kt_parser_event *events;
    struct kt_error error;
    const char *text;
    uint64_t length, n;
    if (kt_detokenizer_end(answer->detokenizer, &text, &length, &error) != KT_OK)
        return fail(job, &error);
    if (!add_text(job, answer, text, length))
        return false;
    if (answer->parser && !answer->finish) {
        if (kt_parser_end(answer->parser, &events, &n, &error) != KT_OK)
            return fail(job, &error);
        if (!take_events(job, answer, events, n))
            return false;
    }
    return answer->finish || flush_content(job, answer);
}

bool kt_answer_end(struct kt_job *job, struct kt_answer *answer, const struct kt_feed_event *event)
{
    answer->has_ended = true;
    answer->end = event->end;
    if (job->ask.echoes_only)
        answer->end.n_generated = 0;
    if (answer->finish)
        return true;
    if (event->end.reason == KT_END_ERROR)
        return event->error ? fail(job, event->error) : lack_memory(job);
    if (event->end.reason == KT_END_CANCELLED)
        return kt_problem_set(&job->problem, 503, "shutting_down", NULL, "the server ends");
    answer->n_tokens = answer->end.n_generated;
    if (!flush(job, answer))
        return false;
    if (answer->finish) /* a stop string in what was held back */
        return true;
    if (!say_thoughts(job, answer))
        return false;
    answer->finish = "length";
    if (event->end.reason == KT_END_STOP && !job->ask.echoes_only &&
        !answer->is_cut) /* its arguments are not JSON: nobody may use them */
        answer->finish = answer->n_calls > 0 ? "tool_calls" : "stop";
    return kt_shape_finish(job, answer) || lack_memory(job);
}

bool kt_answer_echo(struct kt_job *job, struct kt_answer *answer)
{
    const struct kt_feed_event first = {.id = answer->prompt->ids[0], .logprob = NAN};
    struct kt_error error;
    char *text;
    uint64_t length;
    if (answer->logprobs && !kt_shape_logprob(job, answer, &first))
        return lack_memory(job);
    if (kt_tokenizer_decode(job->model->tokenizer, answer->prompt->ids, answer->prompt->n_ids,
                            KT_DECODE_NO_CONTROL, &text, &length, &error) != KT_OK)
        return fail(job, &error);
    bool done = emit(job, answer, KT_PIECE_CONTENT, text, length);
    kt_text_free(text);
    return done;
}
