/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: what it says, contradictions with the tensors, files that are wrong. */
#include "tests/support/family_build.h"
#include "tests/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- config.json ---------------------------------------------------------------------------- */

START_TEST(contradictions_with_the_configuration)
{
    static const struct {
        const char *config;
        enum kt_status status;
        const char *fragment;
    } cases[] = {
        {"{\"num_experts\":4}", KT_E_FORMAT,
         "\"num_experts\" is 4, but layer 2 has number of experts 3: tensor \"model.layers.2.mlp."},
        {"{\"n_routed_experts\":2}", KT_E_FORMAT, "\"n_routed_experts\" is 2, but layer 2 has"},
        {"{\"num_local_experts\":0}", KT_E_FORMAT, "\"num_local_experts\" is 0, but"},
        {"{\"hidden_size\":24}", KT_E_FORMAT, "\"hidden_size\" is 24, but layer 2 has hidden size 40"},
        {"{\"intermediate_size\":40}", KT_E_FORMAT,
         "\"intermediate_size\" is 40, but layer 2 has intermediate size 24"},
        {"{\"intermediate_size\":24,\"moe_intermediate_size\":40}", KT_E_FORMAT,
         "\"moe_intermediate_size\" is 40, but"},
        {"{\"num_experts_per_tok\":4}", KT_E_FORMAT,
         "\"num_experts_per_tok\" is 4, but layer 2 has 3 experts"},
        {"{\"text_config\":{\"num_experts\":4},\"num_experts\":3}", KT_E_FORMAT, "\"num_experts\" is 4"},
        {"{\"num_experts\":\"3\"}", KT_E_FORMAT, "\"num_experts\" must be a whole number"},
        {"{\"num_experts\":3.0}", KT_E_FORMAT, "\"num_experts\" must be a whole number"},
        {"{\"num_experts\":-1}", KT_E_FORMAT, "\"num_experts\" must be a whole number"},
        {"{\"num_experts\":[3,\"3\"]}", KT_E_FORMAT, "\"num_experts\" must be a whole number"},
        {"{\"num_experts\":[]}", KT_E_FORMAT, "\"num_experts\" must be a whole number"},
        {"{\"num_experts\":[4,4]}", KT_E_FORMAT, "key \"num_experts\" is 4, but layer"},
        {"{\"num_experts\":65537}", KT_E_UNSUPPORTED, "is 65537; at most 65536 can be handled"},
        {"{\"hidden_size\":9223372036854775807}", KT_E_UNSUPPORTED, "at most 1048576"},
        {"{\"num_hidden_layers\":2147483648}", KT_E_UNSUPPORTED, "at most 65536"},
        {"{\"hidden_size\":9223372036854775808}", KT_E_FORMAT, "the configuration is not JSON"},
        {"{\"model_type\":7}", KT_E_FORMAT, "\"model_type\" must be a string"},
        {"{\"model_type\":\"\\u001b[2J\"}", KT_E_FORMAT, "\"model_type\" must be a string"},
        {"{\"hidden_act\":{}}", KT_E_FORMAT, "\"hidden_act\" must be a string"},
        {"{\"swiglu_limit\":-1}", KT_E_FORMAT, "\"swiglu_limit\" must be a number"},
        {"{\"swiglu_limit\":1e300}", KT_E_FORMAT, "\"swiglu_limit\" must be a number"},
        {"{\"swiglu_alpha\":true}", KT_E_FORMAT, "\"swiglu_alpha\" must be a number"},
        {"{\"quantization_config\":[]}", KT_E_FORMAT, "\"quantization_config\" must be an object"},
        {"{\"quantization_config\":{\"quant_method\":1}}", KT_E_FORMAT, "\"quant_method\" must"},
        {"{\"quantization_config\":{\"weight_block_size\":[128]}}", KT_E_FORMAT,
         "\"weight_block_size\" must be two"},
        {"{\"quantization_config\":{\"config_groups\":[]}}", KT_E_FORMAT,
         "\"config_groups\" must be an object of objects"},
        {"{\"quantization_config\":{\"config_groups\":{\"group_0\":3}}}", KT_E_FORMAT,
         "\"config_groups\" must be an object of objects"},
        {"{\"quantization_config\":{\"weight_block_size\":[0,128]}}", KT_E_FORMAT,
         "\"weight_block_size\" must be two numbers of at least 1"},
        {"{\"quantization_config\":{\"weight_block_size\":\"64x\"}}", KT_E_FORMAT,
         "\"weight_block_size\" must be two numbers of at least 1"},
        {"{\"quantization_config\":{\"weight_block_size\":\"64x0\"}}", KT_E_FORMAT,
         "\"weight_block_size\" must be two numbers of at least 1"},
        {"{\"quantization_config\":{\"weight_block_size\":[1,2,3]}}", KT_E_FORMAT,
         "\"weight_block_size\" must be two"},
        {"{\"quantization_config\":{\"weight_block_size\":128}}", KT_E_FORMAT,
         "\"weight_block_size\" must be"},
        {"{\"quantization_config\":{\"weight_block_size\":[4294967296,1]}}", KT_E_UNSUPPORTED,
         "\"weight_block_size\" is 4294967296"},
        {"{\"hidden_act\":\"relu2\"}", KT_E_FORMAT, "has a gate, but the activation in config.json is relu2"},
        {"{\"swiglu_limits\":7}", KT_E_FORMAT, "key \"swiglu_limits\" must be an array of numbers"},
        {"{\"swiglu_limits\":[]}", KT_E_FORMAT, "key \"swiglu_limits\" must be an array of numbers"},
        {"{\"swiglu_limits\":[1,\"2\"]}", KT_E_FORMAT,
         "key \"swiglu_limits\" must be a number of at least 0"},
        {"{\"swiglu_limits\":[1,2,3]}", KT_E_FORMAT,
         "key \"swiglu_limits\" has 3 elements, but layer 4 has experts"},
        {"[]", KT_E_FORMAT, "the configuration must be an object"},
        {"3", KT_E_FORMAT, "the configuration is not JSON"},
        {"{", KT_E_FORMAT, "the configuration is not JSON"},
        {"{}x", KT_E_FORMAT, "the configuration is not JSON"},
        {"{\"a\":1,\"a\":1}", KT_E_FORMAT, "duplicate"},
        {"{\"a\":NaN}", KT_E_FORMAT, "the configuration is not JSON"},
        {"\xef\xbb\xbf{}", KT_E_FORMAT, "the configuration is not JSON"},
        {"{\"a\":\"\x01\"}", KT_E_FORMAT, "the configuration holds control character 01"},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", KT_E_FORMAT,
         "nests deeper than 32"},
        {"", KT_E_FORMAT, "is empty"},
    };
    write_model();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        folder_text("config.json", "%s", cases[i].config);
        expect(cases[i].status, cases[i].fragment);
        ck_assert_msg(strstr(problem.message, "config.json") != NULL, "%s", problem.message);
    }
}
END_TEST

