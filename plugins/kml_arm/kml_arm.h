/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kml_arm.h - the backend's name, and what an instance is. A level has functions for weights of 8 bits
 * (int8.h) and of 4 (int4.h); which of them a layer takes is chosen when it is laid out.
 */
#ifndef KT_PLUGINS_KML_ARM_H
#define KT_PLUGINS_KML_ARM_H

#include "plugins/common/tiles8.h"

#define BACKEND "kml_arm"

struct kml_instance {
    struct instance8 common; /* the shared code knows this part only */
    unsigned bits;           /* of a weight, where no store says otherwise */
};

#endif
