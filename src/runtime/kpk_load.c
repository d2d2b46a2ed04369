#include "kpk_image.h"

#include <stdlib.h>
#include <string.h>

#define LIKELY(condition) __builtin_expect(!!(condition), 1)

static const char *module_name(const kpk_image *image, uint32_t module)
{
    return kpk_text(image, image->modules[module].name);
}

static const char *entry_name(const kpk_image *image, uint32_t entry)
{
    return kpk_text(image, image->entries[entry].name);
}

/* What the cubin itself is to blame for: trying again cannot help. */
static kpk_status refusal(kpk_cu_result error)
{
    switch (error) {
    case KPK_CU_INVALID_IMAGE:
    case KPK_CU_NO_BINARY_FOR_GPU:
    case KPK_CU_INVALID_PTX:
    case KPK_CU_UNSUPPORTED_PTX_VERSION:
    case KPK_CU_INVALID_SOURCE:
    case KPK_CU_NOT_FOUND:
        return KPK_ERR_LOAD;
    default:
        return KPK_ERR_DRIVER;
    }
}

static bool stays(kpk_status status)
{
    return status == KPK_ERR_LOAD || status == KPK_ERR_DAMAGED || status == KPK_ERR_SMEM;
}

/* ---- Objects ------------------------------------------------------------------------------- */

/* A failed call on an entry's kernel, with its names. */
static kpk_status __attribute__((cold))
entry_failed(const kpk_image *image, uint32_t index, kpk_cu_result error, const char *call)
{
    return kpk_driver_fail(image, refusal(error), error, "%s of '%s:%s'", call,
                           module_name(image, image->entries[index].module),
                           entry_name(image, index));
}

static kpk_status give_cubin(kpk_image *image, uint32_t object, const uint8_t *cubin)
{
    kpk_cu_library library = NULL;
    kpk_cu_result error =
        image->cuda.cuLibraryLoadData(&library, cubin, NULL, NULL, 0, NULL, NULL, 0);
    if (error != KPK_CU_SUCCESS)
        return kpk_driver_fail(image, refusal(error), error, "cuLibraryLoadData of module '%s'",
                               module_name(image, image->objects[object].module));
    image->object_states[object].library = library;
    return KPK_OK;
}

static void swap_context(kpk_image *image, struct kpk_decoding *decoding)
{
    struct ZSTD_DCtx_s *context = decoding->context;
    decoding->context = image->spare_context;
    image->spare_context = context;
}

/* A context outlives its group, for its memory is slow at its first use. */
static kpk_status decode_cubin(kpk_image *image, const struct kpk_blob_record *blob)
{
    struct kpk_group_state *group = &image->group_states[blob->group];
    uint64_t end = blob->offset + blob->size;
    if (group->decoding.done >= end)
        return KPK_OK;
    if (group->decoding.context == NULL)
        swap_context(image, &group->decoding);
    uint64_t reach = group->reach > end ? group->reach : end;
    kpk_status status = kpk_decode(image, blob->group, reach, &group->decoding);
    if (status == KPK_ERR_DAMAGED && reach > end) { /* behind this cubin, perhaps */
        group->reach = 0;
        status = kpk_decode(image, blob->group, end, &group->decoding);
    }
    if (group->decoding.wanted == 0 && image->spare_context == NULL)
        swap_context(image, &group->decoding);
    return status;
}

static kpk_status load_cubin(kpk_image *image, uint32_t object)
{
    const struct kpk_object_record *record = &image->objects[object];
    const struct kpk_blob_record *blob = &image->blobs[record->blob];
    kpk_status decoded = decode_cubin(image, blob);
    if (decoded != KPK_OK)
        return decoded;
    const uint8_t *cubin = image->group_states[blob->group].decoding.raw + blob->offset;
    if (!kpk_digest_matches(cubin, blob->size, blob->digest))
        return kpk_fail(image, KPK_ERR_DAMAGED, "module '%s': its cubin's digest does not match",
                        module_name(image, record->module));
    if (blob->offset % KPK_CUBIN_ALIGN == 0)
        return give_cubin(image, object, cubin);
    void *aligned = malloc(blob->size);
    if (aligned == NULL)
        return kpk_fail(image, KPK_ERR_MEMORY, "module '%s': no memory for its cubin",
                        module_name(image, record->module));
    memcpy(aligned, cubin, blob->size);
    kpk_status status = give_cubin(image, object, (const uint8_t *)aligned);
    free(aligned);
    return status;
}

