#!/usr/bin/env python3
"""Checks the tree: arrows of #include, what public headers include, and the length of files.

usage: check_includes.py ROOT | --self-test
"""

import os
import re
import sys

# A folder may include itself and what stands before it; tools may include all of them.
ORDER = ["runtime", "ir", "interp", "tracer", "deopt", "tiers", "lang"]
TOP = ["tools"]
# The training library stands on the public headers alone.
ALONE = ["train"]
LENGTH_CHECKED = ["runtime", "ir", "interp", "tracer", "deopt", "tiers", "lang", "tools", "train", "include", "tests",
                  "bench", "examples"]
MAX_LINES = 800
SOURCE = (".h", ".cc", ".c", ".def", ".inc")
COUNTED = SOURCE + (".py", ".cu", ".td", ".cmake", ".txt")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
# In the public headers: standard C++ (no slash, no extension) and what the C API and the fixed-width types need.
C_HEADERS = {"stddef.h", "stdint.h", "stdbool.h"}


def allowed(folder):
    if folder in ORDER:
        return set(ORDER[: ORDER.index(folder) + 1])
    if folder in TOP:
        return set(ORDER) | {folder}
    if folder in ALONE:
        return {folder}
    return None


def check_text(path, text):
    """Problems with the includes of one file; path is relative to the root, with slashes."""
    problems = []
    folder = path.split("/", 1)[0]
    may = allowed(folder)
    for match in INCLUDE.finditer(text):
        quoted, name = match.group(1) == '"', match.group(2)
        line = text.count("\n", 0, match.start(2)) + 1
        where = "%s:%d: " % (path, line)
        head = name.split("/", 1)[0]
        if may is not None and head in ORDER + TOP + ALONE and head not in may:
            problems.append(where + '"%s" points upward: %s may include %s' % (name, folder, ", ".join(sorted(may))))
        if folder == "include":
            standard = not quoted and "/" not in name and ("." not in name or name in C_HEADERS)
            if not (head == "tessera" and "/" in name) and not standard:
                problems.append(where + "%s: a public header includes only tessera/ and the standard library" % name)
        if quoted and ("../" in name or name.startswith("./")):
            problems.append(where + '"%s": includes are rooted at the top of the tree' % name)
    return problems


def files(root, folders, endings):
    for folder in folders:
        for base, dirs, names in os.walk(os.path.join(root, folder)):
            dirs[:] = sorted(d for d in dirs if not d.startswith((".", "__")) and d not in ("build", "corpus"))
            for name in sorted(names):
                if name.endswith(endings):
                    full = os.path.join(base, name)
                    yield full, os.path.relpath(full, root).replace(os.sep, "/")


def check_tree(root):
    problems, count = [], 0
    for full, path in files(root, ORDER + TOP + ALONE + ["include", "tests", "bench", "examples"], SOURCE):
        count += 1
        with open(full, encoding="utf-8") as f:
            problems += check_text(path, f.read())
    for full, path in files(root, LENGTH_CHECKED, COUNTED):
        with open(full, encoding="utf-8") as f:
            lines = sum(1 for _ in f)
        if lines > MAX_LINES:
            problems.append("%s: %d lines; over %d two things live in one file: split it" % (path, lines, MAX_LINES))
    if count == 0:
        problems.append("%s: no sources there" % root)
    return problems, count


def self_test():
    bad = [
        ("runtime/a.h", '#include "ir/op.h"\n'),
        ("ir/a.cc", '\n#  include "interp/kernel.h"\n'),
        ("interp/cpu/a.cc", '#include "tracer/recorder.h"\n'),
        ("lang/a.cc", '#include "tools/b.h"\n'),
        ("include/tessera/a.h", '#include "absl/status/status.h"\n'),
        ("include/tessera/a.h", '#include "runtime/status.h"\n'),
        ("include/tessera/a.h", "#include <unistd.h>\n"),
        ("runtime/a.cc", '#include "../ir/op.h"\n'),
        ("train/a.cc", '#include "runtime/file.h"\n'),
        ("tiers/a.cc", '#include "train/json.h"\n'),
    ]
    good = [
        ("runtime/a.cc", '#include "runtime/a.h"\n#include <sys/mman.h>\n#include "absl/status/status.h"\n'),
        ("tiers/a.cc", '#include "deopt/a.h"\n#include "ir/op.h"\n'),
        ("include/tessera/a.h", '#include <vector>\n#include <stdint.h>\n#include "tessera/dtype.h"\n'),
        ("tests/unit/a.cc", '#include "interp/kernel.h"\n#include "gtest/gtest.h"\n'),
    ]
    wrong = [case for case in bad if not check_text(*case)] + [case for case in good if check_text(*case)]
    for case in wrong:
        print("self-test: wrong verdict on %s: %r" % case)
    return 1 if wrong else 0


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--self-test":
        sys.exit(self_test())
    problems, count = check_tree(sys.argv[1])
    print("\n".join(problems + ["%d files, %d problems" % (count, len(problems))]))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
