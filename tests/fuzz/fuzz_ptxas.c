/* Takes ptxas's lines out of a hostile log: every figure is one of the log's or a sum of them, and
 * what is left holds no such line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "compile/ptxas_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* All numbers of the log added. */
static uint64_t sum_of(const char *log)
{
    uint64_t sum = 0, value = 0;
    for (; *log != '\0'; log++) {
        bool digit = *log >= '0' && *log <= '9';
        if (!digit)
            value = 0;
        else if (__builtin_mul_overflow(value, (uint64_t)10, &value))
            value = UINT64_MAX;
        else
            value = add(value, (uint64_t)(*log - '0'));
        if (digit && (log[1] < '0' || log[1] > '9'))
            sum = add(sum, value);
    }
    return sum;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        count++;
    return count;
}

static void check(const char *log, const struct ptxas_log *read)
{
    uint64_t most = sum_of(log);
    require(read->count <= count_of(log, "Compiling entry function '"));
    for (size_t i = 0; i < read->count; i++) {
        const struct ptxas_entry *entry = &read->entries[i];
        require(entry->name[0] != '\0' && strstr(log, entry->name) != NULL);
        require(strchr(entry->name, '\n') == NULL);
        require(entry->registers <= most && entry->barriers <= most);
        require(entry->stack_bytes <= most && entry->smem_bytes <= most);
        require(entry->spill_store_bytes <= most && entry->spill_load_bytes <= most);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *log = malloc(size + 1);
    if (log == NULL)
        return 0;
    if (size > 0)
        memcpy(log, data, size);
    log[size] = '\0';
    struct arena arena = {0};
    struct ptxas_log read, again;
    struct str rest = {0}, rest_again = {0};
    ptxas_log_read(log, &arena, &read, &rest);
    check(log, &read);
    require(rest.len <= strlen(log));
    ptxas_log_read(str_text(&rest), &arena, &again, &rest_again);
    require(again.count == 0 && strcmp(str_text(&rest), str_text(&rest_again)) == 0);
    str_free(&rest);
    str_free(&rest_again);
    arena_free(&arena);
    free(log);
    return 0;
}
