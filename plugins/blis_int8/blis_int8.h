/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blis_int8.h - the backend's names, and what an instance knows of AMD's library.
 * plugins/common/int8/weights.h says how the plugin's own levels hold weights.
 *
 * Level aocl holds what the library reorders: plugins/common/vendor/gemm_tmpl.h.
 */
#ifndef KT_PLUGINS_BLIS_INT8_H
#define KT_PLUGINS_BLIS_INT8_H

#define BACKEND "blis_int8"
#define OPS_NAME(level) blis_int8_ops_##level
#define OWN(function) blis_int8_##function
/* kt_layout.form: a new number when a packed byte changes its meaning. Backends whose bytes are the same
 * have the same. */
#define FORM "amx_int8-1"

#include "plugins/common/int8/weights.h"
#include "plugins/common/plugin/instance.h"
#include "plugins/common/plugin/ops_tmpl.h"

#include "plugins/blis_int8/aocl.h"

struct blis_instance {
    struct instance base;
    const char *library; /* the option: lives as long as the instance */
    struct aocl aocl;
};

enum kt_status blis_int8_check_aocl(void *instance, struct kt_error *error);
extern const struct kt_ops blis_int8_ops_aocl;

#endif
