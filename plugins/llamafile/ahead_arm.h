/* SPDX-License-Identifier: Apache-2.0 */
/* ahead_arm.h - how far ahead ARM's levels prefetch: what the core says, for lack of measurements. */
#ifndef KT_PLUGINS_LLAMAFILE_AHEAD_ARM_H
#define KT_PLUGINS_LLAMAFILE_AHEAD_ARM_H

#define AHEAD_Q2 far
#define AHEAD_Q4 far
#define AHEAD_Q5 far
#define AHEAD_Q6 far
#define AHEAD_Q8 far
#define AHEAD_IQ4 far
#define AHEAD_FLOATS far

#endif
