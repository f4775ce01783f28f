/* SPDX-License-Identifier: Apache-2.0 */
/* change.h - random numbers and random changes of files, the same ones for a seed. */
#ifndef KT_TESTS_CAMPAIGN_CHANGE_H
#define KT_TESTS_CAMPAIGN_CHANGE_H

#include <stddef.h>
#include <stdint.h>

uint64_t kt_roll(uint64_t *state);
/* 0 .. n - 1; 0 if n is 0. */
uint64_t kt_below(uint64_t *state, uint64_t n);
/* Some changes of `size` bytes, most of them at the start, where headers are. How many bytes are left. */
size_t kt_change(uint8_t *data, size_t size, uint64_t *state);

/* The same of a plugin: change_plugin.c. */
size_t kt_change_plugin(uint8_t *data, size_t size, uint64_t *state);

#endif
