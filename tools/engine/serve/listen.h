/* SPDX-License-Identifier: Apache-2.0 */
/* listen.h - the socket that a server listens at. */
#ifndef KT_ENGINE_SERVE_LISTEN_H
#define KT_ENGINE_SERVE_LISTEN_H

#include <kt/types.h>

/* -1 after an error, which says what to do where the port is taken. */
int kt_listen(const char *host, uint16_t port, struct kt_error *error);
/* Its port; 0: unknown. */
uint16_t kt_listen_port(int fd);

#endif
