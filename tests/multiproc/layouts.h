/*
 * layouts - the same job in many layouts must leave the same bits.
 *
 * Threads: one caller.
 */
#ifndef SC_TESTS_MULTIPROC_LAYOUTS_H
#define SC_TESTS_MULTIPROC_LAYOUTS_H

#include "tests/multiproc/jobs.h"

/* Both schedules on 1 to 4 ranks, each evenly and unevenly split; the first is one process. */
enum {
    SC_LAYOUTS_COUNT = 14
};
extern const sc_jobs_layout sc_layouts_all[SC_LAYOUTS_COUNT];

/* Runs the job once a layout and expects losses, gradient norms, the first step's gradients and the
   last step's weights of the first layout, bit by bit. In every run the copies of a tied embedding
   are equal too. */
void sc_layouts_expect_same(const sc_jobs_config *config, const sc_jobs_layout *layouts, size_t n);

#endif
