#!/usr/bin/env python3
"""Descriptions against golden files: bad/NAME.lua gives the messages of bad/NAME.err, good/targets/NAME.lua
the structs of good/targets/NAME.dump. The unit test's binary prints either when given a file, as built
and under ASan + UBSan."""
import concurrent.futures
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

BINARIES = [b for b in ("out/tests/test_target", "out/san/tests/test_target") if os.path.exists(b)]
BAD, GOOD = "tests/lua/bad", "tests/lua/good/targets"
TIME_LIMIT = 60  # seconds: a script that escapes its caps fails here


def load(binary, path, cwd="."):
    """Returns (status, output) of one description."""
    done = subprocess.run([os.path.abspath(binary), path], cwd=cwd, timeout=TIME_LIMIT, text=True,
                          errors="surrogateescape", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def expect(found, status, text):
    if found == (status, text):
        return ""
    return f"status {found[0]}, expected {status}\n--- expected\n{text}--- found\n{found[1]}"


def golden(folder, name, ending, status):
    def check(binary):
        return expect(load(binary, f"{folder}/{name}.lua"), status, read(f"{folder}/{name}{ending}"))
    return check


def names(folder, ending):
    return sorted(n[:-len(ending)] for n in os.listdir(folder) if n.endswith(ending))


def every_file_has_its_golden(_):
    bad = {n for n in names(BAD, ".lua") if not n.startswith("parent_")}
    missing = sorted(bad ^ set(names(BAD, ".err"))) + \
        sorted(set(names(GOOD, ".lua")) ^ set(names(GOOD, ".dump")))
    return "without a counterpart: " + ", ".join(missing) if missing else ""


def copy_of_good(folder):
    return shutil.copytree("tests/lua/good", folder)


def same_as_good(binary, name, change, where="project"):
    """`change` rewrites the bytes of the description, which must then load as it was."""
    with tempfile.TemporaryDirectory() as base:
        root = copy_of_good(os.path.join(base, where))
        path = f"{root}/targets/{name}.lua"
        with open(path, "rb") as file:
            text = file.read()
        with open(path, "wb") as file:
            file.write(change(text))
        status, output = load(binary, path)
        return expect((status, output.replace(root, "tests/lua/good")), 0, read(f"{GOOD}/{name}.dump"))


def crlf(binary):
    return same_as_good(binary, "child", lambda text: text.replace(b"\n", b"\r\n"))


def lone_cr(binary):
    return same_as_good(binary, "child", lambda text: text.replace(b"\n", b"\r"))


def bom(binary):
    return same_as_good(binary, "child", lambda text: b"\xef\xbb\xbf" + text)


def bom_and_crlf(binary):
    return same_as_good(binary, "base", lambda text: b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"))


def odd_paths(binary):
    return "".join(same_as_good(binary, name, lambda text: text, where)
                   for where in ("with space", "it's \"quoted\"", "größe", "[x]*?\\", "a;b$(c)")
                   for name in ("child", "globbed"))


def long_path(binary):
    # Lua cuts chunk names at 60 bytes: places must not come from them.
    return same_as_good(binary, "computed", lambda text: text, "/".join(["folder" * 20] * 4))


def special(binary, make, expected):
    with tempfile.TemporaryDirectory() as base:
        path = f"{base}/bad.lua"
        make(path)
        status, output = load(binary, path)
        return expect((status, output.replace(base, "DIR")), 1, expected)


def write(text):
    def make(path):
        with open(path, "wb") as file:
            file.write(text)
    return make


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)


def unreadable(path):
    write(b"return {}")(path)
    os.chmod(path, 0)


SPECIAL = {
    "a folder": (os.mkdir, "kpack: error: cannot read 'DIR/bad.lua': it is a directory, expected a regular file\n"),
    "a FIFO": (os.mkfifo, "kpack: error: cannot read 'DIR/bad.lua': it is a special file, expected a regular file\n"),
    "a socket": (a_socket, "kpack: error: cannot read 'DIR/bad.lua': No such device or address\n"),
    "no file": (lambda path: None, "kpack: error: cannot read 'DIR/bad.lua': No such file or directory\n"),
    "bytecode": (write(b"\x1bLua\x54\x00\x19\x93\r\n\x1a\n"),
                 "kpack: error: DIR/bad.lua: the file is Lua bytecode, expected Lua text\n"),
    "bytecode after a BOM": (write(b"\xef\xbb\xbf\x1bLua\x54\x00"),
                             "kpack: error: DIR/bad.lua: the file is Lua bytecode, expected Lua text\n"),
    "UTF-16": (write("return {}".encode("utf-16")),
               "kpack: error: DIR/bad.lua:1: unexpected symbol near '<\\255>'\n"),
    "an image": (lambda path: shutil.copy("tests/golden/v1.kpk", path),
                 "kpack: error: DIR/bad.lua: the file is an image, expected a description: see 'kpack list'\n"),
    "a NUL byte": (write(b"return \0{}"),
                   "kpack: error: DIR/bad.lua:1: unexpected symbol\n"),
    "17 MiB": (lambda path: write(b"-" * (17 << 20))(path),
               "kpack: error: cannot read 'DIR/bad.lua': it has 17825792 bytes, expected 16777216 at most\n"),
    "deep nesting": (write(b"return " + b"{" * 100000),
                     "kpack: error: DIR/bad.lua: C stack overflow\n"),
    "an escape sequence": (write(b"return \x1b[31m"),
                           "kpack: error: DIR/bad.lua:1: unexpected symbol near '<\\27>'\n"),
}


def missing_folder(binary):
    return expect(load(binary, "nowhere/bad.lua"), 1,
                  "kpack: error: cannot find 'nowhere': No such file or directory\n")


def from_other_folders(binary):
    """The same structs from inside targets/, from beside it and by an absolute path."""
    text = read(f"{GOOD}/child.dump")
    faults = ""
    for cwd, path, shown in (("tests/lua/good/targets", "child.lua", ("", "../")),
                             ("tests/lua/good", "./targets/child.lua", ("./targets/", "")),
                             (".", os.path.abspath(f"{GOOD}/child.lua"),
                              (os.path.abspath(GOOD) + "/", os.path.abspath("tests/lua/good") + "/"))):
        expected = text.replace("at tests/lua/good/targets/", "at " + shown[0])
        expected = expected.replace("at tests/lua/good/", "at " + shown[1])
        faults += expect(load(binary, path, cwd), 0, expected)
    return faults


def same_in_every_run(binary):
    outputs = {load(binary, f"{GOOD}/computed.lua") for _ in range(10)}
    return "" if len(outputs) == 1 else f"{len(outputs)} different results"


def readme_example(binary):
    """The example of lua/README.md, beside a parent and with its source."""
    example = re.search(r"```lua\n(.*?)```", read("lua/README.md"), re.S)[1]
    with tempfile.TemporaryDirectory() as base:
        os.makedirs(f"{base}/targets")
        os.makedirs(f"{base}/kernels/hopper/common")
        for name, text in (("kernels/hopper/common/scan.cu", ""), ("targets/hopper.lua", example),
                           ("targets/gb10.lua", "return { name = 'gb10', arch = 'sm_121a', modules = { "
                            "{ name = 'x', source = 'kernels/hopper/common/scan.cu', entries = { 'e' } } } }")):
            write(text.encode())(f"{base}/{name}")
        status, output = load(binary, f"{base}/targets/hopper.lua")
    wanted = ("block=256x1x1 smem=35076 twin_of=scan:scan_plain bits=close", "absent scan:scan_fp8 ", "module x at ")
    return "" if status == 0 and all(w in output for w in wanted) else output


def readme_names_every_field(_):
    fields = re.findall(r'^    \{ "(\w+)"', read("lua/schema.lua"), re.M)
    text = read("lua/README.md")
    missing = [f for f in fields if not re.search(rf"`(?:\w+\.)?{f}`", text)]
    return f"{len(fields)} fields, not in lua/README.md: {missing}" if missing or len(fields) < 30 else ""


def cases():
    yield "every file has its golden file", every_file_has_its_golden
    for name in names(BAD, ".err"):
        yield f"bad {name}", golden(BAD, name, ".err", 1)
    for name in names(GOOD, ".dump"):
        yield f"good {name}", golden(GOOD, name, ".dump", 0)
    for check in (crlf, lone_cr, bom, bom_and_crlf, odd_paths, long_path, missing_folder, from_other_folders,
                  same_in_every_run, readme_example, readme_names_every_field):
        yield check.__name__.replace("_", " "), check
    for name, (make, expected) in SPECIAL.items():
        yield name, lambda binary, m=make, e=expected: special(binary, m, e)
    yield "an unreadable file", None if os.geteuid() == 0 else lambda binary: special(
        binary, unreadable, "kpack: error: cannot read 'DIR/bad.lua': Permission denied\n")


def run(case):
    binary, name, check = case
    label = f"{name} ({binary.split('/')[1]})"
    if not check:
        return f"{label} # SKIP root reads every file", ""
    try:
        return label, check(binary)
    except (subprocess.TimeoutExpired, OSError) as error:
        return label, str(error)


def main():
    # Scripts that run to a cap take most of the time: one binary each is enough for them.
    plan = [(binary, name, check) for binary in BINARIES for name, check in cases()
            if binary == BINARIES[-1] or not name.startswith(("bad runaway_", "bad memory_"))]
    if not plan:
        print("1..1\nnot ok 1 - out/tests/test_target is not built")
        return 1
    failed = 0
    print(f"1..{len(plan)}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for number, (label, fault) in enumerate(pool.map(run, plan), 1):
            failed += bool(fault)
            for line in fault.splitlines():
                print(f"# {line}")
            print(f"{'not ok' if fault else 'ok'} {number} - {label}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
