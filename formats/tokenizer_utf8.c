#include "formats/tokenizer_utf8.h"

/* Bytes that a lead byte asks for, 0 for a byte that cannot lead, and its share of the code point.
 */
static size_t read_lead(uint8_t lead, uint32_t *cp)
{
    if (lead < 0x80) {
        *cp = lead;
        return 1;
    }
    if (lead >= 0xc2 && lead < 0xe0) {
        *cp = lead & 0x1fU;
        return 2;
    }
    if (lead >= 0xe0 && lead < 0xf0) {
        *cp = lead & 0x0fU;
        return 3;
    }
    if (lead >= 0xf0 && lead < 0xf5) {
        *cp = lead & 0x07U;
        return 4;
    }
    return 0;
}

size_t sc_tokenizer_utf8_get(const uint8_t *p, size_t n, uint32_t *out)
{
    static const uint32_t SMALLEST[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t cp = 0;
    size_t length = n == 0 ? 0 : read_lead(p[0], &cp);
    if (length > n) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        cp = cp << 6 | (p[i] & 0x3fU);
    }
    if (length == 0 || cp < SMALLEST[length] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
        return 0;
    }
    *out = cp;
    return length;
}
