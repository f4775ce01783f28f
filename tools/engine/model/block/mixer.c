/* SPDX-License-Identifier: Apache-2.0 */
/* mixer.c - the mixer of each kind of layer. */
#include "tools/engine/model/block/block.h"

static const struct kt_mixer *const mixers[KT_MIXER_KINDS] = {[KT_MIXER_ATTENTION] = &kt_mixer_attention,
                                                              [KT_MIXER_LATENT] = &kt_mixer_latent,
                                                              [KT_MIXER_DELTA] = &kt_mixer_delta};

const struct kt_mixer *kt_mixer_find(uint32_t kind)
{
    return mixers[kind];
}
