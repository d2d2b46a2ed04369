#include "kpk_image.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool kpk_forked_slow(const kpk_image *image)
{
    return image->guard_page != NULL || (long)getpid() != image->pid;
}

kpk_status kpk_driver_fail(const kpk_image *image, kpk_status status, kpk_cu_result error,
                           const char *format, ...)
{
    char what[KPK_MESSAGE_SIZE / 2];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    const char *name = NULL, *text = NULL;
    if (image->cuda.cuGetErrorName != NULL)
        image->cuda.cuGetErrorName(error, &name);
    if (image->cuda.cuGetErrorString != NULL)
        image->cuda.cuGetErrorString(error, &text);
    bool capture = error == KPK_CU_CAPTURE_UNSUPPORTED || error == KPK_CU_CAPTURE_INVALIDATED;
    return kpk_fail(image, capture ? KPK_ERR_CAPTURE : status, "%s failed with %s (%d): %s%s", what,
                    name != NULL ? name : "an unknown error", error, text != NULL ? text : "",
                    capture ? "; call kpk_preload before the capture begins" : "");
}

static void *find_symbol(kpk_image *image, const char *name)
{
    if (image->desc.symbol != NULL)
        return image->desc.symbol(image->desc.symbol_user, name);
    return image->driver == NULL ? NULL : dlsym(image->driver, name);
}

