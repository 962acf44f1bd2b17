#!/usr/bin/env python3
"""Every example in the descriptions of the dialects must parse: check_examples.py TESSERA_OPT FILE...

An example may use values that it does not define; the names say what they are. Whole modules are taken as they are."""
import re
import subprocess
import sys

TYPES = {
    "tile": {"view": "!llvm.ptr", "table": "!llvm.ptr", "offset": "i64", "stride": "i64", "scalar": "f32",
             "v8": "vector<8xf32>", "d8": "vector<8xf64>", "v128": "vector<128xf32>",
             "v4": "vector<4xf32>", "v64": "vector<64xf32>", "w4": "vector<4xi32>", "w8": "vector<8xi32>", "n0": "i32", "flag": "i1", "slot": "i64",
             "n": "i64", "k": "i64", "m": "i64"},
    "graph": {"flag": "tensor<i1>"},
    "sched": {"row": "tensor<16xf32>"},
}
# Not where the page leaves something out.
EXAMPLE = re.compile(r"```mlir\n((?:(?!\n  \.\.\.\n|```).)*)```", re.S)


def wrap(example):
    if example.startswith("module {"):
        return example
    dialect = re.search(r"tsr_(\w+)\.", example).group(1)
    defined = set(re.findall(r"(%\w+)(?=[\s,:%\w]* = )", example))
    defined |= set(re.findall(r"(%\w+): ", example)) | set(re.findall(r"(%\w+) = %", example))
    arguments = []
    for name in sorted(set(re.findall(r"%[A-Za-z]\w*", example)) - defined):
        arguments.append(f"{name}: {TYPES.get(dialect, {}).get(name[1:], 'tensor<8x16xf32>')}")
    return f'"test.scope"() ({{\n^bb0({", ".join(arguments)}):\n{example}}}) : () -> ()\n'


def main():
    opt, files = sys.argv[1], sys.argv[2:]
    examples = [wrap(e) for path in files for e in EXAMPLE.findall(open(path).read())]
    assert len(examples) > 100, "the op table has more"
    run = subprocess.run([opt, "--allow-unregistered-dialect", "--split-input-file", "--verify-roundtrip", "-o",
                          "/dev/null"], input="// -----\n".join(examples), text=True, capture_output=True, check=False)
    sys.stderr.write(run.stderr)
    if run.returncode != 0:
        sys.exit("an example does not parse")
    print(f"{len(examples)} examples")


if __name__ == "__main__":
    main()
