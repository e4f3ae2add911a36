#include "cli/png.h"

#include "cli/cmd.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char CONVERTER[] = "rsvg-convert";

/* The picture as an unnamed file, read from its start: unlike a pipe, it cannot block or break. */
static sc_status open_picture(const char *svg, size_t n, FILE **out, sc_err *err)
{
    FILE *file = tmpfile();
    if (file == NULL) {
        return sc_status_errno(err, errno, "a temporary file for the picture");
    }
    if (fwrite(svg, 1, n, file) != n || fflush(file) != 0 || fseek(file, 0, SEEK_SET) != 0) {
        int why = errno;
        (void)fclose(file);
        return sc_status_errno(err, why, "a temporary file for the picture");
    }
    *out = file;
    return SC_OK;
}

/* Starts the converter with the two files as its standard input and output. */
static sc_status start(int in_fd, int out_fd, pid_t *out_pid, sc_err *err)
{
    posix_spawn_file_actions_t actions;
    int why = posix_spawn_file_actions_init(&actions);
    if (why != 0) {
        return sc_status_errno(err, why, "%s", CONVERTER);
    }
    why = posix_spawn_file_actions_adddup2(&actions, in_fd, STDIN_FILENO);
    if (why == 0) {
        why = posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    }
    if (why == 0) {
        char *const argv[] = {(char *)CONVERTER, (char *)"--format=png", NULL};
        why = posix_spawnp(out_pid, CONVERTER, &actions, NULL, argv, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (why == ENOENT) {
        return sc_status_fail(err, SC_UNSUPPORTED,
                              "%s is not installed, so there is no PNG (Debian: apt-get install "
                              "librsvg2-bin); --svg writes the picture without it",
                              CONVERTER);
    }
    return why == 0 ? SC_OK : sc_status_errno(err, why, "%s: cannot start", CONVERTER);
}

static sc_status await(pid_t pid, const char *path, sc_err *err)
{
    int end = 0;
    while (waitpid(pid, &end, 0) < 0) {
        if (errno != EINTR) {
            return sc_status_errno(err, errno, "%s", CONVERTER);
        }
    }
    if (WIFEXITED(end) && WEXITSTATUS(end) == 0) {
        return SC_OK;
    }
    bool is_killed = WIFSIGNALED(end);
    return sc_status_fail(err, SC_FAILED, "%s: %s ended with %s %d; nothing is written", path,
                          CONVERTER, is_killed ? "signal" : "exit status",
                          is_killed ? WTERMSIG(end) : WEXITSTATUS(end));
}

static sc_status copy_out(FILE *file, const char *path, sc_err *err)
{
    sc_status status = SC_OK;
    char *bytes = NULL;
    long n = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    if (n < 0 || fseek(file, 0, SEEK_SET) != 0) {
        return sc_status_errno(err, errno, "a temporary file for the picture");
    }
    bytes = malloc((size_t)n + 1);
    if (bytes == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "out of memory for a picture of %ld bytes", n);
    }
    if (fread(bytes, 1, (size_t)n, file) != (size_t)n) {
        status = sc_status_errno(err, errno, "a temporary file for the picture");
        goto out;
    }
    SC_GOTO(sc_cmd_write_file(path, bytes, (size_t)n, err));
out:
    free(bytes);
    return status;
}

sc_status sc_png_write(const char *svg, size_t n, const char *path, sc_err *err)
{
    sc_status status = SC_OK;
    FILE *from = NULL;
    FILE *to = NULL;
    pid_t pid = 0;
    SC_GOTO(open_picture(svg, n, &from, err));
    SC_GOTO(open_picture("", 0, &to, err));
    SC_GOTO(start(fileno(from), fileno(to), &pid, err));
    SC_GOTO(await(pid, path, err));
    SC_GOTO(copy_out(to, path, err));
out:
    if (to != NULL) {
        (void)fclose(to);
    }
    if (from != NULL) {
        (void)fclose(from);
    }
    return status;
}
