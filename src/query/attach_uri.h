/* query/attach_uri.h: the text after "openduck:" in an ATTACH, taken apart.
 *
 *   DATABASE [ "?" KEY "=" VALUE { "&" KEY "=" VALUE } ]
 *
 * Keys: endpoint, token, secret (the name of a secret), snapshot (the id of one); in any case of letters, each at most once. DATABASE and values are
 * percent-decoded, so every character can be written; "+" stays a plus. Nothing is guessed: what is not understood is refused,
 * and no error repeats a value. */
#ifndef OD_QUERY_ATTACH_URI_H
#define OD_QUERY_ATTACH_URI_H

#include "base/buf.h"
#include "base/error.h"
#include "base/secret.h"

#define OD_ATTACH_URI_MAX ((size_t)64 * 1024)

typedef struct {
    char *database; /* never NULL after success; may be empty */
    char *endpoint; /* NULL: not given */
    char *secret;   /* NULL: not given */
    char *snapshot; /* NULL: not given */
    od_secret token;
    bool has_token; /* an empty token may be given on purpose */
} od_attach_uri;

/* Parses TEXT (without the prefix). OUT is zero-initialised by the call and owned by the caller after success.
 *   OD_E_INVALID   an unknown, repeated or nameless parameter; a bad percent escape; a control character
 *   OD_E_TOO_LARGE more than OD_ATTACH_URI_MAX bytes       OD_E_NO_MEMORY */
OD_MUST_CHECK od_code od_attach_uri_parse(od_slice text, od_attach_uri *out, od_error *err);
void od_attach_uri_release(od_attach_uri *uri); /* may be repeated; wipes the token */

#endif
