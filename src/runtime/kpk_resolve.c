#include "kpk_image.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t name_hash(const char *module, size_t module_size, const char *entry,
                                 size_t entry_size)
{
    return XXH3_64bits_withSeed(entry, entry_size, XXH3_64bits(module, module_size));
}

static bool text_is(const kpk_image *image, struct kpk_string string, const char *text, size_t size)
{
    return string.size == size && memcmp(kpk_text(image, string), text, size) == 0;
}

static inline uint32_t find(const kpk_image *image, uint64_t hash, const char *module,
                            size_t module_size, const char *entry, size_t entry_size)
{
    if (!kpk_ready(image))
        return KPK_NONE;
    uint32_t tag = (uint32_t)(hash >> 32);
    for (uint64_t at = hash & image->slot_mask;; at = (at + 1) & image->slot_mask) {
        const struct kpk_slot *slot = &image->slots[at];
        if (slot->entry == 0)
            return KPK_NONE;
        if (slot->tag != tag)
            continue;
        const struct kpk_entry_record *record = &image->entries[slot->entry - 1];
        if (text_is(image, record->name, entry, entry_size) &&
            text_is(image, image->modules[record->module].name, module, module_size))
            return slot->entry - 1;
    }
}

uint32_t kpk_lookup(const kpk_image *image, const char *module, size_t module_size,
                    const char *entry, size_t entry_size)
{
    uint64_t hash = name_hash(module, module_size, entry, entry_size);
    return find(image, hash, module, module_size, entry, entry_size);
}

uint32_t kpk_lookup_module(const kpk_image *image, const char *module)
{
    if (!kpk_ready(image))
        return KPK_NONE;
    uint32_t low = 0, high = kpk_count(image, KPK_SECTION_MODULES);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(module, kpk_text(image, image->modules[middle].name));
        if (order == 0)
            return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return KPK_NONE;
}