static void free_spare(kpk_image *image)
{
    struct kpk_decoding none;
    memset(&none, 0, sizeof(none));
    swap_context(image, &none);
    kpk_decode_free(&none);
}

static void finish_group(kpk_image *image, struct kpk_group_state *group)
{
    if (image->spare_context == NULL)
        swap_context(image, &group->decoding);
    kpk_decode_free(&group->decoding);
    if (image->waiting_groups == 0)
        free_spare(image);
}

static kpk_status load_object(kpk_image *image, uint32_t object)
{
    struct kpk_object_state *state = &image->object_states[object];
    if (state->library != NULL)
        return KPK_OK;
    if (state->status != KPK_OK)
        return (kpk_status)state->status;
    struct kpk_group_state *group =
        &image->group_states[image->blobs[image->objects[object].blob].group];
    kpk_status status = load_cubin(image, object);
    if (stays(status))
        __atomic_store_n(&state->status, (uint32_t)status, __ATOMIC_RELEASE);
    if ((status == KPK_OK || stays(status)) && --group->waiting_objects == 0) {
        image->waiting_groups--;
        finish_group(image, group);
    }
    return status;
}

/* ---- Entries ------------------------------------------------------------------------------- */

/* Dynamic shared memory that an entry may ask for on a device: what the description declares, or
 * all there is when it declares nothing. */
static uint64_t wanted_smem(const struct kpk_entry_record *entry, const struct kpk_device *device)
{
    if ((entry->present & KPK_PRESENT_DYNAMIC_SMEM) != 0)
        return entry->dynamic_smem;
    return device->max_smem_optin > entry->static_smem ? device->max_smem_optin - entry->static_smem
                                                       : 0;
}

static bool smem_fits(const struct kpk_entry_record *entry, const struct kpk_device *device)
{
    return entry->static_smem + wanted_smem(entry, device) <= device->max_smem_optin;
}

static kpk_status opt_in(const kpk_image *image, uint32_t index, kpk_cu_kernel kernel,
                         const struct kpk_device *device)
{
    const struct kpk_entry_record *entry = &image->entries[index];
    uint64_t dynamic = wanted_smem(entry, device);
    if (dynamic == 0 || entry->static_smem + dynamic <= device->max_smem)
        return KPK_OK;
    kpk_cu_result error = image->cuda.cuKernelSetAttribute(KPK_CU_FUNC_MAX_DYNAMIC_SMEM,
                                                           (int)dynamic, kernel, device->handle);
    if (error == KPK_CU_SUCCESS)
        return KPK_OK;
    return kpk_driver_fail(image, KPK_ERR_DRIVER, error,
                           "cuKernelSetAttribute for %u bytes of shared memory of '%s:%s' on "
                           "device %d",
                           (unsigned)dynamic, module_name(image, entry->module),
                           entry_name(image, index), device->ordinal);
}

static kpk_status prepare_entry(const kpk_image *image, uint32_t index, kpk_cu_kernel kernel)
{
    const struct kpk_entry_record *entry = &image->entries[index];
    for (size_t i = 0; i < image->device_count; i++) {
        const struct kpk_device *device = &image->devices[i];
        if (!smem_fits(entry, device))
            return kpk_fail(image, KPK_ERR_SMEM,
                            "'%s:%s' needs %u bytes of dynamic and %u of static shared memory, "
                            "device %d has %u for a block",
                            module_name(image, entry->module), entry_name(image, index),
                            entry->dynamic_smem, entry->static_smem, device->ordinal,
                            device->max_smem_optin);
        kpk_status status = opt_in(image, index, kernel, device);
        if (status != KPK_OK)
            return status;
    }
    return KPK_OK;
}

static void publish_entry(kpk_image *image, uint32_t index, kpk_cu_kernel kernel)
{
    const struct kpk_entry_record *entry = &image->entries[index];
    struct kpk_launch_state *state = &image->launch_states[index];
    bool declared = (entry->present & KPK_PRESENT_DYNAMIC_SMEM) != 0;
    memcpy(state->block, entry->block, sizeof(state->block));
    state->default_smem = declared ? entry->dynamic_smem : 0;
    state->max_smem = declared ? entry->dynamic_smem : UINT32_MAX;
    __atomic_store_n(&state->function, (void *)kernel, __ATOMIC_RELEASE);
}

