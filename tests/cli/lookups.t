#!/usr/bin/env python3
"""lookups: what an engine's sources ask for, found among comments, strings and macros."""
import json
import os
import re

from harness import Folder, check, golden, kpack, main, same, test, unprivileged, write


def scan_all(sources, *args):
    """For each (name, text): (module, entry, line) of each lookup, and (line, text) of each other call."""
    with Folder() as folder:
        paths = [f"{i:03}/{name}" for i, (name, _) in enumerate(sources)]
        for path, (_, text) in zip(paths, sources):
            write(f"{folder}/{path}", text)
        result = kpack("lookups", "--json", *args, *paths, cwd=folder)
        same(result.status, 0, result)
        found = json.loads(result.out)
    same(list(found), ["lookups", "not_literal"])
    for item in found["lookups"]:
        same(list(item), ["module", "entry", "file", "line"])
    for item in found["not_literal"]:
        same(list(item), ["file", "line", "text"])
    return [([(i["module"], i["entry"], i["line"]) for i in found["lookups"] if i["file"] == path],
             [(i["line"], i["text"]) for i in found["not_literal"] if i["file"] == path]) for path in paths]


def literals(cases, names):
    """Each text, under each name, has the one lookup that follows it and nothing else."""
    sources = [(name, text) for text, _, _ in cases for name in names]
    expected = [(module, entry) for _, module, entry in cases for _ in names]
    for (_, text), (found, others), want in zip(sources, scan_all(sources), expected):
        same(([f[:2] for f in found], others), ([want], []), text)


@test("C and C++: strings, prefixes, raw strings, joined strings, escapes")
def _():
    literals((
        ('kpk_resolve(image, "m", "e");', "m", "e"),
        ('kpk_resolve ( image , "m" , "e" ) ;', "m", "e"),
        ('x = kpk_resolve(get(a, b), "m", "e")', "m", "e"),
        ('try_target_kernel("m", "e")', "m", "e"),
        ('rt->try_target_kernel("m", "e", true)', "m", "e"),
        ('rt::try_target_kernel<float, 3>("m", "e")', "m", "e"),
        ('kpk_resolve(i, "one_" "two", "a" /* x */ "b" // y\n "c")', "one_two", "abc"),
        ('kpk_resolve(i, u8"m", R"(e)")', "m", "e"),
        ('kpk_resolve(i, R"x(m)"y)x", u8R"(e\\)")', 'm)"y', "e\\"),
        ('kpk_resolve(i, "m"sv, "e"s)', "m", "e"),
        (r'kpk_resolve(i, "\x6d\"", "\145\n\t\\")', 'm"', "e\n\t\\"),
        (r'kpk_resolve(i, "\u00e9", "\U0001F600")', "\u00e9", "\U0001f600"),
        ('kpk_resolve(i, "a,b", "(")', "a,b", "("),
        ('kpk_\\\nresolve(i, "m\\\nn", "e")', "mn", "e"),
        ('f(kpk_resolve(i, "m", "e"), g)', "m", "e"),
        ("n = 1'000'000; c = '\"'; kpk_resolve(i, \"m\", \"e\")", "m", "e"),
        ('/* kpk_resolve(i, "x", "y") */ kpk_resolve(i, "m", "e") // kpk_resolve(i, "x", "y")', "m", "e"),
        ('// a \\\n kpk_resolve(i, "x", "y")\nkpk_resolve(i, "m", "e")', "m", "e"),
        ('s = "kpk_resolve(i, \\"x\\", \\"y\\")"; kpk_resolve(i, "m", "e");', "m", "e"),
        ("#error don't\nkpk_resolve(i, \"m\", \"e\")", "m", "e"),
        ('s = "no end\nkpk_resolve(i, "m", "e")', "m", "e")), ("a.c", "a.cpp", "a.cuh"))


@test("Rust: nested comments, raw and byte strings, lifetimes, macros, turbofish")
def _():
    literals((
        ('rt.try_target_kernel("m", "e")?;', "m", "e"),
        ('try_target_kernel!("m", "e")', "m", "e"),
        ('try_target_kernel!["m", "e"]', "m", "e"),
        ('try_target_kernel::<F>("m", "e")', "m", "e"),
        ('try_target_kernel(r"m", r#"e"x"#)', "m", 'e"x'),
        ('kpk_resolve(i, b"m\\0".as_ptr().cast(), c"e".as_ptr())', "m", "e"),
        ('kpk_resolve(i, b"m\\0".as_ptr() as *const c_char, b"e\\0".as_ptr() as _)', "m", "e"),
        ('kpk_resolve(i, b"m\\0".as_ptr().cast::<c_char>(), "e\\0".as_ptr() as *const std::ffi::c_char,)', "m", "e"),
        ('try_target_kernel(&"m", "e".into())', "m", "e"),
        ('fn f<\'a>(x: &\'a str) -> char { \'"\' } try_target_kernel("m", "e")', "m", "e"),
        ('/* a /* try_target_kernel("x", "y") */ b */ try_target_kernel("m", "e")', "m", "e"),
        ('try_target_kernel("a\\\n     b", "\\u{e9}\\x21\\\'")', "ab", "\u00e9!'"),
        ('r#try_target_kernel("m", "e")', "m", "e"),
        ('try_target_kernel("two\nlines", "e")', "two\nlines", "e")), ("a.rs",))


