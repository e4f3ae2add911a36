#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void sc_launch_init(sc_launch *launch)
{
    memset(launch, 0, sizeof *launch);
}

/* Takes over a child that has ended; options is WNOHANG, or 0 to wait for its end. */
static void reap_child(sc_launch_child *child, int options)
{
    siginfo_t info;
    int got = -1;
    do {
        info.si_pid = 0;
        got = waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT | options);
    } while (got < 0 && errno == EINTR);
    if (got < 0 || info.si_pid != child->pid) {
        return;
    }
    // What the child itself started and left behind is in its group, whose number is still ours.
    kill(-child->pid, SIGKILL);
    waitpid(child->pid, &child->wait_status, 0);
    child->is_running = false;
    if (child->pid_fd >= 0) {
        close(child->pid_fd);
        child->pid_fd = -1;
    }
}

size_t sc_launch_reap(sc_launch *launch)
{
    size_t n_running = 0;
    for (size_t i = 0; i < launch->n_children; i++) {
        sc_launch_child *child = &launch->children[i];
        if (child->is_running) {
            reap_child(child, WNOHANG);
        }
        n_running += child->is_running ? 1 : 0;
    }
    return n_running;
}

void sc_launch_signal(const sc_launch *launch, int signal_number)
{
    for (size_t i = 0; i < launch->n_children; i++) {
        if (launch->children[i].is_running) {
            kill(-launch->children[i].pid, signal_number);
        }
    }
}

void sc_launch_done(sc_launch *launch)
{
    sc_launch_signal(launch, SIGKILL);
    for (size_t i = 0; i < launch->n_children; i++) {
        sc_launch_child *child = &launch->children[i];
        if (child->is_running) {
            reap_child(child, 0);
        }
        free(child->log_path);
    }
    free(launch->children);
    sc_launch_init(launch);
}

static bool is_program(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* Sets *out to folder/program when that is a program; n is the length of folder. */
static bool try_folder(const char *folder, size_t n, const char *program, char **out)
{
    char path[PATH_MAX];
    // An empty entry of PATH is the current folder.
    int length = n == 0 ? snprintf(path, sizeof path, "./%s", program)
                        : snprintf(path, sizeof path, "%.*s/%s", (int)n, folder, program);
    if (length < 0 || (size_t)length >= sizeof path || !is_program(path)) {
        return false;
    }
    *out = strdup(path);
    return *out != NULL;
}

sc_status sc_launch_find(const char *program, const char *path_list, char **out, sc_err *err)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length > 0) {
        self[length] = '\0';
        char *slash = strrchr(self, '/');
        if (slash != NULL && try_folder(self, (size_t)(slash - self), program, out)) {
            return SC_OK;
        }
    }
    const char *rest = path_list;
    while (rest != NULL) {
        const char *colon = strchr(rest, ':');
        size_t n = colon != NULL ? (size_t)(colon - rest) : strlen(rest);
        if (n < PATH_MAX && try_folder(rest, n, program, out)) {
            return SC_OK;
        }
        rest = colon != NULL ? colon + 1 : NULL;
    }
    return sc_status_fail(err, SC_NOT_FOUND,
                          "%s is neither beside this program nor in PATH: build or install it",
                          program);
}

/* Makes `fd` standard stream `target` of the child; < 0 on failure. */
static int place_fd(int fd, int target)
{
    if (fd == target) {
        return fcntl(fd, F_SETFD, 0);
    }
    return dup2(fd, target);
}

/* Runs in the child, between fork and exec: only calls that are safe while another thread of the
   parent (ZeroMQ has one) may have held a lock at the fork. Returns on failure, with errno. */
static void become_program(const sc_launch_spec *spec, pid_t parent, int log_fd, int null_fd)
{
    if (setpgid(0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0) {
        return;
    }
    if (getppid() != parent) {
        // The parent died before the line above could notice.
        errno = ESRCH;
        return;
    }
    int out_fd = log_fd >= 0 ? log_fd : spec->out_fd;
    int err_fd = log_fd >= 0 ? log_fd : spec->err_fd;
    if (place_fd(null_fd, STDIN_FILENO) < 0 ||
        (out_fd >= 0 && place_fd(out_fd, STDOUT_FILENO) < 0) ||
        (err_fd >= 0 && place_fd(err_fd, STDERR_FILENO) < 0) ||
        (spec->keep_fd >= 0 && fcntl(spec->keep_fd, F_SETFD, 0) < 0)) {
        return;
    }
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigemptyset(&action.sa_mask);
    const int reset[] = {SIGPIPE, SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof reset / sizeof reset[0]; i++) {
        sigaction(reset[i], &action, NULL);
    }
    if (spec->mask != NULL && sigprocmask(SIG_SETMASK, spec->mask, NULL) < 0) {
        return;
    }
    execv(spec->path, (char *const *)spec->argv);
}

/* Waits until the child has become its program or has failed to: the pipe closes on exec. */
static sc_status await_exec(const sc_launch_spec *spec, int status_fd, sc_err *err)
{
    int reason = 0;
    ssize_t got = -1;
    do {
        got = read(status_fd, &reason, sizeof reason);
    } while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof reason) {
        return sc_status_errno(err, reason, "cannot start %s (%s)", spec->name, spec->path);
    }
    return SC_OK;
}

