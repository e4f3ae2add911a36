#include "tests/support/proc.h"

#include "tests/support/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

enum {
    N_STREAMS = 2,
    LEFT_MAX = 64,
    TEXT_MAX = 64 * 1024 * 1024
};

typedef struct capture {
    int fd; // -1 after the end
    char *text;
    size_t n;
    size_t n_reserved;
    size_t n_seen; // consumed by wait_line
} capture;

struct sc_proc {
    pid_t pid;
    int pid_fd;
    bool has_ended;
    int exit_code;
    char name[64];
    char *line; // the last line handed out
    capture streams[N_STREAMS];
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void *checked(void *p)
{
    if (p == NULL) {
        fail_msg("out of memory");
    }
    return p;
}

/* SC_TEST_ID, then what the config adds, then ours as far as it is not replaced. */
static const char **make_environment(const char *const *extra)
{
    size_t n_extra = 0;
    while (extra != NULL && extra[n_extra] != NULL) {
        n_extra++;
    }
    size_t n_own = 0;
    while (environ[n_own] != NULL) {
        n_own++;
    }
    const char **out = checked(calloc(n_extra + n_own + 2, sizeof *out));
    size_t n = 0;
    out[n++] = sc_procfs_marker();
    for (size_t i = 0; i < n_extra; i++) {
        out[n++] = extra[i];
    }
    size_t n_new = n;
    for (size_t i = 0; i < n_own; i++) {
        size_t n_name = strcspn(environ[i], "=");
        bool is_replaced = false;
        for (size_t k = 0; k < n_new; k++) {
            is_replaced =
                is_replaced || (strncmp(out[k], environ[i], n_name) == 0 && out[k][n_name] == '=');
        }
        if (!is_replaced) {
            out[n++] = environ[i];
        }
    }
    return out;
}

/* Both ends of the child's stdout: a pipe, or a pseudo-terminal of 80 columns. */
static void open_output(bool is_terminal, int *ours, int *theirs)
{
    int fds[2];
    if (!is_terminal) {
        if (pipe2(fds, O_CLOEXEC) != 0) {
            fail_msg("pipe: %s", strerror(errno));
        }
        *ours = fds[0];
        *theirs = fds[1];
        return;
    }
    char name[64];
    *ours = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*ours < 0 || grantpt(*ours) != 0 || unlockpt(*ours) != 0 ||
        ptsname_r(*ours, name, sizeof name) != 0) {
        fail_msg("pseudo-terminal: %s", strerror(errno));
    }
    *theirs = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    if (*theirs < 0 || ioctl(*theirs, TIOCSWINSZ, &size) != 0) {
        fail_msg("%s: %s", name, strerror(errno));
    }
}

/* Between fork and exec: only calls that are safe there. */
static void become(const sc_proc_config *config, const char *const *env, int out, int err,
                   pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int in = open("/dev/null", O_RDONLY);
    if (getppid() != parent || in < 0 || dup2(in, STDIN_FILENO) < 0 ||
        dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0 ||
        (config->dir != NULL && chdir(config->dir) != 0)) {
        _exit(127);
    }
    if (in > STDERR_FILENO) {
        close(in);
    }
    execvpe(config->argv[0], (char *const *)config->argv, (char *const *)env);
    const char *reason = strerrordesc_np(errno);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", config->argv[0], reason);
    _exit(127);
}

static void set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        fail_msg("fcntl: %s", strerror(errno));
    }
}

