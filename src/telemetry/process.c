#include "telemetry/process.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/banned.h"

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static double cpu_seconds(void *arg)
{
    struct rusage usage = {0};

    (void)arg;
    (void)getrusage(RUSAGE_SELF, &usage);
    return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

static double resident_bytes(void *arg)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long all = 0, resident = 0;

    (void)arg;
    if (!file)
        return 0;
    if (fscanf(file, "%lu %lu", &all, &resident) != 2) // NOLINT(cert-err34-c): the kernel's own numbers
        resident = 0;
    (void)fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static double entries(const char *folder)
{
    DIR *dir = opendir(folder);
    double count = 0;

    if (!dir)
        return 0;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) // NOLINT(concurrency-mt-unsafe): a DIR of its own
        count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static double open_descriptors(void *arg)
{
    (void)arg;
    return entries("/proc/self/fd") - 1; /* the one that counts */
}

static double threads(void *arg)
{
    (void)arg;
    return entries("/proc/self/task");
}

static double start_seconds(void *arg)
{
    return *(const double *)arg;
}

od_code od_metrics_watch_process(od_metrics *metrics, od_error *err)
{
    static const od_metric cpu = {
        OD_METRIC_COUNTER, "process.cpu.time", "process_cpu_seconds_total", "s", "CPU time used, user and system",
        .fraction = true};
    static const od_metric memory = {OD_METRIC_GAUGE,   "process.memory.usage", "process_resident_memory_bytes", "By",
                                     "Resident memory", .fraction = false};
    static const od_metric descriptors = {OD_METRIC_GAUGE,         "process.unix.file_descriptor.count",
                                          "process_open_fds",      "{file_descriptor}",
                                          "Open file descriptors", .fraction = false};
    static const od_metric thread_count = {OD_METRIC_GAUGE, "process.thread.count", "process_threads", "{thread}",
                                           "Threads",       .fraction = false};
    static const od_metric start = {OD_METRIC_GAUGE,
                                    "process.start_time",
                                    "process_start_time_seconds",
                                    "s",
                                    "When the process started, in seconds since 1970",
                                    .fraction = true};
    static double started;
    od_code rc;

    started = (double)od_wall_us() / 1e6;
    OD_TRY(od_metrics_watch(metrics, &cpu, NULL, 0, cpu_seconds, NULL, err));
    OD_TRY(od_metrics_watch(metrics, &memory, NULL, 0, resident_bytes, NULL, err));
    OD_TRY(od_metrics_watch(metrics, &descriptors, NULL, 0, open_descriptors, NULL, err));
    OD_TRY(od_metrics_watch(metrics, &thread_count, NULL, 0, threads, NULL, err));
    OD_TRY(od_metrics_watch(metrics, &start, NULL, 0, start_seconds, &started, err));

out:
    return rc;
}
