/* SPDX-License-Identifier: Apache-2.0 */
/* config_fixture.h - configurations out of the sandbox's files, and what is expected of them. */
#ifndef KT_TESTS_SUPPORT_CONFIG_FIXTURE_H
#define KT_TESTS_SUPPORT_CONFIG_FIXTURE_H

#include "core/config/config.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* With these settings of the caller's; it must succeed. */
struct kt_config *create(const char *const *settings, size_t n);

/* Creates a config and expects the failure, with both texts in its message. */
void expect_failure(enum kt_status status, const char *first, const char *second);

void expect_setting(const struct kt_config *config, const char *section, const char *key, const char *value,
                    const char *origin);

/* "PATH:LINE" of a file of the sandbox; the next call overwrites it. */
const char *at_line(const char *relative, unsigned line);

#endif
