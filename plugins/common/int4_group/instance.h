/* SPDX-License-Identifier: Apache-2.0 */
/* int4_group/instance.h - what an instance knows of groups: the option group_size. */
#ifndef KT_PLUGINS_COMMON_INT4_GROUP_INSTANCE_H
#define KT_PLUGINS_COMMON_INT4_GROUP_INSTANCE_H

#include "plugins/common/plugin/instance.h"

/* The first part of an instance. */
struct int4_instance {
    struct instance base;
    uint32_t group_size; /* columns of a row that share a scale, where no store says otherwise */
};

/* The option for it: its number is the group's shift. */
#define OPTION_GROUP4_SIZE                                                                         \
    {                                                                                              \
        .key = "group_size", .type = KT_OPTION_ENUM, .default_text = "32", .choices = "32|64|128", \
        .help = "weights of a row that share a scale; larger ones save 1/8 and 3/16 bit a weight", \
    }

#endif
