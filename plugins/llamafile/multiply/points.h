/* SPDX-License-Identifier: Apache-2.0 */
/* points.h - the points of the i-quants' grids as weights, for kernels that look them up. */
#ifndef KT_PLUGINS_LLAMAFILE_MULTIPLY_POINTS_H
#define KT_PLUGINS_LLAMAFILE_MULTIPLY_POINTS_H

#include <stdint.h>

/* A byte a weight, the first one lowest: the numbers of format_table without their signs, of IQ1 without the
 * shift and plus 9: 1, 9 and 17. */
extern const uint64_t llamafile_iq1_points[2048];
extern const uint64_t llamafile_iq2_xxs_points[256];
extern const uint64_t llamafile_iq2_xs_points[512];
extern const uint64_t llamafile_iq2_s_points[1024];
extern const uint32_t llamafile_iq3_xxs_points[256];
extern const uint32_t llamafile_iq3_s_points[512];

#endif