static kpk_status get_entry(kpk_image *image, uint32_t index)
{
    const struct kpk_entry_record *entry = &image->entries[index];
    kpk_cu_kernel kernel = NULL;
    kpk_cu_result error = image->cuda.cuLibraryGetKernel(
        &kernel, image->object_states[entry->object].library, kpk_symbol(image, entry));
    if (error == KPK_CU_NOT_FOUND)
        return kpk_fail(image, KPK_ERR_LOAD, "module '%s': its cubin has no entry '%s'",
                        module_name(image, entry->module), kpk_symbol(image, entry));
    if (error != KPK_CU_SUCCESS)
        return entry_failed(image, index, error, "cuLibraryGetKernel");
    kpk_status status = prepare_entry(image, index, kernel);
    if (status == KPK_OK)
        publish_entry(image, index, kernel);
    return status;
}

static kpk_status load_locked(kpk_image *image, uint32_t index)
{
    if (image->device_count == 0)
        return kpk_fail(image, KPK_ERR_NOT_BOUND, "the image is not bound to a device");
    struct kpk_launch_state *state = &image->launch_states[index];
    if (state->function != NULL)
        return KPK_OK;
    if (state->status != KPK_OK)
        return (kpk_status)state->status;
    kpk_status status = load_object(image, image->entries[index].object);
    if (status != KPK_OK)
        return status;
    status = get_entry(image, index);
    if (stays(status))
        __atomic_store_n(&state->status, (uint32_t)status, __ATOMIC_RELEASE);
    return status;
}

static kpk_status __attribute__((noinline)) load_entry(kpk_image *image, uint32_t index)
{
    pthread_mutex_lock(&image->lock);
    kpk_status status = load_locked(image, index);
    pthread_mutex_unlock(&image->lock);
    return status;
}

kpk_status kpk_load_for_device(kpk_image *image, const struct kpk_device *device)
{
    for (uint32_t i = 0; i < image->entry_count; i++) {
        const struct kpk_entry_record *entry = &image->entries[i];
        kpk_cu_kernel kernel = (kpk_cu_kernel)image->launch_states[i].function;
        if (kernel == NULL)
            continue;
        if (!smem_fits(entry, device)) {
            kpk_report(&image->desc, KPK_WARNING, KPK_OK,
                       "%s: '%s:%s' needs more shared memory than device %d has", image->name,
                       module_name(image, entry->module), entry_name(image, i), device->ordinal);
            continue;
        }
        kpk_status status = opt_in(image, i, kernel, device);
        if (status != KPK_OK)
            return status;
    }
    return KPK_OK;
}

void kpk_unload(kpk_image *image)
{
    if (!kpk_ready(image))
        return;
    for (uint32_t i = 0; i < kpk_count(image, KPK_SECTION_OBJECTS); i++) {
        /* An error here says that the driver has gone before us, at exit. */
        if (image->object_states[i].library != NULL)
            image->cuda.cuLibraryUnload(image->object_states[i].library);
    }
}

/* ---- Launching ----------------------------------------------------------------------------- */

static kpk_status __attribute__((cold)) refuse_handle(const kpk_image *image, uint32_t index)
{
    if (index == KPK_NONE)
        return kpk_fail(image, KPK_ERR_ARGUMENT, "the handle is zero or another image's");
    return kpk_fail(image, KPK_ERR_FORKED, "the image was opened before fork");
}

static kpk_status __attribute__((cold))
refuse_launch(const kpk_image *image, uint32_t index, kpk_grid grid, kpk_grid block, uint32_t smem)
{
    const char *module = module_name(image, image->entries[index].module);
    const char *entry = entry_name(image, index);
    if (block.x == 0 || block.y == 0 || block.z == 0)
        return kpk_fail(image, KPK_ERR_ARGUMENT,
                        "'%s:%s' has no block of its own, and the caller gave none: use "
                        "kpk_launch_block, or declare its block in the target",
                        module, entry);
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
        return kpk_fail(image, KPK_ERR_ARGUMENT, "'%s:%s': the grid %ux%ux%u is empty", module,
                        entry, grid.x, grid.y, grid.z);
    return kpk_fail(image, KPK_ERR_SMEM,
                    "'%s:%s': %u bytes of shared memory asked for, %u are declared", module, entry,
                    smem, image->entries[index].dynamic_smem);
}

