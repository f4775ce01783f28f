/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE

#include "tools/engine/serve/listen.h"
#include "tools/engine/base/fail.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int kt_listen(const char *host, uint16_t port, struct kt_error *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found;
    char digits[8];
    int fd = -1, one = 1, failed = 0;
    (void)snprintf(digits, sizeof(digits), "%u", port);
    int code = getaddrinfo(host, digits, &hints, &found);
    if (code != 0) {
        kt_engine_fail(error, KT_E_SYSTEM, "--host %s: %s", host, gai_strerror(code));
        return -1;
    }
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
        if (fd < 0) {
            failed = errno;
            continue;
        }
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 256) != 0) {
            failed = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd < 0)
        kt_engine_fail(error, KT_E_SYSTEM, "%s, port %s: %s; choose others by --host and --port", host,
                       digits, strerror(failed));
    return fd;
}

uint16_t kt_listen_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}
