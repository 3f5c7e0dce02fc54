/* base/options.h: what a command was told, by flag, environment variable or file.
 *
 * A flag beats the environment, the environment beats the --config file, the file beats the default. The table is
 * options.def. A list is replaced by what beats it, not added to. An environment variable that is empty counts as unset.
 *
 * A file holds lines of `name = value`; blank lines and lines that start with # are skipped; a value in "double quotes"
 * loses them, there are no escapes. Names that belong to other commands only are skipped, so that several programs can
 * share a file; unknown names are refused. The file is checked as a whole; a bad environment variable does not
 * matter when a flag beats it.
 *
 * Every bad value is OD_E_INVALID, and the message says which option, where it came from and what is allowed. The value
 * of a secret is in no message. */
#ifndef OD_BASE_OPTIONS_H
#define OD_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/secret.h"

/* One bit for each command. */
enum {
    OD_CMD_SERVE = 1 << 0,
    OD_CMD_GATEWAY = 1 << 1,
    OD_CMD_WORKER = 1 << 2,
    OD_CMD_QUERY = 1 << 3,
    OD_CMD_CANCEL = 1 << 4,
    OD_CMD_STATUS = 1 << 5,
    OD_CMD_SNAPSHOT = 1 << 6,
    OD_CMD_GC = 1 << 7,
    OD_CMD_STORAGE = 1 << 8,
    OD_CMD_VGI_SERVE = 1 << 9
};

/* OD_OPT_MAX_IN_FLIGHT and so on. */
typedef enum {
#define OD_OPTION(id, name, variable, type, fallback, min, max, reloadable, commands, value, help) OD_OPT_##id,
#include "base/options.def"
#undef OD_OPTION
    OD_OPT_COUNT
} od_option;

typedef struct od_options od_options;

typedef struct {
    const char *name;
    const char *value;
} od_option_pair;

/* Looks a variable up: getenv fits. */
typedef char *(*od_env_fn)(const char *name);

/* Reads the ARGC arguments of ARGV that follow the name of COMMAND (one OD_CMD_ bit), the environment (ENV may be NULL) and
 * the file. `--flag=value`, `--flag value`; a BOOL is `--flag` or `--flag=false`; after `--` all is positional. When
 * --help or -h is met, reading ends there with OD_OK and od_options_help_wanted. Everything is copied. On failure *out
 * is NULL:
 *   OD_E_INVALID                  wrong usage, or a bad value
 *   OD_E_NOT_FOUND, OD_E_IO, ...  the file cannot be read */
OD_MUST_CHECK od_code od_options_parse(unsigned command, int argc, char *const *argv, od_env_fn env, od_options **out,
                                       od_error *err);
void od_options_free(od_options *options);

bool od_options_help_wanted(const od_options *options);
/* Purpose, usage, options with default and variable, an example. */
void od_options_print_help(unsigned command, FILE *out);

/* One line for each command: name and purpose. */
void od_options_print_commands(FILE *out);

/* The bit of a command's name, 0 for an unknown one. */
unsigned od_command_find(const char *name);

/* Values. The getter must fit the option's type, and the option the command; else OD_BUG. All are borrowed from OPTIONS. */
const char *od_options_str(const od_options *options, od_option id); /* STRING, CHOICE; never NULL */
int64_t od_options_int(const od_options *options, od_option id);     /* INT */
int64_t od_options_ms(const od_options *options, od_option id);      /* DURATION */
size_t od_options_size(const od_options *options, od_option id);     /* SIZE */
bool od_options_bool(const od_options *options, od_option id);       /* BOOL */
const od_secret *od_options_secret(const od_options *options, od_option id);
const char *const *od_options_list(const od_options *options, od_option id, size_t *count);
/* Names are unique without regard to case, as DuckDB's are. */
const od_option_pair *od_options_pairs(const od_options *options, od_option id, size_t *count);

/* The positional arguments. */
const char *const *od_options_args(const od_options *options, size_t *count);

/* Whether anything but the default was given; where the value came from ("the command line"); for reloading, whether the
 * value is the same in both and may change in a running server. */
bool od_options_given(const od_options *options, od_option id);
const char *od_options_source(const od_options *options, od_option id);
bool od_options_same(const od_options *a, const od_options *b, od_option id);
bool od_option_reloadable(od_option id);
const char *od_option_name(od_option id); /* "max-in-flight" */

/* For what only the program can judge: fails with OD_E_INVALID as the parser does, naming option, value (not a
 * secret's) and source, then WHY: "an address is HOST:PORT". */
od_code od_options_reject(const od_options *options, od_option id, const char *why, od_error *err);

#endif
