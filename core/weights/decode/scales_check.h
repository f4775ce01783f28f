/* SPDX-License-Identifier: Apache-2.0 */
/* scales_check.h - are the scales of a view finite? */
#ifndef KT_CORE_WEIGHTS_DECODE_SCALES_CHECK_H
#define KT_CORE_WEIGHTS_DECODE_SCALES_CHECK_H

#include <kt/kt.h>

/* Are all scales of a valid view finite, and those of FP8 weights at least 0? `label` and `name` are those of
 * file and tensor, for the message. */
enum kt_status kt_scales_check(const struct kt_view *view, const char *label, const char *name,
                               struct kt_error *error);

#endif
