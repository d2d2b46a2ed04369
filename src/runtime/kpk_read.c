#include "kpk_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

KPK_ASSERT(sizeof(size_t) == 8);
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "images are little-endian, and so must the host be"
#endif

kpk_status kpk_read_file(const kpk_image *image, uint64_t offset, void *buffer, size_t size)
{
    return kpk_read_whole(image, image->start + offset, buffer, size);
}

kpk_status kpk_read_whole(const kpk_image *image, uint64_t offset, void *buffer, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got =
            pread(image->file, (char *)buffer + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kpk_fail(image, KPK_ERR_IO, "cannot read: %s", strerror(errno));
        if (got == 0)
            return kpk_fail(image, KPK_ERR_DAMAGED,
                            "the file ended at byte %llu while it was in use, expected %llu bytes",
                            (unsigned long long)(offset + done),
                            (unsigned long long)image->file_size);
        done += (size_t)got;
    }
    return KPK_OK;
}

static kpk_status open_file(kpk_image *image, const char *path)
{
    /* O_NONBLOCK: a FIFO must not hang the open; regular files do not know it. */
    image->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (image->file < 0)
        return kpk_fail(image, KPK_ERR_IO, "cannot open: %s", strerror(errno));
    struct stat info;
    if (fstat(image->file, &info) != 0)
        return kpk_fail(image, KPK_ERR_IO, "cannot read: %s", strerror(errno));
    if (S_ISDIR(info.st_mode))
        return kpk_fail(image, KPK_ERR_IO, "is a directory, expected a file");
    if (!S_ISREG(info.st_mode))
        return kpk_fail(image, KPK_ERR_IO, "is not a regular file");
    image->file_size = (uint64_t)info.st_size;
    size_t part = sizeof(image->header);
    if (image->file_size < part)
        part = (size_t)image->file_size;
    return kpk_read_file(image, 0, &image->header, part);
}

static kpk_status check_prefix(const kpk_image *image, uint64_t size)
{
    const struct kpk_prefix *prefix = &image->header.prefix;
    if (size == 0)
        return kpk_fail(image, KPK_ERR_FORMAT, "is empty, expected a kpack image");
    if (size < sizeof(*prefix) || memcmp(prefix->magic, KPK_MAGIC, sizeof(prefix->magic)) != 0)
        return kpk_fail(image, KPK_ERR_FORMAT, "is not a kpack image");
    if (prefix->version != KPK_FORMAT_VERSION)
        return kpk_fail(image, KPK_ERR_VERSION,
                        "is a kpack image of version %u, this reader knows version %u",
                        prefix->version, (unsigned)KPK_FORMAT_VERSION);
    if (prefix->file_size != size)
        return kpk_fail(image, KPK_ERR_DAMAGED, "%s: it has %llu bytes, its header says %llu",
                        size < prefix->file_size ? "is truncated" : "goes on behind its end",
                        (unsigned long long)size, (unsigned long long)prefix->file_size);
    if (prefix->header_size != sizeof(struct kpk_header) || size < sizeof(struct kpk_header))
        return kpk_fail(image, KPK_ERR_DAMAGED, "has a header of %u bytes, expected %u",
                        prefix->header_size, (unsigned)sizeof(struct kpk_header));
    return KPK_OK;
}

kpk_status kpk_check_header(const kpk_image *image, uint64_t size)
{
    const struct kpk_header *header = &image->header;
    kpk_status status = check_prefix(image, size);
    if (status == KPK_OK && !kpk_digest_matches(header, offsetof(struct kpk_header, header_digest),
                                                header->header_digest))
        status = kpk_fail(image, KPK_ERR_DAMAGED, "the header's digest does not match");
    return status;
}

static kpk_status check_fields(const kpk_image *image)
{
    static const uint8_t zero[sizeof(image->header.reserved)] = {0};
    const struct kpk_header *header = &image->header;
    if (header->section_count != KPK_SECTION_COUNT ||
        header->index_offset != sizeof(struct kpk_header) ||
        header->index_size > header->prefix.file_size - header->index_offset ||
        memcmp(header->reserved, zero, sizeof(zero)) != 0)
        return kpk_fail(image, KPK_ERR_DAMAGED, "the header's fields are out of bounds");
    return KPK_OK;
}

