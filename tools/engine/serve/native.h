/* SPDX-License-Identifier: Apache-2.0 */
/* native.h - what llama-server's and Ollama's own APIs share: ollama.c, llama.c. */
#ifndef KT_ENGINE_SERVE_NATIVE_H
#define KT_ENGINE_SERVE_NATIVE_H

#include "tools/engine/serve/dialect.h"

#include <time.h>

/* A field, and how OpenAI's API calls it. A table of these ends with a row of NULL. */
struct kt_name {
    const char *here, *there;
};
/* Copies fields that are there and not null. */
bool kt_native_rename(json_t *to, const json_t *from, const struct kt_name *names,
                      struct kt_problem *problem);
/* "2026-01-31T23:59:59Z" in `text`, of 40 bytes. */
const char *kt_native_time(time_t seconds, char *text);
/* The source of the chat's template, or "". */
json_t *kt_native_template(const struct kt_served *model);
/* The name of a model that is served, as Ollama's clients call it, whose model becomes exchange->model; NULL
 * after a problem. */
const char *kt_ollama_model(struct kt_exchange *exchange, const char *given, struct kt_problem *problem);
/* An object of a stream, between two texts; takes the reference. */
bool kt_native_send(struct kt_job *job, const char *before, json_t *object, const char *behind);
/* Whether the vocabulary has the tokens by which a model fills a gap. */
bool kt_native_infills(const struct kt_served *model);
/* A text with a gap. */
struct kt_gap {
    const char *prefix, *more; /* what stands before it, in two parts */
    const char *suffix;
    const json_t *extra; /* other files: objects with a filename and a text; NULL: none */
    const char *param;   /* the field that asks for it, for messages */
};
/* Sets the prompt that asks for what stands in the gap, and tokens that end it. */
bool kt_native_infill(const struct kt_served *model, json_t *to, const struct kt_gap *gap,
                      struct kt_problem *problem);
/* ---- llama_read.c: the translations of /completion and /infill ---- */
json_t *kt_llama_translate(const struct kt_served *model, json_t *body, struct kt_problem *problem);
json_t *kt_llama_translate_infill(const struct kt_served *model, json_t *body, struct kt_problem *problem);

/* The translation of OpenAI's completions: the field `suffix`. */
json_t *kt_native_suffix(const struct kt_served *model, json_t *body, struct kt_problem *problem);

#endif
