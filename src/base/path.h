/* base/path.h: file names that come from outside (a metadata row, a wire message), kept inside a directory.
 *
 * The check is on the text: a name is one or more components that go down, never up or sideways. Symbolic links are not
 * its business: open what may have been planted with O_NOFOLLOW. */
#ifndef OD_BASE_PATH_H
#define OD_BASE_PATH_H

#include "base/buf.h"

/* OD_E_INVALID unless NAME is relative and made of components that are neither empty, ".", nor "..", hold no NUL byte
 * or other control character, and are no longer than a file name may be (255 bytes). */
OD_MUST_CHECK od_code od_path_check(od_slice name, od_error *err);

/* Appends DIR, "/" and NAME to OUT, where a NUL follows that len does not count. DIR is trusted: "" is refused, and
 * trailing slashes do not matter. NAME passes od_path_check first. OUT is unchanged on failure.
 *   OD_E_INVALID    NAME would escape, or the whole is longer than a path may be (4,095 bytes) */
OD_MUST_CHECK od_code od_path_join(od_buf *out, const char *dir, od_slice name, od_error *err);

#endif
