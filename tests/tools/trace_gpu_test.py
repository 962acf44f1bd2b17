#!/usr/bin/env python3
"""tessera trace on what ran on GPUs, and on the ranks of a job; on traces that are made by hand.

usage: trace_gpu_test.py TESSERA TRACE_SAMPLE
"""
import gzip
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

from wire import dict_of, fields

PROGRAM, SAMPLE = sys.argv[1], sys.argv[2]


def run(*words, **environment):
    return subprocess.run([PROGRAM, "trace", *words], capture_output=True, text=True, check=False, timeout=240,
                          env={**os.environ, **environment})


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = cls.sample("a.trace", 60)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def sample(cls, name, launches, *words):
        subprocess.run([SAMPLE, cls.path(name), str(launches), *map(str, words)], check=True)
        return cls.path(name)

    def ok(self, *words, **environment):
        done = run(*words, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout


class Look(Case):
    def test_report(self):
        text = self.ok("report", self.trace)
        for word in (r"GPU 0: NVIDIA H200, 2 streams", r"busy +[\d.]+ ms of", r"idle, host .*had not been launched",
                     r"after the program had waited for the device", r"launch to start", r"recorded by CUPTI 13.0",
                     r"k1 +layer_norm at train.cc:42, step 0 of version 2 .* 60 .*memory-bound at 91 %",
                     r"k5 .*latency-bound: 26 blocks for 132 multiprocessors", r"nvjet.*tensor cores busy 68 %",
                     r"copy from the host .*GB/s"):
            self.assertRegex(text, word)

    def test_top(self):
        text = self.ok("top", self.trace, "--by", "kernel", "--rows", "2")
        self.assertEqual(len(text.splitlines()), 4, text)
        self.assertIn("tessera_attention", text)

    def test_explain(self):
        text = self.ok("explain", self.trace, "@Step:40")
        for word in ("kernels on GPUs", "attention at train.cc:45, step 4 of version 2: y5 = attention y6 y6 y6",
                     "bank conflicts: 38 % of the accesses of shared memory: a swizzle of 128 bytes",
                     "waits at barriers: 26 %", "spills: 80 KiB", "60 launches"):
            self.assertIn(word, text)

    def test_events(self):
        self.assertRegex(self.ok("events", self.trace), r"us \[gpu 0 stream 7\] kernel 23 us k1, layer_norm at train.cc:42")
        text = self.ok("events", self.trace, "--no-times")
        self.assertEqual(text.count("] kernel k5, sum at train.cc:46, step 5 of version 2, in a graph\n"), 60)

    def test_diff(self):
        text = self.ok("diff", self.trace, self.sample("b.trace", 30))
        self.assertRegex(text, r"GPUs busy +[\d.]+ ms +[\d.]+ ms")
        self.assertRegex(text, r"k5 at train.cc:46 +60 +30")


def toolkit(name):
    """A program of the CUDA toolkit, or None."""
    for folder in (os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin"), "/usr/local/cuda/bin"):
        if os.access(os.path.join(folder, name), os.X_OK):
            return os.path.join(folder, name)
    return shutil.which(name)


KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k5(.param .u64 out) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  st.global.u32 [%rd2], %r1;
  ret;
}
"""


class Sass(Case):
    def test_the_real_one(self):
        disassembler, assembler = toolkit("nvdisasm"), toolkit("ptxas")
        if not disassembler or not assembler:
            self.skipTest("the CUDA toolkit's nvdisasm or ptxas is not installed")
        ptx, cubin = self.path("k.ptx"), self.path("k.cubin")
        with open(ptx, "w", encoding="utf-8") as file:
            file.write(KERNEL)
        subprocess.run([assembler, "-arch=sm_90a", "-o", cubin, ptx], check=True)
        trace = self.sample("sass.trace", 3, 0, "boot-1", cubin)
        path = os.path.dirname(disassembler)
        text = self.ok("explain", trace, "@Step:40", "--stage", "sass", PATH=path)
        self.assertRegex(text, r"\.text\.k5:")
        self.assertRegex(text, r"/\*0000\*/ +\S+")
        self.assertRegex(text, r"STG|ST\.E")
        self.assertIn("EXIT", text)
        # Where warps were seen stands in the margin of that instruction, and nowhere else.
        self.assertEqual(re.findall(r"^41 long_scoreboard +/\*(\w+)\*/", text, re.M), ["0010"])
        page = self.path("real.html")
        self.ok("report", trace, "--html", page, PATH=path)
        with open(page, encoding="utf-8") as file:
            self.assertIn("EXIT", file.read())

    def test_nvdisasm_makes_text_of_a_cubin(self):
        # A program of that name which says what it was given: the real one comes with the CUDA toolkit.
        tools = self.path("tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "nvdisasm"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho \"options $1\"\ncat \"$2\"\necho\necho '/*0000*/ EXIT ;'\n")
        os.chmod(os.path.join(tools, "nvdisasm"), 0o755)
        path = tools + ":/bin:/usr/bin"
        text = self.ok("explain", self.trace, "@Step:40", "--stage", "sass", PATH=path)
        self.assertIn("version 2, sass:", text)
        self.assertIn("\x7fELF of no machine", text)
        self.assertIn("/*0000*/ EXIT ;", text)
        page = self.path("sass.html")
        self.ok("report", self.trace, "--html", page, PATH=path)
        with open(page, encoding="utf-8") as file:
            self.assertIn("/*0000*/ EXIT ;", file.read())
        self.assertIn("sass of version 2", self.ok("explain", self.trace, "@Step:40"))

    def test_without_it_that_is_said(self):
        done = run("explain", self.trace, "@Step:40", "--stage", "sass", PATH=self.folder.name)
        self.assertEqual(done.returncode, 1)
        self.assertIn("neither nvdisasm nor cuobjdump is on the PATH", done.stderr)
        self.ok("report", self.trace, "--html", self.path("no.html"), PATH=self.folder.name)

    def test_one_that_fails(self):
        tools = self.path("bad-tools")
        os.mkdir(tools)
        with open(os.path.join(tools, "cuobjdump"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 3\n")
        os.chmod(os.path.join(tools, "cuobjdump"), 0o755)
        done = run("explain", self.trace, "@Step:40", "--stage", "sass", PATH=tools)
        self.assertEqual(done.returncode, 1)
        self.assertIn("gave nothing: it ended with 3", done.stderr)


def read_perfetto(path):
    """Tracks by number, and the begun slices: (track, time, name, category, notes, flows out, flows in)."""
    with open(path, "rb") as file:
        packets = [dict_of(value) for number, value in fields(gzip.decompress(file.read())) if number == 1]
    tracks, interned, slices, last, depth = {}, {}, [], {}, {}
    for packet in packets:
        sequence = packet[10][0]
        for data in packet.get(12, []):
            for kind, entry in fields(data):
                row = dict_of(entry)
                interned[sequence, kind, row[1][0]] = row[2][0].decode()
        for descriptor in packet.get(60, []):
            row = dict_of(descriptor)
            assert row[1][0] not in tracks, "a track is described once"
            tracks[row[1][0]] = row
        for event in packet.get(11, []):
            row = dict_of(event)
            track, kind = row[11][0], row[9][0]
            assert track in tracks
            if kind == 4:
                continue
            assert packet[8][0] >= last.get(track, 0), "time goes forward in a track"
            last[track] = packet[8][0]
            depth[track] = depth.get(track, 0) + {1: 1, 2: -1, 3: 0}[kind]
            assert depth[track] >= 0
            if kind != 1:
                continue
            notes = {}
            for annotation in row.get(4, []):
                note = dict_of(annotation)
                value = interned[sequence, 29, note[17][0]] if 17 in note else note.get(6, note.get(4))[0]
                notes[interned[sequence, 3, note[1][0]]] = value
            slices.append((track, packet[8][0], interned[sequence, 2, row[10][0]], interned[sequence, 1, row[3][0]],
                           notes, row.get(47, []), row.get(48, [])))
    assert all(d == 0 for d in depth.values()), "what begins ends"
    return tracks, slices


class Export(Case):
    def test_perfetto(self):
        out = self.path("out.perfetto")
        self.ok("export", "--perfetto", self.trace, "--output", out)
        tracks, slices = read_perfetto(out)
        names = {t[2][0].decode() for t in tracks.values() if 2 in t}
        self.assertTrue({"GPU 0, stream 7", "GPU 0, stream 13", "memory in use on GPU 0"} <= names, names)
        kernels = [s for s in slices if s[3] == "gpu_kernel"]
        # 150 of ops in tier 1, and five nodes of each of 60 launches of a graph.
        self.assertEqual(len(kernels), 150 + 5 * 60)
        attention = next(s for s in kernels if s[2].startswith("tessera_attention"))
        for detail in ("blocks 768", "registers 255", "source train.cc:45", "version 2", "step 4", "place @Step:40",
                       "in a graph 1", "verdict bank conflicts"):
            self.assertIn(detail, attention[4]["details"])
        copy = next(s for s in slices if s[3] == "gpu_copy_in")
        self.assertEqual(copy[4]["bytes"], 16 << 20)
        # An arrow from each op and each run to the first thing that it launched; none is left open.
        begun = [flow for s in slices for flow in s[5]]
        ended = {flow: s for s in slices for flow in s[6]}
        self.assertEqual(sorted(begun), sorted(ended))
        self.assertEqual(len(begun), len(set(begun)))
        self.assertGreaterEqual(len(begun), 150 + 60)
        for s in slices:
            for flow in s[5]:
                self.assertIn(s[3], ("op", "version_run", "copy"))
                self.assertGreaterEqual(ended[flow][1], s[1], "it runs after it was launched")
        # A thousand steps of training with a thousand kernels each shall be 20 MB at most.
        self.ok("export", "--perfetto", self.sample("long.trace", 5000), "--output", self.path("long.perfetto"))
        self.assertLess(os.path.getsize(self.path("long.perfetto")), 20 * 5 * 5000)
        run_slice = next(s for s in slices if s[3] == "version_run")
        self.assertEqual(ended[run_slice[5][0]][2], "k1")

    def test_chrome(self):
        out = self.path("out.json")
        self.ok("export", "--chrome", self.trace, "--output", out)
        with open(out, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        streams = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
        kernels = [e for e in events if e.get("cat") == "gpu_kernel"]
        self.assertEqual(len(kernels), 150 + 5 * 60)
        self.assertEqual({streams[e["tid"]] for e in kernels}, {"GPU 0, stream 7"})
        k5 = next(e for e in kernels if e["name"] == "k5")
        self.assertEqual((k5["args"]["source"], k5["args"]["step"], k5["args"]["registers"]), ("train.cc:46", 5, 120))
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
        self.assertEqual(set(starts), set(ends))
        self.assertGreaterEqual(len(starts), 210)
        for flow, start in starts.items():
            self.assertLessEqual(start["ts"], ends[flow]["ts"])
            self.assertLess(start["tid"], 1000)


class Ranks(Case):
    def two(self, **more):
        boots = more.get("boots", ("boot-1", "boot-1"))
        return [self.sample(f"rank{r}-{boots[r]}.trace", 40 + 20 * r, r, boots[r]) for r in (0, 1)]

    def test_report(self):
        text = self.ok("report", *self.two())
        self.assertIn("ranks, on the clock of the machine", text)
        self.assertRegex(text, r"\n +0 .*rank0-boot-1.trace +\+0 ns ")
        self.assertRegex(text, r"\n +1 .*rank1-boot-1.trace +\+2 ms ")
        self.assertRegex(text, r"the slowest is rank [01]: a step takes")
        text = self.ok("report", *self.two(boots=("boot-1", "boot-2")))
        self.assertIn("ranks, on the wall clocks of their machines", text)
        self.assertEqual(run("report", *self.two(), "--html", self.path("x.html")).returncode, 1)

    def test_perfetto(self):
        out = self.path("job.perfetto")
        self.ok("export", "--perfetto", *self.two(), "--output", out)
        tracks, slices = read_perfetto(out)
        processes = [dict_of(t[3][0]) for t in tracks.values() if 3 in t]
        self.assertEqual(sorted(p[1][0] for p in processes), [4000, 4001])
        self.assertEqual(sorted(p[6][0].decode() for p in processes), ["rank 0: ./train --steps 100", "rank 1: ./train --steps 100"])
        # Each track is below its own process, and the second began two milliseconds later.
        root = {t[1][0]: dict_of(t[3][0])[1][0] for t in tracks.values() if 3 in t}
        first = {}
        for s in slices:
            pid = root[tracks[s[0]][5][0]]
            first[pid] = min(first.get(pid, s[1]), s[1])
        self.assertEqual(first[4001] - first[4000], 2_000_000)
        begun = [flow for s in slices for flow in s[5]]
        self.assertEqual(len(begun), len(set(begun)), "arrows of two processes have other numbers")

    def test_chrome(self):
        out = self.path("job.json")
        self.ok("export", "--chrome", *self.two(boots=("boot-1", "boot-2")), "--output", out)
        with open(out, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual({e["pid"] for e in events}, {4000, 4001})

    def test_files_of_two_processes(self):
        # Real ones: two processes of this machine, which share its steady clock where the file says so.
        program = self.path("p.tsr")
        with open(program, "w", encoding="utf-8") as file:
            file.write("x = ones(8)\nfor i in range(50):\n    x = tanh(x)\nprint(x.sum())\n")
        files = []
        for rank in ("0", "1"):
            files.append(self.path(f"real{rank}.trace"))
            done = run("record", "--output", files[-1], program, RANK=rank)
            self.assertEqual(done.returncode, 0, done.stderr)
        text = self.ok("report", *files)
        self.assertRegex(text, r"\n +0 .*real0.trace")
        self.assertRegex(text, r"\n +1 .*real1.trace +\+[\d.]+ m?s ")
        out = self.path("real.perfetto")
        self.ok("export", "--perfetto", *files, "--output", out)
        tracks, _ = read_perfetto(out)
        self.assertEqual(len([t for t in tracks.values() if 3 in t]), 2)


class Page(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = cls.path("report.html")
        done = run("report", cls.trace, "--html", cls.page)
        assert done.returncode == 0, done.stderr

    def data(self, page):
        with open(page, encoding="utf-8") as file:
            return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', file.read(), re.S).group(1))

    def test_what_is_in_it(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.page).st_mode), 0o600)
        data = self.data(self.page)
        self.assertIn("GPU 0, stream 7", [t["name"] for t in data["threads"]])
        self.assertEqual(data["rooflines"][0]["roofs"][0], ["bf16, tensor cores", 989e12])
        names = {p[0].split(" ")[0] for p in data["rooflines"][0]["points"]}
        self.assertTrue({"k1", "k5"} <= names, names)

    def test_a_million_activities(self):
        page = self.path("many.html")
        self.ok("report", self.sample("many.trace", 200_000), "--html", page)
        data = self.data(page)
        stream = next(t for t in data["threads"] if t["name"] == "GPU 0, stream 7")
        self.assertEqual(sum(stream["slices"][4::5]), 1 + 150 + 5 * 200_000, "none is forgotten")
        self.assertLess(os.path.getsize(page), 4 << 20)

    def dom(self, url, page=None, script=""):
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if browser is None:
            self.skipTest("there is no Chromium (Debian: apt-get install chromium)")
        if script:
            with open(page, encoding="utf-8") as file:
                text = file.read().replace("</body>", f"<script>{script}</script></body>")
            with open(self.path("clicked.html"), "w", encoding="utf-8") as file:
                file.write(text)
            url = "file://" + self.path("clicked.html")
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + profile,
                                   "--window-size=1280,2400", "--virtual-time-budget=4000", "--dump-dom", url],
                                  capture_output=True, text=True, check=False, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn('data-ready="true"', done.stdout, done.stderr)
        return done.stdout

    def test_chromium_shows_it(self):
        html = self.dom("file://" + self.page)
        body = re.sub(r"<script.*?</script>", "", html, flags=re.S)
        for word in ('id="gpu-0"', 'id="kernels"', 'id="roofline-0"', 'id="gpu-memory-0"', "idle: the host was behind",
                     "memory-bound at 91 % of the memory", "bf16, tensor cores, 989 TFLOP/s", "Busy over time"):
            self.assertIn(word, body)
        self.assertGreaterEqual(body.count("<circle"), 4)
        self.assertNotIn("Counters of one launch", body, "no kernel is open")

    def test_chromium_opens_a_kernel_and_its_trace(self):
        html = self.dom("", self.page, "document.querySelector('#kernels tbody tr').click();")
        body = re.sub(r"<script.*?</script>", "", html, flags=re.S)
        for word in ("Counters of one launch", "bank conflicts: 38 %", "a swizzle of 128 bytes", "768 blocks of 128 threads"):
            self.assertIn(word, body)
        html = self.dom("", self.page, "document.querySelector('#kernels tbody tr').click();"
                                       "document.querySelector('#kernel-detail a').click();")
        self.assertIn("Ledger: what each version cost", re.sub(r"<script.*?</script>", "", html, flags=re.S))
        # A point of the roofline leads there, too.
        html = self.dom("", self.page, "document.querySelector('#roofline-0 circle').dispatchEvent(new Event('click'));")
        self.assertIn("Ledger: what each version cost", re.sub(r"<script.*?</script>", "", html, flags=re.S))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
