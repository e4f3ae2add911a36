/*
 * csv - schedules as text: PyTorch's CSV files in, and out again.
 *
 * A file has one line a rank, in rank order, with comma-separated cells: empty (idle), an action
 * ("2F0"), a pair "(0F7;7B3)OVERLAP_F_B" (its halves, in this order), or UNSHARD and RESHARD, which
 * are ignored. F, B, I and W alone make a compute-only file. When there are communication cells,
 * each must be what lowering implies; they are checked and then dropped. A file without any
 * backward is forward-only.
 *
 * Lines that begin with # are comments; "# key: value" with version, name, p, stages, m or
 * placement (the rank of stage 0, 1, ...) states what the rows must agree with; where parameters
 * are replicated, odd_placement has the ranks that run odd microbatches. Without those, stages and
 * m follow from the cells, and each rank has as many stages as the others.
 *
 * Two dialects: in PyTorch's files of today B is a whole backward and I its input gradient; in
 * older files without I, a B beside a W of the same microbatch is the input gradient.
 */
#ifndef SC_SCHEDULES_CSV_H
#define SC_SCHEDULES_CSV_H

#include "schedules/validate.h"

/* Limits of a file, whatever it says. */
enum {
    SC_CSV_BYTES_MAX = 64 << 20,
    SC_CSV_ROWS_MAX = SC_STAGES_MAX,
    SC_CSV_CELLS_MAX = 1 << 22
};

typedef struct sc_csv_options {
    const char *path; // name of the file in messages
    bool is_legacy;   // the older dialect: B is the input gradient
} sc_csv_options;

/* Reads n bytes into a compute-only table that keeps every rule of validate.h. Every error reads
   "PATH:LINE:COLUMN: ..." (both from 1; columns count bytes). *report (may be NULL) is about the
   file's own cells, so for a file with communication, about its own placement of that. Cell numbers
   in messages count a row's actions from 0, idle cells and UNSHARD left out. Caller frees *out. */
sc_status sc_csv_read(const char *text, size_t n, const sc_csv_options *options, sc_table **out,
                      sc_validate_report *report, sc_err *err);

/* Any table as text that sc_csv_read takes; a compute-only one comes back equal. Without has_header
   the comment lines are left out, as PyTorch needs it; then SC_UNSUPPORTED where parameters are
   replicated, since only the comments can say so. malloc, caller frees. */
sc_status sc_csv_write(const sc_table *table, bool has_header, char **out, sc_err *err);

#endif
