#!/usr/bin/env python3
"""tessera trace: records programs, and every way to look at what was recorded.

usage: trace_test.py TESSERA FOLDER_OF_EXPECTED_TEXTS
UPDATE_EXPECTED=1 in the environment writes the expected texts anew.
"""
import gzip
import html.parser
import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

from wire import dict_of, fields

PROGRAM, EXPECTED = sys.argv[1], sys.argv[2]

# Hot at once and on one thread: what is recorded depends on the program alone.
HOT = {"TESSERA_BACKGROUND": "false", "TESSERA_HOT_EAGER": "3", "TESSERA_HOT_LOOP": "3", "TESSERA_HOT_FUNCTION": "3",
       "TESSERA_HOT_EXIT": "3", "TESSERA_PROFIT_GATE": "false", "TESSERA_THREADS": "1", "TESSERA_CACHE": "false"}

PROGRAM_TEXT = """def step(x):
    y = x * 0.5 + 0.25
    return tanh(y) - y * 0.125

x = ones(8)
for i in range(12):
    if i == 9:
        x = ones(12)
    x = step(x)
print(x.sum())
"""


def run(*words, **environment):
    return subprocess.run([PROGRAM, "trace", *words], capture_output=True, text=True, check=False, timeout=240,
                          env={**os.environ, **environment})


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = cls.path("program.tsr")
        with open(cls.program, "w", encoding="utf-8") as file:
            file.write(PROGRAM_TEXT)
        cls.trace = cls.path("a.trace")
        cls.record(cls.trace)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def record(cls, path, *words, **environment):
        done = run("record", "--output", path, *words, cls.program, **{**HOT, "TESSERA_COMPILE_AFTER": "1000000000", **environment})
        assert done.returncode == 0, done.stderr
        return done

    def ok(self, *words, **environment):
        done = run(*words, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def expects(self, name, text):
        path = os.path.join(EXPECTED, name)
        if os.environ.get("UPDATE_EXPECTED"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(text, file.read())


class Record(Case):
    def test_the_program_runs_as_ever(self):
        done = self.record(self.path("b.trace"))
        self.assertEqual(done.stdout, subprocess.run([PROGRAM, "run", self.program], capture_output=True, text=True,
                                                     check=True).stdout)
        self.assertIn("recorded " + self.path("b.trace"), done.stderr)

    def test_only_the_owner_may_read_it(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.trace).st_mode), 0o600)

    def test_its_status_is_the_programs(self):
        bad = self.path("bad.tsr")
        with open(bad, "w", encoding="utf-8") as file:
            file.write("x = ones(3)\nprint(x + ones(4))\n")
        done = run("record", "--output", self.path("bad.trace"), bad)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot broadcast", done.stderr)
        self.ok("report", self.path("bad.trace"))

    def test_programs_that_are_not_there(self):
        done = run("record", "--output", self.path("none.trace"), "--", "/no/such/program")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot be run", done.stderr)
        done = run("record", "--output", self.path("none.trace"), "--", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrote no trace", done.stderr)

    def test_redacted(self):
        path = self.path("redacted.trace")
        self.record(path, "--redact")
        with open(path, "rb") as file:
            content = file.read()
        for word in (b"program.tsr", b"@step", b"tanh(y)", b"ones(12)"):
            self.assertNotIn(word, content)
        report = self.ok("report", path)
        self.assertIn("redacted: names are tokens", report)
        self.assertIn("tanh", report)

    def test_what_is_no_file_is_left_alone(self):
        done = run("record", "--output", self.folder.name, self.program)
        self.assertEqual(done.returncode, 1)
        self.assertIn("that is no plain file", done.stderr)

    def test_a_full_disk_fails_nothing(self):
        # No file may grow beyond these bytes; without the signal that the system sends then.
        done = subprocess.run([PROGRAM, "run", self.program], capture_output=True, text=True, check=False, timeout=240,
                              env={**os.environ, "TESSERA_TRACE": self.path("full.trace")}, restore_signals=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("f32[]", done.stdout)
        self.assertEqual(done.stderr.count("the recording ended early: cannot write"), 1, done.stderr)
        self.assertIn("was cut off", self.ok("report", self.path("full.trace")))


class Dump(Case):
    def test_a_signal_dumps_the_last_seconds(self):
        path = self.path("dump-%p.trace")
        looping = self.path("loop.tsr")
        with open(looping, "w", encoding="utf-8") as file:
            file.write("x = ones(64)\nprint('ready')\nfor i in range(100000000):\n    x = tanh(x)\n")
        process = subprocess.Popen([PROGRAM, "run", looping], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "TESSERA_TRACE_KEEP": "30", "TESSERA_TRACE_DUMP": path,
                                        "TESSERA_TRACE_SIGNAL": str(int(signal.SIGUSR2)), "PYTHONUNBUFFERED": "1"})
        try:
            dumped = path.replace("%p", str(process.pid))
            deadline = time.time() + 60
            while not os.path.exists(dumped) and time.time() < deadline:
                time.sleep(0.2)
                # Before the first op the signal still ends the process.
                if self.takes(process.pid, signal.SIGUSR2):
                    process.send_signal(signal.SIGUSR2)
                self.assertIsNone(process.poll())
            for _ in range(100):
                if run("report", dumped).returncode == 0:
                    break
                time.sleep(0.1)
            self.assertIn("tanh", self.ok("top", dumped, "--by", "op"))
        finally:
            process.kill()
            process.communicate()

    @staticmethod
    def takes(pid, number):
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            caught = re.search(r"SigCgt:\s*([0-9a-f]+)", file.read())
        return int(caught.group(1), 16) >> (number - 1) & 1


class Live(Case):
    def test_a_running_process_is_shown(self):
        looping = self.path("live.tsr")
        with open(looping, "w", encoding="utf-8") as file:
            file.write("x = ones(64)\nfor i in range(100000000):\n    x = tanh(x)\n")
        runtime = self.path("run")
        os.mkdir(runtime, 0o700)
        environment = {**os.environ, "TESSERA_TRACE_LIVE": "true", "XDG_RUNTIME_DIR": runtime, "TESSERA_TIER": "1"}
        process = subprocess.Popen([PROGRAM, "run", looping], env=environment)
        try:
            socket = os.path.join(runtime, "tessera", str(process.pid))
            deadline = time.time() + 60
            while not os.path.exists(socket) and time.time() < deadline:
                time.sleep(0.05)
            self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(socket)).st_mode), 0o700)
            for _ in range(100):
                if stat.S_IMODE(os.stat(socket).st_mode) == 0o600:
                    break
                time.sleep(0.05)
            self.assertEqual(stat.S_IMODE(os.stat(socket).st_mode), 0o600)
            # Twice: the second finds a recorder that has been on before.
            for _ in range(2):
                text = self.ok("live", str(process.pid), "--seconds", "1", XDG_RUNTIME_DIR=runtime)
                self.assertIn(f"process {process.pid}, the last 1 s", text)
                self.assertRegex(text, r"live\.tsr:3 .*tanh")
            # A folder that others can enter is not trusted.
            os.chmod(os.path.dirname(socket), 0o755)
            done = run("live", str(process.pid), XDG_RUNTIME_DIR=runtime)
            self.assertEqual(done.returncode, 1)
            self.assertIn("is not a folder for its owner alone", done.stderr)
            os.chmod(os.path.dirname(socket), 0o700)
            self.assertIsNone(process.poll())
        finally:
            process.kill()
            process.communicate()
        self.assertIn("cannot be looked at", run("live", str(process.pid), XDG_RUNTIME_DIR=runtime).stderr)

    def test_a_process_that_ends(self):
        runtime = self.path("ends")
        os.mkdir(runtime, 0o700)
        subprocess.run([PROGRAM, "run", self.program], check=True, capture_output=True,
                       env={**os.environ, "TESSERA_TRACE_LIVE": "true", "XDG_RUNTIME_DIR": runtime})
        self.assertEqual(os.listdir(os.path.join(runtime, "tessera")), [], "its socket is gone")


