/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain.h - characters that stand for themselves in a JSON string, in groups of those that expressions mostly
 * take or leave together. So one look at a token's groups says whether a class has all of its characters.
 */
#ifndef KT_ENGINE_GRAMMAR_PLAIN_H
#define KT_ENGINE_GRAMMAR_PLAIN_H

#include <stdint.h>

/** All groups. Above U+007F the ends of lines and blanks are in none, as '.' and \S leave them out. */
#define KT_PLAIN_ALL UINT32_C(0x7fffffff)
/** Of a token: it has a character that is in no group, or half a one. */
#define KT_PLAIN_NOT UINT32_C(0x80000000)
/** Everything above U+007F that has a group. */
#define KT_PLAIN_WIDE UINT32_C(0x40000000)
#define KT_PLAIN_WIDE_SPANS 10
extern const uint32_t kt_plain_wide[KT_PLAIN_WIDE_SPANS][2]; /**< first and last characters */

/** The character's group: one bit, KT_PLAIN_NOT if it has none. */
uint32_t kt_plain_group(uint32_t code);

#endif
