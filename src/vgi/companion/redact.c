/* Passwords out of the texts that name a database: "host=h password=x", "postgres://user:x@host/db", "...?password=x". */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "vgi/companion.h"

static const char HIDDEN[] = "***";

/* Keys whose value is not shown, by their ends: sslpassword, aws_secret_access_key. */
static const char *const SECRET_ENDS[] = {
    "password",   "passwd",  "pwd",    "pass",        "token",     "secret", "secret_key",
    "access_key", "api_key", "apikey", "account_key", "signature", "sig",    "connection_string",
    "credential"};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* True if the word that ends before AT names a secret. */
static bool names_secret(const char *text, const char *at)
{
    const char *begin = at;

    while (begin > text && is_word(begin[-1]))
        begin--;
    for (size_t i = 0; i < sizeof(SECRET_ENDS) / sizeof(SECRET_ENDS[0]); i++) {
        size_t len = strlen(SECRET_ENDS[i]);

        if ((size_t)(at - begin) >= len && strncasecmp(at - len, SECRET_ENDS[i], len) == 0)
            return true;
    }
    return false;
}

/* The end of the value that begins at VALUE: of a quoted text, or up to what divides parameters. */
static const char *value_end(const char *value)
{
    char quote = *value;

    if (quote != '\'' && quote != '"')
        return value + strcspn(value, " \t\r\n&;");
    value++;
    while (*value != '\0' && *value != quote) {
        if (*value == '\\' && value[1] != '\0')
            value++;
        value++;
    }
    return *value == quote ? value + 1 : value;
}

/* AT is "://": the ':' and the '@' around the password of user:password@host, if it is there. */
static bool find_password(const char *at, const char **colon, const char **end)
{
    const char *begin = at + 3;
    size_t len = strcspn(begin, "/?# \t\r\n");
    const char *sign = NULL;

    /* The last '@': a password may hold one. */
    for (const char *c = begin; c < begin + len; c++) {
        if (*c == '@')
            sign = c;
    }
    if (!sign) {
        /* A password with a '/' in it is no valid URL, but it is a password. */
        sign = strchr(begin, '@');
    }
    *colon = sign ? memchr(begin, ':', (size_t)(sign - begin)) : NULL;
    *end = sign;
    return *colon != NULL;
}

od_code od_companion_redact(od_buf *out, const char *target, od_error *err)
{
    const char *done = target;
    const char *c = target;
    od_code rc = OD_OK;

    while (*c != '\0') {
        const char *begin = NULL;
        const char *end = NULL;

        if (strncmp(c, "://", 3) == 0 && find_password(c, &begin, &end)) {
            begin++;
        } else if (*c == '=') {
            const char *key = c;

            while (key > target && isspace((unsigned char)key[-1]))
                key--;
            if (names_secret(target, key)) {
                begin = c + 1 + strspn(c + 1, " \t\r\n");
                end = value_end(begin);
            }
        }
        if (!begin) {
            c++;
            continue;
        }
        OD_TRY(od_buf_append(out, done, (size_t)(begin - done), err));
        if (end > begin)
            OD_TRY(od_buf_append(out, HIDDEN, sizeof(HIDDEN) - 1, err));
        done = end;
        c = end;
    }
    OD_TRY(od_buf_append(out, done, strlen(done), err));

out:
    return rc;
}
