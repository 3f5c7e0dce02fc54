/* openduck cancel ID: stops a running execution. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/json.h"
#include "base/banned.h"

int command_cancel(const od_options *options)
{
    size_t count;
    const char *id = od_options_args(options, &count)[0];
    const od_remote_options wanted = {.cancel_timeout_ms = od_options_ms(options, OD_OPT_CANCEL_TIMEOUT)};
    od_remote *remote = NULL;
    bool acknowledged = false;
    od_error err;
    od_code rc;

    OD_TRY(command_connect(options, NULL, &wanted, &remote, &err));
    OD_TRY(od_remote_cancel(remote, id, &acknowledged, &err));
    if (od_options_bool(options, OD_OPT_JSON)) {
        fputs("{\"execution_id\": ", stdout);
        json_text(stdout, od_slice_str(id));
        printf(", \"acknowledged\": %s}\n", acknowledged ? "true" : "false");
    } else if (acknowledged) {
        printf("cancelled %s\n", id);
    }
    if (!acknowledged)
        fprintf(stderr, "openduck cancel: no execution '%s' is running at %s\n", id, od_remote_authority(remote));

out:
    od_remote_unref(remote);
    if (rc != OD_OK)
        return command_fail("cancel", rc == OD_E_INVALID && remote ? OD_E_IO : rc, &err);
    return acknowledged ? EXIT_DONE : EXIT_FAILED;
}
