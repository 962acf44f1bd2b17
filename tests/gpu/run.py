#!/usr/bin/env python3
"""Runs what is in a bundle that ./dev gpu made, on the machine that it was copied to.

  run.sh test [REGEX]                 the tests whose names match, all of them if none is given
  run.sh bench [NAME ...]             benchmarks, each in a process of its own
  run.sh sanitize [TOOL ...]          the command lines of sanitize.txt under compute-sanitizer; the tools are memcheck,
                                      racecheck, initcheck and synccheck, all of them if none is named

  --out DIR       where the results go: tests.json, bench.json, sanitize.json, logs/ ($OUT, or ./results)
  --timeout S     the most that one command may take (tests: what ctest allows, and at most this)
  --limit S       the most that all of it may take; what has not begun by then is listed as not run
  --jobs N        tests, or commands under compute-sanitizer, at a time (all cores)
  --seconds S     bench: the time for each comparison
  --runner WORDS  what programs of the bundle are run by: "qemu-x86_64-static -L /usr/x86_64-linux-gnu" on arm64

The results are written as they come, so that they are there if the run is cut short. Standard library only.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TAIL_LINES = 15
TAIL_COLUMNS = 500
runner = []  # --runner


# --- commands ---------------------------------------------------------------------------------------------------------
def rooted(word):
    return word.replace("@ROOT@", str(ROOT))


def environment(more=()):
    """That of this process, the compiler of the bundle, and NAME=VALUE of `more`."""
    env = dict(os.environ)
    env.setdefault("TESSERA_COMPILER_LIBRARY", str(ROOT / "build/gpu/libtessera_compiler.so"))
    env.update(rooted(pair).split("=", 1) for pair in more)
    return env


def run(command, timeout, env=None, split=False):
    """The status ("timeout" where it took too long), output and seconds. A command that is ended takes those that it
    started along. With `split`, errors are kept apart, as a fourth."""
    begin = time.monotonic()
    if command[0].startswith(str(ROOT)):
        command = [*runner, *command]
    try:
        process = subprocess.Popen(command, cwd=ROOT, env=env or environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE if split else subprocess.STDOUT,
                                   start_new_session=True)
    except OSError as error:
        return ("not started", str(error), 0.0, "") if split else ("not started", str(error), 0.0)
    try:
        out, err = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        out, err = process.communicate()
        status = "timeout"
    seconds = round(time.monotonic() - begin, 3)
    out = out.decode(errors="replace")
    return (status, out, seconds, err.decode(errors="replace")) if split else (status, out, seconds)


def said(status):
    if status == "timeout":
        return "took too long"
    if isinstance(status, int) and status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return status if isinstance(status, str) else f"status {status}"


def last_lines(text):
    return [line[:TAIL_COLUMNS] for line in text.rstrip().splitlines()[-TAIL_LINES:]]


def tail(text):
    return "\n".join("    " + line for line in last_lines(text))


# --- the machine ------------------------------------------------------------------------------------------------------
def first_match(pattern, text, default=""):
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1).strip() if match else default


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine():
    """What was run, and on what. Empty strings where there is no GPU."""
    gpu = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").strip().splitlines()
    name, _, driver = gpu[0].partition(",") if gpu else ("", "", "")
    toolkit = first_match(r"release ([\d.]+)", output_of(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc", "--version"))
    commit = ROOT / "COMMIT"
    return {
        "commit": commit.read_text().strip() if commit.exists() else "",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": name.strip(),
        "devices": len(gpu),
        "driver": driver.strip(),
        "cuda": first_match(r"CUDA Version: *([\d.]+)", output_of("nvidia-smi")),
        "toolkit": toolkit,
        "cpu": first_match(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text()),
        "cores": len(os.sched_getaffinity(0)),
    }


class Results:
    """A JSON file that is complete at any moment."""

    def __init__(self, path):
        self.path = path
        self.data = {"machine": machine()}
        self.written = 0.0
        path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, at_once=True):
        if not at_once and time.monotonic() - self.written < 1:
            return
        self.written = time.monotonic()
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.data, indent=1) + "\n")
        part.replace(self.path)


def keep_log(out, name, text):
    path = out / "logs" / (re.sub(r"[^\w.-]+", "_", name) + ".log")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# --- test -------------------------------------------------------------------------------------------------------------
def passes(test, status, text):
    """As ctest would have it."""
    if status in ("timeout", "not started"):
        return False
    if any(re.search(pattern, text) for pattern in test.get("fail_regex", [])):
        return False
    if test.get("pass_regex"):
        return any(re.search(pattern, text) for pattern in test["pass_regex"])
    return (status != 0) == test.get("will_fail", False)


def run_test(test, args):
    timeout = min(test["timeout"], args.timeout or test["timeout"])
    if args.end is not None:
        timeout = min(timeout, args.end - time.monotonic())
        if timeout <= 0:
            return {"name": test["name"], "result": "not run", "seconds": 0.0}, ""
    status, text, seconds = run([rooted(word) for word in test["command"]], timeout, environment(test.get("env", ())))
    if status == test.get("skip_code", -1):
        result = "skipped"
    else:
        result = "passed" if passes(test, status, text) else "failed"
    row = {"name": test["name"], "result": result, "seconds": seconds}
    if result == "failed":
        row["status"] = said(status)
        row["tail"] = last_lines(text)
    skipped = first_match(r"\[  SKIPPED \] (\d+) test", text)
    if skipped:
        row["skipped_cases"] = int(skipped)
    return row, text


def cmd_test(args):
    tests = json.loads((ROOT / "tests.list.json").read_text())["tests"]
    if args.words:
        tests = [t for t in tests if any(re.search(word, t["name"]) for word in args.words)]
    # The many short suites fill the gaps that the long programs leave.
    tests.sort(key=lambda t: (t["name"].startswith("unit/"), "soak" not in t["labels"]))
    results = Results(args.out / "tests.json")
    rows = results.data["tests"] = []
    counts = results.data["totals"] = dict.fromkeys(("tests", "passed", "failed", "skipped", "not_run"), 0)
    counts["tests"] = len(tests)
    begin = time.monotonic()
    lock = threading.Lock()

    def one(test):
        row, text = run_test(test, args)
        with lock:
            rows.append(row)
            counts[row["result"].replace(" ", "_")] += 1
            results.data["seconds"] = round(time.monotonic() - begin, 1)
            if row["result"] == "failed":
                print(f"FAILED {row['name']}: {row['status']}, {row['seconds']:.1f} s\n{tail(text)}", flush=True)
                keep_log(args.out, row["name"], text)
            results.write(at_once=False)

    def all_of(group):  # one after the other
        for test in group:
            one(test)

    alone = [t for t in tests if t.get("alone")]
    groups, locks = [], {}
    for test in tests:
        if test.get("alone"):
            continue
        if test.get("locks"):
            key = tuple(test["locks"])
            if key not in locks:
                locks[key] = []
                groups.append(locks[key])
            locks[key].append(test)
        else:
            groups.append([test])
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for future in [pool.submit(all_of, group) for group in groups]:
            future.result()
    all_of(alone)
    rows.sort(key=lambda row: row["name"])
    results.write()
    for row in rows:
        if row["result"] in ("skipped", "not run"):
            print(f"{row['result']}: {row['name']}")
    cases = sum(row.get("skipped_cases", 0) for row in rows)
    if cases:
        print(f"{cases} cases in {sum('skipped_cases' in row for row in rows)} tests were skipped")
    where = results.data["machine"]["device"] or "no GPU"
    print(f"{counts['passed']} of {len(tests)} tests passed ({where}, {results.data['seconds'] if tests else 0} s)")
    return 0 if tests and counts["passed"] + counts["skipped"] == len(tests) else 1


# --- bench ------------------------------------------------------------------------------------------------------------
def cmd_bench(args):
    program = str(ROOT / "build/gpu/bench/tessera_bench")
    status, listing, _ = run([program, "--list"], 60)
    names = [line.split()[0] for line in listing.splitlines() if line.strip()]
    if status != 0:
        sys.exit(f"run.sh bench: tessera_bench --list: {said(status)}\n{listing}")
    unknown = [word for word in args.words if word not in names]
    if unknown:
        sys.exit(f"run.sh bench: there is no benchmark {', '.join(unknown)}; there are: {' '.join(names)}")
    results = Results(args.out / "bench.json")
    rows = results.data["results"] = []
    failed = results.data["failed"] = []
    chosen = args.words or names
    for name in chosen:
        timeout = args.timeout or 300
        if args.end is not None:
            timeout = min(timeout, args.end - time.monotonic())
        if timeout <= 0:
            failed.append({"name": name, "status": "not run"})
            print(f"not run: {name}")
            continue
        options = ["--seconds", str(args.seconds)] if args.seconds else []
        status, text, seconds, errors = run([program, *options, name], timeout, split=True)
        for line in text.splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            rows.append(row)
            peer = f", {row.get('peer')} {row.get('peer_value')}, ratio {row.get('ratio')}" if row.get("peer") else ""
            print(f"{row.get('name', name)}: {row.get('value')} {row.get('unit', '')}{peer}", flush=True)
        if status != 0:
            failed.append({"name": name, "status": said(status), "seconds": seconds,
                           "tail": last_lines(text + errors)})
            print(f"FAILED {name}: {said(status)}\n{tail(text + errors)}", flush=True)
        results.write()
    results.write()
    print(f"{len(chosen) - len(failed)} of {len(chosen)} benchmarks ran ({results.data['machine']['device'] or 'no GPU'})")
    return 1 if failed else 0


# --- sanitize ---------------------------------------------------------------------------------------------------------
def of_line(line):
    """The command of a line of sanitize.txt, and the options before it of each tool that has some."""
    words, options = shlex.split(line, comments=True), {}
    while words and (found := re.fullmatch(f"({'|'.join(TOOLS)}):(-.+)", words[0])):
        options.setdefault(found[1], []).append(found[2])
        words = words[1:]
    return words, options


def cmd_sanitize(args):
    wrong = [word for word in args.words if word not in TOOLS]
    if wrong:
        sys.exit(f"run.sh sanitize: there is no tool {', '.join(wrong)}; there are: {' '.join(TOOLS)}")
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(program, os.X_OK):
        sys.exit("run.sh sanitize: compute-sanitizer was not found in PATH or /usr/local/cuda/bin")
    lines = [of_line(line) for line in (ROOT / "sanitize.txt").read_text().splitlines()]
    lines = [(words, options) for words, options in lines if words]
    results = Results(args.out / "sanitize.json")
    rows = results.data["runs"] = []
    tools = args.words or TOOLS
    clean = dict.fromkeys(tools, 0)
    lock = threading.Lock()

    def one(tool, words, options):
        row = {"tool": tool, "command": " ".join(words)}
        if options:
            row["options"] = " ".join(options)
        timeout = args.timeout or 600
        if args.end is not None:
            timeout = min(timeout, args.end - time.monotonic())
        if timeout <= 0:
            row.update(result="not run")
            text = ""
        else:
            status, text, seconds = run([program, "--tool", tool, "--error-exitcode", "86", "--target-processes", "all",
                                         *options, *words], timeout, environment(["TESSERA_CACHE=false"]))
            # One for each process; a program that never calls CUDA has none worth the name.
            summaries = re.findall(r"^=+ (\w+ SUMMARY: .*)$", text, re.MULTILINE)
            found = any(not re.search(r"SUMMARY: 0 ", line) for line in summaries)
            ok = status == 0 and summaries and not found
            row.update(result="clean" if ok else "failed", status=said(status), seconds=seconds, summaries=summaries)
            if "Target application terminated before first instrumented API call" in text:
                row["note"] = "no CUDA call was made"
        with lock:
            if row["result"] == "clean":
                clean[tool] += 1
            elif row["result"] == "not run":
                print(f"not run: {tool} {row['command']}")
            else:
                row["tail"] = last_lines(text)
                keep_log(args.out, f"{tool} {row['command']}", text)
                print(f"FAILED {tool} {row['command']}: {row['status']}; {'; '.join(row['summaries']) or 'no summary'}\n"
                      f"{tail(text)}", flush=True)
            rows.append(row)
            results.data["tools"] = {name: {"clean": n, "of": len(lines)} for name, n in clean.items()}
            results.write()

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for future in [pool.submit(one, tool, words, options.get(tool, [])) for words, options in lines for tool in tools]:
            future.result()
    rows.sort(key=lambda row: (TOOLS.index(row["tool"]), row["command"]))
    results.write()
    if not lines:
        print("sanitize.txt names no command: nothing was run")
        return 1
    for tool, n in clean.items():
        print(f"{tool}: {n} of {len(lines)} commands clean{'' if n == len(lines) else ': FAILED'}")
    return 0 if all(n == len(lines) for n in clean.values()) else 1


def main():
    commands = {"test": cmd_test, "bench": cmd_bench, "sanitize": cmd_sanitize}
    parser = argparse.ArgumentParser(prog="run.sh", usage="run.sh test|bench|sanitize [OPTION ...] [WORD ...]",
                                     description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=commands, help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(os.environ.get("OUT") or "results"),
                        help=argparse.SUPPRESS)
    parser.add_argument("--timeout", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--runner", default="", help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    runner.extend(shlex.split(args.runner))
    args.out = args.out.resolve()
    args.end = time.monotonic() + args.limit if args.limit else None
    return commands[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
