/* SPDX-License-Identifier: Apache-2.0 */
/* kml_arm.h - the backend's names; plugins/common/plain8.h says how it holds weights. */
#ifndef KT_PLUGINS_KML_ARM_H
#define KT_PLUGINS_KML_ARM_H

#define BACKEND "kml_arm"
#define OPS_NAME(level) kml_arm_ops_##level
#define OWN(function) kml_arm_##function

#include "plugins/common/plain8.h"

#endif