START_TEST(configurations)
{
    static const struct {
        const char *config;
        uint64_t layers;
        uint32_t top_k, activation;
        float limit, alpha;
        const char *architecture;
    } cases[] = {
        {"{}", 0, 0, KT_ACTIVATION_SILU, 0, 0, ""},
        {"{\"model_type\":\"qwen3_moe\",\"hidden_act\":\"silu\",\"num_experts\":3,"
         "\"num_experts_per_tok\":3,\"num_hidden_layers\":5,\"hidden_size\":40}",
         5, 3, KT_ACTIVATION_SILU, 0, 0, "qwen3_moe"},
        {"{\"model_type\":\"deepseek_v4\",\"n_routed_experts\":3,\"moe_intermediate_size\":24,"
         "\"intermediate_size\":999,\"swiglu_limit\":10.0,\"num_local_experts\":null}",
         0, 0, KT_ACTIVATION_SWIGLU, 10, 0, "deepseek_v4"},
        {"{\"model_type\":\"outer\",\"hidden_size\":7,\"text_config\":{\"model_type\":\"inner\","
         "\"hidden_size\":40,\"num_local_experts\":3,\"num_experts_per_tok\":2}}",
         0, 2, KT_ACTIVATION_SILU, 0, 0, "outer"},
        {"{\"hidden_act\":\"swigluoai\",\"swiglu_alpha\":1.5,\"swiglu_limit\":6}", 0, 0,
         KT_ACTIVATION_SWIGLUOAI, 6, 1.5f, ""},
        {"{\"hidden_act\":\"swigluoai\"}", 0, 0, KT_ACTIVATION_SWIGLUOAI, 7, 1.702f, ""},
        {"{\"activation\":\"swish\",\"hidden_act\":null,\"swiglu_limit\":0}", 0, 0, KT_ACTIVATION_SILU, 0, 0,
         ""},
        {"{\"hidden_act\":\"silu\",\"swiglu_alpha\":1.5}", 0, 0, KT_ACTIVATION_SWIGLUOAI, 7, 1.5f, ""},
        {"{\"model_type\":\"minimax_m3_vl\",\"text_config\":{\"hidden_act\":\"silu\"}}", 0, 0,
         KT_ACTIVATION_SWIGLUOAI, 7, 1.702f, "minimax_m3_vl"},
        {"{\"hidden_activation\":\"gelu_pytorch_tanh\",\"swiglu_limit\":3}", 0, 0, KT_ACTIVATION_GELU_TANH, 0,
         0, ""},
        {"{\"hidden_act\":\"gelu_new\"}", 0, 0, KT_ACTIVATION_GELU_TANH, 0, 0, ""},
        {"{\"moe_topk\":[2,2,2],\"moe_intermediate_size\":[24,24],\"num_experts\":[3]}", 0, 2,
         KT_ACTIVATION_SILU, 0, 0, ""},
        {"{\"moe_topk\":[2,3],\"moe_intermediate_size\":[24,32]}", 0, 0, KT_ACTIVATION_SILU, 0, 0, ""},
        {"{\"moe_k\":2}", 0, 2, KT_ACTIVATION_SILU, 0, 0, ""},
        {"{\"n_layers\":7,\"ffn_config\":{\"moe_top_k\":2,\"ffn_act_fn\":{\"name\":\"gelu_new\"}}}", 7, 2,
         KT_ACTIVATION_GELU_TANH, 0, 0, ""},
        {"{\"swiglu_limits\":[0,0,0,null,2.5]}", 0, 0, KT_ACTIVATION_SWIGLUSTEP, 2.5f, 0, ""},
        {"{\"swiglu_limits\":[1,1,1,1,null]}", 0, 0, KT_ACTIVATION_SILU, 0, 0, ""},
        {"{\"hidden_act\":\"situ\",\"activation_situ_beta\":4,\"activation_situ_linear_beta\":null}", 0, 0,
         KT_ACTIVATION_SITU, 0, 4, ""},
        {"{\"hidden_act\":\"situ\",\"activation_situ_beta\":3,\"activation_situ_linear_beta\":20}", 0, 0,
         KT_ACTIVATION_SITU, 20, 3, ""},
        {"{\"model_type\":\"inkling2_text\",\"mlp_gate_softcap\":5}", 0, 0, KT_ACTIVATION_SITU, 25, 5,
         "inkling2_text"},
        {" \n\t{\"deep\":[[[[[[[[1e-06,true,\"\\u00e4\"]]]]]]]]}\r\n", 0, 0, KT_ACTIVATION_SILU, 0, 0, ""},
    };
    write_model();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kt_checkpoint_info info;
        struct kt_moe_info moe;
        folder_text("config.json", "%s", cases[i].config);
        struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
        kt_checkpoint_info(checkpoint, &info);
        ck_assert_str_eq(info.architecture, cases[i].architecture);
        ck_assert_uint_eq(info.n_layers, cases[i].layers);
        ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 4, &moe, &problem), KT_OK);
        ck_assert_uint_eq(moe.top_k, cases[i].top_k);
        ck_assert_uint_eq(moe.activation, cases[i].activation);
        ck_assert_float_eq(moe.limit, cases[i].limit);
        ck_assert_float_eq(moe.alpha, cases[i].alpha);
        kt_checkpoint_close(checkpoint);
    }
    folder_delete("config.json");
    kt_checkpoint_close(open_model(KT_IO_MMAP));
}
END_TEST

START_TEST(activation_that_is_not_supported)
{
    struct kt_expert experts[E];
    struct kt_moe_info moe;
    write_model();
    folder_text("config.json", "{\"hidden_act\":\"gelu\"}");
    struct kt_checkpoint *checkpoint = open_model(KT_IO_MMAP);
    ck_assert_int_eq(kt_checkpoint_moe(checkpoint, 4, &moe, &problem), KT_OK);
    ck_assert_int_eq(kt_checkpoint_experts(checkpoint, 4, experts, E, &problem), KT_E_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(problem.message, "config.json: the experts use the activation "
                                                  "\"gelu\""));
    ck_assert_ptr_nonnull(strstr(logged, "gelu"));
    kt_checkpoint_close(checkpoint);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("model config");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, folder_make, folder_remove);
    tcase_add_test(tests, contradictions_with_the_configuration);
    tcase_add_test(tests, configurations);
    tcase_add_test(tests, activation_that_is_not_supported);
    return run_tests("model config", tests);
}
