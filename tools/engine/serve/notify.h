/* SPDX-License-Identifier: Apache-2.0 */
/* notify.h - tells systemd, or whoever set NOTIFY_SOCKET, how far the program is. */
#ifndef KT_ENGINE_SERVE_NOTIFY_H
#define KT_ENGINE_SERVE_NOTIFY_H

/* Sends "READY=1", "STOPPING=1", "STATUS=...". Without NOTIFY_SOCKET, and if nobody listens there, nothing
 * happens. */
void kt_notify(const char *text);

#endif
