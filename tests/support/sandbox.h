/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.h - a folder of its own for a test, that stands for /usr/share, /etc and the user's home.
 */
#ifndef KT_TESTS_SUPPORT_SANDBOX_H
#define KT_TESTS_SUPPORT_SANDBOX_H

#include <kt/types.h>
#include <stdbool.h>
#include <sys/types.h>

/* Makes the folder and points the library's environment to shipped/, etc/ and home/ inside it; no
 * other KT_KERNEL_ variable is left. For a checked fixture. */
void sandbox_open(void);
void sandbox_close(void);

/* The absolute path of something inside; the text lives until sandbox_close. */
const char *sandbox_path(const char *relative);

/* Writes a file; makes the folders above it. */
void sandbox_write(const char *relative, const char *format, ...) KT_PRINTF(2, 3);
void sandbox_write_bytes(const char *relative, const void *data, size_t size);
void sandbox_folder(const char *relative);

/* Copies a plugin that the build made for tests, kt_NAME.so; gives the copy's absolute path. */
const char *sandbox_plugin(const char *name, const char *relative);

/* The same for a backend of the project, as lib/kt_NAME.so; NULL if it is not built. */
const char *sandbox_backend(const char *name);

/* Is the level of a backend one of KT_TEST_SKIP="LEVEL..."? */
bool sandbox_skips(const char *level);

#endif
