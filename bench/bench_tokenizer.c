/*
 * bench_tokenizer - how fast a text becomes tokens and tokens become text.
 *
 * Usage: bench_tokenizer HF_FOLDER TEXT [REPEATS]     default: 5 repeats, the median is printed
 */
#include "formats/tokenizer_encode.h"
#include "formats/tokenizer_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PIECE_BYTES = 64 * 1024, // as `stagecoach data tokenize` reads
    REPEATS_MAX = 101
};

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The whole file; NULL when it cannot be read. */
static char *read_text(const char *path, size_t *n)
{
    FILE *file = fopen(path, "rbe");
    char *text = NULL;
    if (file != NULL && fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        text = size <= 0 || fseek(file, 0, SEEK_SET) != 0 ? NULL : malloc((size_t)size);
        *n = text == NULL ? 0 : fread(text, 1, (size_t)size, file);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

/* A text through a new encoder, so its cache is cold, in pieces; tokens has room for n. */
static sc_status encode_all(const sc_tokenizer *tokenizer, const char *text, size_t n,
                            int32_t *tokens, size_t *n_tokens, sc_err *err)
{
    sc_status status = SC_OK;
    sc_tokenizer_encode *encode = NULL;
    *n_tokens = 0;
    SC_GOTO(sc_tokenizer_encode_new(tokenizer, &encode, err));
    for (size_t at = 0; at < n; at += PIECE_BYTES) {
        const int32_t *piece = NULL;
        size_t n_piece = 0;
        size_t n_bytes = n - at < PIECE_BYTES ? n - at : PIECE_BYTES;
        SC_GOTO(sc_tokenizer_encode_push(encode, text + at, n_bytes, at + n_bytes == n, &piece,
                                         &n_piece, err));
        if (n_piece > 0) {
            memcpy(tokens + *n_tokens, piece, n_piece * sizeof *tokens);
            *n_tokens += n_piece;
        }
    }
out:
    sc_tokenizer_encode_free(&encode);
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_speed(const char *what, double *seconds, int n_repeats, size_t n_bytes)
{
    qsort(seconds, (size_t)n_repeats, sizeof *seconds, compare);
    double median = seconds[n_repeats / 2];
    printf("%-7s %8.1f ms %8.1f MB/s\n", what, 1e3 * median, 1e-6 * (double)n_bytes / median);
}

static sc_status measure(const sc_tokenizer *tokenizer, const char *text, size_t n, int n_repeats,
                         sc_err *err)
{
    double encode_s[REPEATS_MAX];
    double decode_s[REPEATS_MAX];
    sc_status status = SC_OK;
    size_t n_tokens = 0;
    int32_t *tokens = calloc(n, sizeof *tokens);
    char *back = NULL;
    if (tokens == NULL) {
        return sc_status_fail(err, SC_NO_MEMORY, "no memory for %zu tokens", n);
    }
    for (int i = 0; i < n_repeats; i++) {
        size_t n_back = 0;
        double start = now_s();
        SC_GOTO(encode_all(tokenizer, text, n, tokens, &n_tokens, err));
        double middle = now_s();
        SC_GOTO(sc_tokenizer_decode(tokenizer, tokens, n_tokens, &back, &n_back, err));
        decode_s[i] = now_s() - middle;
        encode_s[i] = middle - start;
        if (n_back != n || memcmp(back, text, n) != 0) {
            status = sc_status_fail(err, SC_FAILED, "the text does not come back");
            goto out;
        }
        free(back);
        back = NULL;
    }
    printf("vocabulary %d, %zu bytes, %zu tokens, %.2f bytes a token, median of %d\n",
           sc_tokenizer_vocab_size(tokenizer), n, n_tokens, (double)n / (double)n_tokens,
           n_repeats);
    print_speed("encode", encode_s, n_repeats, n);
    print_speed("decode", decode_s, n_repeats, n);
out:
    free(back);
    free(tokens);
    return status;
}

int main(int argc, char **argv)
{
    sc_err err = {0};
    sc_tokenizer *tokenizer = NULL;
    size_t n = 0;
    int n_repeats = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 5;
    if (argc < 3 || n_repeats < 1 || n_repeats > REPEATS_MAX) {
        (void)fprintf(stderr, "usage: bench_tokenizer HF_FOLDER TEXT [REPEATS 1..%d]\n",
                      REPEATS_MAX);
        return 2;
    }
    char *text = read_text(argv[2], &n);
    sc_status status = text == NULL
                           ? sc_status_fail(&err, SC_IO, "%s: cannot read, or empty", argv[2])
                           : sc_tokenizer_folder_load(argv[1], &tokenizer, &err);
    if (status == SC_OK) {
        status = measure(tokenizer, text, n, n_repeats, &err);
    }
    if (status != SC_OK) {
        (void)fprintf(stderr, "bench_tokenizer: %s\n", err.text);
    }
    sc_tokenizer_free(&tokenizer);
    free(text);
    return sc_status_exit_code(status);
}
