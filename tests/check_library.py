#!/usr/bin/env python3
"""Checks libtessera.so: what it needs, and that it exports only tessera::, tsr_ and TSR_ names.

usage: check_library.py LIBRARY
"""

import re
import shutil
import subprocess
import sys

# What an application accepts to load with it. Everything else is opened with dlopen when it is used.
NEEDED = re.compile(r"^(lib(c|m|dl|pthread|rt|stdc\+\+|gcc_s)\.so|ld-linux|libabsl_)")
FORBIDDEN = re.compile(r"LLVM|MLIR|cuda|nvrtc|cublas|openblas|libblas", re.I)
EXPORTED = re.compile(r"^(tsr_|TSR_)|^(?:(?:typeinfo|typeinfo name|vtable|VTT|guard variable|"
                      r"(?:non-)?virtual thunk) (?:for|to) )?(?:[\w:<>,*& ]* )?tessera::")
# Defined by linkers in every shared library.
LINKER = {"_init", "_fini", "__bss_start", "_edata", "_end", "__bss_start__", "__bss_end__", "__end__", "_bss_end__"}


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    library = sys.argv[1]
    problems = []
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-dW", library))
    if not needed:
        problems.append("needs nothing at all: is it a shared library?")
    for name in needed:
        if FORBIDDEN.search(name) or not NEEDED.search(name):
            problems.append("needs %s, which an application would have to load at its start" % name)
    # Also what those need in turn. A library of another machine cannot be asked.
    if shutil.which("ldd"):
        ldd = subprocess.run(["ldd", library], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        problems += ["loads " + line.strip() for line in ldd.stdout.splitlines()
                     if FORBIDDEN.search(line.split("=>")[0]) and library not in line]
    symbols = [line.split(maxsplit=2)[2] for line in
               run("nm", "-DC", "--defined-only", library).splitlines() if len(line.split(maxsplit=2)) == 3]
    for symbol in symbols:
        if symbol not in LINKER and not EXPORTED.search(symbol):
            problems.append("exports " + symbol)
    if not any(EXPORTED.search(symbol) for symbol in symbols):
        problems.append("exports nothing of Tessera")
    print("\n".join(problems + ["%d libraries needed, %d symbols exported, %d problems"
                                % (len(needed), len(symbols), len(problems))]))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
