"""ctypes over libkpk and libkpk_ops, as the headers declare them."""
import ctypes as C
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def find(*names):
    """The first of `names` that exists in the bundle, or in the tree's out/; None when none does."""
    for name in names:
        for folder in (ROOT, os.path.join(ROOT, "out")):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
    return None


class Kernel(C.Structure):
    _fields_ = [("id", C.c_uint64)]


class Grid(C.Structure):
    _fields_ = [("x", C.c_uint32), ("y", C.c_uint32), ("z", C.c_uint32)]


MESSAGE = C.CFUNCTYPE(None, C.c_void_p, C.c_int, C.c_char_p)


class OpenDesc(C.Structure):
    _fields_ = [("message", MESSAGE), ("message_user", C.c_void_p), ("symbol", C.c_void_p),
                ("symbol_user", C.c_void_p), ("driver_path", C.c_char_p), ("target", C.c_char_p)]


class PartInfo(C.Structure):
    _fields_ = ([("target", C.c_char_p), ("arch", C.c_char_p)]
                + [(n, C.c_uint32) for n in ("compute_major", "compute_minor", "min_driver")]
                + [("offset", C.c_uint64), ("size", C.c_uint64)])


class ImageInfo(C.Structure):
    _fields_ = ([("target", C.c_char_p), ("arch", C.c_char_p), ("stamp", C.c_char_p)]
                + [(n, C.c_uint32) for n in (
                    "format_version", "compute_major", "compute_minor", "min_driver", "nvrtc_major",
                    "nvrtc_minor", "sm_count", "smem_optin", "module_count", "entry_count",
                    "object_count", "blob_count", "group_count", "lever_count", "absent_count")]
                + [("raw_bytes", C.c_uint64), ("file_bytes", C.c_uint64)])


class ModuleInfo(C.Structure):
    _fields_ = ([("name", C.c_char_p), ("source", C.c_char_p), ("origin", C.c_char_p)]
                + [(n, C.c_uint32) for n in ("first_entry", "entry_count", "first_object",
                                             "object_count", "constant_count", "flag_count")]
                + [("digest", C.c_uint8 * 32)])


class EntryInfo(C.Structure):
    _fields_ = ([("kernel", Kernel), ("module", C.c_char_p), ("name", C.c_char_p),
                  ("symbol", C.c_char_p), ("twin_of", C.c_char_p),
                 ("bits", C.c_int), ("has_block", C.c_bool), ("has_dynamic_smem", C.c_bool),
                 ("has_spill", C.c_bool), ("block", Grid)]
                + [(n, C.c_uint32) for n in ("dynamic_smem", "static_smem", "registers",
                                             "stack_bytes", "spill_bytes")]
                + [("code_bytes", C.c_uint64), ("module_index", C.c_uint32), ("object", C.c_uint32)])


class ObjectInfo(C.Structure):
    _fields_ = [("module", C.c_uint32), ("blob", C.c_uint32)]


class BlobInfo(C.Structure):
    _fields_ = [("group", C.c_uint32), ("offset", C.c_uint64), ("size", C.c_uint64)]


