#!/usr/bin/env python3
"""Products of bf16 by Arm's instructions, against sums in f64: words_on_arm.py --opt TESSERA_OPT --tools FOLDER --cc GCC --run "QEMU -cpu max"

tessera-opt writes LLVM IR for Arm on any machine, llc code of it, and QEMU runs that: so bfmmla and bfdot are tested
where no processor has them. On a machine that has them the unit tests use them, too."""
import argparse
import array
import math
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

# Views one after the other: the number of tasks, bytes of scratch, then for each view its bytes and what is in them. The
# last one is the result.
DRIVER = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void k2(void* const* views, void* scratch, const int64_t* dims, int64_t begin, int64_t end);

static int64_t Word(FILE* f) {
  int64_t n = 0;
  if (fread(&n, 8, 1, f) != 1) exit(2);
  return n;
}

int main(int argc, char** argv) {
  FILE* in = fopen(argv[1], "rb");
  const int64_t tasks = Word(in), bytes = Word(in), count = Word(in);
  void* views[8];
  int64_t size = 0;
  for (int64_t k = 0; k < count; ++k) {
    size = Word(in);
    views[k] = malloc(size + 64);
    if (fread(views[k], 1, size, in) != (size_t)size) return 2;
  }
  void* scratch = aligned_alloc(64, (bytes + 127) / 64 * 64);
  memset(scratch, 0xff, bytes);
  k2(views, scratch, 0, 0, tasks);
  FILE* out = fopen(argv[2], "wb");
  fwrite(views[count - 1], 1, size, out);
  return fclose(out);
}
"""


def narrow(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    if math.isnan(x):
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def wide(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


class Case:
    def __init__(self, m, n, k, ta=False, tb=False, words=2, batch=1, special=(), cut="rows=8,columns=16,depth=12,mr=4,nr=8"):
        self.m, self.n, self.k, self.ta, self.tb, self.batch, self.special = m, n, k, ta, tb, batch, special
        self.schedule = f"*:form=packed,words={words},{cut}"
        self.instruction = "bfmmla" if words == 2 else "bfdot"

    def __str__(self):
        return (f"{self.batch} x {self.m} x {self.n} x {self.k}, transposed {self.ta} {self.tb}, special "
                f"{self.special}, {self.schedule}")

    def text(self):
        def tensor(*dims):
            return "tensor<" + "x".join(map(str, dims)) + "xbf16>"
        b = self.batch
        ta = tensor(b, self.k, self.m) if self.ta else tensor(b, self.m, self.k)
        tb = tensor(b, self.n, self.k) if self.tb else tensor(b, self.k, self.n)
        ty = tensor(b, self.m, self.n)
        attrs = f"{{transpose_a = {str(self.ta).lower()}, transpose_b = {str(self.tb).lower()}}}"
        return (f'tsr_graph.trace "f" values [0, 1, 2] strides [[], [], []] (%v0: {ta}, %v1: {tb}, %v2: {ty}) {{\n'
                f"  %v3 = tsr_graph.matmul %v0, %v1 step 0 values [3] until [1] {attrs} : ({ta}, {tb}) -> {ty}\n"
                f"  %v4 = tsr_graph.neg %v3 step 1 values [4] until [2] : ({ty}) -> {ty}\n"
                f"  %v5 = tsr_graph.add %v4, %v2 step 2 values [5] until [end] : ({ty}, {ty}) -> {ty}\n}}\n")


def launch_of(text):
    """The tasks and the bytes of scratch that the plan says."""
    launch = next(line for line in text.splitlines() if "tsr_target.launch" in line)
    sizes, blocks = (list(map(int, re.search(rf"{name} \[([^\]]*)\]", launch).group(1).split(",")))
                     for name in ("tasks", "blocks"))
    tasks = 1
    for size, block in zip(sizes, blocks):
        tasks *= -(-(-1 - size) // block)
    return tasks, int(re.search(r"plus (\d+)", launch).group(1))


def run(case, args, folder):
    source, ir, code, program, given, got = (folder / name for name in
                                             ("f.mlir", "f.ll", "f.o", "f", "given", "got"))
    source.write_text(case.text())
    opt = [args.opt, source, "--tier=3", "--lanes=16", "--bf16=neon", f"--schedule={case.schedule}"]
    tasks, scratch = launch_of(subprocess.run([*opt, "--stage=target"], check=True, capture_output=True, text=True).stdout)
    subprocess.run([*opt, "--stage=llvm", "-o", ir], check=True)
    llc = [args.tools / "llc", "-mtriple=aarch64-linux-gnu", "-mattr=+bf16", "-relocation-model=pic", ir]
    assembly = subprocess.run([*llc, "-o", "-"], check=True, capture_output=True, text=True).stdout
    assert case.instruction in assembly, f"{case}: no {case.instruction}"
    subprocess.run([*llc, "-filetype=obj", "-o", code], check=True)
    subprocess.run([args.cc, "-static", "-O1", folder / "driver.c", code, "-o", program, "-lm"], check=True)

    rng = random.Random(str(case))
    t, m, n, k = case.batch, case.m, case.n, case.k
    a = [narrow(rng.uniform(-1, 1)) for _ in range(t * m * k)]
    b = [narrow(rng.uniform(-1, 1)) for _ in range(t * k * n)]
    r = [narrow(rng.uniform(-1, 1)) for _ in range(t * m * n)]

    def left(s, i, e):
        return s * m * k + (e * m + i if case.ta else i * k + e)

    def right(s, e, j):
        return s * k * n + (j * k + e if case.tb else e * n + j)

    for s, x in enumerate(case.special):
        a[left(0, (3 * s + 1) % m, k - 1 if s == 0 else s % k)] = narrow(x)
    views = [array.array("H", v).tobytes() for v in (a, b, r, [0] * (t * m * n + 32))]
    given.write_bytes(struct.pack("<qqq", tasks, scratch, len(views)) +
                      b"".join(struct.pack("<q", len(v)) + v for v in views))
    subprocess.run([*args.run.split(), program, given, got], check=True)
    y = array.array("H", got.read_bytes())
    for s in range(t):
        for i in range(m):
            for j in range(n):
                products = [wide(a[left(s, i, e)]) * wide(b[right(s, e, j)]) for e in range(k)]
                at = (s * m + i) * n + j
                total, terms, result = sum(products), sum(map(abs, products)), wide(y[at])
                want = wide(r[at]) - total
                # The op table's bound, and a rounding of each of the two ops.
                bound = 8 * 2.0**-23 * terms + 2.0**-8 * 1.01 * (abs(total) + abs(want)) + 1e-38
                same = math.isnan(result) if math.isnan(want) else result == want or abs(result - want) <= bound
                assert same, f"{case}: {s}, {i}, {j}: {result}, not {want}"
    assert not any(y[t * m * n:]), f"{case}: beyond the end"


def cases():
    for ta in (False, True):
        for tb in (False, True):
            for m, n, k in ((1, 9, 1), (5, 17, 3), (13, 21, 26), (8, 16, 12), (9, 23, 41)):
                yield Case(m, n, k, ta, tb)
            yield Case(9, 23, 27, ta, tb, words=1)
            yield Case(9, 23, 27, ta, tb, batch=2)
    yield Case(21, 40, 37, cut="rows=16,columns=48,depth=64,mr=8,nr=12")
    yield Case(21, 40, 37, tb=True, cut="rows=16,columns=48,depth=16,mr=8,nr=12")
    for words in (1, 2):
        for k in (1, 7, 20):
            yield Case(5, 17, k, words=words, special=(math.inf,))
            yield Case(5, 17, k, words=words, special=(math.nan, -math.inf))
            yield Case(5, 17, k, words=words, special=(1e-40, -1e-39))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--opt", required=True, type=pathlib.Path)
    parser.add_argument("--tools", required=True, type=pathlib.Path)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--run", required=True, help="a command, in words")
    args = parser.parse_args()
    count = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "driver.c").write_text(DRIVER)
        for case in cases():
            run(case, args, folder)
            count += 1
    print(f"{count} products")


if __name__ == "__main__":
    sys.exit(main())
