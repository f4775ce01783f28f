/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktkernel_build.h - packs weights as KT-Kernel's converter does: each weight's place is computed on its
 * own from the definition of the order, so nothing is shared with the reader.
 */
#ifndef KT_TESTS_SUPPORT_KTKERNEL_BUILD_H
#define KT_TESTS_SUPPORT_KTKERNEL_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ktk_method { KTK_INT8, KTK_INT4, KTK_MOE_INT8, KTK_MOE_INT4 };
enum ktk_fault { KTK_NO_FAULT, KTK_MISSING, KTK_LONGER, KTK_BAD_SCALE, KTK_BAD_CODE, KTK_BAD_TYPE };

struct ktk_model {
    enum ktk_method method;
    uint32_t n_experts, n_parts;
    uint64_t intermediate, hidden;
    float *weights[3]; /* of gate, up, down: [expert][row][col] */
    /* What is wrong, and with which piece. */
    enum ktk_fault fault;
    uint32_t expert, part;
    int projection, role; /* role 1: scales */
};

/* Random weights. The second frees them. */
void ktk_fill(struct ktk_model *model, uint64_t seed);
void ktk_free(struct ktk_model *model);

/* What the converter makes of a weight: its scale, and the code that this is multiplied by. */
float ktk_scale(const struct ktk_model *model, uint32_t expert, int projection, uint64_t row, uint64_t col);
int ktk_code(const struct ktk_model *model, uint32_t expert, int projection, uint64_t row, uint64_t col);

/* Writes a layer into a folder that is there: model-LAYER.safetensors, or _layer_LAYER with files. */
void ktk_write(const struct ktk_model *model, const char *folder, unsigned layer, bool files);

#endif