def load_library():
    path = find("lib/libkpk.so")
    if path is None:
        raise FileNotFoundError("no libkpk.so beside the tests: run 'make gpu-bundle'")
    lib = C.CDLL(path, mode=C.RTLD_GLOBAL)
    pointer, u32 = C.c_void_p, C.c_uint32
    signatures = {
        "kpk_status_text": (C.c_char_p, [C.c_int]),
        "kpk_open": (C.c_int, [C.c_char_p, C.POINTER(OpenDesc), C.POINTER(pointer)]),
        "kpk_close": (None, [pointer]),
        "kpk_bind": (C.c_int, [pointer, C.c_int]),
        "kpk_resolve": (Kernel, [pointer, C.c_char_p, C.c_char_p]),
        "kpk_launch": (C.c_int, [pointer, Kernel, Grid, u32, pointer, C.POINTER(pointer)]),
        "kpk_launch_block": (C.c_int, [pointer, Kernel, Grid, Grid, u32, pointer, C.POINTER(pointer)]),
        "kpk_preload": (C.c_int, [pointer, C.POINTER(Kernel), C.c_size_t]),
        "kpk_part_count": (u32, [pointer]),
        "kpk_get_part": (C.c_int, [pointer, u32, C.POINTER(PartInfo)]),
        "kpk_get_image": (C.c_int, [pointer, C.POINTER(ImageInfo)]),
        "kpk_get_module": (C.c_int, [pointer, u32, C.POINTER(ModuleInfo)]),
        "kpk_get_entry": (C.c_int, [pointer, u32, C.POINTER(EntryInfo)]),
        "kpk_get_object": (C.c_int, [pointer, u32, C.POINTER(ObjectInfo)]),
        "kpk_get_blob": (C.c_int, [pointer, u32, C.POINTER(BlobInfo)]),
        "kpk_read_blob": (C.c_int, [pointer, u32, pointer, C.c_size_t]),
        "kpk_constant": (C.c_int, [pointer, C.c_char_p, C.c_char_p, C.POINTER(C.c_int64)]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class Failed(Exception):
    """A status other than KPK_OK; .status is its number."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Image:
    """An open image, bound to device 0 unless bind=False. Its messages collect in .messages."""

    def __init__(self, path, bind=True, target=None):
        self.lib = load_library()
        self.messages = []
        self.callback = MESSAGE(lambda user, severity, text: self.messages.append(text.decode()))
        self.handle = C.c_void_p()
        desc = OpenDesc(message=self.callback, target=target.encode() if target else None)
        self.check(self.lib.kpk_open(path.encode(), C.byref(desc), C.byref(self.handle)))
        if bind:
            self.check(self.lib.kpk_bind(self.handle, 0))

    def close(self):
        self.lib.kpk_close(self.handle)
        self.handle = None

    def check(self, status):
        if status != 0:
            said = self.messages[-1] if self.messages else ""
            raise Failed(status, f"{self.lib.kpk_status_text(status).decode()}: {said}")

    def info(self):
        info = ImageInfo()
        self.check(self.lib.kpk_get_image(self.handle, C.byref(info)))
        return info

    def parts(self):
        return list(self._list(PartInfo, self.lib.kpk_part_count(self.handle), self.lib.kpk_get_part))

    def _list(self, kind, count, function):
        for index in range(count):
            item = kind()
            self.check(function(self.handle, index, C.byref(item)))
            yield item

    def modules(self):
        return list(self._list(ModuleInfo, self.info().module_count, self.lib.kpk_get_module))

    def entries(self):
        return list(self._list(EntryInfo, self.info().entry_count, self.lib.kpk_get_entry))

    def cubins(self):
        """Yields (module name, cubin bytes), one per object."""
        modules = self.modules()
        for item in self._list(ObjectInfo, self.info().object_count, self.lib.kpk_get_object):
            blob = BlobInfo()
            self.check(self.lib.kpk_get_blob(self.handle, item.blob, C.byref(blob)))
            buffer = C.create_string_buffer(blob.size)
            self.check(self.lib.kpk_read_blob(self.handle, item.blob, buffer, blob.size))
            yield modules[item.module].name.decode(), buffer.raw

    def resolve(self, module, entry):
        """The handle, or None when the image does not ship it."""
        kernel = self.lib.kpk_resolve(self.handle, module.encode(), entry.encode())
        return kernel if kernel.id else None

    def preload(self):
        self.check(self.lib.kpk_preload(self.handle, None, 0))

    def launch(self, kernel, grid, args, smem=0, stream=0, block=None):
        """args: ctypes values, one per parameter of the kernel."""
        pointers = (C.c_void_p * len(args))(*(C.addressof(a) for a in args))
        grid = Grid(*(tuple(grid) + (1, 1, 1))[:3])
        if block is None:
            status = self.lib.kpk_launch(self.handle, kernel, grid, smem, stream, pointers)
        else:
            block = Grid(*(tuple(block) + (1, 1, 1))[:3])
            status = self.lib.kpk_launch_block(self.handle, kernel, grid, block, smem, stream, pointers)
        self.check(status)
