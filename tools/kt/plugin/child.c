/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - runs code that may crash or hang in a child process, with a time limit. */
#define _GNU_SOURCE
#include "tools/kt/plugin/plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum plugin_state plugin_say(struct plugin_verdict *verdict, enum plugin_state state, const char *format, ...)
{
    va_list arguments;
    verdict->state = state;
    va_start(arguments, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, arguments);
    va_end(arguments);
    return state;
}

/* ---- in the child ----------------------------------------------------------------------------- */

static struct plugin_child *mine;

/* Notes which memory was accessed, then lets the signal take its default action. */
static void handle_crash(int number, siginfo_t *info, void *context)
{
    const char *name = NULL;
    if (number == SIGSEGV || number == SIGBUS)
        name = guard_find(info->si_addr, &mine->offset, &mine->region_size);
    if (name)
        strncpy(mine->region, name, sizeof(mine->region) - 1);
    (void)context;
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    static char stack[65536]; /* a plugin may have overflowed the other one */
    stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action;

    sigaltstack(&other, NULL);
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = handle_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaction(numbers[i], &action, NULL);
}

/* If memory runs out, the kernel shall kill this process and no other. */
static void offer_memory(void)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file >= 0 && write(file, "1000", 4) < 0)
        errno = 0;
    if (file >= 0)
        close(file);
}

#ifdef KT_COVERAGE /* configure --enable-coverage: a child writes its counts itself */
void __gcov_dump(void);
#endif

static void run_job(plugin_job *job, void *data, struct plugin_child *shared, int words)
    __attribute__((noreturn));
static void run_job(plugin_job *job, void *data, struct plugin_child *shared, int words)
{
    const struct rlimit no_core = {0, 0};
    struct plugin_process before;
    const char *changed;
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(nothing, STDIN_FILENO);
    dup2(words, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    kt_signals_temporary(NULL);
    mine = shared;
    setenv("HWLOC_HIDE_ERRORS", "2", 0); /* a machine without /sys is not the plugin's fault */
    offer_memory();
    catch_crashes();
    plugin_state_take(&before);
    job(data, shared);
    fflush(NULL);
    if (shared->verdict.state != PLUGIN_FAILED && (changed = plugin_state_compare(&before)))
        plugin_say(&shared->verdict, PLUGIN_FAILED,
                   "afterwards the process has %s than before; the last call was %.200s", changed,
                   shared->where);
    shared->finished = true;
#ifdef KT_COVERAGE
    __gcov_dump();
#endif
    _exit(0);
}

/* ---- in the parent ---------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Ends processes that the child left behind; they became children of this one (PR_SET_CHILD_SUBREAPER). */
static void end_orphans(void)
{
    for (int round = 0; round < 1000; round++) {
        pid_t children[64];
        unsigned n = plugin_children(children, 64);
        for (unsigned i = 0; i < n; i++)
            kill(children[i], SIGKILL);
        if (waitpid(-1, NULL, n ? 0 : WNOHANG) < 0 && errno == ECHILD)
            return;
    }
}

/* Waits until the child has ended; false: it had to be killed. The child's end of the pipe `alive` closes
 * with it, unless the child closed it earlier or left it to a process that it started; so both are checked.
 */
static bool wait_for(pid_t pid, int alive, uint64_t seconds, int *status)
{
    double end = now() + (double)seconds;
    bool closed = false, gone = false;
    while (!gone && now() < end) {
        struct pollfd poller = {.fd = alive, .events = POLLIN};
        closed |= poll(&poller, closed ? 0 : 1, closed ? 1 : 20) > 0;
        gone = waitpid(pid, status, WNOHANG) == pid;
    }
    kill(-pid, SIGKILL); /* and what it started */
    if (!gone) {
        kill(pid, SIGKILL);
        while (waitpid(pid, status, 0) < 0 && errno == EINTR)
            continue;
    }
    end_orphans();
    return gone;
}

static const char *name_signal(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGILL:
        return "SIGILL";
    case SIGFPE:
        return "SIGFPE";
    case SIGABRT:
        return "SIGABRT";
    case SIGTRAP:
        return "SIGTRAP";
    case SIGKILL:
        return "SIGKILL: killed, by itself or because memory ran out";
    default:
        return "a signal";
    }
}