static bool declares_absent(const kpk_image *image, const char *module, const char *entry)
{
    uint32_t low = 0, high = kpk_count(image, KPK_SECTION_ABSENTS);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct kpk_absent_record *record = &image->absents[middle];
        int order = strcmp(module, kpk_text(image, record->module));
        if (order == 0)
            order = strcmp(entry, kpk_text(image, record->entry));
        if (order == 0)
            return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

static bool declared_absent(const kpk_image *image, const char *module, const char *entry)
{
    for (uint32_t i = 0; i < kpk_layer_count(image); i++) {
        if (declares_absent(kpk_layer(image, i), module, entry))
            return true;
    }
    return false;
}

static bool make_miss_tables(kpk_image *image)
{
    if (image->misses == NULL)
        image->misses = (struct kpk_miss_state *)calloc(KPK_MISS_LIMIT, sizeof(*image->misses));
    if (image->miss_slots == NULL)
        image->miss_slots = (uint16_t *)calloc(KPK_MISS_SLOTS, sizeof(*image->miss_slots));
    return image->misses != NULL && image->miss_slots != NULL;
}

/* Returns false when it cannot be remembered. */
static bool remember_miss(kpk_image *image, uint64_t hash, const char *module, size_t module_size,
                          const char *entry, size_t entry_size)
{
    if (!make_miss_tables(image))
        return false;
    size_t at = (size_t)(hash % KPK_MISS_SLOTS);
    for (; image->miss_slots[at] != 0; at = (at + 1) % KPK_MISS_SLOTS) {
        struct kpk_miss_state *miss = &image->misses[image->miss_slots[at] - 1];
        if (miss->hash == hash && strcmp(miss->module, module) == 0 &&
            strcmp(miss->entry, entry) == 0) {
            miss->count++;
            return true;
        }
    }
    if (image->miss_count == KPK_MISS_LIMIT)
        return false;
    char *text = (char *)malloc(module_size + entry_size + 2);
    if (text == NULL)
        return false;
    memcpy(text, module, module_size + 1);
    memcpy(text + module_size + 1, entry, entry_size + 1);
    struct kpk_miss_state *miss = &image->misses[image->miss_count++];
    miss->module = text;
    miss->entry = text + module_size + 1;
    miss->hash = hash;
    miss->count = 1;
    image->miss_slots[at] = (uint16_t)image->miss_count;
    return true;
}

/* Nobody can say yet what a bundle ships. */
static void note_unbound(kpk_image *image, const char *module, const char *entry)
{
    if (!__atomic_exchange_n(&image->told_unbound, true, __ATOMIC_RELAXED))
        kpk_fail(image, KPK_ERR_NOT_BOUND,
                 "'%s:%s' is looked up in a bundle whose part is not picked: call kpk_bind first, "
                 "or open it with a target",
                 module, entry);
}

static void note_miss(kpk_image *image, uint64_t hash, const char *module, size_t module_size,
                      const char *entry, size_t entry_size)
{
    /* After a fork miss_lock may be held by a thread that does not exist here. */
    if (kpk_forked(image))
        return;
    if (!kpk_ready(image)) {
        note_unbound(image, module, entry);
        return;
    }
    if (declared_absent(image, module, entry))
        return;
    pthread_mutex_lock(&image->miss_lock);
    bool kept = remember_miss(image, hash, module, module_size, entry, entry_size);
    bool warn = !kept && !image->miss_warned;
    image->miss_warned = image->miss_warned || !kept;
    pthread_mutex_unlock(&image->miss_lock);
    if (warn)
        kpk_report(&image->desc, KPK_WARNING, KPK_OK,
                   "%s: '%s:%s' is not in the image and is not counted: %d distinct misses are "
                   "remembered, or memory ran out",
                   image->name, module, entry, KPK_MISS_LIMIT);
}

/* Of an image that has not got it itself: an overlay has nothing itself. */
static kpk_kernel __attribute__((noinline))
resolve_further(kpk_image *image, uint64_t hash, const char *module, size_t module_size,
                const char *entry, size_t entry_size)
{
    for (uint32_t i = 0; i < image->layer_count; i++) {
        const kpk_image *layer = image->layers[i];
        uint32_t index = find(layer, hash, module, module_size, entry, entry_size);
        if (index != KPK_NONE)
            return kpk_handle(layer, index);
    }
    kpk_kernel none = {0};
    note_miss(image, hash, module, module_size, entry, entry_size);
    return none;
}

kpk_kernel kpk_resolve(kpk_image *image, const char *module, const char *entry)
{
    kpk_kernel none = {0};
    if (image == NULL || module == NULL || entry == NULL)
        return none;
    size_t module_size = strlen(module), entry_size = strlen(entry);
    uint64_t hash = name_hash(module, module_size, entry, entry_size);
    uint32_t index = find(image, hash, module, module_size, entry, entry_size);
    if (index != KPK_NONE)
        return kpk_handle(image, index);
    return resolve_further(image, hash, module, module_size, entry, entry_size);
}

bool kpk_has_module(const kpk_image *image, const char *module)
{
    return image != NULL && module != NULL &&
           kpk_lookup_module(kpk_layer_with(image, module), module) != KPK_NONE;
}

/* Why a launch of an entry that an image has would fail. */
static kpk_absence reason_of(const kpk_image *image, uint32_t index)
{
    const struct kpk_launch_state *states =
        __atomic_load_n(&image->launch_states, __ATOMIC_ACQUIRE);
    uint32_t failure = KPK_OK;
    if (states != NULL)
        failure = __atomic_load_n(&states[index].status, __ATOMIC_ACQUIRE);
    if (failure == KPK_OK)
        failure = __atomic_load_n(&image->object_states[image->entries[index].object].status,
                                  __ATOMIC_ACQUIRE);
    if (failure != KPK_OK)
        return failure == KPK_ERR_DAMAGED ? KPK_ABSENT_DAMAGED : KPK_ABSENT_LOAD_FAILED;
    uint32_t bind = __atomic_load_n(&image->bind_status, __ATOMIC_ACQUIRE);
    if (bind == KPK_ERR_WRONG_DEVICE || bind == KPK_ERR_OLD_DRIVER)
        return KPK_ABSENT_WRONG_DEVICE;
    return KPK_PRESENT;
}

static kpk_absence unbound_reason(const kpk_image *image)
{
    switch (__atomic_load_n(&image->bind_status, __ATOMIC_ACQUIRE)) {
    case KPK_ERR_WRONG_DEVICE:
    case KPK_ERR_OLD_DRIVER:
        return KPK_ABSENT_WRONG_DEVICE;
    case KPK_ERR_DAMAGED:
        return KPK_ABSENT_DAMAGED;
    default:
        return KPK_ABSENT_NOT_BOUND;
    }
}

kpk_absence kpk_absent_reason(kpk_image *image, const char *module, const char *entry)
{
    if (image != NULL && !kpk_ready(image))
        return unbound_reason(image);
    if (!kpk_has_module(image, module))
        return KPK_ABSENT_MODULE;
    if (entry == NULL)
        return KPK_ABSENT_ENTRY;
    for (uint32_t i = 0; i < kpk_layer_count(image); i++) {
        const kpk_image *layer = kpk_layer(image, i);
        uint32_t index = kpk_lookup(layer, module, strlen(module), entry, strlen(entry));
        if (index != KPK_NONE)
            return reason_of(layer, index);
    }
    return KPK_ABSENT_ENTRY;
}

size_t kpk_unexpected_absences(kpk_image *image, kpk_miss *out_misses, size_t capacity)
{
    if (image == NULL || kpk_forked(image))
        return 0;
    pthread_mutex_lock(&image->miss_lock);
    size_t count = image->miss_count;
    for (size_t i = 0; i < count && i < capacity && out_misses != NULL; i++) {
        out_misses[i].module = image->misses[i].module;
        out_misses[i].entry = image->misses[i].entry;
        out_misses[i].count = image->misses[i].count;
    }
    pthread_mutex_unlock(&image->miss_lock);
    return count;
}