static kpk_status __attribute__((cold))
launch_failed(const kpk_image *image, uint32_t index, kpk_cu_result error)
{
    return kpk_driver_fail(image, KPK_ERR_DRIVER, error, "the launch of '%s:%s'",
                           module_name(image, image->entries[index].module),
                           entry_name(image, index));
}

/* What a launch of a usable handle reads, NULL before the first use. */
static inline const struct kpk_launch_state *loaded(const kpk_image *image, uint32_t index)
{
    const struct kpk_launch_state *states =
        __atomic_load_n(&image->launch_states, __ATOMIC_ACQUIRE);
    if (states == NULL || __atomic_load_n(&states[index].function, __ATOMIC_ACQUIRE) == NULL)
        return NULL;
    return &states[index];
}

/* What a use of a handle comes to: of an overlay's, `image` is the layer. */
struct use {
    kpk_image *image;
    const struct kpk_launch_state *state; /* NULL when the status is not OK */
    uint32_t index;
    kpk_status status;
};

/* The way of everything but a loaded kernel of this very image. */
static struct use __attribute__((noinline)) use_first(kpk_image *image, kpk_kernel kernel)
{
    struct use use = {image, NULL, KPK_NONE, KPK_ERR_ARGUMENT};
    if (image == NULL)
        return use;
    use.image = kpk_layer_of(image, kernel);
    use.index = kpk_handle_index(use.image, kernel);
    if (use.index == KPK_NONE || kpk_forked(use.image)) {
        use.status = refuse_handle(use.image, use.index);
        return use;
    }
    use.state = loaded(use.image, use.index);
    use.status = use.state != NULL ? KPK_OK : load_entry(use.image, use.index);
    if (use.state == NULL && use.status == KPK_OK)
        use.state = loaded(use.image, use.index);
    return use;
}

static inline __attribute__((always_inline)) struct use use_kernel(kpk_image *image,
                                                                   kpk_kernel kernel)
{
    uint32_t index = image == NULL ? KPK_NONE : kpk_handle_index(image, kernel);
    if (LIKELY(index != KPK_NONE) && LIKELY(!kpk_forked(image))) {
        struct use use = {image, loaded(image, index), index, KPK_OK};
        if (LIKELY(use.state != NULL))
            return use;
    }
    return use_first(image, kernel);
}

static inline kpk_status launch(const struct use *use, kpk_grid grid, kpk_grid block, uint32_t smem,
                                struct CUstream_st *stream, void **args)
{
    bool sane = grid.x != 0 && grid.y != 0 && grid.z != 0 && block.x != 0 && block.y != 0 &&
                block.z != 0 && smem <= use->state->max_smem;
    if (!LIKELY(sane))
        return refuse_launch(use->image, use->index, grid, block, smem);
    /* The driver takes a CUkernel wherever it takes a CUfunction to launch. */
    kpk_cu_result error = use->image->launch(
        (kpk_cu_function)use->state->function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
        smem != 0 ? smem : use->state->default_smem, stream, args, NULL);
    return LIKELY(error == KPK_CU_SUCCESS) ? KPK_OK : launch_failed(use->image, use->index, error);
}

kpk_status kpk_launch(kpk_image *image, kpk_kernel kernel, kpk_grid grid, uint32_t smem,
                      struct CUstream_st *stream, void **args)
{
    struct use use = use_kernel(image, kernel);
    if (!LIKELY(use.status == KPK_OK))
        return use.status;
    kpk_grid block;
    memcpy(&block, use.state->block, sizeof(block));
    return launch(&use, grid, block, smem, stream, args);
}

kpk_status kpk_launch_block(kpk_image *image, kpk_kernel kernel, kpk_grid grid, kpk_grid block,
                            uint32_t smem, struct CUstream_st *stream, void **args)
{
    struct use use = use_kernel(image, kernel);
    if (!LIKELY(use.status == KPK_OK))
        return use.status;
    return launch(&use, grid, block, smem, stream, args);
}

kpk_status kpk_function(kpk_image *image, kpk_kernel kernel, void **out_function)
{
    if (out_function == NULL)
        return KPK_ERR_ARGUMENT;
    *out_function = NULL;
    struct use use = use_kernel(image, kernel);
    if (use.status == KPK_OK)
        *out_function = use.state->function;
    return use.status;
}

/* ---- Preloading ---------------------------------------------------------------------------- */

