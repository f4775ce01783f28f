/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/config_fixture.h"

#include "tests/support/sandbox.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

struct kt_config *create(const char *const *settings, size_t n)
{
    struct kt_config_params params = KT_CONFIG_PARAMS_INIT;
    struct kt_config *config = NULL;
    struct kt_error error = {0};
    params.settings = settings;
    params.n_settings = n;
    ck_assert_msg(kt_config_create(&params, &config, &error) == KT_OK, "%s", error.message);
    return config;
}

void expect_failure(enum kt_status status, const char *first, const char *second)
{
    struct kt_config *config = NULL;
    struct kt_error error = {0};
    ck_assert_int_eq(kt_config_create(NULL, &config, &error), status);
    ck_assert_ptr_null(config);
    ck_assert_int_eq(error.status, status);
    ck_assert_msg(strstr(error.message, first) != NULL, "\"%s\" is not in \"%s\"", first, error.message);
    ck_assert_msg(strstr(error.message, second) != NULL, "\"%s\" is not in \"%s\"", second, error.message);
}

void expect_setting(const struct kt_config *config, const char *section, const char *key, const char *value,
                    const char *origin)
{
    const struct kt_setting *setting = kt_config_find(config, section, key);
    ck_assert_msg(setting != NULL, "%s.%s is not there", section, key);
    ck_assert_str_eq(setting->value, value);
    ck_assert_str_eq(setting->origin, origin);
}

const char *at_line(const char *relative, unsigned line)
{
    static char text[256];
    (void)snprintf(text, sizeof text, "%s:%u", sandbox_path(relative), line);
    return text;
}
