/* SPDX-License-Identifier: Apache-2.0 */
/* render.h - rendering for who has the variables as values, not as text. */
#ifndef KT_ENGINE_TEXT_TEMPLATE_RENDER_H
#define KT_ENGINE_TEXT_TEMPLATE_RENDER_H

#include <jansson.h>
#include <kt/text.h>

/** kt_template_render. */
enum kt_status kt_template_render_values(const struct kt_template *chat, const json_t *variables,
                                         const struct kt_render_params *params,
                                         struct kt_rendering **rendering, struct kt_error *error);

#endif
