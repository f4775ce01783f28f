/* SPDX-License-Identifier: Apache-2.0 */
/* command.h - the verbs of kt-engine, the program that `kt` runs for whatever needs text or whole models. */
#ifndef KT_ENGINE_COMMAND_COMMAND_H
#define KT_ENGINE_COMMAND_COMMAND_H

#include "tools/kt/cli.h"

#endif
