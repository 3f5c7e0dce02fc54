/* base/banned.h: functions that write without a bound, or keep hidden state, are compile errors.
 *
 * Include it last in every .c file, after the system headers. Use snprintf, memcpy, od_buf, strtok_r. */
#ifndef OD_BASE_BANNED_H
#define OD_BASE_BANNED_H

/* The headers that declare them come first, so that poisoning meets no declaration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GNUC__
#undef strcpy
#undef stpcpy
#undef strcat
#undef sprintf
#undef vsprintf
#undef strtok
#undef gets
#pragma GCC poison strcpy stpcpy strcat sprintf vsprintf strtok gets
#endif

#endif
