/* SPDX-License-Identifier: Apache-2.0 */
/* int8/tuning_sve.h - int8 weights on ARM with SVE: what a level of int8/kernel_tmpl.h sets. */
#ifndef KT_PLUGINS_COMMON_INT8_TUNING_SVE_H
#define KT_PLUGINS_COMMON_INT8_TUNING_SVE_H

#define MR_PANEL (__ARM_FEATURE_SVE_BITS >= 512 ? 1 : 0)
#define MR_TILE (MR_PANEL ? 0 : 8)
#define STREAMED_MAX_ROWS 3
#define MICROKERNEL_H "plugins/common/int8/microkernel_sve_tmpl.h"

#endif
