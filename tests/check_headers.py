#!/usr/bin/env python3
"""Checks that each public header compiles on its own, without warnings, with each compiler given.

usage: check_headers.py INCLUDE_DIR CXX...
C++ headers as C++20; those whose name starts with c_ (the C interface) as C11 too.
"""

import concurrent.futures
import os
import subprocess
import sys

FLAGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]


def compile_alone(include_dir, cxx, language, std, header):
    # The second include finds a header without a guard.
    text = '#include "%s"\n#include "%s"\n' % (header, header)
    command = [cxx, "-x", language, "-std=" + std] + FLAGS + ["-I", include_dir, "-"]
    done = subprocess.run(command, input=text, stderr=subprocess.PIPE, text=True)
    name = "%s as %s with %s" % (header, std, os.path.basename(cxx))
    return name, done.returncode, done.stderr


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    include_dir, compilers = sys.argv[1], sys.argv[2:]
    jobs = []
    for base, _, names in sorted(os.walk(include_dir)):
        for name in sorted(n for n in names if n.endswith(".h")):
            header = os.path.relpath(os.path.join(base, name), include_dir)
            for cxx in compilers:
                jobs.append((include_dir, cxx, "c++", "c++20", header))
                if name.startswith("c_"):
                    jobs.append((include_dir, cxx, "c", "c11", header))
    if not jobs:
        sys.exit("%s: no headers there" % include_dir)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, code, errors in pool.map(lambda job: compile_alone(*job), jobs):
            if code != 0:
                failed += 1
                print("%s does not compile on its own:\n%s" % (name, errors))
    print("%d compilations, %d failed" % (len(jobs), failed))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
