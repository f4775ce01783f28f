/* SPDX-License-Identifier: Apache-2.0 */
/* amx_int4.h - the backend's names; plugins/common/int4_group/weights.h says how it holds weights. */
#ifndef KT_PLUGINS_AMX_INT4_H
#define KT_PLUGINS_AMX_INT4_H

#define BACKEND "amx_int4"
#define OPS_NAME(level) amx_int4_ops_##level
#define OWN(function) amx_int4_##function
/* kt_layout.form, of groups of %u: a new last number when a packed byte changes its meaning. Backends
 * whose bytes are the same have the same. */
#define FORM4 "amx_int4-g%u-3"

#include "plugins/common/int4_group/instance.h"
#include "plugins/common/int4_group/weights.h"
#include "plugins/common/plugin/ops_tmpl.h"

#endif
