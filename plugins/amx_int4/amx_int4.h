/* SPDX-License-Identifier: Apache-2.0 */
/* amx_int4.h - the backend's names; plugins/common/int4_group/weights.h says how it holds weights. */
#ifndef KT_PLUGINS_AMX_INT4_H
#define KT_PLUGINS_AMX_INT4_H

#define BACKEND "amx_int4"
#define OPS_NAME(level) amx_int4_ops_##level
#define OWN(function) amx_int4_##function

#include "plugins/common/int4_group/weights.h"

#endif
