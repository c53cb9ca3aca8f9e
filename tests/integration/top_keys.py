"""top_keys.py - `perfwind top` on a terminal of its own: keys, its size, Ctrl-Z, and what the terminal is like after
every end.  PERFWIND PID: a process that uses a CPU.  Prints ok or not ok lines."""
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

    def __init__(self, *options, rows=20):
        self.master, self.slave = pty.openpty()
        self.resize(rows)
        self.before = termios.tcgetattr(self.slave)
        self.text = ""
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
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))

    def foreground(self):
        return os.tcgetpgrp(self.master)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self, wait):
        if select.select([self.master], [], [], wait)[0]:
            self.text += os.read(self.master, 65536).decode(errors="replace")

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
    top.press("\033[C")  # this arrow is no key
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
    top = Top(*options)
    try:
        case(top)
        top.is_as_before()
        print("ok", name, flush=True)
    except (AssertionError, OSError) as e:
        print("not ok %s: %s" % (name, repr(e)[:400]), flush=True)
    finally:
        top.over()
