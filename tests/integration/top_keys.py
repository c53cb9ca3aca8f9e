"""top_keys.py - `perfwind top` on a terminal of its own: keys, its size, Ctrl-Z, and what the terminal is like after
every end.  PERFWIND PID: a process that uses a CPU.  Prints ok or not ok lines."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

PERFWIND, PID = sys.argv[1:3]
OTHER = sys.argv[3:]  # options more
CLEAR = "\033[H\033[2J"
PATIENCE = 20


class Top:
    """In a session and a foreground process group of its own, as a shell makes them; we stay the parent."""

    def __init__(self, *options, rows=20, columns=100):
        self.master, self.slave = pty.openpty()
        self.columns = columns
        self.resize(rows)
        self.before = termios.tcgetattr(self.slave)
        self.text = self.all = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end within a character
        ready, go = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for fd in (0, 1, 2):
                os.dup2(self.slave, fd)
            os.environ["TERM"] = "dumb"
            os.write(go, b"x")
            # The leader stays, as a shell would: a process group without a parent in its session is not stopped by Ctrl-Z.
            child = os.fork()
            if not child:
                os.setpgid(0, 0)
                signal.signal(signal.SIGTTOU, signal.SIG_IGN)
                os.tcsetpgrp(0, os.getpid())
                signal.signal(signal.SIGTTOU, signal.SIG_DFL)
                os.execv(PERFWIND, [PERFWIND, "top", *OTHER, *options, "-p", PID])
            while True:
                _, status = os.waitpid(child, os.WUNTRACED | os.WCONTINUED)
                if os.WIFSTOPPED(status):
                    os.write(self.slave, b"<stopped>")
                elif os.WIFEXITED(status) or os.WIFSIGNALED(status):
                    os.write(self.slave, b"<ended %d>" % (os.WEXITSTATUS(status) if os.WIFEXITED(status)
                                                          else -os.WTERMSIG(status)))
                    signal.pause()
        os.read(ready, 1)

    def resize(self, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, self.columns, 0, 0))

    def foreground(self):
        return os.tcgetpgrp(self.master)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self, wait):
        if select.select([self.master], [], [], wait)[0]:
            text = self.decoder.decode(os.read(self.master, 65536))
            self.text += text
            self.all += text

    def until(self, regex, patience=PATIENCE):
        """Reads until it stands in what came since the last time; that is taken away."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            found = re.search(regex, self.text, re.S)
            if found:
                self.text = self.text[found.end():]
                return found
            self.read(0.1)
        raise AssertionError("in vain for %r in %r" % (regex, self.text[-600:]))

    def modes(self):
        now = termios.tcgetattr(self.slave)
        return now[3] & (termios.ICANON | termios.ECHO)

    def is_as_before(self):
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is not what it was"

    def fits(self):
        """No line of a table, and none behind the last table, is longer than the terminal is wide."""
        shown = self.all.partition(CLEAR)[2].replace(CLEAR, "\n")
        lines = [line for line in re.split("[\r\n]+", shown) if len(line) > self.columns]
        assert not lines, lines

    def over(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)
        os.close(self.slave)


def table(top):
    return top.until(r"\d+ samples? in [\d.]+ s \([^)]*\)[^\n]*\n")


def quits(top):
    table(top)
    assert not top.modes(), "echo is on"
    top.press("q")
    assert top.until(r"<ended (-?\d+)>")[1] == "0"


def pauses(top):
    table(top)
    top.press(" ")
    top.until(r"samples? in [^\n]*paused\r\n")
    time.sleep(1)
    top.read(0)
    assert " in " not in top.text, top.text
    top.press("p")
    top.until(r"samples? in [^\n]*h: help\r\n")
    table(top)
    top.press("q")
    top.until("<ended 0>")


def chooses_rows(top):
    top.until("function +module")
    for columns in ("pid  process", "tid  thread", "module", "cgroup"):
        top.press("s")
        top.until(re.escape(columns) + r"\r\n" if columns in ("module", "cgroup") else re.escape(columns))
    top.press("S")
    top.until(r" total % +time +module\r\n")
    top.press("q")
    top.until("<ended 0>")


def helps(top):
    table(top)
    top.press("h")
    top.until("q +quit")
    top.press("x")
    table(top)
    top.press("\033[C")  # this arrow is not a key
    top.press("Q")
    top.until("<ended 0>")


def opens_callers(top):
    top.until(r"> burn ")
    top.press("\033[B")
    top.until(r"  burn .*> \w")
    top.press("\033[A\r")
    top.until(r"callers of burn \(Esc: back\).*burn")
    top.press("\033")
    top.until(r"function +module")
    top.press("/BUR\r")
    top.until(r"filter: BUR \(Esc: all\).*> burn ")
    top.press("q")
    top.until("<ended 0>")


def quits_at_once(top):
    """During the first interval, of an hour."""
    top.press("h")
    top.until("returns to the table")
    top.press("q")
    top.until(r"\nwhole run: [\d,]+ samples? in [\d.]+ s\r\n<ended 0>")


