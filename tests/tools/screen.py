"""A program on a terminal of its own, and what one would see on it.

The model knows what the line editor of tessera writes: text with wrapping, cursor moves, erasing, colours (ignored).
Anything else that a program writes is an error, so that nothing is overlooked.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

_SEQUENCE = re.compile(rb"\x1b\[(\??)([0-9;]*)([A-Za-z])")


class Screen:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines = [[]]  # all that was ever on it; the last `rows` of them are seen
        self.row = self.column = 0
        self._rest = b""

    def _put(self, character):
        if self.column >= self.columns:
            self._newline()
            self.column = 0
        line = self.lines[self.row]
        line.extend(" " * (self.column + 1 - len(line)))
        line[self.column] = character
        self.column += 1

    def _newline(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _control(self, private, numbers, kind):
        n = int(numbers.split(";")[0] or 0) if numbers else 0
        if private or kind == "m":
            return
        if kind == "A":
            self.row = max(self.row - max(n, 1), 0)
        elif kind == "C":
            self.column = min(self.column + max(n, 1), self.columns - 1)
        elif kind == "K":
            del self.lines[self.row][self.column:]
        elif kind == "J" and n == 0:
            del self.lines[self.row][self.column:]
            del self.lines[self.row + 1:]
        elif kind == "J":
            self.lines, self.row = [[]], 0
        elif kind == "H":
            self.row = self.column = 0
        else:
            raise AssertionError(f"the screen does not know ESC [ {numbers} {kind}")

    def feed(self, data):
        data = self._rest + data
        self._rest = b""
        at = 0
        while at < len(data):
            byte = data[at]
            if byte == 0x1b:
                match = _SEQUENCE.match(data, at)
                if match is None:
                    if len(data) - at > 16:
                        raise AssertionError(f"the screen does not know {data[at:at + 16]!r}")
                    self._rest = data[at:]
                    return
                self._control(match[1] == b"?", match[2].decode(), match[3].decode())
                at = match.end()
            elif byte == 0x0d:
                self.column, at = 0, at + 1
            elif byte == 0x0a:
                self._newline()
                at += 1
            elif byte == 0x08:
                self.column, at = max(self.column - 1, 0), at + 1
            elif byte < 0x20:
                raise AssertionError(f"the screen does not know byte {byte}")
            else:
                length = 1 if byte < 0x80 else 2 if byte < 0xe0 else 3 if byte < 0xf0 else 4
                if at + length > len(data):
                    self._rest = data[at:]
                    return
                self._put(data[at:at + length].decode())
                at += length

    def text(self):
        lines = ["".join(line).rstrip() for line in self.lines[-self.rows:]]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def cursor_line(self):
        return "".join(self.lines[self.row])


class Terminal:
    def __init__(self, words, rows=30, columns=80, env=None):
        self.screen = Screen(rows, columns)
        self.raw = b""
        self._mark = -1
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(words[0], words, env or os.environ)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.ended = False

    def send(self, text):
        self._mark = len(self.raw)
        os.write(self.fd, text.encode() if isinstance(text, str) else text)

    def interrupt(self):
        """Ctrl-C, when the program has left the editor: then it is a signal."""
        end = time.monotonic() + 60
        while not termios.tcgetattr(self.fd)[3] & termios.ISIG and time.monotonic() < end:
            self.read(0.01)
        self.send("\x03")

    def read(self, seconds):
        """Takes what comes; True if something did."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the program is gone
            data = b""
        if not data:
            self.ended = True
            return False
        self.raw += data
        self.screen.feed(data)
        return True

    def wait_for(self, condition, seconds=60):
        """Until there is an answer to what was sent, the condition holds and nothing more comes; or the program has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.ended:
            if not self.read(0.05) and len(self.raw) > self._mark and condition(self.screen):
                return
        if not self.ended and not condition(self.screen):
            raise AssertionError("nothing came of it:\n" + "\n".join(self.screen.text()))

    def wait_for_prompt(self, seconds=60):
        self.wait_for(lambda s: s.cursor_line()[:4] in (">>> ", "... ", ">>>", "...") or
                      s.cursor_line().startswith("(search)"), seconds)

    def close(self):
        """The exit status; the program is ended if it still runs."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            if self.ended:
                time.sleep(0.01)
            else:
                self.read(0.01)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        return None
