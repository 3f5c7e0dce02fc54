/* The worker of tests/support/numbers_worker.h, to whoever started it. */
#include <stdio.h>
#include <unistd.h>

#include "support/numbers_worker.h"

int main(void)
{
    numbers_state state = {0};
    od_vgiw *worker = numbers_worker(&state);
    od_vgiw_error err = {.code = OD_VGIW_OK};
    od_vgiw_code code = od_vgiw_serve(worker, STDIN_FILENO, STDOUT_FILENO, &err);

    od_vgiw_free(worker);
    if (code != OD_VGIW_OK)
        fprintf(stderr, "%s\n", err.message);
    return code != OD_VGIW_OK;
}
