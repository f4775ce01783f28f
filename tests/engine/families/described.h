/* SPDX-License-Identifier: Apache-2.0 */
/* described.h - what the engine makes of a checkpoint's settings, in words that two tests compare. */
#ifndef KT_TESTS_ENGINE_FAMILIES_DESCRIBED_H
#define KT_TESTS_ENGINE_FAMILIES_DESCRIBED_H

#include "tools/engine/model/config/config.h"

enum { DESCRIBED = 8192 };

/* All of struct kt_engine_config that a file can change; or why it is refused. */
enum kt_status described(const char *path, char *text, size_t size);

#endif
