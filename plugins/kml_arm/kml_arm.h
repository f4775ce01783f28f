/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kml_arm.h - the backend's name, and what an instance is. A level has functions for weights of 8 bits
 * (int8.h) and of 4 (int4.h); which of them a layer takes is chosen when it is laid out.
 */
#ifndef KT_PLUGINS_KML_ARM_H
#define KT_PLUGINS_KML_ARM_H

#include "plugins/common/int4_group/instance.h"

#include "plugins/kml_arm/kml.h"

#define BACKEND "kml_arm"

struct kml_instance {
    struct int4_instance int4; /* the shared code knows this part only */
    unsigned bits;             /* of a weight, where no store says otherwise */
    const char *library;       /* the option: lives as long as the instance */
    struct kml kml;
    const struct kt_ops *own_int8, *own_int4; /* of the best level that is not the library's */
};

#endif
