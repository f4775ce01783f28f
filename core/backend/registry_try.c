/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_try.c - opens plugins in a child process first, so that one that crashes, exits or hangs is known
 * by name and is left out.
 */
#define _GNU_SOURCE /* pipe2 */
#include "core/backend/registry.h"
#include "core/base/error.h"
#include "core/config/config.h"
#include "core/machine/clock.h"
#include "core/machine/cpu.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct trial {
    struct kt_config *config;
    const struct kt_caps *caps;
    uint32_t timeout_ms;
    uint32_t n; /* plugins */
};

static bool is_enabled(const struct kt_config *config, uint32_t i)
{
    const char *name = kt_config_plugin(config, i);
    char section[64];
    (void)snprintf(section, sizeof section, "plugin.%s", name);
    return strcmp(kt_config_text(config, section, "enabled"), "no") != 0 &&
           !kt_config_plugin_broken(config, name);
}

/* ---- in the child ---- */

/* What the process had for a plugin's crash or words is not for this one. */
static void shed(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL,  SIGFPE, SIGABRT,
                                  SIGTRAP, SIGSYS, SIGTERM, SIGALRM};
    const struct rlimit no_core = {0, 0};
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3 && nothing >= 0; fd++)
        (void)dup2(nothing, fd);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        (void)signal(numbers[i], SIG_DFL);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void say(int words, uint32_t number)
{
    if (write(words, &number, sizeof number) != (ssize_t)sizeof number)
        _exit(1);
}

/* Opens the plugins from number `first` on, and says which one comes next, at the end trial->n. */
static void open_all(const struct trial *trial, uint32_t first, int words) __attribute__((noreturn));
static void open_all(const struct trial *trial, uint32_t first, int words)
{
    shed();
    kt_config_silence(trial->config);
    for (uint32_t i = first; i < trial->n; i++) {
        if (!is_enabled(trial->config, i))
            continue;
        say(words, i);
        kt_registry_try(trial->config, trial->caps, i);
    }
    say(words, trial->n);
    _exit(0); /* destructors of plugins are no business of this process */
}

/* ---- in the parent ---- */

enum heard { HEARD_END, HEARD_NOTHING, HEARD_ERROR };

/* Reads what the child says until it is done, ends or takes too long. *at is the plugin that it was at. */
static enum heard listen(const struct trial *trial, int words, uint32_t *at)
{
    uint64_t limit = (uint64_t)trial->timeout_ms * 1000000, last = kt_now_ns();
    while (*at < trial->n) {
        uint64_t passed = kt_now_ns() - last;
        struct pollfd poller = {.fd = words, .events = POLLIN};
        int ready = passed < limit ? poll(&poller, 1, (int)((limit - passed) / 1000000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return ready == 0 ? HEARD_NOTHING : HEARD_ERROR;
        ssize_t n = read(words, at, sizeof *at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof *at)
            return n == 0 ? HEARD_END : HEARD_ERROR;
        last = kt_now_ns();
    }
    return HEARD_END;
}

static enum kt_status blame(const struct trial *trial, uint32_t i, bool in_time, int status,
                            struct kt_error *error)
{
    static const struct {
        int number;
        const char *name;
    } signals[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGILL, "SIGILL"},  {SIGFPE, "SIGFPE"},
                   {SIGABRT, "SIGABRT"}, {SIGTRAP, "SIGTRAP"}, {SIGKILL, "SIGKILL"}};
    const char *name = kt_config_plugin(trial->config, i), *signal_name = "a signal";
    char text[256];
    for (size_t s = 0; s < sizeof signals / sizeof signals[0]; s++)
        if (WIFSIGNALED(status) && signals[s].number == WTERMSIG(status))
            signal_name = signals[s].name;
    if (!in_time)
        (void)snprintf(text, sizeof text, "it did not come back within %g seconds when it was opened",
                       trial->timeout_ms / 1000.0);
    else if (WIFSIGNALED(status))
        (void)snprintf(text, sizeof text, "it crashed with %s when it was opened", signal_name);
    else
        (void)snprintf(text, sizeof text, "it ended the process with exit status %d when it was opened",
                       WEXITSTATUS(status));
    (void)strcat(text, "; kt plugin check says more");
    return kt_config_break(trial->config, name, text, error);
}

static enum kt_status fail_process(int number, struct kt_error *error)
{
    return kt_fail(error, KT_E_SYSTEM, "plugins cannot be tried in a process of their own: %s",
                   strerror(number));
}

/* One child; *first is then the plugin after the last that was opened. */
static enum kt_status try_from(const struct trial *trial, uint32_t *first, struct kt_error *error)
{
    int ends[2], status = 0;
    uint32_t at = *first;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_process(errno, error);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        open_all(trial, *first, ends[1]);
    }
    int number = errno;
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return fail_process(number, error);
    }
    enum heard heard = listen(trial, ends[0], &at);
    number = errno;
    if (heard != HEARD_END)
        (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    (void)close(ends[0]);
    *first = at + 1;
    if (heard == HEARD_ERROR) /* which says nothing of the plugin */
        return fail_process(number, error);
    return at < trial->n ? blame(trial, at, heard == HEARD_END, status, error) : KT_OK;
}

enum kt_status kt_config_try_plugins(struct kt_config *config, uint32_t timeout_ms, struct kt_error *error)
{
    struct kt_caps caps;
    uint32_t first = 0;
    if (!config || timeout_ms == 0)
        return kt_fail(error, KT_E_INVALID,
                       "kt_config_try_plugins: config must not be NULL, timeout_ms not 0");
    struct trial trial = {config, &caps, timeout_ms, (uint32_t)kt_config_plugin_count(config)};
    enum kt_status status = kt_cpu_detect(kt_config_text(config, "core", "cpu_variant"), &caps, error);
    while (status == KT_OK && first < trial.n) {
        if (is_enabled(config, first))
            status = try_from(&trial, &first, error);
        else
            first++;
    }
    return status;
}
