#!/usr/bin/env python3
"""The last step of ./dev gpu: gpu_bundle.py BUILD_DIR BUNDLE_DIR ARCHIVE.

Collects what was built, the tests as ctest knows them and the files that these read into BUNDLE_DIR, laid out as in the
tree, and packs it. Fails where the archive is too large, or a program needs more than glibc of the other machine.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
LLVM = pathlib.Path("/usr/lib/llvm-22/bin")
LIMIT_MIB = 60
GLIBC = (2, 39)  # Ubuntu 24.04
NEEDED = re.compile(r"^(lib(c|m|dl|rt|pthread)\.so\.\d|libtessera_\w+\.so|ld-linux-x86-64\.so\.2)$")
# Of no use there: they check the source tree.
LABELS_LEFT_OUT = {"tree"}
PROGRAMS_LEFT_OUT = {"tessera_docs", "tessera_tiers_page"}
# Read at run time. Sources of tests stay here.
FOLDERS = ("tests", "docs", "examples")
SOURCE_SUFFIXES = {".cc", ".h", ".c", ".cu", ".cuh", ".txt.in", ".cmake"}


def fail(text):
    sys.exit(f"gpu_bundle.py: {text}")


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


# --- tests ------------------------------------------------------------------------------------------------------------
def regex_list(value):
    return [value] if isinstance(value, str) else list(value)


def tests_of(build):
    """The rows of tests.list.json, and why others are not among them."""
    listing = json.loads(subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True,
                                        capture_output=True, text=True).stdout)
    rows, left_out = [], {}

    def portable(word):
        return word.replace(str(SOURCE), "@ROOT@")

    for test in listing["tests"]:
        name = test["name"]
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        labels = properties.get("LABELS", [])
        if LABELS_LEFT_OUT & set(labels):
            left_out.setdefault("checks the source tree", []).append(name)
            continue
        command = test.get("command")
        if not command or "NOT_BUILT" in name or "LISTS_NOTHING" in name:
            fail(f"the test {name} was not built")
        if "qemu" in command[0]:  # CMAKE_CROSSCOMPILING_EMULATOR
            command = command[3:]
        if re.search(r"/python3?$", command[0]):
            command = ["python3", *command[1:]]
        command = [portable(word) for word in command]
        # LLVM's programs, for one, which on arm64 lie in build/sysroot-x86_64.
        foreign = [word for word in command if word.startswith("/")
                   or word.startswith("@ROOT@/build/") and not word.startswith(portable(str(build)))]
        if foreign:
            left_out.setdefault(f"needs {foreign[0].replace('@ROOT@/', '')}", []).append(name)
            continue
        row = {"name": name, "command": command, "labels": labels, "timeout": properties.get("TIMEOUT", 600)}
        for key, value in (
            ("env", [portable(pair) for pair in properties.get("ENVIRONMENT", [])]),
            ("alone", properties.get("RUN_SERIAL", False)),
            ("locks", properties.get("RESOURCE_LOCK", [])),
            ("will_fail", properties.get("WILL_FAIL", False)),
            ("skip_code", properties.get("SKIP_RETURN_CODE")),
            ("pass_regex", regex_list(properties.get("PASS_REGULAR_EXPRESSION", []))),
            ("fail_regex", regex_list(properties.get("FAIL_REGULAR_EXPRESSION", []))),
        ):
            if value or value == 0 and value is not False:
                row[key] = value
        rows.append(row)
    return rows, left_out


# --- files ------------------------------------------------------------------------------------------------------------
def copy(source, bundle):
    """A file or a folder of the tree, to the same place in the bundle."""
    target = bundle / source.relative_to(SOURCE)
    if target.exists():
        return
    if source.is_dir():
        # A folder of the build tree is one that tests write to.
        if (SOURCE / "build") in source.parents:
            target.mkdir(parents=True)
        else:
            shutil.copytree(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def copy_programs(build, bundle):
    """Every program and library that was built, stripped, and the links among them."""
    programs = []
    for folder, folders, files in os.walk(build):
        folders[:] = [f for f in folders if f not in ("CMakeFiles", "Testing")]
        for name in files:
            path = pathlib.Path(folder, name)
            target = bundle / path.relative_to(SOURCE)
            if name in PROGRAMS_LEFT_OUT or path.suffix in (".o", ".a"):
                continue
            if path.is_symlink():
                if path.exists() and is_elf(path):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.symlink_to(os.readlink(path))
            elif is_elf(path):
                target.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run([LLVM / "llvm-strip", "--strip-all", "-o", target, path], check=True)
                programs.append(target)
    return programs


def check_needs(program):
    text = subprocess.run([LLVM / "llvm-readelf", "--needed-libs", "--version-info", "--file-header", program], check=True,
                          capture_output=True, text=True).stdout
    if "X86-64" not in text:
        fail(f"{program} is not for x86-64")
    needed = re.search(r"NeededLibraries \[\n(.*?)\]", text, re.DOTALL).group(1).split()
    strange = [name for name in needed if not NEEDED.match(name)]
    if strange:
        fail(f"{program} needs {' '.join(strange)}, which the other machine may not have")
    for version in re.findall(r"Name: GLIBC_([\d.]+)", text):
        if tuple(map(int, version.split("."))) > GLIBC:
            fail(f"{program} needs glibc {version}; the other machine has {'.'.join(map(str, GLIBC))}")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    build, bundle, archive = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    shutil.rmtree(bundle, ignore_errors=True)
    bundle.mkdir(parents=True)

    tests, left_out = tests_of(build)
    (bundle / "tests.list.json").write_text(json.dumps({"tests": tests}, indent=1) + "\n")
    programs = copy_programs(build, bundle)
    for program in programs:
        check_needs(program)
    for folder in FOLDERS:
        for path in sorted((SOURCE / folder).rglob("*")):
            if path.is_file() and path.suffix not in SOURCE_SUFFIXES and "__pycache__" not in path.parts:
                copy(path, bundle)
    for script in ("gpu_torch.py", "train_gpt_peer.py", "train_gpt_torch.py", "train_gpt_jax.py", "warm_up_torch.py"):
        copy(SOURCE / "bench" / script, bundle)
    for test in tests:
        for word in test["command"]:
            if word.startswith("@ROOT@/"):
                path = SOURCE / word[len("@ROOT@/"):]
                if not path.exists():
                    fail(f"the test {test['name']} names {path}, which is not there")
                copy(path, bundle)
    for name in ("run.sh", "run.py", "sanitize.txt"):
        shutil.copy2(SOURCE / "tests/gpu" / name, bundle / name)
    described = subprocess.run(["git", "-C", SOURCE, "describe", "--always", "--dirty"], check=False, capture_output=True,
                               text=True)
    (bundle / "COMMIT").write_text(described.stdout or "unknown\n")

    archive.parent.mkdir(parents=True, exist_ok=True)
    names = sorted(str(p.relative_to(bundle)) for p in bundle.rglob("*") if not p.is_dir() or not any(p.iterdir()))
    tar = subprocess.Popen(["tar", "-C", bundle, "--owner=0", "--group=0", "--numeric-owner", "--transform=s,^,tessera-gpu/,S",
                            "-cf", "-", "--no-recursion", "--verbatim-files-from", "-T", "-"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE)
    part = archive.with_suffix(".part")
    with open(part, "wb") as out:
        # Programs have most of their code in common: a window that holds several of them makes the archive a third smaller.
        xz = subprocess.Popen(["xz", "-T1", "--x86", "--lzma2=preset=6,dict=128MiB", "-c"], stdin=tar.stdout, stdout=out)
        tar.stdout.close()
        tar.stdin.write("\n".join(names).encode() + b"\n")
        tar.stdin.close()
        if tar.wait() != 0 or xz.wait() != 0:
            fail("tar or xz failed")
    part.replace(archive)

    for why, which in left_out.items():
        print(f"left out, {why}: {len(which)} tests")
    unpacked = sum(p.lstat().st_size for p in bundle.rglob("*") if p.is_file() and not p.is_symlink())
    size = archive.stat().st_size / 2**20
    print(f"{archive.relative_to(SOURCE)}: {size:.1f} MiB, {unpacked / 2**20:.0f} MiB unpacked, {len(programs)} programs, "
          f"{len(tests)} tests")
    if size > LIMIT_MIB:
        fail(f"the archive is larger than {LIMIT_MIB} MiB")


if __name__ == "__main__":
    main()
