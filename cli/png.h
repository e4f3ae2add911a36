/*
 * png - a picture as PNG: rsvg-convert draws the SVG.
 */
#ifndef SC_CLI_PNG_H
#define SC_CLI_PNG_H

#include "base/status.h"

/* Writes the n bytes of SVG as PNG to a new or truncated file; "-" is standard output. Without
   rsvg-convert in PATH: SC_UNSUPPORTED. When it fails, nothing is written. Waits for its end. */
sc_status sc_png_write(const char *svg, size_t n, const char *path, sc_err *err);

#endif
