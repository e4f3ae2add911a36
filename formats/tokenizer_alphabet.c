#include "formats/tokenizer_alphabet.h"

#include "formats/tokenizer_utf8.h"

enum {
    N_SHIFTED = 68 // bytes that have no character of their own
};

/* What Latin-1 prints, without the space, the no-break space and the soft hyphen. */
static bool is_printed(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
}

/* The shifted bytes in rising order are 0-32, 127-160 and 173. */
static bool read_character(uint32_t cp, uint8_t *out)
{
    if (cp < 0x100) {
        *out = (uint8_t)cp;
        return is_printed(cp);
    }
    uint32_t rank = cp - 0x100;
    if (rank >= N_SHIFTED) {
        return false;
    }
    *out = (uint8_t)(rank <= 32 ? rank : rank <= 66 ? rank - 33 + 127 : 173);
    return true;
}

bool sc_tokenizer_alphabet_decode(const char *text, size_t n, uint8_t *out, size_t *n_out)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t used = 0;
    *n_out = 0;
    while (used < n) {
        uint32_t cp = 0;
        size_t length = sc_tokenizer_utf8_get(p + used, n - used, &cp);
        if (length == 0 || !read_character(cp, &out[*n_out])) {
            return false;
        }
        used += length;
        (*n_out)++;
    }
    return true;
}
