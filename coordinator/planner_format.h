/*
 * planner_format - numbers as a plan's tables show them.
 */
#ifndef SC_COORDINATOR_PLANNER_FORMAT_H
#define SC_COORDINATOR_PLANNER_FORMAT_H

#include <stddef.h>

enum {
    SC_PLANNER_FORMAT_SIZE_MAX = 24
};

/* 1536 -> "1.5 KiB"; returns out. */
const char *sc_planner_format_size(size_t bytes, char out[SC_PLANNER_FORMAT_SIZE_MAX]);

#endif