/* Forks the child and fills pid and pid_fd; *child is not running after an error. */
static sc_status fork_child(const sc_launch_spec *spec, int log_fd, int null_fd,
                            sc_launch_child *child, sc_err *err)
{
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0) {
        return sc_status_errno(err, errno, "cannot start %s: pipe", spec->name);
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        become_program(spec, parent, log_fd, null_fd);
        int reason = errno;
        ssize_t written = write(pipe_fds[1], &reason, sizeof reason);
        _exit(written == (ssize_t)sizeof reason ? 127 : 126);
    }
    int fork_errno = errno;
    close(pipe_fds[1]);
    if (pid < 0) {
        close(pipe_fds[0]);
        return sc_status_errno(err, fork_errno, "cannot start %s: fork", spec->name);
    }
    // Also here, so that a signal to the group cannot come before the group exists.
    setpgid(pid, pid);
    sc_status status = await_exec(spec, pipe_fds[0], err);
    close(pipe_fds[0]);
    child->pid = pid;
    child->pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (status == SC_OK && child->pid_fd < 0) {
        status = sc_status_errno(err, errno, "cannot watch %s: pidfd_open", spec->name);
    }
    if (status != SC_OK) {
        kill(-pid, SIGKILL);
        reap_child(child, 0);
        return status;
    }
    child->is_running = true;
    return SC_OK;
}

sc_status sc_launch_start(sc_launch *launch, const sc_launch_spec *spec, sc_err *err)
{
    sc_status status = SC_OK;
    int log_fd = -1;
    int null_fd = -1;
    sc_launch_child child = {.pid = -1, .pid_fd = -1};

    snprintf(child.name, sizeof child.name, "%s", spec->name);
    sc_launch_child *grown =
        realloc(launch->children, (launch->n_children + 1) * sizeof *launch->children);
    if (grown == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "cannot start %s: out of memory", spec->name);
    }
    launch->children = grown;
    if (spec->log_path != NULL) {
        child.log_path = strdup(spec->log_path);
        log_fd = open(spec->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (child.log_path == NULL || log_fd < 0) {
            status = sc_status_errno(err, errno, "%s", spec->log_path);
            goto out;
        }
    }
    null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0) {
        status = sc_status_errno(err, errno, "/dev/null");
        goto out;
    }
    SC_GOTO(fork_child(spec, log_fd, null_fd, &child, err));
    launch->children[launch->n_children++] = child;
    child.log_path = NULL;
out:
    if (null_fd >= 0) {
        close(null_fd);
    }
    if (log_fd >= 0) {
        close(log_fd);
    }
    free(child.log_path);
    return status;
}

char *sc_launch_format_end(int wait_status, char *out, size_t n)
{
    if (WIFSIGNALED(wait_status)) {
        int number = WTERMSIG(wait_status);
        snprintf(out, n, "killed by signal %d (%s)", number, strsignal(number));
    } else {
        snprintf(out, n, "exit status %d", WEXITSTATUS(wait_status));
    }
    return out;
}

/* First byte of the last n_lines lines of text[0, n). */
static size_t find_tail(const char *text, size_t n, int n_lines)
{
    size_t start = n > 0 && text[n - 1] == '\n' ? n - 1 : n;
    int n_seen = 0;
    while (start > 0) {
        if (text[start - 1] == '\n' && ++n_seen == n_lines) {
            break;
        }
        start--;
    }
    return start;
}

char *sc_launch_tail(const char *path, int n_lines, char *out, size_t n)
{
    char text[SC_LAUNCH_TAIL_MAX];
    out[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return out;
    }
    off_t size = lseek(fd, 0, SEEK_END);
    off_t from = size > (off_t)sizeof text ? size - (off_t)sizeof text : 0;
    ssize_t got = size > 0 ? pread(fd, text, sizeof text, from) : 0;
    close(fd);
    if (got > 0) {
        size_t start = find_tail(text, (size_t)got, n_lines);
        size_t length = (size_t)got - start;
        snprintf(out, n, "%.*s", (int)length, text + start);
    }
    return out;
}

bool sc_launch_pin(int worker, int n_threads, char *out, size_t n)
{
    cpu_set_t allowed;
    int cores[CPU_SETSIZE];
    int n_cores = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0) {
        return false;
    }
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed)) {
            cores[n_cores++] = core;
        }
    }
    if (n_threads < 1 || n_threads > n_cores) {
        return false;
    }
    size_t used = 0;
    for (int t = 0; t < n_threads; t++) {
        size_t place = ((size_t)worker * (size_t)n_threads + (size_t)t) % (size_t)n_cores;
        int length = snprintf(out + used, n - used, "%s%d", t == 0 ? "" : ",", cores[place]);
        if (length < 0 || (size_t)length >= n - used) {
            return false;
        }
        used += (size_t)length;
    }
    return true;
}
