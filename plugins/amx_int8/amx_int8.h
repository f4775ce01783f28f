/* SPDX-License-Identifier: Apache-2.0 */
/* amx_int8.h - the backend's names; plugins/common/int8/weights.h says how it holds weights. */
#ifndef KT_PLUGINS_AMX_INT8_H
#define KT_PLUGINS_AMX_INT8_H

#define BACKEND "amx_int8"
#define OPS_NAME(level) amx_int8_ops_##level
#define OWN(function) amx_int8_##function
/* kt_layout.form: a new number when a packed byte changes its meaning. Backends whose bytes are the same
 * have the same. */
#define FORM "amx_int8-1"

#include "plugins/common/int8/weights.h"
#include "plugins/common/plugin/instance.h"
#include "plugins/common/plugin/ops_tmpl.h"

#endif
