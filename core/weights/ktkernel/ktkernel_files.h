/* SPDX-License-Identifier: Apache-2.0 */
/* ktkernel_files.h - packed weights in files of their own. */
#ifndef KT_CORE_WEIGHTS_KTKERNEL_KTKERNEL_FILES_H
#define KT_CORE_WEIGHTS_KTKERNEL_KTKERNEL_FILES_H

#include "core/weights/table/mapper.h"

extern const struct kt_mapper kt_mapper_ktkernel_files;

extern const struct kt_checkpoint_format kt_format_ktkernel_files;

#endif
