#!/usr/bin/env python3
"""What README says against what is there: paths, make targets, commands, variables, the examples."""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KPACK = os.path.join(ROOT, "out", "bin", "kpack")
TOP = ("src/", "lua/", "kernels/", "targets/", "tests/", ".ci/")
results = []


def check(name, problems):
    results.append(not problems)
    print(f"{'not ok' if problems else 'ok'} {len(results)} - {name}")
    for problem in problems:
        print("\n".join("# " + line for line in str(problem).splitlines()))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def blocks(text, language):
    return re.findall(rf"^[ ]*```{language}\n(.*?)^[ ]*```$", text, re.M | re.S)


def missing_paths(text):
    quoted = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    # A word in capitals stands for a name of the reader's.
    paths = [p for p in quoted if p.startswith(TOP) and not re.search(r"[A-Z]{4,}(?!\.md)|\*", p)]
    paths += [p for p in re.findall(r"\]\(([^)]+)\)", text) if "://" not in p and not p.startswith("#")]
    return [f"{p} is not there" for p in paths if not os.path.exists(os.path.join(ROOT, p))]


def bad_anchors(text):
    heads = {re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}
    return [f"no heading {a}" for a in re.findall(r"\]\(#([^)]+)\)", text) if a not in heads]


def unknown_targets(text):
    known = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))
    said = re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text, re.M)
    return [f"the Makefile has no '{t}'" for t in said if t not in known]


def wrong_commands(text):
    table = re.findall(r"^\| `kpack (\[build\]|[a-z]+)[^|]*` \| (.*?) \|$", text, re.M)
    readme = [(name.strip("[]"), summary) for name, summary in table]
    output = subprocess.run([KPACK, "help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    listed = output.split("Commands:\n", 1)[1].split("\n\n", 1)[0]
    tool = re.findall(r"^  (\S+) +(.*)$", listed, re.M)
    return [] if readme == tool else [f"README: {readme}\nkpack help: {tool}"]


def wrong_usage(text):
    """The arguments shown for each command are those of its help."""
    problems = []
    for name, words in re.findall(r"^\| `kpack (\[build\]|[a-z]+) ?([^|]*?)` \|", text, re.M):
        command = [KPACK, "help", name.strip("[]")]
        usage = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()[0]
        if " ".join(usage.replace("[OPTION ...]", "").split()[3:]) != words:
            problems.append(f"README: {name} {words}\nkpack help: {usage}")
    return problems


def unlisted_variables(text):
    table = text.split("## Environment", 1)[1].split("\n## ", 1)[0]
    problems = []
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in sorted(names):
            if name.endswith(".c"):
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                for variable in re.findall(r'getenv\("(\w+)"\)', read(path)):
                    if variable not in ("PATH", "HOME") and not re.search(rf"\b{variable}\b", table):
                        problems.append(f"{path} reads {variable}")
    return problems


def wrong_layout(text):
    """The arrows of the table are those that the include lint enforces."""
    allowed = re.search(r"^ALLOWED = \{.*?^\}", read("tests/lint/includes.t"), re.M | re.S)[0]
    scope = {}
    exec(allowed, scope)  # a literal of our own test
    # The lint may know of folders to come.
    there = {name: {n for n in names if "/" in n or os.path.isdir(os.path.join(ROOT, "src", n))}
             for name, names in scope["ALLOWED"].items() if os.path.isdir(os.path.join(ROOT, "src", name))}
    problems = []
    for folder, said in re.findall(r"^\| `src/(\w+)/` \| .*? \| (.*?) \|$", text, re.M):
        got = {w.strip().strip("`").replace("nothing of ours", folder).replace("itself", folder)
               for w in said.split(",")}
        want = there.pop(folder, set())
        if said == "everything":
            got = want
        if got | {folder} != want:
            problems.append(f"src/{folder}: README says {sorted(got)}, the lint {sorted(want)}")
    return problems + [f"src/{folder} is not in the table" for folder in there]


def five_lines(text):
    """The first example, as it stands, in a folder with one kernel of the reader's."""
    script = blocks(text.split("## Five lines", 1)[1], "sh")[0]
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "kernels", "mine"))
        os.makedirs(os.path.join(root, "out"))
        os.symlink(os.path.join(ROOT, "out", "bin"), os.path.join(root, "out", "bin"))
        with open(os.path.join(root, "kernels", "mine", "twice.cu"), "w", encoding="utf-8") as file:
            file.write('extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= 2.0f; }\n')
        done = subprocess.run(["sh", "-e", "-c", script], cwd=root, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=120)
        output = done.stdout.decode("utf-8", "replace")
    return [] if done.returncode == 0 and "twice" in output else [output]


def add_a_kernel(text):
    """The description of the new kernel, as it stands, in a target of its own."""
    module = blocks(text.split("## Add a kernel", 1)[1], "lua")[0]
    with tempfile.TemporaryDirectory() as root:
        for folder in ("targets", "kernels/mine/common"):
            os.makedirs(os.path.join(root, folder))
        with open(os.path.join(root, "targets", "mine.lua"), "w", encoding="utf-8") as file:
            file.write('local k = require "kpack"\nreturn k.target { name = "mine", arch = "sm_90a", modules = {\n'
                       + module + "} }\n")
        with open(os.path.join(root, "kernels", "mine", "common", "my_kernel.cu"), "w", encoding="utf-8") as file:
            file.write('static_assert(ROWS * COLS * 2 == KPK_SMEM_my_kernel_pipelined, "one layout");\n'
                       'extern "C" __global__ void my_kernel_pipelined(float *x) { x[threadIdx.x] *= 2.0f; }\n'
                       'extern "C" __global__ void my_kernel_plain(float *x) { x[threadIdx.x] *= 2.0f; }\n')
        image = os.path.join(root, "out", "mine.kpk")
        output = ""
        for words in ([os.path.join(root, "targets", "mine.lua")], ["show", image, "my_kernel"]):
            done = subprocess.run([KPACK, *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
            output += done.stdout.decode("utf-8", "replace")
            if done.returncode != 0:
                return [output]
    return [] if "my_kernel_pipelined" in output else [output]


def embed_example(text):
    """The example is shown verbatim, and its build line works as it stands."""
    if not os.path.exists(os.path.join(ROOT, "tests", "embed", "example.c")):
        return ["tests/embed/example.c is not there"]
    section = text.split("## Embed the runtime", 1)[1]
    if blocks(section, "c")[0] != read("tests/embed/example.c"):
        return ["README's block differs from tests/embed/example.c"]
    command = blocks(section, "sh")[0].replace("-o example", "-o \"$DIR/example\"")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["sh", "-e", "-c", command], cwd=ROOT, env=dict(os.environ, DIR=folder),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return [] if done.returncode == 0 else [done.stdout.decode()]


README = read("README.md")
check("every path that README names is there", missing_paths(README))
check("every heading that README links to is there", bad_anchors(README))
check("every make target that README names is there", unknown_targets(README))
check("the table of commands is that of kpack help", wrong_commands(README))
check("the arguments of each command are those of its help", wrong_usage(README))
check("every variable that src/ reads is in the table", unlisted_variables(README))
check("the layout table gives the arrows of the include lint", wrong_layout(README))
check("the five-line example works as it stands", five_lines(README))
check("the example of a new kernel works as it stands", add_a_kernel(README))
check("the embedding example is tests/embed/example.c and builds", embed_example(README))
print(f"1..{len(results)}")
sys.exit(0 if all(results) else 1)