class Look(Case):
    def test_events(self):
        # What runs when, and under which ids: the same in every run.
        text = self.ok("events", self.trace, "--no-times")
        text = "".join(line for line in text.splitlines(True) if "system_" not in line and "blas_load" not in line)
        self.expects("events.expected", text)
        timed = self.ok("events", self.trace)
        self.assertRegex(timed, r"\d us \[1\] op [\d.]+ [num]s ones|\d us \[1\] op [\d.]+ [num]s full")

    def test_report(self):
        text = self.ok("report", self.trace)
        for word in ("what to look at first|where the time went", r"traces, by the time in their versions", "@step:1",
                     "source lines in tier 1", r"program\.tsr:2", "ops in tier 1", "tanh",
                     "shape .* exact_dim .* 8 .* 12 .* a dim is not one that the version serves"):
            self.assertRegex(text, word)

    def test_top(self):
        self.assertRegex(self.ok("top", self.trace), r"program\.tsr:3 .*tanh")
        self.assertRegex(self.ok("top", self.trace, "--by", "op", "--rows", "2"), r"^ops in tier 1\n.*\n.*\n.*\n$")
        self.assertIn("@step:1", self.ok("top", self.trace, "--by", "place"))
        self.assertEqual(run("top", self.trace, "--by", "colour").returncode, 1)

    def test_explain(self):
        text = self.ok("explain", self.trace, "@step:1")
        shown = re.sub(r"[\d.e+-]+ (ns|us|ms|s)\b", "TIME", text)
        shown = re.sub(r", [\d.]+x of tier 1's speed", "", shown)
        shown = re.sub(r"pays .*", "pays WHEN", shown)
        shown = re.sub(r" +TIME", " TIME", shown)
        shown = re.sub(r" +at  version", " at  version", shown)
        self.expects("explain.expected", shown)
        number = re.search(r"^trace (\d+):", text, re.M).group(1)
        self.assertIn("@step:1", self.ok("explain", self.trace, number))
        done = run("explain", self.trace, "@nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no trace @nowhere in the file; there are", done.stderr)

    def test_diff(self):
        other = self.path("tier1.trace")
        self.record(other, TESSERA_TIER="1")
        text = self.ok("diff", other, self.trace)
        self.assertRegex(text, r"versions +0 +\d")
        self.assertRegex(text, r"@step:1 +0 +\d")
        self.assertIn("ops in tier 1 that changed most", text)

    def test_usage(self):
        self.assertIn("usage: tessera trace COMMAND", self.ok())
        self.assertIn("usage: tessera trace report FILE", self.ok("report", "--help"))
        for words in (("nonsense",), ("report",), ("report", "--colour", self.trace), ("export", self.trace)):
            self.assertEqual(run(*words).returncode, 1, words)

    def test_files_that_are_no_traces(self):
        bad = self.path("bad")
        with open(bad, "wb") as file:
            file.write(b"hello")
        for words in (("report", bad), ("top", bad), ("diff", self.trace, bad), ("explain", bad, "1"), ("events", bad),
                      ("export", "--chrome", bad), ("report", self.path("missing"))):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout), (1, ""), words)
            self.assertIn("tessera trace: ", done.stderr)
        with open(self.trace, "rb") as file:
            content = bytearray(file.read())
        content[len(content) // 2] ^= 0x55
        with open(bad, "wb") as file:
            file.write(content)
        self.assertIn("the trace is damaged", run("report", bad).stderr)
        with open(bad, "wb") as file:
            file.write(content[:len(content) // 3])
        self.assertIn("was cut off", self.ok("report", bad))


class Export(Case):
    def test_chrome(self):
        out = self.path("out.json")
        self.ok("export", "--chrome", self.trace, "--output", out)
        with open(out, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {e["name"] for e in events if e["ph"] == "X" and e["cat"] == "op"}
        self.assertTrue({"mul", "add", "tanh", "sub"} <= names, names)
        self.assertTrue(all(e["dur"] >= 0 and e["ts"] >= 0 for e in events if e["ph"] == "X"))
        self.assertTrue(any(e["ph"] == "i" and e["cat"] == "deopt" for e in events))
        self.assertTrue(any(e["ph"] == "M" and e["name"] == "thread_name" for e in events))

    def test_perfetto(self):
        out = self.path("out.perfetto")
        self.ok("export", "--perfetto", self.trace, "--output", out)
        with open(out, "rb") as file:
            packets = [dict_of(value) for number, value in fields(gzip.decompress(file.read())) if number == 1]
        tracks, names, depth, last, seen, counters = {}, {}, {}, {}, set(), 0
        for packet in packets:
            for interned in packet.get(12, []):
                for kind, entry in fields(interned):
                    row = dict_of(entry)
                    names[kind, row[1][0]] = row[2][0].decode()
            for descriptor in packet.get(60, []):
                row = dict_of(descriptor)
                tracks[row[1][0]] = row
            for event in packet.get(11, []):
                row = dict_of(event)
                track, kind = row[11][0], row[9][0]
                self.assertIn(track, tracks)
                if kind == 4:
                    counters += 1
                    continue
                # In each track time goes forward, and what begins ends.
                self.assertGreaterEqual(packet[8][0], last.get(track, 0))
                last[track] = packet[8][0]
                depth[track] = depth.get(track, 0) + {1: 1, 2: -1, 3: 0}[kind]
                self.assertGreaterEqual(depth[track], 0)
                if kind != 2:
                    seen.add((names[1, row[3][0]], names[2, row[10][0]]))
        self.assertTrue(all(d == 0 for d in depth.values()))
        for wanted in (("op", "tanh"), ("deopt", "deopt: shape"), ("version_run", "version 1 of @step:1")):
            self.assertIn(wanted, seen)
        self.assertGreater(counters, 0)
        threads = [t for t in tracks.values() if 4 in t]
        self.assertTrue(threads and all(5 in t for t in threads), "a track for each thread, below the process")


class Elements(html.parser.HTMLParser):
    """What a page would load, and what a person would see."""

    def __init__(self):
        super().__init__()
        self.loads, self.text, self.ids, self.skip = [], [], set(), 0

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        self.loads += [v for k, v in attrs.items() if k in ("src", "href") and v]
        self.skip += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.skip -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.skip:
            self.text.append(data)


class Page(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.page = cls.path("report.html")
        done = run("report", cls.trace, "--html", cls.page)
        assert done.returncode == 0, done.stderr

    def test_it_stands_alone(self):
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(stat.S_IMODE(os.stat(self.page).st_mode), 0o600)
        parsed = Elements()
        parsed.feed(text)
        self.assertEqual(parsed.loads, [])
        self.assertNotRegex(text, r"https?://(?!www\.w3\.org/)")
        data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))
        self.assertEqual([p["name"] for p in data["places"]][:1], ["@step:1"])
        self.assertTrue(data["complete"])

    def test_names_are_no_markup(self):
        evil = self.path("</script><script>alert(1)</script>.tsr".replace("/", "_"))
        shutil.copy(self.program, evil)
        done = run("record", "--output", self.path("evil.trace"), evil, **HOT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.ok("report", self.path("evil.trace"), "--html", self.path("evil.html"))
        with open(self.path("evil.html"), encoding="utf-8") as file:
            self.assertNotIn("alert(1)<", file.read())

    def dom(self, url, **more):
        browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        if browser is None:
            self.skipTest("there is no Chromium (Debian: apt-get install chromium)")
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + profile,
                                   "--window-size=1280,2400", "--virtual-time-budget=4000",
                                   *[f"--{k.replace('_', '-')}={v}" for k, v in more.items()], "--dump-dom", url],
                                  capture_output=True, text=True, check=False, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr)
        parsed = Elements()
        parsed.feed(done.stdout)
        self.assertIn('data-ready="true"', done.stdout, done.stderr)
        return parsed, " ".join(parsed.text)

    def test_chromium_shows_it(self):
        parsed, text = self.dom("file://" + self.page)
        for part in ("facts", "findings", "mix", "timeline", "warm-up", "traces"):
            self.assertIn(part, parsed.ids)
        for word in ("Memory that pools took from the system", "the blocks for small tensors of one size had run out"):
            self.assertIn(word, text)
        for word in ("What to look at first", "@step:1", "program.tsr:3", "tanh", "a dim is not one that the version serves"):
            self.assertIn(word, text)
        self.assertNotIn("stage-left", parsed.ids, "no trace is open")

    def test_chromium_opens_a_trace(self):
        _, text = self.dom("file://" + self.page + "#trace-0")
        for word in ("Ledger: what each version cost", "Guards of the newest version", "x0: f32[8] on cpu", "expected", "exact_dim", "Source",
                     "return tanh(y) - y * 0.125", "0: y"):
            self.assertIn(word, text)

    def test_chromium_clicks(self):
        # What a person does: zooms, sorts, opens a trace; each as an event of the page.
        clicks = """<script>
          document.getElementById('zoom-in').click();
          document.querySelector('#traces th').click();
          document.querySelector('#traces tbody tr').click();
        </script>"""
        with open(self.page, encoding="utf-8") as file:
            text = file.read().replace("</body>", clicks + "</body>")
        clicked = self.path("clicked.html")
        with open(clicked, "w", encoding="utf-8") as file:
            file.write(text)
        parsed, text = self.dom("file://" + clicked)
        self.assertIn("Ledger: what each version cost", text)
        self.assertIn("row-0", parsed.ids)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
