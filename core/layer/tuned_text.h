/* SPDX-License-Identifier: Apache-2.0 */
/* tuned_text.h - what is tuned of a layer, in words. */
#ifndef KT_CORE_LAYER_TUNED_TEXT_H
#define KT_CORE_LAYER_TUNED_TEXT_H

#include "core/layer/layer.h"

#define KT_TUNED_SIZE sizeof(((struct kt_plan *)0)->tuned)

/* For people, which configured values are in force with this layout: "prefetch_bytes 2048 instead of 1024, 6
 * % faster"; "": none. */
void kt_tuned_describe(const struct kt_layer *layer, const struct kt_backend *backend,
                       const struct kt_layout *layout, char text[KT_TUNED_SIZE]);

#endif
