/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - making the parts of a model whose configuration is known. */
#ifndef KT_ENGINE_MODEL_MODEL_H
#define KT_ENGINE_MODEL_MODEL_H

#include "tools/engine/model/block/block.h"

enum kt_status kt_model_load(struct kt_model *model, struct kt_error *error);
/** The norms, the mixer and the network of a layer. */
enum kt_status kt_block_load(struct kt_model *model, uint32_t layer, struct kt_block *block,
                             struct kt_error *error);
/** A layer of a slice: KT_BUFFER_X from one to the next. */
enum kt_status kt_block_run(const struct kt_slice *slice, struct kt_error *error);

/* mtp.c: the block that predicts the token after the next */

enum kt_status kt_mtp_load(struct kt_model *model, struct kt_error *error);
/** What a session keeps of its last tokens, in bytes. */
uint64_t kt_mtp_session_size(const struct kt_model *model);
/** Makes sure that the session can keep its last hidden states. */
enum kt_status kt_mtp_prepare(struct kt_session *session, struct kt_error *error);
/** Keeps those of a slice, whose tokens are not yet committed. */
void kt_mtp_keep(const struct kt_slice *slice);
/** The session has only its first n_tokens from now on. */
void kt_mtp_truncate(struct kt_session *session, uint64_t n_tokens);
/** A fork of n_tokens gets what the session has; without memory it begins with nothing. */
void kt_mtp_fork(const struct kt_session *session, uint64_t n_tokens, struct kt_session *fork);
void kt_mtp_close(struct kt_session *session);

#endif
