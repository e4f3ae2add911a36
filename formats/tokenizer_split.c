#include "formats/tokenizer_split.h"

#include "formats/tokenizer_unicode.h"
#include "formats/tokenizer_utf8.h"

/* One character: its class and its bytes, 0 at the end of the text. */
typedef struct character {
    sc_tokenizer_unicode_class kind;
    size_t n_bytes;
} character;

static sc_tokenizer_unicode_class classify(uint32_t cp)
{
    size_t low = 0;
    size_t high = sc_tokenizer_unicode_n_ranges;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const sc_tokenizer_unicode_range *range = &sc_tokenizer_unicode_ranges[middle];
        if (cp > range->last) {
            low = middle + 1;
        } else if (cp < range->first) {
            high = middle;
        } else {
            return (sc_tokenizer_unicode_class)range->kind;
        }
    }
    return SC_TOKENIZER_UNICODE_OTHER;
}

static sc_tokenizer_unicode_class classify_ascii(uint8_t c)
{
    uint8_t lower = c | 0x20;
    if (lower >= 'a' && lower <= 'z') {
        return SC_TOKENIZER_UNICODE_LETTER;
    }
    if (c >= '0' && c <= '9') {
        return SC_TOKENIZER_UNICODE_NUMBER;
    }
    return c == ' ' || (c >= '\t' && c <= '\r') ? SC_TOKENIZER_UNICODE_SPACE
                                                : SC_TOKENIZER_UNICODE_OTHER;
}

static character read_at(const uint8_t *p, size_t n, size_t at)
{
    if (at >= n) {
        return (character){SC_TOKENIZER_UNICODE_OTHER, 0};
    }
    if (p[at] < 0x80) {
        return (character){classify_ascii(p[at]), 1};
    }
    uint32_t cp = 0;
    size_t n_bytes = sc_tokenizer_utf8_get(p + at, n - at, &cp);
    if (n_bytes == 0) {
        return (character){SC_TOKENIZER_UNICODE_OTHER, 1};
    }
    return (character){classify(cp), n_bytes};
}

/* Bytes of 's 't 're 've 'm 'll 'd at p, 0 when none is there. */
static size_t match_contraction(const uint8_t *p, size_t n)
{
    if (n < 2 || p[0] != '\'') {
        return 0;
    }
    if (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd') {
        return 2;
    }
    if (n >= 3 && ((p[2] == 'e' && (p[1] == 'r' || p[1] == 'v')) || (p[1] == 'l' && p[2] == 'l'))) {
        return 3;
    }
    return 0;
}

/* A run of spaces, with what follows it: all of it at the text's end; otherwise without its last
   character, which is left to the word behind, unless it is the only one. */
static size_t match_spaces(const uint8_t *p, size_t n)
{
    size_t end = 0;
    size_t before_last = 0;
    character c = read_at(p, n, 0);
    while (c.n_bytes > 0 && c.kind == SC_TOKENIZER_UNICODE_SPACE) {
        before_last = end;
        end += c.n_bytes;
        c = read_at(p, n, end);
    }
    return c.n_bytes == 0 || before_last == 0 ? end : before_last;
}

size_t sc_tokenizer_split_next(const uint8_t *p, size_t n)
{
    size_t end = match_contraction(p, n);
    if (end > 0) {
        return end;
    }
    end = p[0] == ' ' ? 1 : 0;
    character c = read_at(p, n, end);
    if (c.n_bytes == 0 || c.kind == SC_TOKENIZER_UNICODE_SPACE) {
        return match_spaces(p, n);
    }
    sc_tokenizer_unicode_class kind = c.kind;
    while (c.n_bytes > 0 && c.kind == kind) {
        end += c.n_bytes;
        c = read_at(p, n, end);
    }
    return end;
}
