/*
 * env - what the commands that run jobs take from the environment, read in one place.
 */
#ifndef SC_CLI_ENV_H
#define SC_CLI_ENV_H

/* NULL where unset; the texts are the environment's. */
typedef struct sc_env {
    const char *path;     // PATH: where the daemons are, unless beside this program
    const char *term;     // TERM
    const char *no_color; // NO_COLOR: https://no-color.org
} sc_env;

void sc_env_read(sc_env *out);

#endif
