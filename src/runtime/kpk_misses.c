#include "kpk_image.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct text {
    char *bytes;
    size_t capacity, size; /* `size` goes on behind `capacity` */
};

static void put(struct text *text, const char *bytes, size_t size)
{
    if (text->size < text->capacity) {
        size_t room = text->capacity - text->size;
        memcpy(text->bytes + text->size, bytes, size < room ? size : room);
    }
    text->size += size;
}

static void put_words(struct text *text, const char *words)
{
    put(text, words, strlen(words));
}

/* Control characters of ASCII are escaped; U+FFFD stands for a byte that is no UTF-8. */
static void put_string(struct text *text, const char *string)
{
    const uint8_t *bytes = (const uint8_t *)string;
    size_t size = strlen(string);
    put_words(text, "\"");
    for (size_t at = 0, step; at < size; at += step) {
        step = kpk_utf8(bytes + at, size - at);
        if (step == 0) {
            put_words(text, "\\ufffd");
            step = 1;
        } else if (bytes[at] < 0x20 || bytes[at] == 0x7f) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", bytes[at]);
            put_words(text, escape);
        } else {
            if (bytes[at] == '"' || bytes[at] == '\\')
                put_words(text, "\\");
            put(text, string + at, step);
        }
    }
    put_words(text, "\"");
}

static void put_miss(struct text *text, const struct kpk_miss_state *miss)
{
    char count[32];
    put_words(text, "{\"module\": ");
    put_string(text, miss->module);
    put_words(text, ", \"entry\": ");
    put_string(text, miss->entry);
    snprintf(count, sizeof count, ", \"count\": %" PRIu64 "}", miss->count);
    put_words(text, count);
}

size_t kpk_misses_json(kpk_image *image, char *out_text, size_t capacity)
{
    struct text text = {out_text, out_text != NULL && capacity > 0 ? capacity - 1 : 0, 0};
    if (out_text != NULL && capacity > 0)
        out_text[0] = '\0';
    if (image == NULL || kpk_forked(image))
        return 0;
    put_words(&text, "[");
    pthread_mutex_lock(&image->miss_lock);
    for (size_t i = 0; i < image->miss_count; i++) {
        put_words(&text, i == 0 ? "\n" : ",\n");
        put_miss(&text, &image->misses[i]);
    }
    pthread_mutex_unlock(&image->miss_lock);
    put_words(&text, "\n]\n");
    if (out_text != NULL && capacity > 0)
        out_text[text.size < text.capacity ? text.size : text.capacity] = '\0';
    return text.size;
}
