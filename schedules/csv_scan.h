/*
 * csv_scan - the lines of a CSV file: comments with keys, rows with cells, and where each stands.
 *
 * Owns:     its lists; sc_csv_scan_done gives them back.
 * Does not: know what a schedule is beyond the text of a cell (csv does).
 */
#ifndef SC_SCHEDULES_CSV_SCAN_H
#define SC_SCHEDULES_CSV_SCAN_H

#include "schedules/action.h"

typedef struct sc_csv_cell {
    sc_action action;
    int rank;   // row
    int line;   // from 1
    int column; // from 1, of the first byte
} sc_csv_cell;

/* "# key: value"; number is -1 and line 0 where the key is not in the file. */
typedef struct sc_csv_key {
    int number;
    int line;
    int column; // of the value
} sc_csv_key;

typedef struct sc_csv_scan {
    sc_csv_cell *cells; // (n_cells) in row order
    size_t n_cells;
    size_t capacity;
    int *row_lines; // (n_rows)
    int n_rows;
    int row_capacity;
    sc_csv_key version;
    sc_csv_key p;
    sc_csv_key stages;
    sc_csv_key m;
    sc_csv_key placement; // number: count of ranks listed
    int *placement_ranks; // (placement.number)
    sc_csv_key odd_placement;
    int *odd_placement_ranks; // (odd_placement.number)
    char name[48];            // "" when not in the file
} sc_csv_scan;

/* Reads the whole text. Errors read "PATH:LINE:COLUMN: ...". *out needs sc_csv_scan_done whatever
   comes back. */
sc_status sc_csv_scan_run(const char *text, size_t n, const char *path, sc_csv_scan *out,
                          sc_err *err);
/* Accepts a zeroed one. */
void sc_csv_scan_done(sc_csv_scan *scan);

#endif