def totals(screen):
    """The column of totals: the second number with a point."""
    return [float(m[1]) for m in re.finditer(r"\n *[\d.]+ +(?:0|[\d.]+ \w+) +\d+ +([\d.]+) ", screen)]


def sorts(top):
    """By total: the columns are all that there is to see of it."""
    table(top)
    top.press(" ")
    top.until("paused")
    top.press("t")
    top.press("q")
    column = totals(top.until(re.escape(CLEAR) + r"([^\033]*)\r\n(?:all intervals|whole run): ?")[1])
    assert len(column) > 3 and column == sorted(column, reverse=True), column
    top.until("<ended 0>")


def scrolls(top):
    """Eight rows have four functions; the fifth of the five that the program has is one more."""
    top.resize(8)
    top.until(r"> burn [^\033]*and [\d,]+ more\r\n")
    top.press(" ")
    top.until("paused")
    top.press("\033[B" * 4)
    top.until(re.escape(CLEAR) + r"(?:(?!burn)[^\033])*> (?!burn)\w")
    top.press("\033[6~\033[5~\033[5~")
    top.until(r"> burn ")
    top.press("q")
    top.until("<ended 0>")


def fits_60(top):
    """All that can be shown, each in turn."""
    table(top)
    for _ in range(7):
        top.press("s")
        table(top)
    top.press("S")
    table(top)
    for _ in range(4):
        top.press("t")
        table(top)
    top.press("h")
    top.until("returns to the table")
    top.press("x")
    table(top)
    top.press("/" + "long-" * 20)
    top.until(r"filter: [^\r\n]*_\r\n")
    top.press("\r")
    top.until(r"filter: [^\r\n]*\(Esc: all\)\r\n")
    top.press("\033")
    table(top)
    top.press("/burn\r")
    top.until(r"filter: burn \(Esc: all\)[^\033]*> burn\r\n")
    top.press("\r")
    top.until(r"callers of burn \(Esc: back\)\r\ntotal %  self % +time  called by\r\n")
    top.press("q")
    top.until(r"\r\nwhole run: [\d,]+ samples? in [\d.]+ s\r\n<ended 0>")


def resizes(top):
    table(top)
    top.press(" ")
    top.until("paused")
    top.resize(8)
    # 8 rows: the head, the columns, 4 functions, how many more, and where the cursor is
    screen = top.until(re.escape(CLEAR) + r"([^\033]*and [\d,]+ more\r\n)")[1]
    assert screen.count("\n") == 7, screen
    top.press("q")
    top.until("<ended 0>")


def suspends(top):
    table(top)
    group = top.foreground()
    top.press("\x1a")
    top.until("<stopped>")
    top.is_as_before()
    os.kill(-group, signal.SIGCONT)
    top.until(re.escape(CLEAR))
    table(top)
    assert not top.modes(), "echo is on after fg"
    top.press("q")
    top.until("<ended 0>")


def ends_by(top, sig, status):
    table(top)
    os.kill(top.foreground(), sig)
    assert top.until(r"<ended (-?\d+)>")[1] == str(status)


def interrupts(top):
    table(top)
    top.press("\x03")
    top.until("<ended 0>")


CASES = {
    "keys-quit": (quits, ["-i", "0.3"]),
    "keys-pause": (pauses, ["-i", "0.2"]),
    "keys-quit-at-once": (quits_at_once, ["-i", "3600"]),
    "keys-sort": (sorts, ["-i", "0.5", "-n", "0"]),
    "keys-scroll": (scrolls, ["-i", "0.5"]),
    "keys-fits-60": (fits_60, ["-i", "0.3"]),
    "keys-rows": (chooses_rows, ["-i", "0.5"]),
    "keys-help": (helps, ["-i", "0.3"]),
    "keys-callers": (opens_callers, ["-i", "0.3"]),
    "keys-resize": (resizes, ["-i", "0.3"]),
    "keys-suspend": (suspends, ["-i", "0.3"]),
    "keys-ctrl-c": (interrupts, ["-i", "0.3"]),
    "keys-term": (lambda top: ends_by(top, signal.SIGTERM, 0), ["-i", "0.3"]),
    "keys-hup": (lambda top: ends_by(top, signal.SIGHUP, 0), ["-i", "0.3"]),
    "keys-crash": (lambda top: ends_by(top, signal.SIGSEGV, -signal.SIGSEGV), ["-i", "0.3"]),
    "keys-abort": (lambda top: ends_by(top, signal.SIGABRT, -signal.SIGABRT), ["-i", "0.3"]),
}

for name, (case, options) in CASES.items():
    top = Top(*options, columns=60 if name.endswith("60") else 100)
    try:
        case(top)
        top.is_as_before()
        top.fits()
        print("ok", name, flush=True)
    except (AssertionError, OSError) as e:
        print("not ok %s: %s" % (name, repr(e)[:400]), flush=True)
    finally:
        top.over()
