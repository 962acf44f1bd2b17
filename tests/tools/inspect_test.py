#!/usr/bin/env python3
"""tessera inspect: every stage, the report, what an example is made of, and what is said where something is wrong.

usage: inspect_test.py TESSERA [TESSERA_OPT]     without TESSERA_OPT: there is no compiler
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM, OPT = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.gir")


def run(*words, **environment):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, **environment})


class Usage(unittest.TestCase):
    def fails(self, says, *words, status=1, **environment):
        done = run(*words, **environment)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertEqual(done.stderr.strip(), says)

    def test_help(self):
        for words in (["help"], ["--help"], ["-h"]):
            done = run(*words)
            self.assertEqual(done.returncode, 0)
            self.assertIn("usage: tessera [COMMAND]", done.stdout)
            self.assertIn("  inspect ", done.stdout)
        done = run("inspect", "--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("Examples:\n  tessera inspect train.tsr", done.stdout)
        self.assertEqual(done.stdout, run("help", "inspect").stdout)
        self.assertRegex(run("version").stdout, r"^tessera \d+\.\d+\.\d+")

    def test_words_that_are_none(self):
        self.fails("tessera: there is no command inspekt; tessera help lists them", "inspekt", status=2)
        self.fails("tessera: there is no command inspekt; tessera help lists them", "help", "inspekt", status=2)
        how = "\ntessera inspect --help says how it is used"
        self.fails("tessera inspect: FILE is missing" + how, "inspect", status=2)
        self.fails("tessera inspect: too many arguments: b" + how, "inspect", "a", "b", status=2)
        self.fails("tessera inspect: there is no option --color" + how, "inspect", "--color=red", "a", status=2)
        self.fails("tessera inspect: --fn needs a value: --fn NAME" + how, "inspect", "a", "--fn", status=2)
        self.fails("tessera inspect: --report takes no value" + how, "inspect", "a", "--report=1", status=2)
        self.fails("tessera inspect: --fn is given twice" + how, "inspect", "a", "--fn=a", "--fn=b", status=2)

    def test_files(self):
        done = run("inspect", "/nowhere/model.gir")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/model.gir", done.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".gir") as file:
            self.fails(f"tessera inspect: {file.name} has no function", "inspect", file.name)
            file.write("func @f(%x: tensor<4 x f32>) -> tensor<4 x f32> {\n  %y = epx %x\n  return %y\n}\n")
            file.flush()
            done = run("inspect", file.name)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{file.name}:2:8: error: ", done.stderr)
            self.assertIn("\n  %y = epx %x\n       ^~~\n", done.stderr)

    def test_what_is_asked_for(self):
        self.fails(f"tessera inspect: {MODEL} has several functions; --fn says which: rows, power, halves, pick", "inspect",
                   MODEL)
        self.fails(f"tessera inspect: {MODEL} has no function columns; there is rows, power, halves, pick", "inspect",
                   MODEL, "--fn", "columns")
        self.fails("tessera inspect: there is no stage tiles; stages are gir, graph, sched, tile, target, llvm, asm, cuda", "inspect",
                   MODEL, "--fn", "rows", "--stage", "tiles")
        self.fails("tessera inspect: --stage and --report: it is one or the other", "inspect", MODEL, "--stage", "asm",
                   "--report")
        self.fails("tessera inspect: --tier 1: code is made in tiers 2 and 3", "inspect", MODEL, "--tier", "1")

    def test_examples_that_do_not_fit(self):
        def rows(says, *words):
            self.fails("tessera inspect: " + says, "inspect", MODEL, "--fn", "rows", *words)

        rows("--dim M: it is written NAME=VALUE", "--dim", "M")
        rows("--dim M: 1 is no whole number of at least 2", "--dim", "M=1")
        rows("--dim M: many is no whole number of at least 2", "--dim", "M=many")
        rows("@rows has no symbol K; there is M, N", "--dim", "K=3")
        rows("@rows has no parameter z; there is x, w", "--shape", "z=3")
        rows("%x is f32[M,N], of rank 2, and cannot have 3 dims", "--shape", "x=2x3x4")
        rows("N cannot be 8 and 16 at once", "--shape", "x=4x8", "--shape", "w=16")
        rows("--value w: much is no number", "--value", "w=much")
        rows("%x is too large for an example: f32[M,N]", "--dim", "M=1000000", "--dim", "N=1000000")
        done = run("inspect", MODEL, "--fn", "halves", "--dim", "N=10")
        self.assertEqual(done.returncode, 1)
        self.assertIn("N % 4 == 0", done.stderr)
        done = run("inspect", MODEL, "--fn", "pick", "--value", "ids=1000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the example call of @pick failed: ", done.stderr)
        done = run("inspect", MODEL, "--fn", "rows", "--option", "fusion=true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("fusion", done.stderr)

    def test_without_a_compiler(self):
        done = run("inspect", MODEL, "--fn", "rows", "--option", "compiler_library=none")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("inspect_ir: the option compiler_library is none", done.stderr)
        done = run("inspect", MODEL, "--fn", "rows", TESSERA_COMPILER_LIBRARY="/nowhere.so")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("the compiler is not to be had: /nowhere.so", done.stderr)

    def test_a_function_that_never_gets_hot(self):
        done = run("inspect", MODEL, "--fn", "rows", "--option", "hot_function=1000000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("@rows has no version yet", done.stderr)
        self.assertIn("(after 200 calls)", done.stderr)


class Program(unittest.TestCase):
    """A .tsr file in place of a .gir one."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "model.tsr")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("def rows(x: Tensor[\"M\", \"N\", f32], w: Tensor[\"N\", f32]):\n    return softmax(x * w)\n\n"
                       "def scaled(x, k=2.0):\n    return tanh(x * k) + 1\n\n"
                       "def never(x):\n    return x\n\n"
                       "print(scaled(ones(4)).sum(), scaled(ones(2, 3)).sum())\n")

    def tearDown(self):
        self.folder.cleanup()

    def fails(self, says, *words):
        done = run("inspect", self.path, *words)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(says, done.stderr)

    def test_graph_ir(self):
        done = run("inspect", self.path, "--fn", "rows", "--stage", "gir")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("func @rows(%x: tensor<M x N x f32>, %w: tensor<N x f32>)", done.stdout)
        self.assertNotIn("print", done.stdout)
        done = run("inspect", self.path, "--fn", "scaled", "--stage", "gir", "--version", "2")
        self.assertIn("tensor<A x B x f32>", done.stdout)
        done = run("inspect", MODEL, "--stage", "gir", "--fn", "rows")
        self.assertIn("func @power", done.stdout)

    def test_what_is_asked_for(self):
        self.fails("has several functions; --fn says which: never, rows, scaled")
        self.fails("has no function columns; there is never, rows, scaled", "--fn", "columns")
        self.fails("never is compiled when it is called, and the program does not call it", "--fn", "never")
        self.fails("scaled has 2 versions", "--fn", "scaled", "--version", "3")
        self.fails("--version: 0 is no whole number of at least 1", "--fn", "scaled", "--version", "0")

    def test_errors_of_the_program(self):
        with open(self.path, "a", encoding="utf-8") as file:
            file.write("x = nothing\n")
        self.fails(self.path + ":11:5: error: there is no `nothing`", "--fn", "rows")

    @unittest.skipIf(OPT is None, "no compiler")
    def test_stages(self):
        for stage, part in (("graph", "tsr_graph.softmax"), ("sched", "tsr_sched.kernel"), ("tile", "tsr_tile.kernel"),
                            ("target", "llvm.func @k"), ("asm", "k1:")):
            done = run("inspect", self.path, "--fn", "rows", "--stage", stage)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(part, done.stdout)
        done = run("inspect", self.path, "--fn", "rows", "--shape", "x=8x128")
        self.assertIn("tensor<8x128xf32>", done.stdout)
        self.assertIn(f'loc("{self.path}":2:', done.stdout)
        done = run("inspect", self.path, "--fn", "scaled", "--stage", "graph", "--version", "2", "--tier", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipIf(OPT is None, "no compiler")
class Schedules(unittest.TestCase):
    """@kernel.schedule reaches the schedule stage, for the function it stands before and for no other."""

    PRODUCT = "def {0}(x: Tensor[\"M\", \"K\", f32], w: Tensor[\"K\", \"N\", f32]):\n    return {1}\n\n"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "model.tsr")
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(self.PRODUCT.format("plain", "relu(x @ w)"))
            file.write("@kernel.schedule(form=\"packed\", rows=24, nr=16, mr=4)\n" + self.PRODUCT.format("cut", "relu(x @ w)"))
            file.write("@kernel.schedule(form=\"library\")\n" + self.PRODUCT.format("left", "relu(x @ w)"))
            file.write("@kernel.schedule(depth=48)\n" + self.PRODUCT.format("outer", "cut(x, w) + relu(plain(x, w))"))

    def tearDown(self):
        self.folder.cleanup()

    def products(self, name, *words):
        done = run("inspect", self.path, "--fn", name, "--stage", "sched", "--dim", "M=128", "--dim", "K=96", "--dim",
                   "N=160", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        found = []
        for text in re.findall(r"product = \{([^}]*)\}", done.stdout):
            entries = (entry.strip().split(" = ") for entry in text.split(","))
            found.append({name: value.split(" :")[0].strip('"') for name, value in entries})
        return found

    def test_one_function(self):
        for tier in ("2", "3"):
            (cut,) = self.products("cut", "--tier", tier)
            self.assertEqual((cut["form"], cut["rows"], cut["nr"], cut["mr"]), ("packed", "24", "16", "4"))
            (plain,) = self.products("plain", "--tier", tier)
            self.assertNotEqual(plain["rows"], "24")
        self.assertEqual(self.products("left"), [], "it is left to the library")

    def test_calls(self):
        """A function's own schedule goes before its caller's, which holds for what says nothing."""
        cut, plain = sorted(self.products("outer"), key=lambda p: p["rows"] != "24")
        self.assertEqual((cut["rows"], cut["nr"], cut["mr"]), ("24", "16", "4"))
        self.assertNotEqual(cut["depth"], "48")
        self.assertEqual(plain["depth"], "48")
        self.assertNotEqual(plain["rows"], "24")

    def test_the_option_goes_before_it(self):
        (cut,) = self.products("cut", "--option", "schedule=*:rows=48")
        self.assertEqual(cut["rows"], "48")  # whole register tiles of every CPU

    def test_graph_ir_has_it(self):
        done = run("inspect", self.path, "--fn", "outer", "--stage", "gir")
        self.assertIn('with {schedule = "form=packed,rows=24,nr=16,mr=4"} {', done.stdout)
        self.assertIn('with {schedule = "depth=48"} {', done.stdout)


@unittest.skipIf(OPT is None, "no compiler")
class Inspect(unittest.TestCase):
    def shows(self, *words):
        done = run("inspect", MODEL, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_stages(self):
        self.assertEqual(self.shows("--fn", "rows"), self.shows("--fn", "@rows", "--stage", "graph"))
        for stage, part in (("graph", "tsr_graph.softmax"), ("sched", "tsr_sched.kernel @k1"),
                            ("tile", "tsr_tile.kernel @k1"), ("target", "tsr_target.launch @k1"),
                            ("llvm", "@k1(ptr"), ("asm", "k1:")):
            self.assertIn(part, self.shows("--fn", "rows", "--stage", stage))

    def test_tessera_opt_reads_what_is_shown(self):
        for stage, then in (("graph", "--tsr-fuse"), ("sched", "--tsr-lower-kernels"), ("tile", "--tsr-lower-to-llvm"),
                            ("target", "--cse")):
            for tier in ("2", "3"):
                text = self.shows("--fn", "rows", "--stage", stage, "--tier", tier)
                done = subprocess.run([OPT, then, "--mlir-print-debuginfo"], input=text, capture_output=True, text=True,
                                      check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""), text)
                for line in (4, 5):
                    self.assertRegex(text, f'loc\\("{MODEL}":{line}:[0-9]+\\)')
                    self.assertRegex(done.stdout, f'loc\\("{MODEL}":{line}:[0-9]+\\)')

    def test_tiers_and_dims(self):
        self.assertIn("tensor<64x96xf32>", self.shows("--fn", "rows"))
        self.assertIn("tensor<8x128xf32>", self.shows("--fn", "rows", "--dim", "M=8", "--dim=N=128"))
        self.assertIn("tensor<8x128xf32>", self.shows("--fn", "rows", "--shape", "%x=8x128"))
        self.assertIn("tensor<?x?xf32, [0, 1]>", self.shows("--fn", "rows", "--tier", "2"))

    def test_loops_and_options(self):
        self.assertIn("tsr_graph.step \"for_next\"", self.shows("--fn", "power", "--value", "n=50"))
        self.assertEqual(self.shows("--fn", "rows", "--stage", "sched").count("tsr_sched.kernel"), 1)
        self.assertEqual(self.shows("--fn", "rows", "--stage", "sched", "--option", "fuse=false").count("tsr_sched.kernel"), 2)

    def test_report(self):
        text = self.shows("--fn", "rows", "--report", "--shape", "x=8x128")
        self.assertIn("kernel k1 in place of steps 0, 1\n", text)
        self.assertRegex(text, f"from        {MODEL}:4:[0-9]+, {MODEL}:5:[0-9]+\n")
        self.assertIn("reads       4608 bytes\n", text)
        self.assertNotIn("roofline  ", text)
        text = self.shows("--fn", "rows", "--report", "--tier=2", "--peak-gbps=100", "--peak-gflops=0.5")
        self.assertIn("reads       4*s0*s1 + 4*s1 bytes\n", text)
        self.assertIn("roofline    arithmetic is the bound: at least ", text)
        self.assertIn("s0 = 1024, s1 = 1024", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
