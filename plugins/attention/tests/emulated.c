/* SPDX-License-Identifier: Apache-2.0 */
/* emulated.c - plugin.c, with levels above AVX2 that any CPU with AVX2 may take: SIMDe's header and the model
 * of AMX tiles stand in for the rest. */
#include "plugins/common/plugin/levels.h"

#undef NEEDS_AVX512
#undef NEEDS_AVX512_BF16
#undef NEEDS_AMX_BF16
#define NEEDS_AVX512 NEEDS_AVX2
#define NEEDS_AVX512_BF16 NEEDS_AVX2
#define NEEDS_AMX_BF16 NEEDS_AVX2

#include "plugins/attention/plugin.c"
