/* SPDX-License-Identifier: Apache-2.0 */
/* session_seal.h - right checksums for a saved sequence that a test has changed. */
#ifndef KT_TESTS_SUPPORT_SESSION_SEAL_H
#define KT_TESTS_SUPPORT_SESSION_SEAL_H

#include <stddef.h>
#include <stdint.h>

/* Puts them wherever the header, which may be any bytes, says that they are and the file goes so far. */
void session_seal(uint8_t *data, size_t size);

#endif
