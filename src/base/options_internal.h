/* base/options_internal.h: rows and values, for the files that make up base/options.h:
 * options_table.c (the rows, help), options_value.c (text to value), options_file.c, options.c (the rest). */
#ifndef OD_BASE_OPTIONS_INTERNAL_H
#define OD_BASE_OPTIONS_INTERNAL_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/options.h"

typedef enum {
    OD_TYPE_STRING,
    OD_TYPE_INT,
    OD_TYPE_DURATION,
    OD_TYPE_SIZE,
    OD_TYPE_BOOL,
    OD_TYPE_CHOICE,
    OD_TYPE_LIST,
    OD_TYPE_PAIRS,
    OD_TYPE_SECRET
} od_option_type;

typedef struct {
    const char *name;
    const char *variable;
    const char *fallback;
    const char *min;
    const char *max;
    const char *value;
    const char *help;
    od_option_type type;
    unsigned commands;
    bool reloadable;
} od_option_row;

typedef struct {
    unsigned bit;
    int least;
    int most; /* OD_ANY_NUMBER */
    const char *name;
    const char *arguments;
    const char *purpose;
    const char *example;
} od_command_row;

#define OD_ANY_NUMBER (-1)
#define OD_ALL_COMMANDS (~0U)

/* Where a value comes from; the higher beats the lower. */
typedef enum { OD_LEVEL_DEFAULT, OD_LEVEL_FILE, OD_LEVEL_VARIABLE, OD_LEVEL_FLAG } od_option_level;

typedef struct {
    od_option_level level;
    char *source;
    char *text;            /* STRING, CHOICE */
    int64_t number;        /* INT, DURATION, SIZE, BOOL */
    od_secret secret;      /* SECRET */
    char **items;          /* LIST; PAIRS: each NAME, a NUL, PATH */
    od_option_pair *pairs; /* PAIRS: pointers into items */
    size_t count;
} od_option_value;

struct od_options {
    unsigned command;
    bool help_wanted;
    char **args;
    size_t arg_count;
    od_option_value values[OD_OPT_COUNT];
};

const od_option_row *od_option_row_of(od_option id);
const od_command_row *od_command_row_of(unsigned command); /* one bit */

/* The row called NAME that one of COMMANDS takes; OD_OPT_COUNT for none. ALIASES: second names count too. */
od_option od_option_find(unsigned commands, od_slice name, bool aliases);

/* The name that COMMANDS take and that NAME looks like; NULL for none. */
const char *od_option_suggest(unsigned commands, od_slice name);

/* Writes the commands that take an option called NAME into OUT, "serve, worker"; "" for none. */
const char *od_option_takers(od_slice name, char *out, size_t size);

/* Writes what values ROW allows, "allowed are 1 to 64", into OUT. */
const char *od_option_allowed(const od_option_row *row, char *out, size_t size);

/* Gives ID the value that TEXT stands for, or adds to a list of the same LEVEL. Levels come in rising order. After a
 * failure the value is good for od_option_value_release only. */
OD_MUST_CHECK od_code od_option_value_set(od_options *options, od_option id, od_option_level level, const char *source,
                                          const char *text, od_error *err);
void od_option_value_release(od_option_value *value);

/* Takes the options that the file PATH gives. */
OD_MUST_CHECK od_code od_options_take_file(od_options *options, const char *path, od_error *err);

od_code od_options_no_memory(od_error *err);
/* TEXT without the blanks around it. */
od_slice od_option_trim(od_slice text);

#endif
