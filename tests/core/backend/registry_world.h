/* SPDX-License-Identifier: Apache-2.0 */
/* registry_world.h - a registry over a sandbox's plugins, and what is expected of them. */
#ifndef KT_TESTS_CORE_BACKEND_REGISTRY_WORLD_H
#define KT_TESTS_CORE_BACKEND_REGISTRY_WORLD_H

#include "core/backend/registry.h"
#include "tests/support/sandbox.h"

#include <check.h>

/* What the last registry_open_with logged: "error: ...", a line each. */
extern char registry_log[1 << 16];

enum kt_status registry_open_with(const char *const *settings, size_t n, struct kt_registry **registry,
                                  struct kt_error *error);
/* The same without settings, which must work. */
struct kt_registry *registry_open_all(void);

/* A drop-in for a plugin copied into the sandbox; more lines for its section may follow. */
void registry_add_plugin(const char *name, const char *lines);

/* The backend has this state, and `text` is in the reason for it. */
const struct kt_backend *registry_expect(const struct kt_registry *registry, const char *name,
                                         enum kt_backend_state state, const char *text);

#endif
