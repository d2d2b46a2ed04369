#include "compile/wire.h"

#include <string.h>

struct header {
    uint32_t magic, type;
    uint64_t size; /* of the fields */
};

enum {
    MAGIC = 0x4b504b57
};
#define MOST ((uint64_t)1 << 32)

size_t wire_begin(struct str *out, enum wire_type type)
{
    size_t begin = out->len;
    struct header header = {.magic = MAGIC, .type = type};
    str_add(out, &header, sizeof header);
    return begin;
}

void wire_end(struct str *out, size_t begin)
{
    struct header header;
    memcpy(&header, out->data + begin, sizeof header);
    header.size = out->len - begin - sizeof header;
    memcpy(out->data + begin, &header, sizeof header);
}

void wire_u64(struct str *out, uint64_t value)
{
    str_add(out, &value, sizeof value);
}

void wire_bytes(struct str *out, const void *bytes, size_t size)
{
    wire_u64(out, size);
    str_add(out, bytes, size);
}

void wire_text(struct str *out, const char *text)
{
    wire_bytes(out, text, strlen(text));
}

void wire_texts(struct str *out, const char *const *texts, size_t count)
{
    wire_u64(out, count);
    for (size_t i = 0; i < count; i++)
        wire_text(out, texts[i]);
}

void wire_inputs(struct str *out, const struct compile_input *inputs, size_t count)
{
    wire_u64(out, count);
    for (size_t i = 0; i < count; i++) {
        const struct compile_input *input = &inputs[i];
        wire_text(out, input->name);
        str_add(out, input->digest.bytes, DIGEST_SIZE);
        wire_u64(out, input->dev);
        wire_u64(out, input->ino);
        wire_u64(out, input->size);
        wire_u64(out, (uint64_t)input->mtime_ns);
        wire_u64(out, (uint64_t)input->ctime_ns);
    }
}

enum wire_state wire_next(const char *bytes, size_t size, struct wire_message *out_message,
                          size_t *out_used)
{
    struct header header;
    *out_message = (struct wire_message){0};
    *out_used = 0;
    if (size < sizeof header)
        return size && bytes[0] != (char)(MAGIC & 0xff) ? WIRE_GARBAGE : WIRE_MORE;
    memcpy(&header, bytes, sizeof header);
    if (header.magic != MAGIC || header.type < WIRE_START || header.type > WIRE_RESULT ||
        header.size > MOST)
        return WIRE_GARBAGE;
    if (size - sizeof header < header.size)
        return WIRE_MORE;
    *out_message = (struct wire_message){
        .type = (enum wire_type)header.type,
        .at = bytes + sizeof header,
        .end = bytes + sizeof header + header.size,
    };
    *out_used = sizeof header + (size_t)header.size;
    return WIRE_WHOLE;
}

static bool take(struct wire_message *message, void *out, size_t size)
{
    if (message->bad || (size_t)(message->end - message->at) < size) {
        message->bad = true;
        return false;
    }
    memcpy(out, message->at, size);
    message->at += size;
    return true;
}

uint64_t wire_take_u64(struct wire_message *message)
{
    uint64_t value = 0;
    return take(message, &value, sizeof value) ? value : 0;
}

const void *wire_take_bytes(struct wire_message *message, struct arena *arena, size_t *out_size)
{
    uint64_t size = wire_take_u64(message);
    *out_size = 0;
    if (message->bad || (uint64_t)(message->end - message->at) < size) {
        message->bad = true;
        return "";
    }
    const char *copy = arena_strndup(arena, message->at, (size_t)size);
    message->at += size;
    *out_size = (size_t)size;
    return copy;
}

const char *wire_take_text(struct wire_message *message, struct arena *arena)
{
    size_t size;
    const char *text = wire_take_bytes(message, arena, &size);
    if (strlen(text) == size)
        return text;
    message->bad = true;
    return "";
}

const char **wire_take_texts(struct wire_message *message, struct arena *arena, size_t *out_count)
{
    uint64_t count = wire_take_u64(message);
    *out_count = 0;
    /* Each text takes at least its length's eight bytes. */
    if (message->bad || count > (uint64_t)(message->end - message->at) / sizeof count) {
        message->bad = true;
        return NULL;
    }
    const char **texts = arena_alloc(arena, (size_t)count + 1, sizeof *texts);
    for (uint64_t i = 0; i < count; i++)
        texts[i] = wire_take_text(message, arena);
    *out_count = message->bad ? 0 : (size_t)count;
    return texts;
}

struct compile_input *wire_take_inputs(struct wire_message *message, struct arena *arena,
                                       size_t *out_count)
{
    uint64_t count = wire_take_u64(message);
    *out_count = 0;
    if (message->bad || count > (uint64_t)(message->end - message->at) / DIGEST_SIZE) {
        message->bad = true;
        return NULL;
    }
    struct compile_input *inputs = arena_alloc(arena, (size_t)count, sizeof *inputs);
    for (size_t i = 0; i < count; i++) {
        struct compile_input *input = &inputs[i];
        input->name = wire_take_text(message, arena);
        take(message, input->digest.bytes, DIGEST_SIZE);
        input->dev = wire_take_u64(message);
        input->ino = wire_take_u64(message);
        input->size = wire_take_u64(message);
        input->mtime_ns = (int64_t)wire_take_u64(message);
        input->ctime_ns = (int64_t)wire_take_u64(message);
    }
    *out_count = message->bad ? 0 : (size_t)count;
    return inputs;
}

bool wire_done(const struct wire_message *message)
{
    return !message->bad && message->at == message->end;
}
