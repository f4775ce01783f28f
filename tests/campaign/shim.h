/* SPDX-License-Identifier: Apache-2.0 */
/* shim.h - what the calls of shim.c and refuse.c ask. */
#ifndef KT_TESTS_CAMPAIGN_SHIM_H
#define KT_TESTS_CAMPAIGN_SHIM_H

#include <stdbool.h>

enum { ALLOCATE = 1, MAP = 2, THREAD = 4, OPEN = 8, MOVE = 16, LOOK = 32, MEMORY = 64, OTHER = 128 };

/* Shall this call fail? If so errno is `number`. */
bool kt_shim_fails(long kind, const void *caller, int number);

/* A file was opened (fd below 0: it was not), after which calls may count. Gives fd. */
int kt_shim_opened(const char *path, int fd);

#define FAILS(kind, number) kt_shim_fails(kind, __builtin_return_address(0), number)
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#endif
