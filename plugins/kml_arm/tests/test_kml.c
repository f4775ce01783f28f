/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_kml.c - level kml of kml_arm with stubs of Huawei's library, or with the library that KT_CHECK_KML
 * names: which libraries are taken, and one that gives up. checkkernel checks the level's numbers.
 */
#include "plugins/kml_arm/int8.h"
#include "tests/checkkernel/host.h"
#include "tools/check/check.h"

#include <check.h>
#include <dlfcn.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define VENDOR_OPS OPS_NAME(kml)
#define VENDOR_NEEDS KT_CPU_NEON
#define VENDOR_INSTANCE struct kml_instance
#define VENDOR_FOUND kml
#define VENDOR_LIBRARY struct kml
#define VENDOR_OPEN kml_open
#define VENDOR_CALLS kml_vendor
#define VENDOR_CHECKED "KT_CHECK_KML"

/* A variant of kml_stub.c. */
static const char *find_stub(const char *variant)
{
    static char path[4096];
    const char *build = getenv("KT_TEST_BUILD");
    (void)snprintf(path, sizeof path, "%s/plugins/kml_arm/tests/kml_%s.so", build ? build : ".", variant);
    return path;
}

static const struct {
    const char *variant, *reason;
} unfit[] = {
    {"bare", "has no cblas_gemm_s8s8s32: it is no KML"},
    {"idle", "failed its self-test"},
    {"inexact", "failed its self-test"},
    {"rounds", "failed its self-test"},
};

static const char *const fit[] = {"good", "long", "shared"};
static const char *const with_threads[] = {"good", "long"};

#include "tests/checkkernel/vendor_tests.h"
