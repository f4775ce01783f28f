/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - what answers have in common in all dialects. */
#include "tools/engine/serve/dialect.h"
#include "tools/engine/base/dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void kt_make_id(const char *prefix, char *id, size_t size)
{
    unsigned char bytes[12];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        memset(bytes, 0, sizeof(bytes));
    size_t used = (size_t)snprintf(id, size, "%s", prefix);
    for (size_t i = 0; i < sizeof(bytes) && used + 2 < size; i++)
        used += (size_t)snprintf(id + used, size - used, "%02x", bytes[i]);
}

/* ---- events ---- */

/* Many clients split events at any line end that Unicode knows, not just those of SSE: U+0085, U+2028 and
 * U+2029, which JSON may hold as they are. They occur in strings only, so they can be escaped there. */
static bool add_escaped(struct kt_buffer *out, const char *text)
{
    static const struct {
        char bytes[4], escape[8];
    } ends[] = {{"\xc2\x85", "\\u0085"}, {"\xe2\x80\xa8", "\\u2028"}, {"\xe2\x80\xa9", "\\u2029"}};
    bool done = true;
    while (done && *text) {
        size_t length = strcspn(text, "\xc2\xe2"), i = 0;
        done = kt_buffer_add(out, text, length);
        text += length;
        while (i < 3 && strncmp(text, ends[i].bytes, strlen(ends[i].bytes)) != 0)
            i++;
        if (i < 3) {
            done = done && kt_buffer_add_text(out, ends[i].escape);
            text += strlen(ends[i].bytes);
        } else if (*text) {
            done = done && kt_buffer_add(out, text++, 1);
        }
    }
    return done;
}

bool kt_shape_send(struct kt_job *job, const char *event, json_t *object)
{
    char *text = object ? kt_json_dump(object, JSON_COMPACT) : NULL;
    json_decref(object);
    bool done = text && (!event || (kt_buffer_add_text(job->out, "event: ") &&
                                    kt_buffer_add_text(job->out, event) && kt_buffer_add(job->out, "\n", 1)));
    done = done && kt_buffer_add_text(job->out, "data: ") && add_escaped(job->out, text) &&
           kt_buffer_add_text(job->out, "\n\n");
    free(text);
    return done;
}

/* ---- blocks ---- */

static struct kt_block *add_block(struct kt_answer *answer, const struct kt_piece *piece)
{
    struct kt_block *grown =
        kt_array_grow(answer->blocks, &answer->block_capacity, answer->n_blocks + 1, sizeof(*grown));
    if (!grown)
        return NULL;
    answer->blocks = grown;
    struct kt_block *block = &grown[answer->n_blocks++];
    *block = (struct kt_block){.kind = piece->kind, .call = piece->call};
    memcpy(block->id, piece->id, sizeof(block->id));
    return piece->kind != KT_PIECE_CALL || kt_buffer_add(&block->name, piece->text, piece->length) ? block
                                                                                                   : NULL;
}

/* The last block has its last piece. */
static bool close_block(struct kt_job *job, struct kt_answer *answer)
{
    const struct kt_dialect *dialect = job->ask.dialect;
    return answer->n_blocks == 0 || !job->ask.streams || !dialect->close ||
           dialect->close(job, answer, &answer->blocks[answer->n_blocks - 1]);
}

bool kt_shape_piece(struct kt_job *job, struct kt_answer *answer, const struct kt_piece *piece)
{
    const struct kt_dialect *dialect = job->ask.dialect;
    struct kt_block *block = answer->n_blocks > 0 ? &answer->blocks[answer->n_blocks - 1] : NULL;
    bool goes_on = piece->kind == KT_PIECE_ARGUMENTS || (block && block->kind == piece->kind);
    if (piece->kind == KT_PIECE_CALL || !goes_on) {
        if (!close_block(job, answer))
            return false;
        block = add_block(answer, piece);
        if (!block || (job->ask.streams && dialect->open && !dialect->open(job, answer, block)))
            return false;
        if (piece->kind == KT_PIECE_CALL)
            return true;
    }
    if ((!job->ask.streams || dialect->keeps_text) &&
        !kt_buffer_add(&block->text, piece->text, piece->length))
        return false;
    return !job->ask.streams || dialect->add(job, answer, block, piece->text, piece->length);
}

bool kt_shape_finish(struct kt_job *job, struct kt_answer *answer)
{
    return !job->ask.streams || (close_block(job, answer) && job->ask.dialect->finish(job, answer));
}

void kt_shape_free(struct kt_answer *answer)
{
    for (size_t i = 0; i < answer->n_blocks; i++) {
        kt_buffer_free(&answer->blocks[i].text);
        kt_buffer_free(&answer->blocks[i].name);
    }
    free(answer->blocks);
}

json_t *kt_shape_text(const struct kt_buffer *text)
{
    return kt_json_text(text->data ? text->data : "", text->length);
}

/* ---- figures ---- */

struct kt_usage kt_shape_usage(const struct kt_job *job)
{
    struct kt_usage usage = {.n_prompt = 0};
    for (size_t i = 0; i < job->n_answers; i++) {
        const struct kt_answer *answer = &job->answers[i];
        bool is_first = i % (size_t)job->ask.n == 0; /* a prompt counts once */
        usage.n_prompt += is_first ? (json_int_t)answer->prompt->n_ids : 0;
        usage.n_cached += is_first ? (json_int_t)answer->end.n_cached : 0;
        usage.n_tokens += (json_int_t)answer->n_tokens;
        usage.n_reasoning += (json_int_t)answer->n_reasoning;
    }
    return usage;
}

/* How fast the first answer came. */
json_t *kt_shape_timings(const struct kt_job *job)
{
    const struct kt_request_end *end = &job->answers[0].end;
    uint64_t n_read = end->n_prompt - end->n_cached, n_next = end->n_generated > 0 ? end->n_generated - 1 : 0;
    double prompt = (double)end->prompt_ns * 1e-9, decode = (double)end->decode_ns * 1e-9;
    json_t *timings = json_pack("{s:f, s:I, s:f, s:f, s:I, s:f, s:f}", "queue_ms",
                                (double)end->queue_ns * 1e-6, "prompt_n", (json_int_t)n_read, "prompt_ms",
                                prompt * 1e3, "prompt_per_second", prompt > 0 ? (double)n_read / prompt : 0.0,
                                "predicted_n", (json_int_t)end->n_generated, "predicted_ms", decode * 1e3,
                                "predicted_per_second", decode > 0 ? (double)n_next / decode : 0.0);
    double most = decode * job->server->memory_rate;
    if (timings && most > 0) /* of the machine, which others use, too */
        (void)json_object_set_new(timings, "fraction_of_limit", json_real(end->decode_bytes / most));
    return timings;
}