static void judge_signal(const struct plugin_child *child, int number, struct plugin_verdict *verdict)
{
    char place[160] = "";
    if (*child->region && child->offset < 0)
        snprintf(place, sizeof(place), ": it touched a byte %lld before the start of %s",
                 (long long)-child->offset, child->region);
    else if (*child->region && (uint64_t)child->offset >= child->region_size)
        snprintf(place, sizeof(place), ": it touched byte %llu behind the end of %s of %llu bytes",
                 (unsigned long long)((uint64_t)child->offset - child->region_size + 1), child->region,
                 (unsigned long long)child->region_size);
    else if (*child->region)
        snprintf(place, sizeof(place), ": it wrote to %s, which can only be read", child->region);
    else if (number == SIGILL)
        snprintf(place, sizeof(place), ": an instruction that this CPU has not, or __builtin_trap");
    plugin_say(verdict, PLUGIN_FAILED, "%s: crashed with %s%s", child->where, name_signal(number), place);
}

/* The first line that the child wrote to standard output or error. */
static bool judge_words(int words, const struct plugin_child *child, struct plugin_verdict *verdict)
{
    char text[256];
    ssize_t n = pread(words, text, sizeof(text) - 1, 0);

    if (n <= 0)
        return false;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    plugin_say(verdict, PLUGIN_FAILED,
               "%s: it wrote \"%s\" to standard output or error; a plugin prints nothing", child->where,
               text);
    return true;
}

static void judge(const struct plugin_child *child, bool in_time, uint64_t seconds, int status, int words,
                  struct plugin_verdict *verdict)
{
    if (!in_time)
        plugin_say(verdict, PLUGIN_FAILED, "%s: it did not come back within %llu seconds", child->where,
                   (unsigned long long)seconds);
    else if (WIFSIGNALED(status))
        judge_signal(child, WTERMSIG(status), verdict);
    else if (!child->finished)
        plugin_say(verdict, PLUGIN_FAILED, "%s: it ended the process with exit status %d", child->where,
                   WEXITSTATUS(status));
    else if (child->verdict.state == PLUGIN_FAILED || child->speaks || !judge_words(words, child, verdict))
        *verdict = child->verdict;
}

enum plugin_state plugin_child_run(const struct kt_cli *cli, uint64_t seconds, plugin_job *job, void *data,
                                   struct plugin_child *result)
{
    int ends[2] = {-1, -1}, status = 0;
    int words = memfd_create("words", MFD_CLOEXEC);
    struct plugin_child *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || words < 0 || pipe2(ends, O_CLOEXEC) != 0)
        exit(kt_cli_error(cli, "no child can be started: %s", strerror(errno)));
    strcpy(shared->where, "loading");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        exit(kt_cli_error(cli, "no child can be started: %s", strerror(errno)));
    if (pid == 0) {
        close(ends[0]);
        run_job(job, data, shared, words);
    }
    close(ends[1]);
    bool in_time = wait_for(pid, ends[0], seconds, &status);
    close(ends[0]);
    memcpy(result, shared, sizeof(*result));
    munmap(shared, sizeof(*shared));
    /* A wild write may have damaged the result, so read it with care. */
    result->where[sizeof(result->where) - 1] = '\0';
    result->region[sizeof(result->region) - 1] = '\0';
    result->verdict.text[sizeof(result->verdict.text) - 1] = '\0';
    if (result->verdict.state != PLUGIN_OK && result->verdict.state != PLUGIN_SKIPPED)
        result->verdict.state = PLUGIN_FAILED;
    struct plugin_verdict verdict = result->verdict;
    judge(result, in_time, seconds, status, words, &verdict);
    close(words);
    result->verdict = verdict;
    return verdict.state;
}
