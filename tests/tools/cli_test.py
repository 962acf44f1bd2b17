#!/usr/bin/env python3
"""The command line tessera: every command, what it prints where, and how it ends.

usage: cli_test.py TESSERA [TESSERA_OPT]
"""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM, OPT = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None


def run(*words, stdin="", **environment):
    return subprocess.run([PROGRAM, *words], input=stdin, capture_output=True, text=True, check=False, timeout=240,
                          env={**os.environ, **environment})


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def file(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def gives(self, stdout, *words, status=0, stderr="", **more):
        done = run(*words, **more)
        self.assertEqual((done.stdout, done.stderr, done.returncode), (stdout, stderr, status))


class Text(Case):
    def test_a_program_on_the_command_line(self):
        self.gives("2\n", "-c", "print(1 + 1)")
        self.gives("2\n", "-c", "1 + 1")
        self.gives("[2., 2.] f32[2]\n", "-c", "ones(2) * 2")
        self.gives("", "-c", "x = 1")
        self.gives("a\nb\n", "-c", "print('a')\nprint('b')")

    def test_errors_go_to_stderr(self):
        self.gives("1\n", "-c", "print(1)\nprint(zeros(2) + zeros(3))", status=1,
                   stderr="<command>:2:16: error: add: cannot broadcast f32[2] with f32[3]: dim -1 is 2 on the left and 3 on "
                          "the right; they must be equal, or one of them 1\nprint(zeros(2) + zeros(3))\n               ^\n"
                          "<command>:2:7: note: this is a tensor f32[2]\nprint(zeros(2) + zeros(3))\n      ^~~~~~~~\n"
                          "<command>:2:18: note: this is a tensor f32[3]\nprint(zeros(2) + zeros(3))\n"
                          "                 ^~~~~~~~\n")
        done = run("-c", "x = (1,\ny = ]")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("<command>:", done.stderr)

    def test_no_colours_in_a_pipe(self):
        self.assertNotIn("\x1b", run("-c", "nope").stderr + run("help").stdout + run("info").stdout)

    def test_usage(self):
        self.assertEqual(run("-c").returncode, 2)
        self.assertEqual(run("-c", "1", "2").returncode, 2)


class Pipe(Case):
    def test_values_are_shown(self):
        self.gives("3\n\"a\"\n", stdin="1 + 2\n'a'\nNone\n")

    def test_blocks_need_no_blank_line(self):
        self.gives("0\n1\nelse\n(1, 2)\n",
                   stdin="for i in range(2):\n\n    print(i)\nif False:\n    print(1)\nelse:\n    print('else')\n(1,\n2)\n")

    def test_errors_end_nothing_and_are_told(self):
        done = run(stdin="x = 1\nnope\nx\n:nothing\nx + 1\n")
        self.assertEqual((done.returncode, done.stdout), (1, "1\n2\n"))
        self.assertIn("there is no `nope`", done.stderr)
        self.assertIn("there is no command :nothing", done.stderr)

    def test_commands(self):
        done = run(stdin=":type zeros(2, 3)\n:device cpu\n:quit\n1 / 0\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines()[0], "a tensor f32[2,3] on cpu")
        done = run(stdin="x = ones(64)\n:time x + 1.0\n:tier 1\n:tier\n:explain\n")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"median .*, best .*, first .* \(\d+ runs\)")
        self.assertIn("highest tier in use: 1 (the interpreter)", done.stdout)

    def test_device_and_tier_are_shown(self):
        self.gives("[1., 1.] f32[2] cpu, tier 1\n", stdin="ones(2)\n")


class Run(Case):
    def test_a_file(self):
        path = self.file("a.tsr", "x = 1\nfor i in range(3):\n    x = x * 2\nprint(x)\n")
        self.gives("8\n", "run", path)
        self.gives("8\n", path)
        done = run("run", os.path.join(self.folder.name, "none.tsr"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("none.tsr", done.stderr)

    def test_imports(self):
        self.file("lib/base.tsr", "one = 1\n")
        self.file("lib/more.tsr", "from base import one\ntwo = one + one\n")
        path = self.file("main.tsr", "import lib.more\nfrom lib.base import one as uno\nprint(more.two, uno)\n")
        self.gives("2 1\n", "run", path)

    def test_imports_that_fail(self):
        self.file("loop.tsr", "import main\n")
        path = self.file("main.tsr", "import loop\n")
        done = run("run", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("imports itself, by way of", done.stderr)
        path = self.file("missing.tsr", "import nowhere\n")
        self.assertIn("there is no file", run("run", path).stderr)
        self.file("bad.tsr", "x = 1 +\n")
        path = self.file("uses.tsr", "import bad\n")
        done = run("run", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("bad.tsr:1:", done.stderr)
        self.assertIn("note: imported here", done.stderr)
        self.file("names.tsr", "alpha = 1\n")
        path = self.file("from.tsr", "from names import beta\n")
        self.assertIn("defines no `beta`", run("run", path).stderr)

    def test_options_and_devices(self):
        path = self.file("a.tsr", "print(ones(1))\n")
        self.gives("[1.] f32[1]\n", "run", path, "--device", "cpu", "--option", "tier=1")
        self.assertIn("<no values on device null>", run("run", path, "--device", "null").stdout)
        done = run("run", path, "--device", "nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no device is called 'nowhere'", done.stderr)
        done = run("run", path, "--option", "tiers=1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("tiers", done.stderr)

    def test_live_lines_and_the_ledger(self):
        path = self.file("a.tsr", "x = ones(200, 200)\nfor i in range(4000):\n    x = tanh(x * 0.5 + 0.1)\nprint(i)\n")
        done = run("run", path, "--live", "--explain")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("3999\n", done.stdout)
        self.assertRegex(done.stdout, r"a\.tsr:3 ")
        done = run("explain", path)
        self.assertRegex(done.stdout, r"3999\n\nversions: ")


class Demo(Case):
    def test_with_a_smaller_cloud(self):
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "demo.tsr")
        self.gives("", "fmt", "--check", source)
        self.gives("", "check", source)
        with open(source, encoding="utf-8") as file:
            text = file.read()
        small = text.replace("80000", "80").replace("120000", "120")
        self.assertNotEqual(small, text)
        done = run("run", self.file("demo.tsr", small), "--live", "--explain")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("a larger cloud: 120 points in place of 80\n", done.stdout)
        self.assertEqual(len(re.findall(r"^step \d+ spread \d", done.stdout, re.M)), 7)
        self.assertIn("@step:", done.stdout)


class Others(Case):
    def test_check(self):
        good = self.file("good.tsr", "def f(x):\n    return x + 1\nprint(f(zeros(2)))\n")
        self.gives("", "check", good)
        bad = self.file("bad.tsr", "x = = 1\ny = )\n")
        done = run("check", good, bad)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("bad.tsr:1:5: error: ", done.stderr)
        self.assertIn("bad.tsr:2:5: error: ", done.stderr)

    def test_fmt(self):
        path = self.file("a.tsr", "x=1 # one\nif x :\n  y=( 2,3)\n")
        self.gives(path + "\n", "fmt", "--check", path, status=1)
        self.gives("", "fmt", path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text, "x = 1  # one\nif x:\n    y = (2, 3)\n")
        self.gives("", "fmt", "--check", path)
        self.gives(text, "fmt", "-", stdin="x=1 # one\nif x :\n  y=( 2,3)\n")
        self.assertEqual(run("fmt", self.file("b.tsr", "x = = 1\n")).returncode, 1)

    def test_info(self):
        done = run("info")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("machine", "devices", "libraries", "BLAS", "compiler", "CUDA driver", "NCCL"):
            self.assertIn(word, done.stdout)
        done = run("info", TESSERA_BLAS_LIBRARY="/nowhere.so", TESSERA_COMPILER_LIBRARY="none")
        self.assertRegex(done.stdout, r"compiler +missing +no code is generated")
        self.assertIn("/nowhere.so (TESSERA_BLAS_LIBRARY)", done.stdout)

    def test_explain_words(self):
        done = run("explain", "escape")
        self.assertEqual(done.returncode, 0)
        self.assertIn("reason for a deopt escape: ", done.stdout)
        self.assertIn("guard escape: ", done.stdout)
        self.assertIn("op softmax: softmax(x, axis=-1): ", run("explain", "softmax").stdout)
        self.assertIn("option compile_after: ", run("explain", "compile_after").stdout)
        done = run("explain", "softmex")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nothing is known of softmex", done.stderr)
        self.assertIn("softmax", done.stderr)

    def test_opt(self):
        if OPT is None:
            self.assertIn("comes with the compiler", run("opt", "--help").stderr)
        else:
            self.assertIn("--tsr-fuse", run("opt", "--help").stdout)

    def test_help_of_every_command(self):
        names = re.findall(r"^  ([a-z]+) ", run("help").stdout, re.M)
        self.assertGreaterEqual(len(names), 8)
        for name in names:
            if name in ("help", "version", "tessera"):
                continue
            text = run("help", name).stdout
            self.assertIn("usage: tessera " + name, text)
            self.assertIn("Examples:\n", text)


class Threads(Case):
    """The thread that compiles has the lowest priority, those that compute have the program's, whoever comes first."""

    def test_the_compilers_priority_is_not_handed_on(self):
        path = self.file("loop.tsr", "x = ones(8)\nfor i in range(100000000):\n    x = tanh(x * 0.5) + 0.1\n")
        process = subprocess.Popen([PROGRAM, "run", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env={**os.environ, "TESSERA_THREADS": "2", "TESSERA_HOT_EAGER": "4",
                                        "TESSERA_COMPILE_AFTER": "0", "TESSERA_CACHE": "false"})
        try:
            deadline, nice = time.time() + 60, {}
            while not {"tessera build", "tessera-1"} <= nice.keys() and time.time() < deadline:
                self.assertIsNone(process.poll())
                time.sleep(0.05)
                nice = self.priorities(process.pid)
            if "tessera build" not in nice:
                self.skipTest("no compiler")
            self.assertEqual(nice["tessera build"], 19)
            self.assertEqual(nice["tessera-1"], os.getpriority(os.PRIO_PROCESS, process.pid))
        finally:
            process.kill()
            process.communicate()

    @staticmethod
    def priorities(pid):
        """Of the threads of a process, by their names."""
        found = {}
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as file:
                found[file.read().strip()] = os.getpriority(os.PRIO_PROCESS, int(task))
        return found


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
