#!/usr/bin/env python3
"""The prompt of tessera on a real terminal: screens as they are recorded in tests/lang/repl, history, colours, Ctrl-C.

usage: repl_test.py TESSERA       UPDATE_EXPECTED=1 writes the screens anew; read the diff

A file of tests/lang/repl has lines `send TEXT` (with Python's escapes), `wait TEXT` (until a line of the screen holds it),
`size ROWS COLUMNS`, and `screen`, after which the lines that begin with | are what is seen then.
"""
import os
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from screen import Screen, Terminal  # noqa: E402

PROGRAM = sys.argv[1]
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lang", "repl")


def environment(home, **more):
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TESSERA_HISTORY")}
    env["CUDA_VISIBLE_DEVICES"] = ""  # the screens list the devices
    env.update(HOME=home, XDG_STATE_HOME=os.path.join(home, "state"), TERM="xterm", TESSERA_THREADS="1")
    env.update(more)
    return env


def play(path, home):
    """The file's lines as they should be."""
    terminal = None
    rows, columns = 30, 80
    out = []
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for line in lines:
        if line.startswith("|"):
            continue
        out.append(line)
        word, _, rest = line.partition(" ")
        if word == "size":
            rows, columns = map(int, rest.split())
            continue
        if word not in ("send", "wait", "screen"):
            continue
        if terminal is None:
            terminal = Terminal([PROGRAM], rows, columns, environment(home))
            terminal.wait_for_prompt()
        if word == "send":
            terminal.send(rest.encode().decode("unicode_escape").encode("latin-1"))
            terminal.wait_for_prompt() if "\\r" in rest or "\\x" in rest or "\\t" in rest else terminal.read(0.05)
        elif word == "wait":
            terminal.wait_for(lambda s: any(rest in l for l in s.text()))
        else:
            terminal.wait_for(lambda s: True, 5)
            out.extend("|" + seen for seen in terminal.screen.text())
    if terminal is not None:
        terminal.send("\x03")
        terminal.wait_for_prompt()
        terminal.send("\x04")
        status = terminal.close()
        if status != 0:
            raise AssertionError(f"{path}: the program ended with {status}")
    return "\n".join(out)


class Screens(unittest.TestCase):
    maxDiff = None

    def test_screens(self):
        names = sorted(n for n in os.listdir(FOLDER) if n.endswith(".screen"))
        self.assertGreaterEqual(len(names), 8)
        for name in names:
            path = os.path.join(FOLDER, name)
            with self.subTest(name), tempfile.TemporaryDirectory() as home:
                seen = play(path, home)
                with open(path, encoding="utf-8") as file:
                    expected = file.read()
                if os.environ.get("UPDATE_EXPECTED") == "1":
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(seen)
                else:
                    self.assertEqual(seen, expected)


class Prompt(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.home.cleanup()

    def start(self, **env):
        terminal = Terminal([PROGRAM], 30, 80, environment(self.home.name, **env))
        terminal.wait_for_prompt()
        return terminal

    def leave(self, terminal):
        terminal.send("\x04")
        self.assertEqual(terminal.close(), 0)

    def enter(self, terminal, line):
        terminal.send(line + "\r")
        terminal.wait_for_prompt()
        return terminal.screen.text()

    def test_history_outlives_the_program(self):
        first = self.start()
        self.enter(first, "answer = 41 + 1")
        self.enter(first, " secret = 1")
        self.leave(first)
        path = os.path.join(self.home.name, "state", "tessera", "history")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "answer = 41 + 1\n")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
        second = self.start()
        second.send("\x1b[A")
        second.wait_for(lambda s: s.cursor_line().startswith(">>> answer = 41 + 1"))
        self.enter(second, "")
        self.assertEqual(self.enter(second, "answer")[-2:], ["42", ">>>"])
        self.leave(second)

    def test_colours_only_where_they_are_wanted(self):
        for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            terminal = self.start(**env)
            self.enter(terminal, "nothing_of_that_name")
            self.assertEqual(b"\x1b[3" in terminal.raw, coloured, env)
            self.leave(terminal)

    def test_ctrl_c_keeps_what_was_defined(self):
        terminal = self.start()
        self.enter(terminal, "kept = 7")
        terminal.send("while True: kept = kept\r")
        terminal.wait_for_prompt()
        terminal.send("\r")
        terminal.wait_for(lambda s: s.cursor_line() == "")
        terminal.interrupt()
        terminal.wait_for_prompt()
        self.assertIn("^Cinterrupted", terminal.screen.text())
        self.assertEqual(self.enter(terminal, "kept")[-2:], ["7", ">>>"])
        self.leave(terminal)

    def test_ctrl_c_inside_a_function(self):
        terminal = self.start()
        for line in ("def spin(x):", "while x.sum() > 0.0:", "x = x * 1.0", "\x7freturn x", ""):
            self.enter(terminal, line)
        terminal.send("spin(ones(4))\r")
        terminal.wait_for(lambda s: s.cursor_line() == "")
        # Long enough for the loop to run in a version, too.
        for _ in range(10):
            terminal.read(0.1)
        terminal.interrupt()
        terminal.wait_for_prompt()
        self.assertIn("^Cinterrupted", terminal.screen.text())
        self.assertEqual(self.enter(terminal, "1 + 1")[-2:], ["2", ">>>"])
        self.leave(terminal)


class Programs(unittest.TestCase):
    """tessera run on a terminal."""

    def start(self, text, *words):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = os.path.join(self.folder.name, "program.tsr")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return Terminal([PROGRAM, "run", path, *words], 30, 100, environment(self.folder.name))

    def test_what_takes_long_is_seen_to_run(self):
        terminal = self.start("print('begins')\nwhile True:\n    pass\n")
        terminal.wait_for(lambda s: s.cursor_line().startswith("running ... "))
        terminal.send("\x03")
        self.assertEqual(terminal.close(), 1)
        text = terminal.screen.text()
        self.assertEqual(text[0], "begins")
        self.assertNotIn("running", "\n".join(text))
        self.assertIn("error: interrupted", "\n".join(text))

    def test_the_live_line_changes_in_place(self):
        terminal = self.start("x = ones(8)\nprint('begins')\nwhile True:\n    x = x * 1.0\n", "--live")
        for _ in range(2):
            seen = len(terminal.raw)
            terminal.wait_for(lambda s: "it/s" in s.cursor_line() and len(terminal.raw) > seen)
        self.assertEqual(len(terminal.screen.text()), 2, terminal.screen.text())
        self.assertIn("of ops in versions", terminal.screen.cursor_line())
        terminal.send("\x03")
        self.assertEqual(terminal.close(), 1)
        self.assertEqual(terminal.screen.text()[0], "begins")
        self.assertNotIn("it/s", "\n".join(terminal.screen.text()))


class Model(unittest.TestCase):
    def test_wrapping_and_erasing(self):
        screen = Screen(3, 4)
        screen.feed(b"abcdef\x1b[1A\r\x1b[Jx\x1b[31mred\x1b[0m")
        self.assertEqual(screen.text(), ["xred"])
        screen.feed("é\n".encode())
        self.assertEqual(screen.text(), ["xred", "é"])
        with self.assertRaises(AssertionError):
            screen.feed(b"\x1b[5Z")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
