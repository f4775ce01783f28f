/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_deepseek.c - configurations of models of latent attention that contradict their tensors or ask for
 * what is not computed, and layers behind the last one.
 */
#include "tests/engine/families/family.h"
#include "tests/support/layer_fixture.h"
#include "tests/support/sandbox.h"

#include <check.h>
#include <kt/engine.h>
#include <stdlib.h>
#include <string.h>

struct change {
    const char *family, *key, *value; /* JSON */
    enum kt_status status;
    const char *words;
};

static const struct change changes[] = {
    {"deepseek-v3", "use_cache", "true", KT_OK, ""},
    /* sizes */
    {"deepseek-v3", "kv_lora_rank", "48", KT_E_FORMAT, "kv_a_proj_with_mqa has 72 x 64 numbers"},
    {"deepseek-v3", "kv_lora_rank", "0", KT_E_FORMAT, "the rank of keys and values: 0"},
    {"deepseek-v3", "kv_lora_rank", "null", KT_E_FORMAT, "kv_lora_rank is missing"},
    {"deepseek-v3", "q_lora_rank", "24", KT_E_FORMAT, "q_a_proj has 40 x 64"},
    {"deepseek-v3", "q_lora_rank", "null", KT_E_NOT_FOUND, "self_attn.q_proj"},
    {"deepseek-v2-lite", "q_lora_rank", "24", KT_E_NOT_FOUND, "self_attn.q_a_proj"},
    {"deepseek-v3", "v_head_dim", "32", KT_E_FORMAT, "kv_b_proj has 224 x 56 numbers instead of 256 x 56"},
    {"deepseek-v3", "v_head_dim", "4000", KT_E_FORMAT, "numbers of a value: 4000"},
    {"deepseek-v3", "qk_rope_head_dim", "8", KT_E_FORMAT, "q_b_proj has 192 x 40 numbers"},
    {"deepseek-v3", "qk_rope_head_dim", "17", KT_E_FORMAT, "17 of them rotated"},
    {"deepseek-v3", "num_attention_heads", "8", KT_E_FORMAT, "q_b_proj has 192 x 40"},
    /* routing */
    {"deepseek-v3", "n_group", "5", KT_E_FORMAT, "3 of 12 experts in 2 of 5 groups"},
    {"deepseek-v3", "topk_group", "9", KT_E_FORMAT, "9 of 4 groups"},
    {"deepseek-v3", "n_group", "null", KT_E_FORMAT, "n_group is missing"},
    {"deepseek-v3", "routed_scaling_factor", "null", KT_E_FORMAT, "routed_scaling_factor is missing"},
    {"deepseek-v3", "scoring_func", "\"softmax\"", KT_E_UNSUPPORTED, "scoring_func 'softmax'"},
    {"deepseek-v3", "topk_method", "\"greedy\"", KT_E_UNSUPPORTED, "topk_method 'greedy'"},
    {"deepseek-v2", "topk_method", "\"noaux_tc\"", KT_E_UNSUPPORTED, "topk_method 'noaux_tc'"},
    {"deepseek-v2", "norm_topk_prob", "true", KT_E_UNSUPPORTED, "norm_topk_prob"},
    {"deepseek-v3", "n_shared_experts", "0", KT_E_UNSUPPORTED, "mlp.shared_experts"},
    /* layers */
    {"deepseek-v3", "moe_layer_freq", "2", KT_E_UNSUPPORTED, "moe_layer_freq"},
    {"deepseek-v3", "first_k_dense_replace", "9", KT_E_FORMAT, "9 dense layers of 4"},
    {"deepseek-v3", "num_hidden_layers", "3", KT_OK, ""}, /* the fourth predicts the token after the next */
    {"kimi-k2", "num_hidden_layers", "3", KT_E_UNSUPPORTED, "model.layers.3."},
    {"deepseek-v3", "num_hidden_layers", "2", KT_E_UNSUPPORTED, "model.layers.3."},
    {"glm-4.7-flash", "mlp_layer_types", "[\"dense\",\"sparse\",\"sparse\",\"sparse\"]", KT_OK, ""},
    {"glm-4.7-flash", "mlp_layer_types", "[\"dense\",\"sparse\"]", KT_E_FORMAT, "2 layers of 4"},
    {"glm-4.7-flash", "mlp_layer_types", "[\"dense\",\"sparse\",\"odd\",\"sparse\"]", KT_E_UNSUPPORTED,
     "'odd' of layer 2"},
    /* other models */
    {"deepseek-v3", "architectures", "[\"DeepseekV32ForCausalLM\"]", KT_E_UNSUPPORTED,
     "'DeepseekV32ForCausalLM'"},
    {"deepseek-v3", "index_topk", "2048", KT_E_UNSUPPORTED, "index_topk"},
};
#define N_CHANGES (int)(sizeof(changes) / sizeof(changes[0]))

static struct kt_context *open_context(void)
{
    char module[512];
    const char *file = sandbox_backend("attention");
    if (!file) {
        printf("SKIP: the plugin attention was not built\n");
        return NULL;
    }
    (void)snprintf(module, sizeof(module), "plugin.attention.module=%s", file);
    return fixture_context_with((const char *const[]){module, "core.backend=reference", "core.threads=1"}, 3);
}

static void try_change(struct kt_context *context, const struct change *change)
{
    char folder[4096];
    struct family family;
    struct kt_checkpoint *checkpoint;
    struct kt_model *model = NULL;
    struct kt_error error = {KT_OK, ""};
    (void)snprintf(folder, sizeof(folder), "%s/tests/data/families", getenv("KT_TEST_SOURCE"));
    family_open(&family, folder, change->family);
    json_t *value = json_loads(change->value, JSON_DECODE_ANY, NULL);
    ck_assert_msg(value && json_object_set_new(family.config, change->key, value) == 0, "%s", change->value);
    sandbox_folder("model");
    family_write_folder(&family, sandbox_path("model"), false);
    ck_ok(kt_checkpoint_open(sandbox_path("model"), NULL, &checkpoint, &ck_error));
    enum kt_status status = kt_model_open(context, checkpoint, NULL, &model, &error);
    ck_assert_msg(status == change->status && strstr(error.message, change->words),
                  "%s with %s %s: status %d: %s", change->family, change->key, change->value, (int)status,
                  error.message);
    kt_model_close(model);
    kt_checkpoint_close(checkpoint);
    family_close(&family);
}

START_TEST(names_what_is_wrong)
{
    struct kt_context *context = open_context();
    if (context)
        try_change(context, &changes[_i]);
    kt_context_destroy(context);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("deepseek");
    TCase *tests = tcase_create("deepseek");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, sandbox_open, sandbox_close);
    tcase_add_loop_test(tests, names_what_is_wrong, 0, N_CHANGES);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
