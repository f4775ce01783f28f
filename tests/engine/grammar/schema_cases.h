/* SPDX-License-Identifier: Apache-2.0 */
/* schema_cases.h - schemas, documents that fit them, and some that do not. */
#ifndef TESTS_ENGINE_GRAMMAR_SCHEMA_CASES_H
#define TESTS_ENGINE_GRAMMAR_SCHEMA_CASES_H

#include <stddef.h>

struct schema_case {
    const char *schema, *good[9], *bad[12]; /**< each ends with NULL */
};
extern const struct schema_case schema_cases[];
extern const size_t n_schema_cases;

#endif
