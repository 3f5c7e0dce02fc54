/* TLS of serve, gateway and worker. */
#include "cli/daemon.h"
#include "base/banned.h"

static const char *given(const od_options *options, od_option option)
{
    const char *text = od_options_str(options, option);

    return text[0] ? text : NULL;
}

od_code daemon_tls_open(const od_options *options, daemon_tls *tls, od_error *err)
{
    const od_tls_files files = {
        .cert = given(options, OD_OPT_TLS_CERT),
        .key = given(options, OD_OPT_TLS_KEY),
        .ca = given(options, OD_OPT_TLS_CLIENT_CA),
    };

    if (!files.cert && !files.key && !files.ca)
        return OD_OK;
    if (!files.cert || !files.key)
        return od_fail(err, OD_E_INVALID, "TLS needs --tls-cert and --tls-key");
    return od_tls_create_server(&files, &tls->server, err);
}

od_code daemon_tls_open_client(const od_options *options, daemon_tls *tls, od_error *err)
{
    const od_tls_files files = {
        .cert = given(options, OD_OPT_TLS_CERT),
        .key = given(options, OD_OPT_TLS_KEY),
        .ca = given(options, OD_OPT_TLS_CA),
    };

    return od_tls_create_client(&files, &tls->client, err);
}

od_code daemon_tls_reload(const daemon_tls *tls, od_error *err)
{
    od_code rc = tls->server ? od_tls_reload(tls->server, err) : OD_OK;

    if (rc == OD_OK && tls->client)
        rc = od_tls_reload(tls->client, err);
    return rc;
}

void daemon_tls_close(daemon_tls *tls)
{
    od_tls_unref(tls->server);
    od_tls_unref(tls->client);
    *tls = (daemon_tls){0};
}
