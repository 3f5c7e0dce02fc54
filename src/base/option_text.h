/* base/option_text.h: the texts of numbers, durations, sizes and truth values, as options take them. */
#ifndef OD_BASE_OPTION_TEXT_H
#define OD_BASE_OPTION_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* All return false for anything but a whole, well-formed value that fits; *out is then unchanged. No blanks, no sign
 * but the minus of an int. */
bool od_text_int(const char *text, int64_t *out);
bool od_text_ms(const char *text, int64_t *out); /* "250", "250ms", "5s", "2m", "1h", "1d" */
bool od_text_bytes(const char *text,
                   int64_t *out);               /* "512", "512B", "4KiB", "64MiB", "1GiB", "1TiB", "1kB", "1MB", ... */
bool od_text_bool(const char *text, bool *out); /* true false on off yes no 1 0 */

#endif
