#!/usr/bin/env python3
"""Runs the `// RUN:` lines of one file, as lit would: run_filecheck.py --opt TESSERA_OPT --tools FOLDER FILE.

%s is the file; tessera-opt, FileCheck, llc, not and count are the programs that the options name. A line that ends with a
backslash goes on in the next one. All lines must succeed, and every program of a pipe."""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

RUN = re.compile(r"^//\s*RUN:\s*(.*?)\s*$")


def commands(text):
    lines, rest = [], ""
    for line in text.splitlines():
        match = RUN.match(line)
        if not match:
            continue
        rest += match.group(1)
        if rest.endswith("\\"):
            rest = rest[:-1] + " "
        else:
            lines.append(rest)
            rest = ""
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opt", required=True)
    parser.add_argument("--tools", required=True, type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    args = parser.parse_args()
    programs = {"tessera-opt": args.opt}
    programs.update({name: str(args.tools / name) for name in ("FileCheck", "llc", "not", "count")})
    words = re.compile(r"(?<![\w/.-])(" + "|".join(map(re.escape, programs)) + r")(?![\w.-])")
    lines = commands(args.file.read_text())
    if not lines:
        sys.exit(f"{args.file}: no RUN line")
    for line in lines:
        command = words.sub(lambda m: shlex.quote(programs[m.group(1)]), line)
        command = command.replace("%s", shlex.quote(str(args.file)))
        if subprocess.run(["bash", "-o", "pipefail", "-c", command], check=False).returncode != 0:
            sys.exit(f"{args.file}: failed: {line}\n  {command}")


if __name__ == "__main__":
    main()
