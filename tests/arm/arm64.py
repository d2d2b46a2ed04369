"""What the tests of the aarch64 build share: where it is, and how qemu-user runs it."""
import os
import shutil
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(ROOT, "out", "arm64")
KPACK = os.path.join(ROOT, "tests", "arm", "bin", "kpack")
LIBRARIES = os.path.join(ROOT, "out", "sysroot-arm64", "usr", "lib", "aarch64-linux-gnu")
QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={LIBRARIES}"]


def need():
    """Ends the test as skipped where this machine cannot run aarch64's programs, or has not their libraries."""
    reason = None
    if os.environ.get("KPACK_TEST_OUT"):
        reason = "another build alone is tested"
    elif not shutil.which(QEMU[0]):
        reason = "qemu-aarch64 is not installed"
    elif not os.path.exists(os.path.join(ROOT, "out", "sysroot-arm64", "packages")):
        reason = "aarch64's libraries could not be fetched: '.ci/setup arm64' says why"
    if reason:
        print(f"1..0 # SKIP {reason}")
        sys.exit(0)
    if not os.path.exists(os.path.join(OUT, "bin", "kpack")):
        print("1..1\nnot ok 1 - there is no out/arm64/bin/kpack: run make ARM=1 all unit")
        sys.exit(1)
