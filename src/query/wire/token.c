#include "query/wire.h"

#include "base/banned.h"

const char *od_token_refusal(const od_secret *expected, od_slice given)
{
    if (!expected || expected->len == 0)
        return NULL;
    if (given.len == 0)
        return "access_token required when OPENDUCK_TOKEN is set";
    return od_secret_equal(expected, given) ? NULL : "invalid access_token";
}
