#include "stage/io/socket_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Removes sockets whose owner (the number in "w123-...") is `pid`, or, with pid 0, is no process
 * any more. */
static void sweep(const char *path, long pid)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        return;
    }
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char *rest;
        if (entry->d_name[0] != 'w') {
            continue;
        }
        long owner = strtol(entry->d_name + 1, &rest, 10);
        if (*rest != '-' || owner <= 0) {
            continue;
        }
        bool is_dead = kill((pid_t)owner, 0) != 0 && errno == ESRCH;
        if (pid == 0 ? is_dead : owner == pid) {
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    closedir(dir);
}

sc_status sc_socket_dir_open(sc_socket_dir *dir, sc_err *err)
{
    struct stat st;
    char path[64];
    if (dir->path[0] != '\0') {
        return SC_OK;
    }
    snprintf(path, sizeof path, "/tmp/stagecoach-%ld", (long)geteuid());
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return sc_status_errno(err, errno, "cannot make the socket folder %s", path);
    }
    if (lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 077) != 0) {
        return sc_status_fail(
            err, SC_IO, "socket folder %s: must be a folder of this user with mode 0700: remove it",
            path);
    }
    sweep(path, 0);
    snprintf(dir->path, sizeof dir->path, "%s", path);
    snprintf(dir->prefix, sizeof dir->prefix, "w%ld", (long)getpid());
    return SC_OK;
}

void sc_socket_dir_close(sc_socket_dir *dir)
{
    if (dir->path[0] != '\0') {
        sweep(dir->path, (long)getpid());
        dir->path[0] = '\0';
    }
}
