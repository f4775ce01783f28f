/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - characters of UTF-8 text. */
#ifndef KT_ENGINE_TEXT_UTF8_H
#define KT_ENGINE_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Bytes of the character at the start of text[0 .. length - 1], length > 0, and its code point; 0: the bytes
 * there are no character (cut off, overlong, a surrogate, above U+10FFFF). */
size_t kt_utf8_read(const char *text, size_t length, uint32_t *code);
/** Writes a code point (at most U+10FFFF) to out[0 .. 3]; returns the bytes. */
size_t kt_utf8_write(uint32_t code, char *out);
/** How many bytes from the start are whole characters. */
size_t kt_utf8_valid(const char *text, size_t length);
/** At bytes that are no character: how many of them, 1 to 3, could have begun one, which one U+FFFD stands
 * for; *is_cut: all bytes up to the end could, so that more bytes may yet make a character of them. */
size_t kt_utf8_broken(const char *text, size_t length, bool *is_cut);

#endif
