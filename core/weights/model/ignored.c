/* SPDX-License-Identifier: Apache-2.0 */
/* ignored.c - endings of tensors that say nothing about weights. */
#include "core/weights/model/ignored.h"

#include <stddef.h>
#include <string.h>

/* Exporters (modelopt, compressed-tensors, Quark, FBGEMM, llama.cpp) put them beside linears, attention and
 * experts. */
static const char *const ignored[] = {
    /* of activations that a linear takes or gives: here they are computed from each row */
    "input_scale", "input_scale_inv", "input_scale_ub", "input_zero_point", "activation_scale",
    "output_scale", "output_zero_point",
    /* of queries, cached keys and values, and of what the softmax gives */
    "q_scale", "k_scale", "v_scale", "kv_scale", "prob_scale", "prob_output_scale", "q_zero_point",
    "k_zero_point", "v_zero_point", "k_cache_scale", "v_cache_scale", "kv_cache_scale",
    "kv_cache_scaling_factor"};

bool kt_ending_is_ignored(const char *ending)
{
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        if (strcmp(ignored[i], ending) == 0)
            return true;
    return false;
}
