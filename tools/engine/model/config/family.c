/* SPDX-License-Identifier: Apache-2.0 */
/* family.c - the families that are computed. Each has a file of its own name. */
#include "tools/engine/model/config/config.h"

#include <stdio.h>
#include <string.h>

static const struct kt_family *const families[] =
    {&kt_family_qwen3moe,   &kt_family_qwen3,       &kt_family_qwen2,          &kt_family_llama,
     &kt_family_gpt_oss,    &kt_family_glm4moe,     &kt_family_minimax_m2,     &kt_family_deepseek,
     &kt_family_qwen3next,  &kt_family_qwen35moe,   &kt_family_qwen35,         &kt_family_qwen2moe,
     &kt_family_dots1,      &kt_family_ernie,       &kt_family_ernie_moe,      &kt_family_hunyuan_moe,
     &kt_family_hunyuan,    &kt_family_hy_v3,       &kt_family_exaone_moe,     &kt_family_smollm3,
     &kt_family_olmoe,      &kt_family_sarvam,      &kt_family_seed_oss,       &kt_family_laguna,
     &kt_family_mimo,       &kt_family_mellum,      &kt_family_ministral,      &kt_family_mistral4,
     &kt_family_granite,    &kt_family_granitemoe,  &kt_family_olmo2,          &kt_family_flex_olmo,
     &kt_family_phimoe,     &kt_family_gemma3,      &kt_family_gemma4,         &kt_family_afmoe,
     &kt_family_flint,      &kt_family_kolibri,     &kt_family_cohere2_moe,    &kt_family_llama4,
     &kt_family_exaone4,    &kt_family_glm4,        &kt_family_phi3,           &kt_family_axk1,
     &kt_family_longcat,    &kt_family_beam,        &kt_family_dbrx,           &kt_family_aria,
     &kt_family_step,       &kt_family_granite_swa, &kt_family_granitemoe_swa, &kt_family_minimax_m3,
     &kt_family_deepseek32, &kt_family_glm_dsa};

const struct kt_family *kt_family_find(const char *name, bool is_gguf)
{
    char word[80];
    snprintf(word, sizeof(word), " %.70s ", name);
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
        if (is_gguf ? strcmp(families[i]->name, name) == 0 : strstr(families[i]->classes, word) != NULL)
            return families[i];
    return NULL;
}