sc_proc *sc_proc_start(const sc_proc_config *config)
{
    int ours[N_STREAMS];
    int theirs[N_STREAMS];
    open_output(config->is_terminal, &ours[SC_PROC_OUT], &theirs[SC_PROC_OUT]);
    open_output(false, &ours[SC_PROC_ERR], &theirs[SC_PROC_ERR]);
    sc_proc *proc = checked(calloc(1, sizeof *proc));
    snprintf(proc->name, sizeof proc->name, "%s", config->argv[0]);
    const char **env = make_environment(config->env);
    pid_t self = getpid();
    proc->pid = fork();
    if (proc->pid == 0) {
        become(config, env, theirs[SC_PROC_OUT], theirs[SC_PROC_ERR], self);
    }
    free(env);
    if (proc->pid < 0) {
        fail_msg("fork: %s", strerror(errno));
    }
    setpgid(proc->pid, proc->pid); // the child does it too; whoever is first
    proc->pid_fd = pidfd_open(proc->pid, 0);
    if (proc->pid_fd < 0) {
        fail_msg("pidfd_open: %s", strerror(errno));
    }
    for (int i = 0; i < N_STREAMS; i++) {
        close(theirs[i]);
        set_nonblocking(ours[i]);
        proc->streams[i].fd = ours[i];
        proc->streams[i].n_reserved = 4096;
        proc->streams[i].text = checked(calloc(1, 4096));
    }
    return proc;
}

