/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h - what is wrong with a request, as the reply says it. */
#ifndef KT_ENGINE_SERVE_PROBLEM_H
#define KT_ENGINE_SERVE_PROBLEM_H

#include <jansson.h>
#include <kt/types.h>
#include <stdbool.h>

struct kt_problem {
    unsigned status;      /* of HTTP */
    const char *code;     /* a word for programs, static; NULL: none */
    char param[64];       /* the field that is wrong; "": none */
    unsigned retry_after; /* seconds; 0: not said */
    char message[768];
    unsigned told; /* bytes of the message that may be logged: those without what was sent */
};

/* Fills `problem`; false, for `return kt_problem_set(...)`. `param` may be NULL. */
bool kt_problem_set(struct kt_problem *problem, unsigned status, const char *code, const char *param,
                    const char *format, ...) KT_PRINTF(5, 6);
/* A 400 about one field. */
bool kt_problem_field(struct kt_problem *problem, const char *param, const char *format, ...) KT_PRINTF(3, 4);
/* 404, or 501 with a sentence where other servers have something at this path. */
bool kt_problem_path(struct kt_problem *problem, const char *path);
/* 500, of memory that could not be allocated. */
bool kt_problem_memory(struct kt_problem *problem);
/* The same of an error of the library; `status` of HTTP is what it means here. */
bool kt_problem_error(struct kt_problem *problem, unsigned status, const struct kt_error *error);
/* {"error": {"message": .., "type": .., "param": .., "code": ..}}; NULL: out of memory. */
json_t *kt_problem_json(const struct kt_problem *problem);
/* As Ollama has it. */
json_t *kt_ollama_problem(const struct kt_problem *problem);

/* A JSON string of bytes, with U+FFFD for what is not UTF-8. */
json_t *kt_json_text(const char *text, size_t length);

#endif