static void find_symbols(kpk_image *image)
{
    struct kpk_cuda *cuda = &image->cuda;
    void *address;
    /* ISO C has no cast from an object pointer to a function's; POSIX promises the copy works. */
#define KPK_FIND(name, parameters, required)                                                       \
    address = find_symbol(image, #name);                                                           \
    memcpy(&cuda->name, &address, sizeof(address));
    KPK_CUDA_SYMBOLS(KPK_FIND)
#undef KPK_FIND
}

static const char *first_missing(const struct kpk_cuda *cuda)
{
#define KPK_MISSING(name, parameters, required)                                                    \
    if (required && cuda->name == NULL)                                                            \
        return #name;
    KPK_CUDA_SYMBOLS(KPK_MISSING)
#undef KPK_MISSING
    return NULL;
}

static const char *driver_name(const kpk_image *image)
{
    if (image->desc.symbol != NULL)
        return "the symbol resolver";
    return image->driver_path != NULL ? image->driver_path : "libcuda.so.1";
}

static kpk_status open_driver(kpk_image *image)
{
    if (image->desc.symbol != NULL || image->driver != NULL)
        return KPK_OK;
    /* Never closed: the driver does not survive being unloaded and loaded again. */
    image->driver = dlopen(driver_name(image), RTLD_NOW | RTLD_LOCAL);
    if (image->driver != NULL)
        return KPK_OK;
    const char *reason = dlerror();
    return kpk_fail(image, KPK_ERR_NO_DRIVER, "cannot open the CUDA driver '%s': %s",
                    driver_name(image), reason != NULL ? reason : "unknown reason");
}

static kpk_status check_version(const kpk_image *image, unsigned needed)
{
    int version = 0;
    kpk_cu_result error = image->cuda.cuDriverGetVersion(&version);
    if (error != KPK_CU_SUCCESS)
        return kpk_driver_fail(image, KPK_ERR_DRIVER, error, "cuDriverGetVersion");
    if (version >= 0 && (unsigned)version >= needed)
        return KPK_OK;
    return kpk_fail(image, KPK_ERR_OLD_DRIVER,
                    "image needs a driver for CUDA %u.%u or newer, the driver here is for %d.%d",
                    needed / 1000, needed % 1000 / 10, version / 1000, version % 1000 / 10);
}

/* What every driver that can run anything of the image has. */
static unsigned least_driver(const kpk_image *image)
{
    if (kpk_ready(image))
        return image->target->min_driver;
    unsigned least = image->parts[0].min_driver;
    for (uint32_t i = 1; i < image->part_count; i++) {
        if (image->parts[i].min_driver < least)
            least = image->parts[i].min_driver;
    }
    return least;
}

/* The version is asked first: a driver too old for the image may lack functions as well. */
static kpk_status start_cuda(kpk_image *image)
{
    if (image->cuda_ready)
        return KPK_OK;
    kpk_status status = open_driver(image);
    if (status != KPK_OK)
        return status;
    find_symbols(image);
    const char *missing = first_missing(&image->cuda);
    if (image->cuda.cuDriverGetVersion != NULL)
        status = check_version(image, least_driver(image));
    if (status != KPK_OK)
        return status;
    if (missing != NULL)
        return kpk_fail(image, KPK_ERR_NO_DRIVER,
                        "%s has no function '%s': a driver for CUDA 12.0 or newer is needed",
                        driver_name(image), missing);
    kpk_cu_result error = image->cuda.cuInit(0);
    if (error != KPK_CU_SUCCESS)
        return kpk_driver_fail(image, KPK_ERR_DRIVER, error, "cuInit");
    image->launch = image->cuda.cuLaunchKernel;
    image->cuda_ready = true;
    return KPK_OK;
}

bool kpk_arch_fits(char suffix, uint32_t arch_major, uint32_t arch_minor, int major, int minor)
{
    if (major < 0 || minor < 0 || (unsigned)major != arch_major)
        return false;
    return suffix == 'a' ? (unsigned)minor == arch_minor : (unsigned)minor >= arch_minor;
}

static kpk_status describe_device(const kpk_image *image, int ordinal,
                                  struct kpk_device *out_device)
{
    kpk_cu_device handle = 0;
    kpk_cu_result error = image->cuda.cuDeviceGet(&handle, ordinal);
    if (error != KPK_CU_SUCCESS)
        return kpk_driver_fail(image, KPK_ERR_DRIVER, error, "cuDeviceGet of device %d", ordinal);
    static const int attributes[4] = {KPK_CU_DEVICE_MAJOR, KPK_CU_DEVICE_MINOR,
                                      KPK_CU_DEVICE_MAX_SMEM, KPK_CU_DEVICE_MAX_SMEM_OPTIN};
    int values[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        error = image->cuda.cuDeviceGetAttribute(&values[i], attributes[i], handle);
        if (error != KPK_CU_SUCCESS)
            return kpk_driver_fail(image, KPK_ERR_DRIVER, error,
                                   "cuDeviceGetAttribute of device %d", ordinal);
    }
    out_device->handle = handle;
    out_device->ordinal = ordinal;
    out_device->major = values[0];
    out_device->minor = values[1];
    out_device->max_smem = values[2] > 0 ? (uint32_t)values[2] : 0;
    out_device->max_smem_optin = values[3] > values[2] ? (uint32_t)values[3] : out_device->max_smem;
    return KPK_OK;
}

static kpk_status wrong_device(const kpk_image *image, const struct kpk_device *device,
                               const char *side)
{
    char name[128] = "";
    if (image->cuda.cuDeviceGetName(name, (int)sizeof(name) - 1, device->handle) != KPK_CU_SUCCESS)
        name[0] = '\0';
    return kpk_fail(image, KPK_ERR_WRONG_DEVICE,
                    "%s, device %d is '%s' with compute capability %d.%d", side, device->ordinal,
                    name, device->major, device->minor);
}

static kpk_status check_device(const kpk_image *image, const struct kpk_device *device)
{
    const struct kpk_target_record *target = image->target;
    const char *arch = kpk_text(image, target->arch);
    if (kpk_arch_fits(arch[target->arch.size - 1], target->compute_major, target->compute_minor,
                      device->major, device->minor))
        return KPK_OK;
    char side[KPK_MESSAGE_SIZE / 2];
    snprintf(side, sizeof(side), "%s is for %s", image->part_count > 0 ? "the part" : "image",
             arch);
    return wrong_device(image, device, side);
}

/* Picks the part for a device, after the driver's version is known to do for it. */
static kpk_status pick_for_device(kpk_image *image, const struct kpk_device *device)
{
    uint32_t index = kpk_part_for_device(image, device->major, device->minor);
    if (index == KPK_NONE) {
        char list[KPK_MESSAGE_SIZE / 2], side[KPK_MESSAGE_SIZE / 2 + 32];
        kpk_list_parts(image, list, sizeof(list));
        snprintf(side, sizeof(side), "bundle is for %s", list);
        return wrong_device(image, device, side);
    }
    kpk_status status = check_version(image, image->parts[index].min_driver);
    return status != KPK_OK ? status : kpk_pick_part(image, index);
}

/* zstd asks the processor what it can do for each new context, and a virtual machine's host answers
 * that: several microseconds that no first use need pay. */
static bool make_first_context(kpk_image *image)
{
    if (image->device_count == 0 && image->waiting_groups > 0 && image->spare_context == NULL)
        image->spare_context = kpk_make_context();
    return image->device_count > 0 || image->waiting_groups == 0 || image->spare_context != NULL;
}

static kpk_status add_device(kpk_image *image, int ordinal)
{
    struct kpk_device device;
    kpk_status status = describe_device(image, ordinal, &device);
    if (status == KPK_OK)
        status = kpk_ready(image) ? check_device(image, &device) : pick_for_device(image, &device);
    if (status != KPK_OK)
        return status;
    for (size_t i = 0; i < image->device_count; i++) {
        if (image->devices[i].handle == device.handle)
            return KPK_OK;
    }
    if (image->launch_states == NULL) {
        void *states = calloc(image->entry_count + 1u, sizeof(*image->launch_states));
        __atomic_store_n(&image->launch_states, (struct kpk_launch_state *)states,
                         __ATOMIC_RELEASE);
    }
    void *grown = realloc(image->devices, (image->device_count + 1) * sizeof(device));
    if (grown != NULL)
        image->devices = (struct kpk_device *)grown;
    if (grown == NULL || image->launch_states == NULL || !make_first_context(image))
        return kpk_fail(image, KPK_ERR_MEMORY, "no memory to bind device %d", ordinal);
    status = kpk_load_for_device(image, &device);
    if (status == KPK_OK)
        image->devices[image->device_count++] = device;
    return status;
}

static kpk_status bind_one(kpk_image *image, int device)
{
    pthread_mutex_lock(&image->lock);
    kpk_status status = start_cuda(image);
    if (status == KPK_OK)
        status = add_device(image, device);
    __atomic_store_n(&image->bind_status, (uint32_t)status, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&image->lock);
    return status;
}

kpk_status kpk_bind(kpk_image *image, int device)
{
    if (image == NULL)
        return KPK_ERR_ARGUMENT;
    if (kpk_forked(image))
        return kpk_fail(image, KPK_ERR_FORKED, "the image was opened before fork");
    if (device < 0)
        return kpk_fail(image, KPK_ERR_ARGUMENT, "device %d is not an ordinal", device);
    kpk_status status = KPK_OK;
    for (uint32_t i = 0; i < kpk_layer_count(image) && status == KPK_OK; i++)
        status = bind_one(kpk_layer(image, i), device);
    return status;
}

void *kpk_driver_symbol(kpk_image *image, const char *name)
{
    if (image == NULL || name == NULL || kpk_forked(image))
        return NULL;
    image = kpk_layer(image, 0);
    pthread_mutex_lock(&image->lock);
    void *address = image->device_count > 0 ? find_symbol(image, name) : NULL;
    pthread_mutex_unlock(&image->lock);
    return address;
}
