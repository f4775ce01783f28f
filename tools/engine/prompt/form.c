/* SPDX-License-Identifier: Apache-2.0 */
/* form.c - the form that an option wants answers to have. */
#include "tools/engine/base/fail.h"
#include "tools/engine/prompt/prompt.h"

#include <stdlib.h>

int kt_form_read(const struct kt_cli *cli, const char *path, const struct kt_grammar_params *params,
                 struct kt_buffer *schema, struct kt_grammar **grammar)
{
    struct kt_error error;
    int code = path ? kt_input_read(cli, path, schema) : KT_EXIT_OK;
    if (code != KT_EXIT_OK)
        return code;
    if (kt_grammar_json(path ? schema->data : NULL, schema->length, params, grammar, &error) == KT_OK)
        return KT_EXIT_OK;
    return path ? kt_cli_error(cli, "%s: %s", path, error.message) : kt_cli_fail(cli, &error);
}

uint32_t kt_form_reasoning(const struct kt_template_info *info, enum kt_thought thought)
{
    if (thought == KT_THOUGHT_BEGUN)
        return KT_REASONING_IN;
    if (thought == KT_THOUGHT_OVER)
        return KT_REASONING_NONE;
    bool may = info->takes_reasoning || info->switches_thinking || info->starts_reasoning;
    return may ? KT_REASONING_MAY : KT_REASONING_NONE;
}

/* The next token: with a mask only if the one that was chosen without may not come. */
static enum kt_status choose(struct kt_sampler *sampler, struct kt_constraint *constraint,
                             const float *logits, uint64_t position, struct kt_choice *choice,
                             struct kt_error *error)
{
    const uint64_t *mask = NULL;
    uint32_t allowed = 1;
    enum kt_status status = kt_sampler_choose(sampler, logits, position, NULL, choice, error);
    if (status == KT_OK)
        status = kt_constraint_allows(constraint, choice->id, &allowed, error);
    if (status == KT_OK && !allowed)
        status = kt_constraint_mask(constraint, &mask, NULL, error);
    if (status == KT_OK && mask)
        status = kt_sampler_choose(sampler, logits, position, mask, choice, error);
    if (status == KT_OK)
        status = kt_constraint_accept(constraint, choice->id, error);
    return status == KT_OK ? kt_sampler_accept(sampler, &choice->id, 1, KT_ORIGIN_GENERATED, error) : status;
}

enum kt_status kt_form_write(const struct kt_loaded *loaded, struct kt_session *session,
                             struct kt_sampler *sampler, struct kt_grammar *grammar, const int32_t *ids,
                             uint64_t n_ids, uint64_t most, kt_token_fn on_token, void *data, bool *is_whole,
                             struct kt_error *error)
{
    struct kt_vocabulary *vocabulary = NULL;
    struct kt_constraint *constraint = NULL;
    struct kt_model_info info;
    struct kt_choice choice;
    bool ends = false;
    kt_model_info(loaded->model, &info);
    float *logits = calloc(info.vocabulary, sizeof(*logits));
    struct kt_step step = {session, ids, (uint32_t)n_ids, 1, logits};
    enum kt_status status = logits ? kt_vocabulary_create(loaded->tokenizer, &vocabulary, error)
                                   : kt_engine_fail(error, KT_E_NOMEM, "no memory for logits");
    if (status == KT_OK)
        status = kt_constraint_create(grammar, vocabulary, &constraint, error);
    if (status == KT_OK)
        status = kt_sampler_accept(sampler, ids, n_ids, KT_ORIGIN_PROMPT, error);
    for (uint64_t i = 0; i < most && status == KT_OK && !ends; i++) {
        status = kt_model_step(loaded->model, &step, 1, error);
        if (status == KT_OK)
            status = choose(sampler, constraint, logits, n_ids + i, &choice, error);
        if (status == KT_OK)
            ends = on_token(data, &choice) || kt_constraint_place(constraint) == KT_CONSTRAINT_DONE;
        step.ids = &choice.id;
        step.n_ids = 1;
    }
    *is_whole = status == KT_OK && kt_constraint_place(constraint) != KT_CONSTRAINT_OPEN;
    kt_constraint_destroy(constraint);
    kt_vocabulary_destroy(vocabulary);
    free(logits);
    return status;
}
