/*
 * fuzz_csv - any bytes as a schedule file, in both dialects: no crash, an error with a place or a
 * table that comes back equal from its own text.
 */
#include "schedules/csv.h"
#include "schedules/lower.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libFuzzer reports an abort with the input that led to it. */
static void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void check_round_trip(const sc_table *table)
{
    sc_table *lowered = NULL;
    require(sc_lower_table(table, &lowered, NULL) == SC_OK);
    require(sc_validate_table(lowered, NULL, NULL, NULL) == SC_OK);
    const sc_table *const written[] = {table, lowered};
    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        sc_table *back = NULL;
        sc_csv_options options = {.path = "f"};
        require(sc_csv_write(written[i], true, &text, NULL) == SC_OK);
        require(sc_csv_read(text, strlen(text), &options, &back, NULL, NULL) == SC_OK);
        require(sc_table_equals(table, back));
        sc_table_free(&back);
        free(text);
    }
    sc_table_free(&lowered);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int i = 0; i < 2; i++) {
        sc_csv_options options = {.path = "f", .is_legacy = i == 1};
        sc_table *table = NULL;
        sc_validate_report report;
        sc_err err = {0};
        sc_status status = sc_csv_read((const char *)data, size, &options, &table, &report, &err);
        require((status == SC_OK) == (table != NULL));
        if (table != NULL) {
            check_round_trip(table);
        } else {
            require(strncmp(err.text, "f:", 2) == 0 && strlen(err.text) > 6);
        }
        sc_table_free(&table);
    }
    return 0;
}
