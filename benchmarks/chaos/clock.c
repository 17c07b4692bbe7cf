/* A wall clock that a campaign sets, for the programs that preload this: the machine's own stays as it is.

   CHAOS_CLOCK names a file of numbers of eight bytes: how many settings there were, and of each since when
   (nanoseconds of the real clock) and by how much the clock is ahead from then on. A file's times are shown as
   the clock stood when they were made. Monotonic clocks are never set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SIZE 4096

static const volatile int64_t *settings;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *place = file < 0 ? MAP_FAILED : mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED)
        settings = place;
    if (file >= 0)
        close(file);
}

static void shift(struct timespec *at)
{
    int64_t real = at->tv_sec * SECOND + at->tv_nsec, ahead = 0;
    for (int64_t each = settings ? settings[0] : 0; each > 0; each--)
        if (settings[2 * each - 1] <= real) {
            ahead = settings[2 * each];
            break;
        }
    at->tv_sec = (real + ahead) / SECOND;
    at->tv_nsec = (real + ahead) % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int done = syscall(SYS_clock_gettime, clock, at);
    if (!done && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        shift(at);
    return done;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}

static int shown(int done, struct stat *found)
{
    if (!done) {
        shift(&found->st_atim);
        shift(&found->st_mtim);
        shift(&found->st_ctim);
    }
    return done;
}

#define NEXT(name) __typeof__(&name) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define BOTH(name, parameters, ...) \
    int name parameters { NEXT(name); return shown(next(__VA_ARGS__), (struct stat *)found); }

BOTH(stat, (const char *restrict path, struct stat *restrict found), path, found)
BOTH(lstat, (const char *restrict path, struct stat *restrict found), path, found)
BOTH(fstat, (int file, struct stat *found), file, found)
BOTH(fstatat, (int folder, const char *restrict path, struct stat *restrict found, int how), folder, path, found, how)
BOTH(stat64, (const char *restrict path, struct stat64 *restrict found), path, found)
BOTH(lstat64, (const char *restrict path, struct stat64 *restrict found), path, found)
BOTH(fstat64, (int file, struct stat64 *found), file, found)
BOTH(fstatat64, (int folder, const char *restrict path, struct stat64 *restrict found, int how), folder, path, found, how)
