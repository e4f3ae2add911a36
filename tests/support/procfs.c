#include "tests/support/procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    ENVIRON_MAX = 256 * 1024
};

const char *sc_procfs_marker(void)
{
    static char marker[64];
    if (marker[0] == '\0') {
        uint64_t number = 0;
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) {
            number = (uint64_t)getpid();
        }
        snprintf(marker, sizeof marker, "SC_TEST_ID=%016" PRIx64, number);
    }
    return marker;
}

/* Up to n - 1 bytes of /proc/PID/FILE and a NUL; 0 when it is gone or a zombie. */
static size_t read_file(long pid, const char *file, char *out, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    while (fd >= 0 && used < n - 1) {
        ssize_t got = read(fd, out + used, n - 1 - used);
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
    }
    if (fd >= 0) {
        close(fd);
    }
    out[used] = '\0';
    return used;
}

static bool has_marker(long pid, char *buffer)
{
    const char *marker = sc_procfs_marker();
    size_t n = read_file(pid, "environ", buffer, ENVIRON_MAX);
    return memmem(buffer, n, marker, strlen(marker) + 1) != NULL;
}

size_t sc_procfs_find(pid_t *pids, size_t n_max)
{
    DIR *dir = opendir("/proc");
    char *buffer = malloc(ENVIRON_MAX);
    size_t n = 0;
    const struct dirent *entry;
    while (dir != NULL && buffer != NULL && (entry = readdir(dir)) != NULL) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        if (!isdigit((unsigned char)entry->d_name[0]) || *end != '\0' || pid == getpid() ||
            !has_marker(pid, buffer)) {
            continue;
        }
        if (n < n_max) {
            pids[n] = (pid_t)pid;
        }
        n++;
    }
    free(buffer);
    if (dir != NULL) {
        closedir(dir);
    }
    return n;
}

const char *sc_procfs_command(pid_t pid, char *out, size_t n)
{
    size_t used = read_file(pid, "cmdline", out, n);
    if (used == 0) {
        snprintf(out, n, "?");
        return out;
    }
    for (size_t i = 0; i + 1 < used; i++) {
        if (out[i] == '\0') {
            out[i] = ' ';
        }
    }
    return out;
}