void sc_proc_free(sc_proc **proc_p)
{
    sc_proc *proc = *proc_p;
    if (proc == NULL) {
        return;
    }
    if (!proc->has_ended) {
        kill(proc->pid, SIGKILL);
        while (waitpid(proc->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    close(proc->pid_fd);
    for (int i = 0; i < N_STREAMS; i++) {
        if (proc->streams[i].fd >= 0) {
            close(proc->streams[i].fd);
        }
        free(proc->streams[i].text);
    }
    free(proc->line);
    free(proc);
    *proc_p = NULL;
}

pid_t sc_proc_pid(const sc_proc *proc)
{
    return proc->pid;
}

void sc_proc_signal(sc_proc *proc, int signal)
{
    /* once reaped, the number may be somebody else's */
    if (!proc->has_ended) {
        kill(proc->pid, signal);
    }
}

void sc_proc_signal_group(sc_proc *proc, int signal)
{
    if (!proc->has_ended) {
        kill(-proc->pid, signal);
    }
}

/* Reads what is there; a pseudo-terminal's end shows as EIO. */
static void drain(capture *c)
{
    while (c->fd >= 0) {
        if (c->n_reserved - c->n < 2048) {
            c->n_reserved *= 2;
            c->text = checked(realloc(c->text, c->n_reserved));
        }
        ssize_t n = read(c->fd, c->text + c->n, c->n_reserved - c->n - 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            close(c->fd);
            c->fd = -1;
            return;
        }
        c->n += (size_t)n;
        c->text[c->n] = '\0';
        if (c->n > TEXT_MAX) {
            fail_msg("more than %d bytes of output", TEXT_MAX);
        }
    }
}

static void reap(sc_proc *proc)
{
    int status = 0;
    while (waitpid(proc->pid, &status, 0) < 0 && errno == EINTR) {
    }
    proc->has_ended = true;
    proc->exit_code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* Waits for one event; false when the deadline has passed. Output is read before the end is
   noticed, so that nothing the program wrote is missed. */
static bool pump(sc_proc *proc, int64_t deadline_ms)
{
    struct pollfd fds[N_STREAMS + 1] = {{.fd = proc->pid_fd, .events = POLLIN}};
    for (int i = 0; i < N_STREAMS; i++) {
        fds[i + 1] = (struct pollfd){.fd = proc->streams[i].fd, .events = POLLIN};
    }
    int64_t left_ms = deadline_ms - now_ms();
    int n = poll(fds, N_STREAMS + 1, left_ms > 0 ? (int)left_ms : 0);
    if (n < 0 && errno != EINTR) {
        fail_msg("poll: %s", strerror(errno));
    }
    for (int i = 0; n > 0 && i < N_STREAMS; i++) {
        drain(&proc->streams[i]);
    }
    if (n > 0 && fds[0].revents != 0) {
        drain(&proc->streams[SC_PROC_OUT]);
        drain(&proc->streams[SC_PROC_ERR]);
        reap(proc);
    }
    return n != 0;
}

bool sc_proc_wait(sc_proc *proc, int timeout_ms)
{
    int64_t deadline_ms = now_ms() + timeout_ms;
    while (!proc->has_ended && pump(proc, deadline_ms)) {
    }
    return proc->has_ended;
}

int sc_proc_exit_code(const sc_proc *proc)
{
    if (!proc->has_ended) {
        fail_msg("%s (pid %d) has not ended", proc->name, (int)proc->pid);
    }
    return proc->exit_code;
}

const char *sc_proc_text(const sc_proc *proc, sc_proc_stream stream)
{
    return proc->streams[stream].text;
}

/* The next whole line with `text` in it; a last line without a newline counts after the end. */
static const char *find_line(sc_proc *proc, capture *c, const char *text)
{
    while (c->n_seen < c->n) {
        const char *start = c->text + c->n_seen;
        size_t n = strcspn(start, "\n");
        if (start[n] == '\0' && !proc->has_ended && c->fd >= 0) {
            return NULL;
        }
        c->n_seen += n + (start[n] == '\n' ? 1 : 0);
        free(proc->line);
        proc->line = checked(strndup(start, n));
        if (strstr(proc->line, text) != NULL) {
            return proc->line;
        }
    }
    return NULL;
}

const char *sc_proc_wait_line(sc_proc *proc, sc_proc_stream stream, const char *text,
                              int timeout_ms)
{
    int64_t deadline_ms = now_ms() + timeout_ms;
    capture *c = &proc->streams[stream];
    for (;;) {
        bool is_over = proc->has_ended;
        const char *line = find_line(proc, c, text);
        if (line != NULL || is_over) {
            return line;
        }
        if (!pump(proc, deadline_ms)) {
            return find_line(proc, c, text);
        }
    }
}

static void show(const sc_proc *proc)
{
    print_error("--- stdout of %s\n%s\n--- stderr of %s\n%s\n---\n", proc->name,
                proc->streams[SC_PROC_OUT].text, proc->name, proc->streams[SC_PROC_ERR].text);
}

void sc_proc_expect_exit(sc_proc *proc, int code, int timeout_ms)
{
    if (!sc_proc_wait(proc, timeout_ms)) {
        show(proc);
        fail_msg("%s (pid %d) still runs after %d ms", proc->name, (int)proc->pid, timeout_ms);
    }
    if (proc->exit_code != code) {
        show(proc);
        fail_msg("%s ended with %d, expected %d", proc->name, proc->exit_code, code);
    }
}

const char *sc_proc_expect_line(sc_proc *proc, sc_proc_stream stream, const char *text,
                                int timeout_ms)
{
    const char *line = sc_proc_wait_line(proc, stream, text, timeout_ms);
    if (line == NULL) {
        show(proc);
        fail_msg("no line with '%s' from %s within %d ms", text, proc->name, timeout_ms);
    }
    return line;
}

sc_proc *sc_proc_run(const sc_proc_config *config, int timeout_ms)
{
    sc_proc *proc = sc_proc_start(config);
    if (!sc_proc_wait(proc, timeout_ms)) {
        show(proc);
        fail_msg("%s (pid %d) still runs after %d ms", proc->name, (int)proc->pid, timeout_ms);
    }
    return proc;
}

size_t sc_proc_find_left(pid_t *pids, size_t n_max)
{
    return sc_procfs_find(pids, n_max);
}

void sc_proc_expect_none_left(int timeout_ms)
{
    int64_t deadline_ms = now_ms() + timeout_ms;
    pid_t pids[LEFT_MAX];
    for (;;) {
        size_t n = sc_procfs_find(pids, LEFT_MAX);
        if (n == 0) {
            return;
        }
        /* the first one's end is the event; the others are seen in the next round */
        struct pollfd fd = {.fd = pidfd_open(pids[0], 0), .events = POLLIN};
        if (fd.fd < 0) {
            continue; // it went between the two calls
        }
        int64_t left_ms = deadline_ms - now_ms();
        int n_ready = poll(&fd, 1, left_ms > 0 ? (int)left_ms : 0);
        close(fd.fd);
        if (n_ready == 0) {
            for (size_t i = 0; i < n && i < LEFT_MAX; i++) {
                char name[256];
                print_error("left behind: pid %d, %s\n", (int)pids[i],
                            sc_procfs_command(pids[i], name, sizeof name));
                kill(pids[i], SIGKILL);
            }
            fail_msg("%zu processes left after %d ms", n, timeout_ms);
        }
    }
}
