#!/usr/bin/env python3
"""Compiles one .cu file to a fatbin, or takes it from the folder of those that were compiled before.

usage: fatbin.py CACHE OUT SOURCE NVCC [ARGUMENT ...]

Device code does not depend on the host, so all build folders of a tree share it. OUT.d gets the files that OUT depends
on, for the build tool. Standard library only.
"""
import hashlib
import os
import pathlib
import subprocess
import sys


def main():
    cache, out, source, nvcc, *arguments = sys.argv[1:]
    cache, out = pathlib.Path(cache), pathlib.Path(out)
    listed = subprocess.run([nvcc, "-M", *arguments, source], check=True, capture_output=True, text=True).stdout
    files = sorted(set(listed.replace("\\\n", " ").split(":", 1)[1].split()))
    version = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    digest = hashlib.sha256("\n".join([version, *arguments]).encode())
    for file in files:
        # The toolkit's own headers are told by its version.
        if not file.startswith("/usr"):
            digest.update(file.encode() + b"\0" + pathlib.Path(file).read_bytes())
    kept = cache / (digest.hexdigest()[:32] + ".fatbin")
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = cache / f"{kept.stem}.{os.getpid()}.part"
        subprocess.run([nvcc, "-fatbin", *arguments, "-o", str(part), source], check=True)
        part.replace(kept)
    out.write_bytes(kept.read_bytes())
    pathlib.Path(str(out) + ".d").write_text(str(out) + ": " + " ".join(files) + "\n")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.stderr.write((error.stderr or "") if isinstance(error.stderr, str) else "")
        sys.exit(error.returncode)