@test("Python: quotes, triple quotes, prefixes, joined strings, comments, keywords")
def _():
    literals((
        ("image.kpk_resolve('m', \"e\")", "m", "e"),
        ("kpk_resolve(i, '''m''', \"\"\"e\"x\"\"\")", "m", 'e"x'),
        ("kpk_resolve(i, b'm', rb'e\\d')", "m", "e\\d"),
        ("kpk_resolve(i, 'm'.encode(), 'e' \\\n 'f')", "m", "ef"),
        ("kpk_resolve(module='m', entry='e')", "m", "e"),
        ("# kpk_resolve('x', 'y')\nkpk_resolve('m', 'e')", "m", "e"),
        ("def f():\n    '''kpk_resolve('x', 'y')'''\n    kpk_resolve('m', 'e')", "m", "e"),
        ("kpk_resolve(f'm', '\\x65\\q')", "m", "e\\q"),
        ("kpk_resolve(i, 'm\\\nn', 'e')", "mn", "e")), ("a.py", "a.pyi"))


@test("what is not literal is told with its place and text")
def _():
    cases = (
        ("a.c", '\nreturn kpk_resolve(i, module,\n\t "e");', 2, 'kpk_resolve(i, module, "e")'),
        ("a.c", 'kpk_resolve(i, "m", name)', 1, 'kpk_resolve(i, "m", name)'),
        ("a.c", 'kpk_resolve(i, "m" SUFFIX, "e")', 1, 'kpk_resolve(i, "m" SUFFIX, "e")'),
        ("a.c", 'kpk_resolve(i, "m", "")', 1, 'kpk_resolve(i, "m", "")'),
        ("a.c", 'kpk_resolve(i, "m\\0n", "e")', 1, 'kpk_resolve(i, "m\\0n", "e")'),
        ("a.rs", 'kpk_resolve(i, "m".as_ptr(), "e".f::<T>)', 1, 'kpk_resolve(i, "m".as_ptr(), "e".f::<T>)'),
        ("a.rs", 'kpk_resolve(i, "m".f(1), "e")', 1, 'kpk_resolve(i, "m".f(1), "e")'),
        ("a.c", "#define R kpk_resolve(image, a, b)", 1, "kpk_resolve(image, a, b)"),
        ("a.c", "x->try_target_kernel(m, e)", 1, "try_target_kernel(m, e)"),
        ("a.c", "return kpk_resolve(i, m, e)", 1, "kpk_resolve(i, m, e)"),
        ("a.c", "kpk_resolve(i, m", 1, "kpk_resolve(i, m"),
        ("a.rs", 'try_target_kernel(concat!("a", "b"), "e")', 1, 'try_target_kernel(concat!("a", "b"), "e")'),
        ("a.rs", 'try_target_kernel("a" "b", "e")', 1, 'try_target_kernel("a" "b", "e")'),
        ("a.py", "kpk_resolve(f'{m}', 'e')", 1, "kpk_resolve(f'{m}', 'e')"),
        ("a.py", "kpk_resolve('\\N{DASH}', 'e')", 1, "kpk_resolve('\\N{DASH}', 'e')"))
    for case, found in zip(cases, scan_all([c[:2] for c in cases])):
        same(found, ([], [case[2:]]), case)


@test("declarations and definitions are no calls, nor are other names")
def _():
    cases = (
        ("a.c", "KPK_API kpk_kernel kpk_resolve(kpk_image *image, const char *module, const char *entry);"),
        ("a.c", "static kpk_kernel *kpk_resolve(void *);"),
        ("a.cpp", "std::optional<Kernel> try_target_kernel(std::string_view m, std::string_view e) {}"),
        ("a.rs", "pub fn try_target_kernel(&self, m: &str, e: &str) -> Option<K> {}"),
        ("a.py", "def kpk_resolve(self, module, entry):"),
        ("a.c", 'f = kpk_resolve; kpk_resolver(i, "m", "e"); my_kpk_resolve(i, "m", "e")'))
    for case, found in zip(cases, scan_all(cases)):
        same(found, ([], []), case)


