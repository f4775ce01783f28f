/* SPDX-License-Identifier: Apache-2.0 */
/* int4.h - names of the functions for weights of 4 bits; plugins/common/int4_group/weights.h says how they
 * are held. */
#ifndef KT_PLUGINS_KML_ARM_INT4_H
#define KT_PLUGINS_KML_ARM_INT4_H

#include "plugins/kml_arm/kml_arm.h"

#define OPS_NAME(level) kml_arm_int4_##level
#define OWN(function) kml_arm_int4_##function
/* kt_layout.form, of groups of %u: the bytes are those of amx_int4. */
#define FORM4 "amx_int4-g%u-3"

#include "plugins/common/int4_group/weights.h"
#include "plugins/common/plugin/ops_tmpl.h"

#endif
