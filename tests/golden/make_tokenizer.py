#!/usr/bin/env python3
"""Writes the golden files of the tokenizer's tests: a small byte-level BPE, texts, their tokens.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 regex
    venv/bin/python tests/golden/make_tokenizer.py tests/golden/tokenizer

Hugging Face's `tokenizers` trains the vocabulary on the texts below and says what the tokens are:

    vocab.json merges.txt   the pair of files; <|endoftext|> is token 0
    tokenizer.json          the same in one file, merges as ["a", "b"]
    added.json              the same with merges as "a b" and more added tokens
    classes.bin             every code point's class by the library's regular expression
    cases.bin               texts, their words, their tokens

classes.bin: records of three little-endian uint32: first and last code point, class: 1 letter,
2 number, 3 space. What is in none is of class 0.
cases.bin: 8 bytes "SCTOKG1\\0", then cases to the end: one byte, 'g' for GPT-2's files or 'a' for
added.json; uint32 number of bytes, the bytes; uint32 number of words (0: not told), their lengths
as uint16; uint32 number of tokens, the tokens as uint16.

The library takes text, not bytes. For texts that are not UTF-8, Python's `regex` cuts the words,
each stray byte being a lone surrogate, which is neither letter nor number nor space, and the
library's model merges each word's bytes.
"""

import json
import os
import random
import struct
import sys

import regex
import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

VOCAB_SIZE = 1300
END = "<|endoftext|>"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

TEXTS = [
    "The coach stops at every stage, and the horses are changed while the guests drink their tea.",
    "We're sure it's theirs; they'd said I'm late, she'll wait, you've won, don't they? 'Tis so.",
    "IT'S LOUD, WE'RE DONE, THEY'LL SEE. 'sleep 'til 'd'you 's't're rock'n'roll o''clock",
    "Ein Müßiggänger fährt über Gräben; le garçon naïf déjà vu à Noël; el niño pingüino ¿cómo?",
    "Zażółć gęślą jaźń. Příliš žluťoučký kůň. Ţară frumoasă. İstanbul'da ılık çay. Þór æsir œuvre.",
    "Cafe\u0301 with a combining accent, e\u0302\u0323 stacked, n\u0303 tilde, Z\u0335\u0321a\u0334lgo.",
    "Tiếng Việt có nhiều dấu thanh, đường phố đông người.",
    "Η άμαξα σταματά σε κάθε σταθμό. Ἐν ἀρχῇ ἦν ὁ λόγος. ΩΔΣ ςσ",
    "Почтовая карета едет через лес, а кони устали. Їжак ґанок ўсё љубав Ђорђе",
    "العربة تقف في كل محطة، والخيول تتعب. مَرْحَبًا ١٢٣٤٥ ـــ گچپژ ۱۲۳۴",
    "העגלה עוצרת בכל תחנה, והסוסים עייפים. שָׁלוֹם ״כן״",
    "गाड़ी हर पड़ाव पर रुकती है। घोड़े थक गए हैं १२३४ क्षत्रिय ज्ञान श्री",
    "গাড়ি থামে ১২৩। ਗੱਡੀ ਰੁਕਦੀ ੧੨। ગાડી ૧૨૩. வண்டி நிற்கிறது ௧௨௰. బండి ౧౨. ಗಾಡಿ ೧೨. വണ്ടി ൧൨.",
    "รถม้าหยุดทุกสถานี ม้าเหนื่อยมาก ๑๒๓๔ ລົດ ໑໒ မြန်မာ ၁၂ ខ្មែរ ១២ བོད་ཡིག ༡༢",
    "驛馬車在每一站停下,馬匹很疲倦。駅馬車は毎駅で止まります。カタカナ ひらがな ー々〆 〇一二三",
    "역마차는 모든 역에서 멈춘다. 말들이 지쳤다. 한글 ㄱㄴㄷ \u1112\u1161\u11ab",
    "ქართული ენა. Հայերեն լեզու. አማርኛ ፩፪፫. ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ ᠮᠣᠩᠭᠣᠯ ᠑᠒ ⵜⵉⴼⵉⵏⴰⵖ",
    "𐌰𐌱 𓀀𓀁 𒀀𒐕 𝐇𝐞𝐥𝐥𝐨 𝟘𝟙𝟚 𠀀𠀁 𞤀𞥐 𑄶𑄷 𐏑 𞲀",
    "Smile 😀😃 👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 👍🏽 thumb, 🇪🇺🇯🇵 flags, 1️⃣ key, ❤️ heart ☺ ©®™",
    "½ ¼ ¾ ² ³ ¹ ₀₁₂ ⅷ Ⅻ ① ⑳ ㉈ ㊿ ௰ ፼ ᛮ 〇 〡〢 Ⅽ 12345 3.14159 1,000,000 0x7f 1e-9 ٠٫٥",
    "one two  three   four    five\ttab\t\ttabs \t mixed\n\n\nlines\r\n\r\nwindows \n  indent\n",
    "no\u00a0break\u00a0\u00a0twice thin\u2009space em\u2003\u2003space ideographic\u3000\u3000\u3000space",
    "zero\u200bwidth join\u200der mark\ufeffhere line\u2028sep para\u2029sep next\u0085line\u1680ogham",
    "math ∀x∈ℝ: ∑ᵢ xᵢ² ≤ ∞ ⊂⊆ ∮ → ⇒ ± × ÷ √2 € £ ¥ ₹ ₿ ‰ § ¶ † ‡ • … – — ‘’ “” «»",
    "#include <stdio.h>\nint main(void)\n{\n    for (int i = 0; i < 10; i++) {\n        "
    "printf(\"%d\\n\", i);\n    }\n\treturn 0;\n}\n",
    "def f(x):\n    return {'a': [1, 2], \"b\": x ** 2}  # square\n\n\nclass A(B):\n    pass\n",
    "https://example.org/a_b/c-d?e=f&g=h%20i#j user@example.org snake_case CamelCase kebab-case",
    "\x00\x01\x02\x1b[0m\x7f\x80\x9f controls \x0b\x0c\x1c\x1d\x1e\x1f ends",
    "\ue000 private \U000f0000 \ufffd \ufffe \uffff \U0010ffff \u0378 unassigned",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbb ========"
    "================ ---------- ........ !!!???!!! ((((()))))",
]

