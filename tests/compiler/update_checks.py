#!/usr/bin/env python3
"""Writes the CHECK lines of text tests anew: update_checks.py TESSERA_OPT FILE... Read the difference before you keep it.

Only for files whose first line says so. Each part between `// -----` lines gets, below its comment, what its RUN lines
print: from `tessera-opt %s OPTIONS | FileCheck %s [--check-prefix=P]`, without the types that say nothing new."""
import re
import subprocess
import sys

RUN = re.compile(r"^// RUN: tessera-opt %s (.*?) \| FileCheck %s(?: --check-prefix=(\S+))?$", re.M)
SPLIT = "// -----\n"
CUTS = [re.compile(r"( tsr_graph\.\w+.*?) : \(.*"), re.compile(r"( tsr_sched\.kernel .*) lanes .*"),
        re.compile(r"( tsr_tile\.kernel .*?) \(%.*"), re.compile(r"( tsr_graph\.trace \"\w+\") .*")]


def checks(opt, part, options, prefix):
    options = options.replace("--split-input-file", "")
    out = subprocess.run([opt, "-", *options.split()], input=part, text=True, capture_output=True, check=True).stdout
    lines, first = [], True
    for line in out.splitlines():
        if line.startswith(("module", "}")) or not line.strip():
            continue
        for cut in CUTS:
            line = cut.sub(r"\1", line)
        text = re.sub(r"\[\[", "{{\\\\[}}[", line.removeprefix("  ").rstrip())
        text = re.sub(r"(?<=[a-z])  (?=:)", " ", text)
        label = first or text.startswith(("tsr_graph.trace", "tsr_tile.kernel", "tsr_target.launch", "llvm.func"))
        lines.append(f"// {prefix}{'-LABEL' if label else '-NEXT'}: {text}\n")
        first = False
    return lines


def main():
    opt = sys.argv[1]
    for path in sys.argv[2:]:
        text = open(path).read()
        if "update_checks.py" not in text.splitlines()[0]:
            sys.exit(f"{path} is written by hand")
        runs = RUN.findall(text)
        parts = []
        for part in text.split(SPLIT):
            lines = [l for l in part.splitlines(True) if not re.match(r"// [A-Z_]+(-LABEL|-NEXT|-SAME)?: ", l)
                     or l.startswith("// RUN: ")]
            at = next(i for i, l in enumerate(lines) if l.strip() and not l.startswith("//"))
            made = []
            for options, prefix in runs:
                made += checks(opt, part, options, prefix or "CHECK")
            parts.append("".join(lines[:at] + made + lines[at:]))
        open(path, "w").write(SPLIT.join(parts))


if __name__ == "__main__":
    main()
