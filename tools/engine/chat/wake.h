/* SPDX-License-Identifier: Apache-2.0 */
/* wake.h - signals of a terminal, for a program that waits in poll(): a handler writes to a pipe, and whoever
 * waits looks what came. */
#ifndef KT_ENGINE_CHAT_WAKE_H
#define KT_ENGINE_CHAT_WAKE_H

#include <stdbool.h>

/* From now on SIGINT, SIGWINCH, SIGTSTP, SIGTERM and SIGHUP only wake. A signal that the caller ignores stays
 * ignored. False: there is no pipe for it. */
bool kt_wake_install(void);
/* Readable when a signal has come. */
int kt_wake_fd(void);
/* Empties the pipe; for whoever poll() has told of it. */
void kt_wake_drain(void);
/* Whether this signal came since the last question. */
bool kt_wake_take(int number);
/* SIGTERM or SIGHUP, whichever came, which stays so; 0: none. */
int kt_wake_ends(void);
/* Stops the program, as Ctrl-Z does; returns when it is to go on. */
void kt_wake_suspend(void);

#endif
