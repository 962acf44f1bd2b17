#!/usr/bin/env python3
"""Compares the two ways from LLVM IR to a cubin (PTX and nvJitLink, CUDA C++ and NVRTC) for every kernel of the corpus.

ways.py TESSERA_OPT prints the table of bench/results/ways.md; it needs no GPU. Times are of this machine."""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = re.compile(r"(\d+) registers, (\d+) spills.* (\d+) bytes of code(; made as CUDA C\+\+)?")


def report(opt, path, tier, schedule):
    words = [opt, path, f"--tier={tier}", "--target=sm_90a", "--stage=report"]
    text = subprocess.run(words + ([f"--schedule={schedule}"] if schedule else []), capture_output=True, text=True,
                          check=True).stdout
    codes = [CODE.search(line).groups() for line in text.splitlines() if line.startswith("  code ")]
    times = [float(line.split()[0]) for line in text.splitlines() if line.endswith(" ms assemble") or " assemble" in line]
    return codes, sum(times)


def main():
    opt = sys.argv[1]
    print("| kernel | PTX: registers | instructions | ms | CUDA C++: registers | instructions | ms | automatic choice |")
    print("| --- | --: | --: | --: | --: | --: | --: | --- |")
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        for part in (ROOT / "tests/compiler/gpu_corpus.mlir").read_text().split("// -----\n"):
            name, kernels = re.findall(r"// (\w+): (\d+)\n!", part)[-1]
            if kernels == "0":
                continue
            file.seek(0)
            file.truncate()
            file.write(part)
            file.flush()
            tier = 2 if "?" in part else 3
            own, _ = report(opt, file.name, tier, "")
            ptx, ptx_ms = report(opt, file.name, tier, "*:source=0")
            cuda, cuda_ms = report(opt, file.name, tier, "*:source=1")

            def cell(codes, index, scale=1):
                return ", ".join(str(int(c[index]) // scale) for c in codes)

            choice = "CUDA C++" if any(c[3] for c in own) else "PTX"
            spills = sum(int(c[1]) for c in ptx)
            if spills:
                choice += f" (PTX spills {spills})"
            print(f"| `{name}` | {cell(ptx, 0)} | {cell(ptx, 2, 16)} | {ptx_ms:.0f} | {cell(cuda, 0)} | "
                  f"{cell(cuda, 2, 16)} | {cuda_ms:.0f} | {choice} |")


if __name__ == "__main__":
    main()
