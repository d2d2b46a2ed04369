#include "cli/machine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

unsigned machine_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? (unsigned)count : 1;
}

bool machine_parse_size(const char *text, uint64_t *out_bytes)
{
    static const char suffixes[] = "KMGT";
    uint64_t value = 0;
    const char *at = text;
    *out_bytes = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    const char *suffix = *at ? strchr(suffixes, *at) : NULL;
    if (at == text || (*at && (!suffix || at[1])))
        return false;
    for (long power = suffix ? suffix - suffixes + 1 : 0; power; power--)
        if (__builtin_mul_overflow(value, 1024, &value))
            return false;
    *out_bytes = value;
    return true;
}

/* First number of a small system file, after `label` at a line's start; 0: none. */
static uint64_t number_in(const char *path, const char *label)
{
    FILE *file = fopen(path, "re");
    uint64_t value = 0;
    char line[256];
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, label, strlen(label)) == 0 &&
            sscanf(line + strlen(label), "%" SCNu64, &value) == 1)
            break;
    if (file)
        fclose(file);
    return value;
}

/* What is left under this process's cgroup limit (version 2), UINT64_MAX without one. */
static uint64_t cgroup_left(void)
{
    char line[512] = "", path[640];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file) && strncmp(line, "0::", 3) != 0)
        line[0] = '\0';
    if (file)
        fclose(file);
    if (!line[0])
        return UINT64_MAX;
    line[strcspn(line, "\n")] = '\0';
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", line + 3);
    uint64_t most = number_in(path, "");
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", line + 3);
    uint64_t used = number_in(path, "");
    if (!most)
        return UINT64_MAX;
    return most > used ? most - used : 1;
}

bool machine_memory(uint64_t *out_bytes)
{
    const char *given = getenv("KPACK_MEM");
    *out_bytes = 0;
    if (given && given[0])
        return machine_parse_size(given, out_bytes) && *out_bytes;
    uint64_t available = number_in("/proc/meminfo", "MemAvailable:") * 1024, left = cgroup_left();
    *out_bytes = available && available < left ? available : left == UINT64_MAX ? 0 : left;
    return true;
}

double machine_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
