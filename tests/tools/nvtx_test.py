#!/usr/bin/env python3
"""Ranges for NVIDIA's tools, as a tool that NVTX loads into the process hears them.

usage: nvtx_test.py TESSERA LISTENER
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

TESSERA = LISTENER = None
PROGRAM = """
x = linspace(0.0, 1.0, 64)
for i in range(400):
    x = tanh(x * 0.5 + 1.0) - x
print(x.mean())
"""


def run(listening):
    with tempfile.TemporaryDirectory() as folder:
        program, heard = os.path.join(folder, "loop.tsr"), os.path.join(folder, "heard")
        with open(program, "w") as f:
            f.write(PROGRAM)
        env = dict(os.environ, TESSERA_BACKGROUND="false", TESSERA_CACHE="false",
                   TESSERA_PROFIT_GATE="false")
        if listening:
            env.update(NVTX_INJECTION64_PATH=LISTENER, NVTX_LISTENER_FILE=heard)
        done = subprocess.run([TESSERA, "run", program], env=env, capture_output=True, text=True, timeout=120)
        if not os.path.exists(heard):
            return done, []
        with open(heard) as f:
            return done, f.read().splitlines()


class NvtxTest(unittest.TestCase):
    def test_runs_of_versions_are_ranges_with_their_id(self):
        done, heard = run(listening=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(heard[0], "domain tessera")
        runs = [re.fullmatch(r"push (\d+) version (\d+) of loop\.tsr:\d+", line) for line in heard]
        runs = [m for m in runs if m]
        self.assertGreater(len(runs), 100, heard[:20])
        for m in runs:
            self.assertEqual(m.group(1), m.group(2), "the payload is the id")
        self.assertEqual(sum(line.startswith("push") for line in heard), heard.count("pop"))

    def test_the_program_is_the_same_without_a_tool(self):
        with_tool, _ = run(listening=True)
        without, heard = run(listening=False)
        self.assertEqual(heard, [])
        self.assertEqual(with_tool.stdout, without.stdout)


if __name__ == "__main__":
    LISTENER = sys.argv.pop()
    TESSERA = sys.argv.pop()
    unittest.main()
