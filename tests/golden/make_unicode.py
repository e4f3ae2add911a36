#!/usr/bin/env python3
"""Writes formats/tokenizer_unicode.c: letters, numbers and white space as sorted ranges.

    python3 -m venv venv && venv/bin/pip install unicodedata2==16.0.0 tokenizers==0.23.3
    venv/bin/python tests/golden/make_unicode.py formats/tokenizer_unicode.c
    clang-format -i formats/tokenizer_unicode.c

Unicode 16.0 is what Hugging Face's tokenizers 0.23 takes for its regular expressions: before it
writes, the script asks that library about every code point, and fails when a single one differs.
"""

import sys

import tokenizers
import unicodedata2

SPACE = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
         0x202F, 0x205F, 0x3000}  # PropList.txt, White_Space


def class_of(cp):
    if cp in SPACE:
        return "S"
    major = unicodedata2.category(chr(cp))[0]
    return major if major in "LN" else "O"


def class_by_library(split, char):
    """What the pre-tokenizer takes the character for: it joins its own kind."""
    for kind, mate in (("L", "a"), ("N", "1"), ("O", "!")):
        if len(split.pre_tokenize_str(mate + char)) == 1:
            return kind
    return "S"


def check_against_library():
    split = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    for cp in range(0x110000):
        if not 0xD800 <= cp < 0xE000:
            ours, theirs = class_of(cp), class_by_library(split, chr(cp))
            if ours != theirs:
                sys.exit(f"U+{cp:04X}: Unicode says {ours}, the library {theirs}")


def make_ranges():
    ranges = []
    for cp in range(0x110000):
        kind = class_of(cp)
        if kind == "O":
            continue
        if ranges and ranges[-1][1] == cp - 1 and ranges[-1][2] == kind:
            ranges[-1][1] = cp
        else:
            ranges.append([cp, cp, kind])
    return ranges


def main():
    check_against_library()
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write(f"""/* Made by tests/golden/make_unicode.py from Unicode {unicodedata2.unidata_version}; do not edit. */
#include "formats/tokenizer_unicode.h"

#define L(first, last) {{first, SC_TOKENIZER_UNICODE_LETTER, last}}
#define N(first, last) {{first, SC_TOKENIZER_UNICODE_NUMBER, last}}
#define S(first, last) {{first, SC_TOKENIZER_UNICODE_SPACE, last}}

const sc_tokenizer_unicode_range sc_tokenizer_unicode_ranges[] = {{
""")
        items = [f"{kind}(0x{first:x}, 0x{last:x})" for first, last, kind in make_ranges()]
        out.write(", ".join(items))
        out.write("""
};

const size_t sc_tokenizer_unicode_n_ranges =
    sizeof sc_tokenizer_unicode_ranges / sizeof sc_tokenizer_unicode_ranges[0];
""")


if __name__ == "__main__":
    main()
