/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - the largest numbers and names that are taken from files. */
#ifndef KT_CORE_WEIGHTS_FILE_LIMITS_H
#define KT_CORE_WEIGHTS_FILE_LIMITS_H

/* Names of tensors and metadata keys are longer in no real file; messages quote them whole. */
enum { KT_NAME_SIZE = 256 };

/* What is beyond these is a mistake, or wants a second look at the sizes computed from it. */
enum { KT_LARGEST_LAYER = 65535, KT_LARGEST_EXPERTS = 65536, KT_LARGEST_SIZE = 1 << 20 };

#endif
