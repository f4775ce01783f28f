/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - the backend kml_arm beside what it shares with amx_int8: level kml with a stub of Huawei's
 * library, or with the library that KT_CHECK_KML names, and libraries that must be refused.
 */
#include "tests/checkkernel/int8_case.h"

#include <dlfcn.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define VENDOR_LEVEL "kml"
#define VENDOR_OWN_LEVEL "dotprod"
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

/* Opened once: the self-test takes a while where each instruction is emulated. */
void model_open(void *instance, const struct expert *expert)
{
    static VENDOR_LIBRARY library;
    struct kml_instance *self = instance;
    struct kt_error error = {KT_OK, ""};
    (void)expert;
    const char *file = getenv(VENDOR_CHECKED);
    self->library = file ? file : find_stub("good");
    self->own_int8 = &OPS_NAME(dotprod);
    if (!library.multiply)
        ck_assert_msg(VENDOR_OPEN(&check_host, self->library, &library, &error) == KT_OK, "%s",
                      error.message);
    self->kml = library;
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
