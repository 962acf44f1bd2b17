#!/usr/bin/env python3
"""Runs what a page of docs/ shows, and compares what comes with what the page says.

usage: docs_test.py TESSERA PAGE...       UPDATE_EXPECTED=1 writes what came into the pages; read the diff

    ```tsr NAME.tsr        a file, in the folder where everything of the page runs
    ```tessera             what is entered at the prompt (after >>> and ...) and what it answers, one session for the page
    ```console             commands (after $) and what they print
    ```console machine     the same; compared only where the page was made for this machine's instructions

A line of three dots stands for any lines. The page says for which instructions it was made: <!-- instructions: neon -->
"""
import os
import re
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
BLOCK = re.compile(r"^```(tsr|tessera|console)([^\n]*)\n(.*?)^```$", re.M | re.S)
MARK = "--- entry %d ---"


def instructions():
    text = subprocess.run([PROGRAM, "info"], capture_output=True, text=True, check=True).stdout
    return re.search(r"instructions +(\S+)", text)[1]


def run(command, folder, stdin=""):
    env = {**os.environ, "PATH": os.path.join(folder, ".bin") + ":" + os.environ["PATH"], "TESSERA_THREADS": "2"}
    done = subprocess.run(["sh", "-c", command], input=stdin, cwd=folder, env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    return done.stdout


def entries(block):
    """Pairs of what is entered and what the page says it gives."""
    pairs = []
    for line in block.splitlines():
        if line.startswith(">>> ") or line == ">>>":
            pairs.append([[line[4:]], []])
        elif line.startswith("... ") or line == "...":
            if line == "..." and (not pairs or pairs[-1][1]):
                pairs[-1][1].append(line)
            else:
                pairs[-1][0].append(line[4:])
        else:
            pairs[-1][1].append(line)
    return pairs


def matches(expected, got):
    """Lines against lines; a line of three dots is any number of them."""
    if not expected:
        return not got
    if expected[0].strip() == "...":
        return any(matches(expected[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and expected[0].rstrip() == got[0].rstrip() and matches(expected[1:], got[1:])


def check(page, machine):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    same = f"<!-- instructions: {machine} -->" in text
    failures, session = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, ".bin"))
        os.symlink(PROGRAM, os.path.join(folder, ".bin", "tessera"))

        def compare(what, expected, got):
            if matches(expected, got):
                return expected
            failures.append("\n".join([f"{page}: {what}", "the page says:", *expected, "it is:", *got]))
            return got

        # The prompt's entries of the whole page are one session: what they answer is found first.
        blocks = list(BLOCK.finditer(text))
        for block in blocks:
            if block[1] == "tsr":
                with open(os.path.join(folder, block[2].strip()), "w", encoding="utf-8") as file:
                    file.write(block[3])
            if block[1] == "tessera":
                session.extend(entries(block[3]))
        script = "".join("\n".join(lines) + f'\nprint("{MARK % i}")\n' for i, (lines, _) in enumerate(session))
        answers = []
        if session:
            rest = run("tessera", folder, script)
            for i in range(len(session)):
                got, found, rest = rest.partition((MARK % i) + "\n")
                if not found:
                    failures.append(f"{page}: the prompt gave no answer to {session[i][0]}")
                    break
                answers.append(got.splitlines())
        next_entry = 0

        def replace(block):
            nonlocal next_entry
            if block[1] == "tsr":
                return block[0]
            out = []
            if block[1] == "tessera":
                for lines, expected in entries(block[3]):
                    out.append(">>> " + lines[0])
                    out.extend(("... " + line).rstrip() for line in lines[1:])
                    if next_entry < len(answers):
                        out.extend(compare("\n".join(lines), expected, answers[next_entry]))
                    next_entry += 1
            else:
                commands = re.split(r"^\$ ", block[3], flags=re.M)[1:]
                for command in commands:
                    line, *expected = command.splitlines()
                    got = run(line, folder).splitlines()
                    if "machine" in block[2] and not same:
                        got = expected
                    out.append("$ " + line)
                    out.extend(compare(line, expected, got))
            return f"```{block[1]}{block[2]}\n" + "".join(line.rstrip() + "\n" for line in out) + "```"

        new = BLOCK.sub(replace, text)
    if not blocks:
        failures.append(f"{page}: there is nothing to run")
    if os.environ.get("UPDATE_EXPECTED") == "1":
        with open(page, "w", encoding="utf-8") as file:
            file.write(new)
        return []
    return failures


def main():
    machine = instructions()
    failures = [failure for page in sys.argv[2:] for failure in check(page, machine)]
    print("\n\n".join(failures) if failures else f"{len(sys.argv) - 2} pages are as they say")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
