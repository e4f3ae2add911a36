#include "cli/cmd.h"
#include "cli/tokeninfo.h"
#include "cli/tokenize.h"
#include "formats/tokenizer_load.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_JSON = 0x200,
    KEY_FORCE,
    KEY_FORMAT,
    KEY_TOKENIZER
};

typedef enum data_verb {
    NO_VERB,
    TOKENIZE,
    INFO
} data_verb;

typedef struct data_args {
    data_verb verb;
    const char **files; // (n_files), as many as there are arguments
    size_t n_files;
    const char *out;
    const char *tokenizer; // folder, NULL: bytes are tokens
    sc_tokens_format format;
    bool has_format;
    bool is_json;
    bool is_forced;
} data_args;

static const struct argp_option OPTIONS[] = {
    {"output", 'o', "OUT.bin", 0, "tokenize: the token file to write", 0},
    {"force", KEY_FORCE, NULL, 0, "tokenize: replace a file that is there", 0},
    {"tokenizer", KEY_TOKENIZER, "HF_FOLDER", 0,
     "folder with a GPT-2 tokenizer: tokenizer.json, or vocab.json and merges.txt", 0},
    {"format", KEY_FORMAT, "FORMAT", 0, "info: llmc, raw16 or auto (default: auto)", 0},
    {"json", KEY_JSON, NULL, 0, "info: print JSON", 0},
    {0},
};

static void take_argument(struct argp_state *state, data_args *args, const char *text)
{
    if (args->verb != NO_VERB) {
        args->files[args->n_files++] = text;
    } else if (strcmp(text, "tokenize") == 0) {
        args->verb = TOKENIZE;
    } else if (strcmp(text, "info") == 0) {
        args->verb = INFO;
    } else {
        argp_error(state, "unknown word '%s'; say tokenize or info", text);
    }
}

/* Everything there that the verb needs, and nothing that it would ignore. */
static void check_complete(struct argp_state *state, const data_args *args)
{
    switch (args->verb) {
    case NO_VERB:
        argp_error(state, "say tokenize or info");
        break;
    case TOKENIZE:
        if (args->n_files == 0) {
            argp_error(state, "tokenize needs a text file, or - for standard input");
        } else if (args->out == NULL) {
            argp_error(state, "tokenize needs the file to write, as in -o data/kjv.bin");
        } else if (strcmp(args->out, "-") == 0) {
            argp_error(state, "-o -: the header is written last, so name a file");
        } else if (args->is_json || args->has_format) {
            argp_error(state, "--json and --format go with info");
        }
        break;
    case INFO:
        if (args->n_files != 1) {
            argp_error(state, "info needs one token file");
        } else if (args->out != NULL || args->is_forced) {
            argp_error(state, "-o and --force go with tokenize");
        }
        break;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    data_args *args = state->input;
    switch (key) {
    case 'o':
        args->out = arg;
        return 0;
    case KEY_FORCE:
        args->is_forced = true;
        return 0;
    case KEY_JSON:
        args->is_json = true;
        return 0;
    case KEY_TOKENIZER:
        args->tokenizer = arg;
        return 0;
    case KEY_FORMAT:
        args->has_format = true;
        if (!sc_tokens_format_parse(arg, &args->format)) {
            argp_error(state, "--format: '%s' is not known; say llmc, raw16 or auto", arg);
        }
        return 0;
    case ARGP_KEY_ARG:
        take_argument(state, args, arg);
        return 0;
    case ARGP_KEY_END:
        check_complete(state, args);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static sc_status run_tokenize(const data_args *args, const sc_tokenizer *tokenizer, sc_err *err)
{
    uint64_t n_tokens = 0;
    SC_TRY(sc_tokenize_files(args->files, args->n_files, args->out, args->is_forced, tokenizer,
                             &n_tokens, err));
    if (tokenizer == NULL) {
        (void)printf("%s: %" PRIu64 " tokens, one a byte, vocabulary 256\n", args->out, n_tokens);
    } else {
        (void)printf("%s: %" PRIu64 " tokens, vocabulary %d\n", args->out, n_tokens,
                     sc_tokenizer_vocab_size(tokenizer));
    }
    return SC_OK;
}

static sc_status run_info(const data_args *args, const sc_tokenizer *tokenizer, sc_err *err)
{
    sc_tokeninfo info;
    SC_TRY(sc_tokeninfo_read(args->files[0], args->format, tokenizer, &info, err));
    if (args->is_json) {
        return sc_tokeninfo_print_json(&info, err);
    }
    sc_tokeninfo_print(&info);
    return SC_OK;
}

static sc_status run(const data_args *args, sc_err *err)
{
    sc_tokenizer *tokenizer = NULL;
    if (args->tokenizer != NULL) {
        SC_TRY(sc_tokenizer_folder_load(args->tokenizer, &tokenizer, err));
    }
    sc_status status = args->verb == TOKENIZE ? run_tokenize(args, tokenizer, err)
                                              : run_info(args, tokenizer, err);
    sc_tokenizer_free(&tokenizer);
    return status;
}

int sc_cmd_data_main(int argc, char **argv)
{
    const struct argp argp = {
        .options = OPTIONS,
        .parser = parse,
        .args_doc = "tokenize TEXT... -o OUT.bin\ninfo FILE.bin",
        .doc = "Makes token files and shows what is in them."
               "\v`tokenize' makes every byte of the texts a token: the vocabulary is 256. With "
               "--tokenizer, GPT-2's byte-level BPE of that folder makes the tokens, each text by "
               "itself. The file has llm.c's header (magic 20240520) and uint16 tokens. `info "
               "--tokenizer' shows the tokens as text.",
    };
    sc_err err = {0};
    data_args args = {.format = SC_TOKENS_AUTO};
    args.files = calloc((size_t)argc, sizeof *args.files);
    if (args.files == NULL) {
        (void)sc_status_fail(&err, SC_NO_MEMORY, "out of memory");
        return sc_cmd_fail(&err);
    }
    sc_status status = SC_OK;
    if (argp_parse(&argp, argc, argv, 0, NULL, &args) != 0) {
        status = sc_status_fail(&err, SC_FAILED, "cannot read the arguments");
    } else {
        status = run(&args, &err);
    }
    free(args.files);
    return status == SC_OK ? 0 : sc_cmd_fail(&err);
}
