/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h - the backend that is always there: a plugin like any other, but linked in. */
#ifndef KT_CORE_BACKEND_REFERENCE_H
#define KT_CORE_BACKEND_REFERENCE_H

#include <kt/plugin.h>

extern const struct kt_plugin kt_plugin_reference;

#endif