/* The driver defers a library's load into a context to its first launch there; asks for it now. */
static kpk_status load_into_context(const kpk_image *image, uint32_t index, void *function)
{
    kpk_cu_function in_context = NULL;
    const char *call = "cuKernelGetFunction";
    kpk_cu_result error = image->cuda.cuKernelGetFunction(&in_context, (kpk_cu_kernel)function);
    if (error == KPK_CU_SUCCESS && image->cuda.cuFuncLoad != NULL) {
        call = "cuFuncLoad";
        error = image->cuda.cuFuncLoad(in_context);
    }
    return error == KPK_CU_SUCCESS ? KPK_OK : entry_failed(image, index, error, call);
}

static kpk_kernel nth(const kpk_image *image, const kpk_kernel *kernels, size_t position)
{
    return kernels == NULL ? kpk_nth_kernel(image, position) : kernels[position];
}

/* Groups then decode at once as far as all these kernels need them. */
static void set_reach(kpk_image *image, const kpk_image *overlay, const kpk_kernel *kernels,
                      size_t count)
{
    pthread_mutex_lock(&image->lock);
    for (size_t i = 0; i < count; i++) {
        uint32_t index = kpk_handle_index(image, nth(overlay, kernels, i));
        if (index == KPK_NONE)
            continue;
        const struct kpk_blob_record *blob =
            &image->blobs[image->objects[image->entries[index].object].blob];
        struct kpk_group_state *group = &image->group_states[blob->group];
        if (group->reach < blob->offset + blob->size)
            group->reach = blob->offset + blob->size;
    }
    pthread_mutex_unlock(&image->lock);
}

/* Asks for the current context once, at the first kernel that is loaded. */
static kpk_status preload_one(kpk_image *image, kpk_kernel kernel, kpk_cu_context *context)
{
    struct use use = use_kernel(image, kernel);
    if (use.status != KPK_OK)
        return use.status;
    if (*context == NULL && use.image->cuda.cuCtxGetCurrent(context) != KPK_CU_SUCCESS)
        *context = NULL;
    return *context == NULL ? KPK_OK : load_into_context(use.image, use.index, use.state->function);
}

kpk_status kpk_preload(kpk_image *image, const kpk_kernel *kernels, size_t count)
{
    if (image == NULL)
        return KPK_ERR_ARGUMENT;
    if (kpk_forked(image))
        return refuse_handle(image, 0);
    if (!kpk_ready(image))
        return kpk_fail(image, KPK_ERR_NOT_BOUND, "the bundle is not bound to a device");
    kpk_cu_context context = NULL;
    size_t total = kernels == NULL ? kpk_kernel_count(image) : count;
    for (uint32_t i = 0; i < kpk_layer_count(image); i++)
        set_reach(kpk_layer(image, i), image, kernels, total);
    for (size_t i = 0; i < total; i++) {
        kpk_kernel kernel = nth(image, kernels, i);
        kpk_status status = kernel.id == 0 ? KPK_OK : preload_one(image, kernel, &context);
        if (status != KPK_OK)
            return status;
    }
    return KPK_OK;
}

bool kpk_resident(const kpk_image *image, const kpk_kernel *kernels, size_t count)
{
    if (image == NULL || kpk_forked(image) || !kpk_ready(image))
        return false;
    size_t total = kernels == NULL ? kpk_kernel_count(image) : count;
    for (size_t i = 0; i < total; i++) {
        kpk_kernel kernel = nth(image, kernels, i);
        const kpk_image *layer = kpk_layer_of(image, kernel);
        uint32_t index = kpk_handle_index(layer, kernel);
        if (kernel.id != 0 && (index == KPK_NONE || loaded(layer, index) == NULL))
            return false;
    }
    return true;
}

void kpk_free_groups(kpk_image *image)
{
    if (!kpk_ready(image))
        return;
    for (uint32_t i = 0; i < kpk_count(image, KPK_SECTION_GROUPS); i++) {
        kpk_decode_free(&image->group_states[i].decoding);
        image->group_states[i].reach = 0;
    }
    free_spare(image);
}

void kpk_trim(kpk_image *image)
{
    if (image == NULL || kpk_forked(image))
        return;
    for (uint32_t i = 0; i < kpk_layer_count(image); i++) {
        kpk_image *layer = kpk_layer(image, i);
        pthread_mutex_lock(&layer->lock);
        kpk_free_groups(layer);
        pthread_mutex_unlock(&layer->lock);
    }
}
