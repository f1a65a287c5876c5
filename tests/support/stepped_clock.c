/* A wall clock that a test steps while the process runs: loaded with LD_PRELOAD.

   The file that STEPPED_CLOCK names has how many seconds the clock is ahead, as an integer of
   8 bytes. The monotonic clock is left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long long *ahead_s;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void map_the_file(void) {
    const char *path = getenv("STEPPED_CLOCK");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(long long), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        ahead_s = mapped;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *found) {
    if (!real_clock_gettime)
        real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock_gettime(id, found);
    if (!result && ahead_s && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        found->tv_sec += *ahead_s;
    return result;
}

int gettimeofday(struct timeval *found, void *zone) {
    struct timespec now;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    if (!result && found) {
        found->tv_sec = now.tv_sec;
        found->tv_usec = now.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *found) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (found)
        *found = now.tv_sec;
    return now.tv_sec;
}
