/* SPDX-License-Identifier: Apache-2.0 */
/* embed.h - texts as vectors: the hidden state of a text's last token, or the mean of all, for each text of a
 * request. embed.c computes them, embed_api.c has the APIs that ask for them. */
#ifndef KT_ENGINE_SERVE_EMBED_H
#define KT_ENGINE_SERVE_EMBED_H

#include "tools/engine/serve/ask.h"

#define KT_MOST_TEXTS 2048        /* of one request, as OpenAI has it */
#define KT_MOST_NUMBERS (1 << 23) /* of one reply, some 12 bytes each */

/* --pooling */
enum { KT_POOLING_AUTO, KT_POOLING_LAST, KT_POOLING_MEAN };

struct kt_embed {
    struct kt_ask ask;  /* its prompts are the texts */
    float **vectors;    /* [ask.n_prompts][size] */
    uint64_t size;      /* of the model's hidden states */
    int64_t dimensions; /* that are wanted; 0: all */
    int64_t norm;       /* as llama-server has it: -1 none, 0 the largest number is 32760, 2 Euclid's, p */
    bool cuts, is_mean; /* cuts: what is longer than the context is cut */
    uint64_t n_tokens, n_cached;
};

/* How a GGUF file says that states become one: {arch}.pooling_type. */
uint64_t kt_embed_type(struct kt_checkpoint *checkpoint);
/* Takes the body, and reads the texts in its field `param`. False: `problem` says why; kt_embed_free either
 * way. */
bool kt_embed_read(struct kt_served *model, json_t *body, const char *param, struct kt_embed *embed,
                   struct kt_problem *problem);
/* Computes the vectors, as they are wanted. False after a problem, or exchange->hung_up. */
bool kt_embed_compute(struct kt_exchange *exchange, struct kt_embed *embed, struct kt_problem *problem);
void kt_embed_free(struct kt_embed *embed);

#endif
