/* SPDX-License-Identifier: Apache-2.0 */
/* amx_model.c - the tiles of a plugin that was built with the model. */
#include "plugins/common/simd/amx.h"

_Thread_local struct amx_model amx_model;
