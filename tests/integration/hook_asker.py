"""hook_asker.py PERFWIND HZ COMMAND... - runs a command under `perfwind run` and does what a daemon would, and more often:
asks every process of it that catches the signal, HZ times a second, and takes the descriptors.  The command's status is
the exit status; what was asked and answered stands in one line of JSON on descriptor 3."""
import array
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

SIGNAL, VALUE = signal.SIGURG, 1  # libc-hook/hook-proto.h
libc = ctypes.CDLL(None, use_errno=True)
libc.sigqueue.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p]


def processes_of(root):
    """The process's descendants, also those that a subreaper (this one) has inherited.  One at a time, and each is asked
    before the next is looked for: many live for a few milliseconds."""
    todo = [root]
    while todo:
        pid = todo.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children") as f:
                    found = [int(child) for child in f.read().split()]
                yield from found
                todo += found
        except OSError:
            pass


def catches(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            masks = {key: int(value, 16) for key, _, value in (line.partition(":") for line in f) if key in ("SigCgt", "SigBlk")}
    except (OSError, ValueError):
        return False
    bit = 1 << (SIGNAL - 1)
    return bool(masks.get("SigCgt", 0) & bit) and not masks.get("SigBlk", 0) & bit


class Listener(threading.Thread):
    def __init__(self, name):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind("\0" + name)
        self.socket.listen(64)
        self.answers, self.wrong, self.pids = 0, [], set()

    def run(self):
        while True:
            peer = self.socket.accept()[0]
            with peer:
                peer.settimeout(2)
                self.take(peer)

    def take(self, peer):
        pid = array.array("i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        fds = []
        try:
            data, fds, _, _ = socket.recv_fds(peer, 16, 8)
            links = [os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2] for fd in fds]
            if data == b"p" and links == ["maps", "mem"]:
                self.answers += 1
                self.pids.add(pid)
            elif data or fds:  # nothing at all: it was killed before that
                self.wrong.append(f"{pid}: {data!r} {links}")
        except OSError as e:
            self.wrong.append(f"{pid}: {e}")
        finally:
            for fd in fds:
                os.close(fd)


def main():
    perfwind, hz, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    name = f"perfwind-asker-{os.getpid()}"
    listener = Listener(name)
    listener.start()
    child = subprocess.Popen([perfwind, "run", "--hook-socket", "@" + name, "--", *command])
    asked = 0
    while child.poll() is None:
        for pid in processes_of(os.getpid()):
            if catches(pid):
                asked += libc.sigqueue(pid, SIGNAL, VALUE) == 0
        time.sleep(1 / hz)
    time.sleep(0.2)
    with os.fdopen(3, "w") as out:
        json.dump({"asked": asked, "answers": listener.answers, "processes": len(listener.pids), "wrong": listener.wrong}, out)
    sys.exit(child.returncode if child.returncode >= 0 else 128 - child.returncode)


main()