SHORT = ["", " ", "  ", "\n", "\n\n", " \n", "\n ", "a", " a", "  a", "   a", "a ", "a  ", "\ta",
         "\t\ta", " \ta", "\t a", "\u3000a", "\u3000\u3000a", " \u3000a", "\u3000 a", "'", "''", "'s",
         "'S", "''s", "'re", "'r", "'l", "'ll", "'lll", " 's", "a's", "1's", "'s1", "'sa", "'da",
         "'ve't", "1a", "a1", "a1!", "!1a", " 1", " !", "  1", "  !", "\u00a0a", "\u00a01", "\u00a0!",
         "\u0301", "a\u0301b", " \u0301", "\u0e01\u0e31", "\U0001f600\ufe0f", "\u00adx", "\ufeffx"]

BROKEN = [b"\x80", b"\xff\xfe", b"a\x80b", b"\xc3", b"\xc3(", b" \xc3", b"\xe2\x82", b"\xe2\x82 x",
          b"\xf0\x9f\x98", b"\xf0\x9f\x98a", b"\xc0\xaf", b"\xe0\x80\x80", b"\xed\xa0\x80",
          b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"caf\xe9 na\xefve", b"1\xb2 \xa0x\xa0 \xa0",
          b"a\xe0\x82\xa0b", b"1\xe0\x81\x81\xf0\x80\x80\xa01",
          b"'\xe2s", b"  \xff  \xff\n\xff", b"\xe3\x80\x80\xe3\x80",
          b"\xe3\x80\xe3\x80\x80x"]

ADDED = [("<|pad|>", True), ("<|pad|>!", True), ("<|", True), ("|>", False), ("to be", False),
         ("to be or", False), ("\u2603", False), ("<|ende\u00e9|>", True), (" ", False)]
ADDED_TEXTS = ["<|pad|>", "a<|pad|>b", "<|pad|>!<|pad|>", "<|pad|><|endoftext|>", "<|<||>|>",
               "<|endoftext", "x  <|endoftext|>  y", "to be or not to be", "into be orto beor",
               "\u2603\u2603 snow \u2603man", "<|ende\u00e9|> <|ende\u00e8|>", "it<|pad|>'s", "<|p|>",
               "no  added   one", "<|endoftext|><|endoftext|>", "||>>", "<<||pad|>|>"]


