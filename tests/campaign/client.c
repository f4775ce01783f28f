/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - a program that embeds the library, for calls that fail (shim.c):
 *
 *     client MODEL BACKEND FOLDER RESULT
 *
 * Makes a context and a layer, computes a batch in both ways, writes a store of BACKEND into FOLDER and
 * computes from it. If that fails it says why and tries once more, as a long-lived program would, and then
 * the bits must be the same. RESULT appears only if all went well. Exit status 3, a crash for attack.c: a
 * promise of kt.h is broken.
 */
#define _GNU_SOURCE
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 3, HIDDEN_MOST = 4096, BREACH = 3 };

struct objects {
    struct kt_config *config;
    struct kt_context *context;
    struct kt_checkpoint *checkpoint, *stored;
    struct kt_layer *layer, *packed, *again;
};

static float input[TOKENS * HIDDEN_MOST];
static const char *model, *backend, *folder;

static void breach(const char *what, const char *message)
{
    fprintf(stderr, "client: %s: %s\n", what, message);
    exit(BREACH);
}

/* What every error must be. */
static enum kt_status look(enum kt_status status, const struct kt_error *error, const char *what)
{
    if (status == KT_OK)
        return status;
    if (error->status != status || !error->message[0])
        breach("an error without its words", what);
    fprintf(stderr, "client: %s: %s\n", what, error->message);
    return status;
}

static enum kt_status compute(struct objects *o, struct kt_layer *layer, float *output)
{
    struct kt_layer_info info;
    struct kt_error error = {.status = KT_OK};
    struct kt_forward forward = KT_FORWARD_INIT;
    int64_t ids[TOKENS];
    float weights[TOKENS], *other = output + TOKENS * HIDDEN_MOST;
    uint64_t ticket;
    kt_layer_info(layer, &info);
    for (int t = 0; t < TOKENS; t++) {
        ids[t] = t % (int)info.n_experts;
        weights[t] = 1;
    }
    forward.n_tokens = TOKENS;
    forward.top_k = 1;
    forward.expert_ids = ids;
    forward.router_weights = weights;
    forward.input = input;
    forward.output = output;
    forward.input_dtype = forward.output_dtype = KT_DTYPE_F32;
    enum kt_status status = look(kt_layer_forward(layer, &forward, &error), &error, "forward");
    forward.output = other;
    if (status == KT_OK)
        status = look(kt_layer_submit(layer, &forward, &ticket, &error), &error, "submit");
    if (status == KT_OK)
        status = look(kt_wait(o->context, ticket, &error), &error, "wait");
    if (status == KT_OK && memcmp(output, other, TOKENS * info.hidden_size * sizeof *output) != 0)
        breach("submitted work has other bits", model);
    return status;
}

static enum kt_status make_layer(struct objects *o, struct kt_checkpoint *checkpoint, const char *by,
                                 struct kt_layer **layer)
{
    struct kt_layer_params params = KT_LAYER_PARAMS_INIT;
    struct kt_error error = {.status = KT_OK};
    enum kt_status status =
        look(kt_checkpoint_layer_params(checkpoint, 0, &params, &error), &error, "parameters");
    params.max_tokens = TOKENS;
    params.backend = by;
    if (status == KT_OK)
        status = look(kt_layer_create(o->context, &params, layer, &error), &error, "layer");
    if (status == KT_OK)
        status = look(kt_layer_load_checkpoint(*layer, checkpoint, 0, &error), &error, "load");
    return status;
}

static enum kt_status run(struct objects *o, float *output)
{
    struct kt_error error = {.status = KT_OK};
    struct kt_store_params params = KT_STORE_PARAMS_INIT;
    enum kt_status status = look(kt_config_create(NULL, &o->config, &error), &error, "configuration");
    params.folder = folder;
    if (status == KT_OK)
        status = look(kt_context_create(o->config, &o->context, &error), &error, "context");
    if (status == KT_OK)
        status = look(kt_checkpoint_open(model, NULL, &o->checkpoint, &error), &error, "open");
    if (status == KT_OK)
        status = make_layer(o, o->checkpoint, NULL, &o->layer);
    if (status == KT_OK)
        status = compute(o, o->layer, output);
    if (status == KT_OK)
        status = make_layer(o, o->checkpoint, backend, &o->packed);
    if (status == KT_OK)
        status = look(kt_layer_store(o->packed, o->checkpoint, 0, &params, &error), &error, "store");
    if (status == KT_OK)
        status = look(kt_checkpoint_open(folder, NULL, &o->stored, &error), &error, "open the store");
    if (status == KT_OK)
        status = look(kt_checkpoint_verify(o->stored, 0, &error), &error, "verify");
    if (status == KT_OK)
        status = make_layer(o, o->stored, NULL, &o->again);
    return status == KT_OK ? compute(o, o->again, output + 2 * TOKENS * HIDDEN_MOST) : status;
}

static enum kt_status attempt(float *output)
{
    struct objects o = {.config = NULL};
    enum kt_status status = run(&o, output);
    kt_layer_destroy(o.layer);
    kt_layer_destroy(o.packed);
    kt_layer_destroy(o.again);
    kt_checkpoint_close(o.checkpoint);
    kt_checkpoint_close(o.stored);
    kt_context_destroy(o.context);
    kt_config_destroy(o.config);
    return status;
}

int main(int argc, char **argv)
{
    static float output[4 * TOKENS * HIDDEN_MOST];
    if (argc != 5)
        return 2;
    model = argv[1];
    backend = argv[2];
    folder = argv[3];
    for (int i = 0; i < TOKENS * HIDDEN_MOST; i++)
        input[i] = (float)(i % 13 - 6) / 8;
    if (attempt(output) != KT_OK && attempt(output) != KT_OK)
        return 1;
    FILE *file = fopen(argv[4], "wb");
    if (!file || fwrite(output, sizeof output, 1, file) != 1 || fclose(file) != 0) {
        remove(argv[4]);
        fprintf(stderr, "client: %s cannot be written\n", argv[4]);
        return 1;
    }
    return 0;
}
