/* SPDX-License-Identifier: Apache-2.0 */
/* reals.h - the real numbers of kt_sampling_params, each once: what the library, requests and options accept.
 */
#ifndef KT_ENGINE_SAMPLING_REALS_H
#define KT_ENGINE_SAMPLING_REALS_H

#define KT_SAMPLING_MOST 1e9 /* of what has no bound of its own: far beyond use, and far from overflow */

/* ROW(name, least and most of the library, least and most of a request, whether it filters what is drawn) */
#define KT_SAMPLING_REALS(ROW)                                                \
    ROW(temperature, 0, KT_SAMPLING_MOST, 0, 2, false)                        \
    ROW(top_p, 0, 1, 0, 1, true)                                              \
    ROW(min_p, 0, 1, 0, 1, true)                                              \
    ROW(typical_p, 0, 1, 0, 1, true)                                          \
    ROW(top_n_sigma, 0, KT_SAMPLING_MOST, 0, 1000, true)                      \
    ROW(xtc_probability, 0, 1, 0, 1, true)                                    \
    ROW(xtc_threshold, 0, 1, 0, 1, false)                                     \
    ROW(repetition_penalty, 0, KT_SAMPLING_MOST, 0.01, 100, false)            \
    ROW(presence_penalty, -KT_SAMPLING_MOST, KT_SAMPLING_MOST, -2, 2, false)  \
    ROW(frequency_penalty, -KT_SAMPLING_MOST, KT_SAMPLING_MOST, -2, 2, false) \
    ROW(dry_multiplier, 0, KT_SAMPLING_MOST, 0, 100, false)                   \
    ROW(dry_base, 0, KT_SAMPLING_MOST, 1, 100, false)

#endif
