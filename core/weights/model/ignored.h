/* SPDX-License-Identifier: Apache-2.0 */
/* ignored.h - tensors that say nothing about weights. */
#ifndef KT_CORE_WEIGHTS_MODEL_IGNORED_H
#define KT_CORE_WEIGHTS_MODEL_IGNORED_H

#include <stdbool.h>

/* Does a tensor with this last part of its name ("k_scale") only say how activations, or cached keys and
 * values, may be rounded? Neither is rounded so here, so it is ignored, wherever it stands. */
bool kt_ending_is_ignored(const char *ending);

#endif
