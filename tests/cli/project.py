"""Projects for the tests of build: descriptions, sources that a fake NVRTC obeys, and processes."""
import glob
import json
import os
import shutil
import signal
import subprocess
import time

from harness import ROOT, Result, Skip, binary, check, environment, kpack, read, same, write

FAKE = os.path.join(ROOT, "out", "fake", "nvrtc")
CUBIN = os.path.join(ROOT, "tests", "golden", "cubins", "nvrtc130-sm_90a.cubin")
GOOD = f"fake cubin {CUBIN}"  # entries plain, stack, static_smem, _Z9templatedILi3EEvPf


def module(name, entries='"plain"', more=""):
    return f'k.module "{name}" {{ source = "kernels/{name}.cu", {more} entries = {{ {entries} }} }}'


def target(modules, name="tiny", arch="sm_90a", more=""):
    """A description with one module a line, from line 4 on."""
    lines = "\n".join(f"  {m}," for m in modules)
    return (f'local k = require "kpack"\n'
            f'return k.target {{ name = "{name}", arch = "{arch}", {more}\n modules = {{\n{lines}\n}} }}\n')


def source(folder, name, *commands):
    """A source for the fake NVRTC, or with one text of several lines for the real one."""
    return write(f"{folder}/kernels/{name}.cu", "\n".join(commands) + "\n")


def tiny(folder, *modules, commands=(GOOD,), **more):
    """tiny.lua with these modules (by default one, "m"), each with a source of these commands."""
    modules = modules or (module("m"),)
    for text in modules:
        source(folder, text.split('"')[1], *commands)
    return write(f"{folder}/tiny.lua", target(modules, **more))


def build(folder, *args, env=None, fake=FAKE, **more):
    args = [*args] if args else ["tiny.lua"]
    return kpack(*(["--cuda", fake] if fake else []), *args, cwd=folder, env=env, **more)


def listing(folder, image="out/tiny.kpk"):
    return json.loads(kpack("list", "--json", image, cwd=folder).out)


def entry(folder, name="plain", image="out/tiny.kpk"):
    found = [e for m in listing(folder, image)["modules"] for e in m["entries"] if e["name"] == name]
    check(len(found) == 1, f"no entry {name}")
    return found[0]


def left_behind(folder):
    """Files that are neither images nor sidecars, such as half-written ones."""
    names = []
    for where, _, files in os.walk(folder):
        names += [os.path.join(where, f) for f in files if f.startswith(".")]
    return names


class Started:
    """A build that runs; every process of it carries a mark in its environment."""

    def __init__(self, folder, *args, env=None, fake=FAKE, **more):
        self.mark = f"KPACK_TEST_MARK={os.getpid()}-{time.monotonic_ns()}"
        name, value = self.mark.split("=")
        args = [*args] if args else ["tiny.lua"]
        self.process = subprocess.Popen(
            [binary(), *(["--cuda", fake] if fake else []), *args], cwd=folder,
            env=environment({**(env or {}), name: value}), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def processes(self):
        found = []
        for pid in os.listdir("/proc"):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if self.mark.encode() in file.read().split(b"\0"):
                        found.append(int(pid))
            except (OSError, ValueError):
                continue
        return found

    def workers(self):
        return [pid for pid in self.processes() if pid != self.process.pid]

    def wait_for(self, what, condition, seconds=20):
        end = time.monotonic() + seconds
        while not condition():
            check(time.monotonic() < end, f"waited {seconds} s for {what}")
            time.sleep(0.01)

    def wait_for_workers(self, count=1):
        self.wait_for(f"{count} workers", lambda: len(self.workers()) >= count)
        time.sleep(0.2)  # into the compile itself

    def end(self, number=None):
        """Sends a signal, if any; returns (status, out, err). No process may be left."""
        if number:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        self.wait_for("the workers' end", lambda: not self.processes())
        return self.process.returncode, out.decode(), err.decode()

    def kill(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()


class World:
    """A project, and a CUDA folder of its own whose NVRTC says what it compiled."""

    def __init__(self, folder):
        self.folder = folder
        self.cuda = os.path.join(os.path.dirname(folder), "cuda")
        if not os.path.isdir(self.cuda):
            shutil.copytree(FAKE, self.cuda)
        self.count = write(f"{self.cuda}/lib64/compiles.txt", "")

    def build(self, *args, status=0, **more):
        """Builds; returns the stems of the sources that were compiled, sorted."""
        write(self.count, "")
        self.result = build(self.folder, *args, fake=self.cuda, **more)
        same(self.result.status, status, self.result)
        lines = read(self.count).decode().split("\n")[:-1]
        return sorted(os.path.splitext(os.path.basename(line.split(" ")[0]))[0] for line in lines)


class Mounted:
    """A small or read-only file system at a folder; skips where that cannot be made."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options

    def __enter__(self):
        os.makedirs(self.folder, exist_ok=True)
        if os.geteuid() != 0:
            raise Skip("only root mounts a file system")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", self.options, "tmpfs", self.folder],
                              stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise Skip("mounting is not allowed here")
        return self

    def remount(self, options):
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder], check=True)

    def fill(self):
        """Leaves no byte; returns the path of the file that takes them."""
        filler = os.path.join(self.folder, "filler")
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                return filler
        raise AssertionError("a full file system took more")

    def __exit__(self, *_):
        subprocess.run(["umount", self.folder], check=True)


def hidden(folder, *args):
    """Runs kpack where CUDA's usual folders are empty: in a mount name space of its own."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skip("only root, with unshare, hides the toolkit of this machine")
    usual = glob.glob("/usr/local/cuda*") + ["/opt/cuda", "/usr/lib/cuda", f"{ROOT}/out/cuda"]
    places = sorted({os.path.realpath(p) for p in usual if os.path.isdir(p)})
    script = "".join(f"mount -t tmpfs tmpfs '{p}' || exit 99; " for p in places) + 'exec "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", binary(), *args], cwd=folder,
                          env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode == 99 or b"unshare:" in done.stderr:
        raise Skip("name spaces are not allowed here")
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())