@test("lines are counted over comments, raw strings and continued lines")
def _():
    call = 'kpk_resolve(i, "m", "e")'
    cases = (("a.c", '/*\n\n*/ "a\\\nb" R"(\n)"\n#define A \\\n 1\n'), ("a.rs", '/*\n/*\n*/ */ r#"\n\n"# "\n"\n\n'),
             ("a.py", '"""\n\n"""\nx = \\\n\n\n\n'), ("a.c", "\r\n\r\n// \\\r\n\r\n\n\n\n"))
    for case, found in zip(cases, scan_all([(n, before + call) for n, before in cases])):
        same((case[1].count("\n"), found), (7, ([("m", "e", 8)], [])), case)


@test("--call names other calls, in place of the usual ones")
def _():
    text = 'a("m", "e"); b::c("n", "f"); kpk_resolve(i, "x", "y");'
    same(scan_all([("a.c", text)], "--call", "a,c"), [([("m", "e", 1), ("n", "f", 1)], [])])
    with Folder() as folder:
        write(f"{folder}/a.c", text)
        for name, value in (("comma", "a,,c"), ("end", "a,")):
            golden(f"lookups-call-{name}.txt", kpack("lookups", "--call", value, "a.c", cwd=folder))
        golden("lookups-none.txt", kpack("lookups", "--call=zzz", "a.c", cwd=folder))


TREE = {
    "b/two.rs": 'try_target_kernel("m", "e");\ntry_target_kernel("alpha", "add");\n',
    "b/one.c": 'kpk_resolve(i, "m", "e"); kpk_resolve(i, m, e);\n\n kpk_resolve(i, "m", "a");\n',
    "b/.hidden/x.c": 'kpk_resolve(i, "hidden", "e");\n',
    "b/notes.txt": 'kpk_resolve(i, "text", "e");\n',
    "z.py": "kpk_resolve('m:x', 'e')\nkpk_resolve('\\x1b[31m', 'e')\nkpk_resolve('m', 'e # f')\n",
}


def tree(folder):
    for name, text in TREE.items():
        write(f"{folder}/{name}", text)
    os.symlink(".", f"{folder}/b/loop")
    os.symlink("../z.py", f"{folder}/b/link.py")
    os.mkfifo(f"{folder}/b/fifo.c")


@test("folders are read in one order, whatever order they are named in")
def _():
    with Folder() as folder:
        tree(folder)
        golden("lookups-tree.txt", kpack("lookups", "b", "z.py", cwd=folder))
        same(kpack("lookups", "z.py", "b", cwd=folder).out, kpack("lookups", "b", "z.py", cwd=folder).out)
        result = kpack("lookups", "--json", "b/one.c", "z.py", cwd=folder)
        golden("lookups-json.txt", result)


@test("sources that cannot be read, and what is no source")
def _():
    with Folder() as folder:
        tree(folder)
        for name, word in (("missing", "no.c"), ("nothing", "no"), ("ending", "b/notes.txt"), ("fifo", "b/fifo.c")):
            golden(f"lookups-{name}.txt", kpack("lookups", word, cwd=folder))
        os.symlink("nowhere.c", f"{folder}/b/gone.c")
        result = kpack("lookups", "b", cwd=folder)
        same((result.status, re.findall("error: .*", result.err)), (1, ["error: cannot read 'b/gone.c': No such file or directory"]))
        check("alpha:add  # b/two.rs:2\n" in result.out, result.out)
        os.remove(f"{folder}/b/gone.c")
        os.chmod(f"{folder}/b/one.c", 0)
        result = kpack("lookups", "b", cwd=folder, **unprivileged())
        same(result.status, 1)
        check("cannot read 'b/one.c': Permission denied" in result.err, result.err)
        check("alpha:add  # b/two.rs:2\n" in result.out, result.out)
        os.chmod(f"{folder}/b", 0)
        result = kpack("lookups", "b", "z.py", cwd=folder, **unprivileged())
        same(result.status, 1)
        check("cannot read 'b': Permission denied" in result.err, result.err)
        os.chmod(f"{folder}/b", 0o755)


@test("text that is no source at all gives no lookup and no crash")
def _():
    noise = bytes(range(256)) * 8
    texts = (noise, b'"' * 999, b"kpk_resolve(" * 2000, b"'''" * 99, b"R\"" + b"(" * 99, b"/*" * 99, b"\\\n" * 99,
             b"kpk_resolve(i,\"", b"r#", b"", b"kpk_resolve<<<<", b"\"\\", b"R\"", b"'", b"kpk_resolve", b"\\")
    for found, _ in scan_all([(name, text) for text in texts for name in ("a.c", "a.rs", "a.py")]):
        same(found, [])


main()
