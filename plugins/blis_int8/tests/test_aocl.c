/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_aocl.c - level aocl of blis_int8 with stubs of AMD's library, or with the library that KT_CHECK_AOCL
 * names: which libraries are taken, and one that gives up. checkkernel checks the level's numbers.
 */
#include "plugins/blis_int8/blis_int8.h"
#include "tests/checkkernel/host.h"
#include "tools/check/check.h"

#include <check.h>
#include <dlfcn.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#ifdef LEVEL_AOCL
#define VENDOR_OPS OPS_NAME(aocl)
#define VENDOR_NEEDS (KT_CPU_AVX512F | KT_CPU_AVX512_VNNI)
#endif
#define VENDOR_INSTANCE struct blis_instance
#define VENDOR_FOUND aocl
#define VENDOR_LIBRARY struct aocl
#define VENDOR_OPEN aocl_open
#define VENDOR_CALLS aocl_vendor
#define VENDOR_CHECKED "KT_CHECK_AOCL"

/* A variant of aocl_stub.c. */
static const char *find_stub(const char *variant)
{
    static char path[4096];
    const char *build = getenv("KT_TEST_BUILD");
    (void)snprintf(path, sizeof path, "%s/plugins/blis_int8/tests/aocl_%s.so", build ? build : ".", variant);
    return path;
}

static const struct {
    const char *variant, *reason;
} unfit[] = {
    {"old", "is version \"AOCL-BLAS 4.1.0 Build 20230630\"; 4.2 is needed"},
    {"upstream", "calls itself \"0.9.0\", which is not a version of AOCL"},
    {"mute", "does not say its version"},
    {"bare", "has no aocl_get_reorder_buf_size_s8s8s32os32: it is no AOCL-DLP, nor an AOCL-BLAS with"},
    {"zero", "requests 0 bytes for a matrix of 532480 bytes; it does not support this CPU"},
    {"vast", "requests 18446744073709551615 bytes"},
    {"idle", "failed its self-test"},
    {"inexact", "failed its self-test"},
};

static const char *const fit[] = {"good", "dlp"};
static const char *const with_threads[] = {"good", "dlp"};

#include "tests/checkkernel/vendor_tests.h"
