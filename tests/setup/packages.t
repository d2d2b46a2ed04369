#!/usr/bin/env python3
""".ci/setup's packages: what it asks for, of whom, and what it says; with stubs for the machine."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open("/etc/os-release", encoding="utf-8") as release:
    CHROMIUM = [] if "\nID=ubuntu\n" in "\n" + release.read() else ["chromium"]
BUILD = ["gcc", "make", "pkg-config", "liblua5.4-dev", "libzstd-dev", "libjansson-dev", "libb2-dev",
         "libxxhash-dev"]
TEST = ["libcmocka-dev", "g++", "clang", "gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user",
        "python3", "python3-pip", "git", "clang-format-14", "lua-check", "shellcheck", "mandoc", "codespell", "zstd", "faketime"] + CHROMIUM
BUILD_TOOLS = ["gcc", "make"]
TEST_TOOLS = ["g++", "clang++", "aarch64-linux-gnu-gcc", "qemu-aarch64", "python3", "pip3", "git",
              "clang-format-14", "luacheck", "shellcheck", "mandoc", "codespell", "zstd", "faketime", "chromium"]
BUILD_MODULES = ["lua5.4", "libzstd", "jansson", "libb2", "libxxhash"]
results = []


def check(name, held, note=""):
    results.append(held)
    print(f"{'ok' if held else 'not ok'} {len(results)} - {name}")
    if not held:
        print("\n".join("# " + line for line in str(note).splitlines()))


class Machine:
    """A copy of .ci/ and a PATH that holds just the given tools, pkg-config modules and user."""

    def __init__(self, tools, modules, uid="0", apt="true", sudo=None):
        self.folder = tempfile.mkdtemp()
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)
        shutil.copytree(os.path.join(ROOT, ".ci"), os.path.join(self.folder, ".ci"))
        for name in ("sh", "dirname", "env", "mkdir", "tail", "true", "cat", "flock", "ls", "mv", "rm"):
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        for name in tools:
            self.stub(name, "exit 0")
        if modules is not None:
            self.stub("pkg-config", "shift\nfor m in \"$@\"; do case \" " + " ".join(modules) +
                      " \" in *\" $m \"*) ;; *) exit 1 ;; esac; done")
        self.stub("id", f"echo {uid}")
        self.log = os.path.join(self.folder, "apt.log")
        if apt is not None:
            self.stub("apt-get", f"echo \"$DEBIAN_FRONTEND $*\" >> '{self.log}'\n{apt}")
        if sudo is not None:
            self.stub("sudo", sudo)

    def stub(self, name, body):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!{self.bin}/sh\n{body}\n")
        os.chmod(path, 0o755)

    def run(self, *what, script="setup"):
        done = subprocess.run([os.path.join(self.bin, "sh"), os.path.join(self.folder, ".ci", script), *what],
                              env={"PATH": self.bin}, stdin=subprocess.DEVNULL, timeout=30,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        asked = []
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as file:
                asked = file.read().splitlines()
        self.left = sorted(os.listdir(os.path.join(self.folder, "out"))) if os.path.isdir(f"{self.folder}/out") else []
        shutil.rmtree(self.folder)
        return done.returncode, done.stdout.decode(), done.stderr.decode(), asked


def packages_of(line):
    words = line.split()
    return [w for w in words[words.index("--no-install-recommends") + 1:]
            if not w.startswith("-") and not w.startswith("DPkg")]


def this_machine():
    best = 1.0
    for _ in range(5):
        start = time.monotonic()
        done = subprocess.run([os.path.join(ROOT, ".ci", "setup"), "build", "test"], timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        best = min(best, time.monotonic() - start)
    check("nothing missing: no output", (done.returncode, done.stdout) == (0, b""), done.stdout)
    check("nothing missing: under 0.1 s", best < 0.1, f"{best:.3f} s")


def nothing_missing():
    code, out, err, asked = Machine(BUILD_TOOLS, BUILD_MODULES).run("build")
    check("a build needs nothing that only tests need", (code, out, err, asked) == (0, "", "", []), err)


def root_installs():
    code, out, err, asked = Machine([], None).run("build", "test")
    check("root: installs without asking", code == 0 and len(asked) == 2, err)
    check("root: refreshes the lists first", asked[0].startswith("noninteractive update"), asked)
    check("root: the whole set by name", sorted(packages_of(asked[1])) == sorted(BUILD + TEST), asked[1])
    check("root: says what it installs", err.startswith("setup: installing gcc"), err)

    code, _, err, asked = Machine(BUILD_TOOLS + TEST_TOOLS, ["lua5.4", "jansson", "libb2", "libxxhash"]
                                  ).run("build", "test")
    check("root: only what is missing", code == 0 and packages_of(asked[1]) == ["libzstd-dev", "libcmocka-dev"],
          asked)


def others_are_told():
    code, out, err, asked = Machine(["gcc"], BUILD_MODULES, uid="1000").run("build")
    check("a plain user: the one line to run",
          (code, out) == (1, "sudo apt-get install -y --no-install-recommends make\n"), out + err)
    check("a plain user: nothing is run", asked == [], asked)
    code, out, _, asked = Machine(["gcc"], BUILD_MODULES, uid="1000", sudo="exit 1").run()
    check("sudo that would ask: the one line to run", code == 1 and out.startswith("sudo apt-get") and not asked, out)
    code, _, err, asked = Machine(["gcc"], BUILD_MODULES, uid="1000", sudo="shift; exec \"$@\"").run()
    check("sudo that does not ask: installs", code == 0 and packages_of(asked[1]) == ["make"], err)


def cross_libraries():
    """Those of aarch64, by an apt-get and a dpkg that only say what they were asked."""
    cross = ["aarch64-linux-gnu-gcc"]
    code, _, err, asked = Machine(BUILD_TOOLS, BUILD_MODULES).run("arm64")
    check("arm64: no cross compiler, and what installs it", code == 1 and "'.ci/setup test' installs it" in err, err)
    machine = Machine(cross, BUILD_MODULES, apt="echo \"E: nowhere\"; exit 100")
    code, _, err, asked = machine.run("arm64")
    check("arm64: apt-get fails: its words, and no libraries by half", code == 1 and "E: nowhere" in err and
          "sysroot-arm64" not in machine.left, err)
    machine = Machine(cross, BUILD_MODULES, apt="case $* in *download*) : >x_arm64.deb ;; esac")
    machine.stub("dpkg", f"echo \"$*\" >>'{machine.log}'; mkdir -p \"$3/usr\"")
    with open(os.path.join(machine.folder, ".ci", "twice"), "w", encoding="utf-8") as file:
        file.write('setup="${0%/*}/setup"; sh "$setup" arm64 && sh "$setup" arm64')
    code, out, err, asked = machine.run("arm64", script="twice")
    check("arm64: packages are unpacked, not installed; a second run has nothing to do",
          code == 0 and err.count("fetching") == 1 and len(asked) == 3 and asked[2].startswith("-x ") and
          not any(" install" in a for a in asked), (err, asked))
    options = ("APT::Architectures=arm64", "Dir::State=", "Dir::Cache=", "Dir::State::status=")
    check("arm64: apt's state and cache are in out/", all(o in a for o in options for a in asked[:2]) and
          f"Dir::State={machine.folder}/out/" in asked[0], asked)
    check("arm64: nothing else is left", [n for n in machine.left if n.endswith(".tmp")] == [] and
          "sysroot-arm64" in machine.left, machine.left)


def failures():
    code, _, err, _ = Machine(["gcc"], BUILD_MODULES, apt="echo 'E: no such package'; exit 100").run()
    check("apt-get fails: its words and the packages", code == 1 and "E: no such package" in err and
          "the packages needed: make" in err, err)
    code, _, err, _ = Machine(["gcc"], BUILD_MODULES, apt=None).run()
    check("no apt-get: the packages by name", code == 1 and "no apt-get: make" in err, err)
    code, _, err, _ = Machine(BUILD_TOOLS, BUILD_MODULES).run("biuld")
    check("an unknown word: usage", code == 2 and err.startswith("usage:"), err)


this_machine()
nothing_missing()
root_installs()
others_are_told()
cross_libraries()
failures()
print(f"1..{len(results)}")
sys.exit(0 if all(results) else 1)