def train():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(TEXTS * 3, trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=[END], min_frequency=2, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tok


def write_added(tok, path):
    """With the older spelling of merges, which the library still reads."""
    tok.add_special_tokens([AddedToken(t, normalized=False) for t, special in ADDED if special])
    tok.add_tokens([AddedToken(t, normalized=True) for t, special in ADDED if not special])
    root = json.loads(tok.to_str())
    root["model"]["merges"] = [" ".join(pair) for pair in root["model"]["merges"]]
    with open(path, "w", encoding="utf-8") as out:
        json.dump(root, out, ensure_ascii=True, separators=(",", ":"))
    return Tokenizer.from_file(path)


def pieces():
    """What random texts are made of: characters and runs that meet in every order."""
    words = [w for text in TEXTS for w in text.split(" ")]
    spaces = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2003", "\u0085", " \n "]
    signs = ["'", "'s", "'ll", "!", "...", "\u0301", "\u200d", "\U0001f600", "\u0e31", "\u093e"]
    digits = ["1", "23", "\u0661", "\u0967", "\u00bd", "\u2167", "\u4e00", "\U0001d7d8"]
    return [words, spaces, signs, digits]


def random_texts(rng, n, kinds):
    for _ in range(n):
        yield "".join(rng.choice(rng.choice(kinds)) for _ in range(rng.randint(2, 14)))


def random_characters(rng, n):
    for _ in range(n):
        chars = [rng.randrange(0x110000 if rng.random() < 0.3 else 0x3000) for _ in range(20)]
        yield "".join(chr(c) for c in chars if not 0xD800 <= c < 0xE000)


def words_of(split, text):
    return [len(text[a:b].encode()) for _, (a, b) in split.pre_tokenize_str(text)]


def alphabet():
    """Byte to character, as GPT-2's encoder.py defines it."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    chars = {b: chr(b) for b in own}
    for b in range(256):
        if b not in chars:
            chars[b] = chr(0x100 + len(chars) - len(own))
    return chars


def encode_bytes(tok, data):
    chars = alphabet()
    words, ids = [], []
    for word in regex.findall(GPT2, data.decode("utf-8", "surrogateescape")):
        raw = word.encode("utf-8", "surrogateescape")
        words.append(len(raw))
        ids += [t.id for t in tok.model.tokenize("".join(chars[b] for b in raw))]
    assert sum(words) == len(data)
    return words, ids


def write_case(out, kind, data, words, ids):
    out.write(kind + struct.pack("<I", len(data)) + data)
    out.write(struct.pack(f"<I{len(words)}H", len(words), *words))
    out.write(struct.pack(f"<I{len(ids)}H", len(ids), *ids))


def class_of(split, char):
    for kind, mate in ((1, "a"), (2, "1"), (0, "!")):
        if len(split.pre_tokenize_str(mate + char)) == 1:
            return kind
    return 3


def write_classes(split, path):
    ranges = []
    for cp in range(0x110000):
        kind = 0 if 0xD800 <= cp < 0xE000 else class_of(split, chr(cp))
        if ranges and ranges[-1][2] == kind:
            ranges[-1][1] = cp
        else:
            ranges.append([cp, cp, kind])
    with open(path, "wb") as out:
        for first, last, kind in ranges:
            if kind != 0:
                out.write(struct.pack("<III", first, last, kind))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    tok = train()
    tok.model.save(folder)
    tok.save(os.path.join(folder, "tokenizer.json"), pretty=False)
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    write_classes(split, os.path.join(folder, "classes.bin"))
    rng = random.Random(20)
    texts = TEXTS + SHORT + [*random_texts(rng, 150, pieces())] + [*random_characters(rng, 40)]
    broken = BROKEN + [bytes(rng.randrange(256) for _ in range(40)) for _ in range(20)]
    with open(os.path.join(folder, "cases.bin"), "wb") as out:
        out.write(b"SCTOKG1\0")
        for text in texts:
            write_case(out, b"g", text.encode(), words_of(split, text), tok.encode(text).ids)
        for data in broken:
            words, ids = encode_bytes(tok, data)
            write_case(out, b"g", data, words, ids)
        for text in (f"a{END}b", f"{END}", f" {END} ", f"x{END}{END}\n", END[:-1], f"it{END}'s"):
            write_case(out, b"g", text.encode(), [], tok.encode(text).ids)
        added = write_added(tok, os.path.join(folder, "added.json"))
        kinds = [*pieces(), [t for t, _ in ADDED] + [END]]
        for text in ADDED_TEXTS + [*random_texts(rng, 80, kinds)]:
            write_case(out, b"a", text.encode(), [], added.encode(text).ids)
    print(f"tokenizers {tokenizers.__version__}, {tok.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
