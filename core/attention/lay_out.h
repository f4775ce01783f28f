/* SPDX-License-Identifier: Apache-2.0 */
/* lay_out.h - the layout of attention by a plugin, with the values of its tunables, and the room that it
 * needs. */
#ifndef KT_CORE_ATTENTION_LAY_OUT_H
#define KT_CORE_ATTENTION_LAY_OUT_H

#include "core/attention/attention.h"
#include "core/backend/tuned.h"

/* What keys of [tuned.NAME] call this attention by a plugin: a shape by its heads of queries for each of
 * keys, and by its sizes. */
void kt_attention_tuned_subject(const struct kt_attention *attention, const struct kt_backend *backend,
                                struct kt_tuned_subject *subject);

/* Asks the plugin for attention's shape. */
enum kt_status kt_attention_lay_out(const struct kt_attention *attention, const struct kt_backend *backend,
                                    struct kt_attention_layout *layout, struct kt_error *error);

/* Has room in the arena for forwards by this layout. The pool's lock is held. */
enum kt_status kt_attention_make_room(const struct kt_attention *attention,
                                      const struct kt_attention_layout *layout,
                                      struct kt_attention_buffers buffers[KT_MAX_NODES],
                                      struct kt_error *error);

#endif
