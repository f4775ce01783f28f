/* SPDX-License-Identifier: Apache-2.0 */
/* isa.h - instructions, as objdump writes them, and the CPU features that they need. */
#ifndef KT_TOOL_PLUGIN_ISA_H
#define KT_TOOL_PLUGIN_ISA_H

#include "tools/kt/plugin/plugin.h"

/* KT_CPU_ bits of an instruction: "{vex}" or "", "vpdpbusd", "%ymm1,%ymm2,%ymm3". */
uint64_t plugin_isa_needs(const char *prefix, const char *name, const char *operands);

/* The bits, and those that every CPU with these bits has. */
uint64_t plugin_isa_implied(uint64_t cpu);

#endif
