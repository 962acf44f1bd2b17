#!/usr/bin/env python3
"""Writes docs/dialects.md from the .td files of the four dialects: dialects_page.py [--check] TBLGEN DIALECTS GENERATED
LLVM_INCLUDE PAGE. With --check it says whether the page is what the .td files say."""
import re
import subprocess
import sys

HEAD = """# The dialects of the compiler

<!-- Made by tools/dialects_page.py from tiers/compiler/dialects/*.td; ./dev docs writes it anew where the compiler was built. -->

A trace goes through four dialects of MLIR on its way to code. `tessera-opt` runs any pass on text of any of them, and
`Function::inspect_ir()` shows the text of a version; `docs/one-program-through-every-tier.md` has an example. Every op
can also be written in MLIR's generic form, which is what the core hands to the compiler. A test parses the examples.

"""
# The rows of the op table are in docs/ops.md.
ONLY = {"graph": r"tsr_graph\.(trace|step|number|reduce)$"}
TABLE = ("Beside these there is an op for each row of the op table that computes something, `tsr_graph.add` and so on: "
         "`docs/ops.md` has them. They are written like this, with what is not known left out:\n\n"
         "```mlir\n%v5 = tsr_graph.sum %x step 4 values [5] until [9] {axes = array<i64: 1>} : (tensor<8x16xf32>) -> "
         "tensor<8xf32>\n```\n\n")


def section(tblgen, dialects, includes, name):
    command = [tblgen, "-gen-dialect-doc", f"-dialect=tsr_{name}", f"{dialects}/{name}.td"]
    command += [f"-I{i}" for i in includes]
    if name in ONLY:
        command.append(f"--op-include-regex={ONLY[name]}")
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = re.sub(r"^<!--.*-->\n", "", text)
    text = re.sub(r"\[TOC\]\n|^## Operations\n", "", text, flags=re.M)
    text = re.sub(r"^Syntax:\n\n```\n.*?```\n", "", text, flags=re.M | re.S)
    text = re.sub(r"^(Traits|Interfaces|Effects): .*\n", "", text, flags=re.M)
    text = re.sub(r"^#### (Attributes|Operands|Results):\n.*?(?=^###? |\Z|^#### )", "", text, flags=re.M | re.S)
    text = re.sub(r"^# '(\w+)' Dialect", r"## `\1`", text, flags=re.M)
    text = re.sub(r"^### `(\S+)` \(.*\)", r"### `\1`", text, flags=re.M)
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n\n"
    return text + (TABLE if name == "graph" else "")


def main():
    check = sys.argv[1] == "--check"
    tblgen, dialects, generated, llvm, page = sys.argv[2 if check else 1:]
    text = HEAD + "".join(section(tblgen, dialects, [dialects, generated, llvm], n)
                          for n in ("graph", "sched", "tile", "target"))
    text = text.rstrip() + "\n"
    if not check:
        open(page, "w").write(text)
    elif open(page).read() != text:
        sys.exit(f"{page} is not what the .td files say; run ./dev docs in a tree that builds the compiler")


if __name__ == "__main__":
    main()
