/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c - the backend blis_int8 beside what it shares with amx_int8: level aocl with a stub of
 * AMD's library, or with the library that KT_CHECK_AOCL names, and libraries that must be refused.
 */
#include "tests/checkkernel/int8_case.h"

#include <dlfcn.h>
#include <kt/kt.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define VENDOR_LEVEL "aocl"
#define VENDOR_OWN_LEVEL "avx512_vnni"
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

/* Opened once: the self-test takes a while where each instruction is emulated. */
void model_open(void *instance, const struct expert *expert)
{
    static VENDOR_LIBRARY library;
    struct blis_instance *self = instance;
    struct kt_error error = {KT_OK, ""};
    (void)expert;
    const char *file = getenv(VENDOR_CHECKED);
    self->library = file ? file : find_stub("good");
    if (!library.multiply)
        ck_assert_msg(VENDOR_OPEN(&check_host, self->library, &library, &error) == KT_OK, "%s",
                      error.message);
    self->aocl = library;
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
