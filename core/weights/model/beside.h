/* SPDX-License-Identifier: Apache-2.0 */
/* beside.h - tensors beside a weight that nobody knows. */
#ifndef KT_CORE_WEIGHTS_MODEL_BESIDE_H
#define KT_CORE_WEIGHTS_MODEL_BESIDE_H

#include "core/weights/table/checkpoint.h"

/* Refuses a weight (a name without its ending) with a tensor NAME.something that is neither read nor ignored:
 * it may change the weight's values. */
enum kt_status kt_beside_check(struct kt_checkpoint *checkpoint, const char *name, struct kt_error *error);

#endif
