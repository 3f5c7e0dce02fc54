#include <stdio.h>
#include <stdlib.h>

#include "openduck/storage.h"

#include "base/banned.h"

static void from_environment(const char **option, const char *variable)
{
    if (*option == NULL)
        *option = getenv(variable); /* NOLINT(concurrency-mt-unsafe): nothing sets the environment */
}

void od_storage_options_from_environment(od_storage_options *options)
{
    if (options == NULL)
        return;
    from_environment(&options->directory, "OPENDUCK_DATA_DIR");
    from_environment(&options->postgres_url, "OPENDUCK_POSTGRES_URL");
    from_environment(&options->blob_url, "OPENDUCK_BLOB_URL");
    from_environment(&options->s3_endpoint, "AWS_ENDPOINT_URL_S3");
    from_environment(&options->s3_endpoint, "AWS_ENDPOINT_URL");
    from_environment(&options->s3_region, "AWS_REGION");
    from_environment(&options->s3_region, "AWS_DEFAULT_REGION");
    if (options->s3_key != NULL || options->s3_secret != NULL)
        return; /* the three belong together */
    from_environment(&options->s3_key, "AWS_ACCESS_KEY_ID");
    from_environment(&options->s3_secret, "AWS_SECRET_ACCESS_KEY");
    from_environment(&options->s3_session, "AWS_SESSION_TOKEN");
}

static od_storage_code refuse(od_storage_error *err, od_storage_code code, const char *why)
{
    if (err != NULL) {
        err->code = code;
        snprintf(err->message, sizeof err->message, "%s", why);
    }
    return code;
}

od_storage_code od_storage_default_directory(const char *home, char *out, size_t size, od_storage_error *err)
{
    if (out == NULL)
        return refuse(err, OD_STORAGE_INVALID, "NULL where something has to be given");
    from_environment(&home, "HOME");
    if (home == NULL || home[0] == '\0')
        return refuse(err, OD_STORAGE_NOT_FOUND, "there is no home directory");
    if ((size_t)snprintf(out, size, "%s/.openduck/data", home) >= size)
        return refuse(err, OD_STORAGE_INVALID, "the path of the home directory is too long");
    return OD_STORAGE_OK;
}