static kpk_status get_index(kpk_image *image)
{
    size_t size = image->header.index_size;
    if (image->bytes != NULL) {
        image->index = image->bytes + image->header.index_offset;
    } else {
        image->owned_index = malloc(size > 0 ? size : 1);
        if (image->owned_index == NULL)
            return kpk_fail(image, KPK_ERR_MEMORY, "no memory for an index of %zu bytes", size);
        kpk_status status =
            kpk_read_file(image, image->header.index_offset, image->owned_index, size);
        if (status != KPK_OK)
            return status;
        image->index = (const uint8_t *)image->owned_index;
    }
    if (!kpk_digest_matches(image->index, size, image->header.index_digest))
        return kpk_fail(image, KPK_ERR_DAMAGED, "the index's digest does not match");
    return KPK_OK;
}

static void *make_table(uint32_t count, size_t size)
{
    return calloc(count > 0 ? count : 1, size);
}

static kpk_status make_states(kpk_image *image)
{
    uint32_t object_count = kpk_count(image, KPK_SECTION_OBJECTS);
    image->object_states =
        (struct kpk_object_state *)make_table(object_count, sizeof(*image->object_states));
    image->group_states = (struct kpk_group_state *)make_table(kpk_count(image, KPK_SECTION_GROUPS),
                                                               sizeof(*image->group_states));
    if (image->object_states == NULL || image->group_states == NULL)
        return kpk_fail(image, KPK_ERR_MEMORY, "no memory for %u objects", object_count);
    for (uint32_t i = 0; i < object_count; i++) {
        uint32_t group = image->blobs[image->objects[i].blob].group;
        if (image->group_states[group].waiting_objects++ == 0)
            image->waiting_groups++;
    }
    memcpy(&image->tag, image->header.index_digest, sizeof(image->tag));
    return KPK_OK;
}

/* A page that the kernel zeroes in a forked child, so that a launch need not ask for its pid. */
static void make_guard(kpk_image *image)
{
    static const uint32_t unknown = 0;
    image->pid = (long)getpid();
    image->alive = &unknown;
#ifdef MADV_WIPEONFORK
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        munmap(page, size);
        return;
    }
    image->guard_page = page;
    *(uint32_t *)page = 1;
    image->alive = (const volatile uint32_t *)page;
#endif
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = (char *)malloc(size);
    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

kpk_status kpk_make_image(const char *name, const kpk_open_desc *desc, kpk_image **out_image)
{
    static const kpk_open_desc defaults = {NULL, NULL, NULL, NULL, NULL, NULL};
    if (desc == NULL)
        desc = &defaults;
    kpk_image *image = (kpk_image *)calloc(1, sizeof(*image));
    if (image == NULL)
        return kpk_report(desc, KPK_ERROR, KPK_ERR_MEMORY, "%s: no memory for an image", name);
    image->file = -1;
    image->holders = 1;
    image->desc = *desc;
    pthread_mutex_init(&image->lock, NULL);
    pthread_mutex_init(&image->miss_lock, NULL);
    make_guard(image);
    image->name = copy_text(name);
    image->driver_path = desc->driver_path == NULL ? NULL : copy_text(desc->driver_path);
    if (image->name == NULL || (desc->driver_path != NULL && image->driver_path == NULL)) {
        kpk_close(image);
        return kpk_report(desc, KPK_ERROR, KPK_ERR_MEMORY, "%s: no memory for an image", name);
    }
    image->desc.driver_path = image->driver_path; /* the caller's may go; images copy this desc */
    *out_image = image;
    return KPK_OK;
}

void kpk_drop_index(kpk_image *image)
{
    free(image->group_states);
    free(image->object_states);
    free(image->owned_index);
    image->group_states = NULL;
    image->object_states = NULL;
    image->owned_index = NULL;
    image->waiting_groups = 0;
    memset(&image->header, 0, sizeof(image->header));
}

kpk_status kpk_read_index(kpk_image *image)
{
    kpk_status status = check_fields(image);
    if (status == KPK_OK)
        status = get_index(image);
    if (status == KPK_OK)
        status = kpk_check_index(image);
    if (status == KPK_OK)
        status = make_states(image);
    if (status != KPK_OK)
        kpk_drop_index(image);
    return status;
}

void kpk_publish_index(kpk_image *image)
{
    __atomic_store_n(&image->entry_count, kpk_count(image, KPK_SECTION_ENTRIES), __ATOMIC_RELEASE);
    __atomic_store_n(&image->ready, 1, __ATOMIC_RELEASE);
}

