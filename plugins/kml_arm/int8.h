/* SPDX-License-Identifier: Apache-2.0 */
/* int8.h - names of the functions for weights of 8 bits; plugins/common/int8/weights.h says how they are
 * held. */
#ifndef KT_PLUGINS_KML_ARM_INT8_H
#define KT_PLUGINS_KML_ARM_INT8_H

#include "plugins/kml_arm/kml_arm.h"

#define OPS_NAME(level) kml_arm_int8_##level
#define OWN(function) kml_arm_int8_##function
/* kt_layout.form: the bytes are those of amx_int8. */
#define FORM "amx_int8-1"

#include "plugins/common/int8/weights.h"
#include "plugins/common/plugin/ops_tmpl.h"

extern const struct kt_ops OPS_NAME(kml);

#endif
