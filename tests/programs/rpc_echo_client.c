/* One blocking call, for tests. usage: rpc_echo_client ENDPOINT PATH TIMEOUT_MS TAKE [MESSAGE | @SIZE]...
 * Sends the messages (@SIZE: that many 'x'), receives up to TAKE messages (-1: all), then drops the call.
 * Prints "message LENGTH FIRST_40_BYTES" for each, at last "end CODE TEXT" or "dropped". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/rpc_service.h"
#include "base/banned.h"

static od_code send_all(od_call *call, int count, char **texts, od_error *err)
{
    od_code rc = OD_OK;

    for (int i = 0; i < count && rc == OD_OK; i++) {
        size_t len = texts[i][0] == '@' ? strtoul(texts[i] + 1, NULL, 10) : strlen(texts[i]);
        od_msg *msg = rpc_message(len, 'x');
        od_rpc_out out = rpc_out(msg);
        if (texts[i][0] != '@')
            memcpy(od_msg_data(msg), texts[i], len);
        rc = od_call_send(call, &out, i + 1 == count, OD_DEADLINE_NEVER, err);
        od_msg_unref(msg);
    }
    return rc;
}

int main(int argc, char **argv)
{
    od_channel_options options = {0};
    const od_interrupt none = {0};
    od_channel *channel = NULL;
    od_call *call = NULL;
    od_error err = {0};
    od_msg *msg = NULL;
    long take = argc > 4 ? strtol(argv[4], NULL, 10) : -1;
    od_code rc;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 5)
        return 2;
    rc = od_endpoint_parse(od_slice_str(argv[1]), &options.endpoint, &err);
    if (rc == OD_OK)
        rc = od_channel_create(&options, &channel, &err);
    if (rc == OD_OK)
        rc = od_call_open(channel, argv[2], od_deadline_in_ms(strtol(argv[3], NULL, 10)), 0, none, &call, &err);
    if (rc == OD_OK)
        rc = send_all(call, argc - 5, argv + 5, &err);
    while (rc == OD_OK && take != 0) {
        rc = od_call_recv(call, &msg, OD_DEADLINE_NEVER, &err);
        if (!msg)
            break;
        printf("message %zu %.*s\n", od_msg_len(msg), (int)(od_msg_len(msg) < 40 ? od_msg_len(msg) : 40),
               (char *)od_msg_data(msg));
        od_msg_unref(msg);
        take = take > 0 ? take - 1 : take;
    }
    od_call_free(call);
    od_channel_unref(channel);
    if (take == 0)
        printf("dropped\n");
    else
        printf("end %s %s\n", rc == OD_OK ? "OK" : od_code_name(rc), rc == OD_OK ? "" : err.message);
    return 0;
}