static kpk_status open_image(kpk_image *image, const char *target)
{
    kpk_status status = kpk_read_index(image);
    if (status != KPK_OK)
        return status;
    const char *own = kpk_text(image, image->target->name);
    if (target != NULL && strcmp(own, target) != 0)
        return kpk_fail(image, KPK_ERR_ABSENT, "is for target '%s', not for '%s'", own, target);
    kpk_publish_index(image);
    return KPK_OK;
}

static kpk_status open_bundle(kpk_image *image, const char *target)
{
    kpk_status status = kpk_read_table(image);
    if (status != KPK_OK || target == NULL)
        return status;
    uint32_t part = kpk_part_for_target(image, target);
    if (part != KPK_NONE)
        return kpk_pick_part(image, part);
    char list[KPK_MESSAGE_SIZE / 2];
    kpk_list_parts(image, list, sizeof(list));
    return kpk_fail(image, KPK_ERR_ABSENT, "has nothing for target '%s', but %s", target, list);
}

/* The file's first bytes are in the header. Takes the image over. */
static kpk_status finish_open(kpk_image *image, kpk_status status, kpk_image **out_image)
{
    const char *target = image->desc.target;
    image->desc.target = NULL; /* the caller's */
    if (status == KPK_OK)
        status = kpk_check_header(image, image->file_size);
    if (status == KPK_OK && image->header.kind == KPK_KIND_IMAGE)
        status = open_image(image, target);
    else if (status == KPK_OK && image->header.kind == KPK_KIND_BUNDLE)
        status = open_bundle(image, target);
    else if (status == KPK_OK)
        status = kpk_fail(image, KPK_ERR_VERSION,
                          "is a kpack file of kind %u, this reader knows %u and %u",
                          image->header.kind, (unsigned)KPK_KIND_IMAGE, (unsigned)KPK_KIND_BUNDLE);
    if (status == KPK_OK)
        *out_image = image;
    else
        kpk_close(image);
    return status;
}

kpk_status kpk_open(const char *path, const kpk_open_desc *desc, kpk_image **out_image)
{
    if (out_image == NULL)
        return KPK_ERR_ARGUMENT;
    *out_image = NULL;
    if (path == NULL)
        return KPK_ERR_ARGUMENT;
    kpk_image *image = NULL;
    kpk_status status = kpk_make_image(path, desc, &image);
    if (status != KPK_OK)
        return status;
    return finish_open(image, open_file(image, path), out_image);
}

kpk_status kpk_open_memory(const void *bytes, size_t size, const kpk_open_desc *desc,
                           kpk_image **out_image)
{
    if (out_image == NULL)
        return KPK_ERR_ARGUMENT;
    *out_image = NULL;
    if (bytes == NULL || (uintptr_t)bytes % KPK_INDEX_ALIGN != 0)
        return KPK_ERR_ARGUMENT;
    kpk_image *image = NULL;
    kpk_status status = kpk_make_image("image in memory", desc, &image);
    if (status != KPK_OK)
        return status;
    image->bytes = (const uint8_t *)bytes;
    image->whole = image->bytes;
    image->file_size = size;
    memcpy(&image->header, bytes, size < sizeof(image->header) ? size : sizeof(image->header));
    return finish_open(image, KPK_OK, out_image);
}

void kpk_close(kpk_image *image)
{
    if (image == NULL || __atomic_sub_fetch(&image->holders, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; i < image->layer_count; i++)
        kpk_close(image->layers[i]);
    free(image->layers);
    if (!kpk_forked(image)) {
        kpk_unload(image);
        pthread_mutex_destroy(&image->lock);
        pthread_mutex_destroy(&image->miss_lock);
    }
    kpk_free_groups(image);
    for (size_t i = 0; i < image->miss_count; i++)
        free(image->misses[i].module);
    free(image->misses);
    free(image->miss_slots);
    free(image->group_states);
    free(image->object_states);
    free(image->launch_states);
    free(image->devices);
    free(image->owned_index);
    free(image->owned_table);
    free(image->driver_path);
    free(image->name);
    if (image->file >= 0)
        close(image->file);
    if (image->guard_page != NULL)
        munmap(image->guard_page, (size_t)sysconf(_SC_PAGESIZE));
    free(image);
}
