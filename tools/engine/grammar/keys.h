/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h - keys of patternProperties: which of the expressions are found in a key decides what its value must
 * be. Each expression, and the names of declared members, is a machine of its own; the keys of an object are
 * their product, so a key leads to the value of exactly the expressions that it fits, or of none.
 */
#ifndef KT_ENGINE_GRAMMAR_KEYS_H
#define KT_ENGINE_GRAMMAR_KEYS_H

#include "tools/engine/grammar/schema.h"

/** Expressions of an object. */
#define KT_KEYS_MOST 8

struct kt_form_keys;

/** The expressions that are names in `patterns`, of the keyword `name` (NULL: the place is the keyword's) at
 * `object`, a place that outlives them; keys have min .. max characters (UINT32_MAX: any number). NULL after
 * a failure. Strings have quotes and escapes unless the reader says that they are raw. */
struct kt_form_keys *kt_form_keys_open(struct kt_form_reader *reader, const json_t *patterns,
                                       const struct kt_place *object, const char *name, uint32_t min,
                                       uint32_t max);
void kt_form_keys_free(struct kt_form_keys *keys);
/** Bits of the expressions that are found in a name. */
uint32_t kt_form_keys_find(struct kt_form_keys *keys, const char *name);
/** A name that no key may be, as it has a place of its own. */
bool kt_form_keys_leave_out(struct kt_form_keys *keys, const char *name);
/** Operations for a key but those left out; `value(data, bits)` is where it goes on, asked once for each set
 * of expressions; 0: such a key may not come. */
uint32_t kt_form_keys_write(struct kt_form_keys *keys, uint32_t (*value)(void *data, uint32_t bits),
                            void *data);

#endif
