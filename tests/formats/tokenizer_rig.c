#include "tests/formats/tokenizer_rig.h"

#include "tests/support/tmpdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char FOLDER[] = SC_SOURCE_DIR "/tests/golden/tokenizer";

sc_tokenizer_load_file sc_tokenizer_rig_read(const char *name)
{
    char *path = sc_tmpdir_path(FOLDER, name);
    sc_tokenizer_load_file file = {.name = name};
    file.text = sc_tmpdir_read(path, &file.n);
    free(path);
    return file;
}

sc_tokenizer *sc_tokenizer_rig_load(const char *name)
{
    sc_tokenizer_load_file file = sc_tokenizer_rig_read(name);
    sc_tokenizer *tokenizer = NULL;
    sc_err err = {0};
    if (sc_tokenizer_load_json(&file, &tokenizer, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    free((char *)file.text);
    return tokenizer;
}

sc_tokenizer *sc_tokenizer_rig_load_pair(void)
{
    sc_tokenizer_load_file vocab = sc_tokenizer_rig_read("vocab.json");
    sc_tokenizer_load_file merges = sc_tokenizer_rig_read("merges.txt");
    sc_tokenizer *tokenizer = NULL;
    sc_err err = {0};
    if (sc_tokenizer_load_pair(&vocab, &merges, &tokenizer, &err) != SC_OK) {
        fail_msg("%s", err.text);
    }
    free((char *)vocab.text);
    free((char *)merges.text);
    return tokenizer;
}

int32_t *sc_tokenizer_rig_encode_pieces(sc_tokenizer_encode *encode, const uint8_t *text, size_t n,
                                        size_t piece, size_t *n_out)
{
    int32_t *out = calloc(n + 1, sizeof *out);
    assert_non_null(out);
    *n_out = 0;
    for (size_t at = 0; at <= n; at += piece) {
        const int32_t *tokens = NULL;
        size_t n_tokens = 0;
        size_t n_piece = n - at < piece ? n - at : piece;
        bool is_last = at + piece > n;
        assert_int_equal(
            sc_tokenizer_encode_push(encode, text + at, n_piece, is_last, &tokens, &n_tokens, NULL),
            SC_OK);
        assert_true(*n_out + n_tokens <= n);
        if (n_tokens > 0) {
            memcpy(out + *n_out, tokens, n_tokens * sizeof *out);
        }
        *n_out += n_tokens;
    }
    return out;
}

int32_t *sc_tokenizer_rig_encode(const sc_tokenizer *tokenizer, const void *text, size_t n,
                                 size_t *n_out)
{
    sc_tokenizer_encode *encode = NULL;
    assert_int_equal(sc_tokenizer_encode_new(tokenizer, &encode, NULL), SC_OK);
    int32_t *out = sc_tokenizer_rig_encode_pieces(encode, text, n, n + 1, n_out);
    sc_tokenizer_encode_free(&encode);
    return out;
}
