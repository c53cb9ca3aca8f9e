#!/usr/bin/env python3
"""control_hostile.py SOCKET - what no client of the control socket should send.  Each is refused: the connection is
closed; the daemon's other clients are looked at by control.sh."""
import array
import os
import signal
import socket
import struct
import sys
import tempfile
import time

from lingering import lingering

path = sys.argv[1]
REQUEST, STOP, DENIED = 1, 2, 17


def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)  # waits while the backlog is full
    s.settimeout(20)
    return s


def closed(s, what):
    """True: without a word.  The kernel resets a connection whose bytes were not read."""
    try:
        data = s.recv(4096)
    except ConnectionResetError:
        data = b""
    if data:
        sys.exit("%s was answered: %r" % (what, data))
    s.close()


def sends(what, data):
    s = connect()
    s.sendall(data)
    closed(s, what)


def message(kind, data=b""):
    return struct.pack("<II", len(data), kind) + data


def with_descriptors(what, *fds):
    s = connect()
    s.sendmsg([message(REQUEST, b"\x08\x01")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    closed(s, what)


sends("garbage", b"GET / HTTP/1.0\r\n\r\n")
sends("a request that is none", message(REQUEST, b"\xff" * 100))
sends("no version", message(REQUEST))
sends("a later version", message(REQUEST, b"\x08\x63"))
sends("a stop before all", message(STOP))
sends("an unknown type", message(99, b"x"))
sends("a daemon's message", message(DENIED, b"x"))
sends("a message without end", struct.pack("<II", 0xffffffff, REQUEST))
with tempfile.TemporaryFile() as file:
    with_descriptors("a descriptor", file.fileno())
    with_descriptors("many descriptors", *[file.fileno()] * 100)
reader, writer = os.pipe()
with_descriptors("a pipe", writer)


def lingers():
    """One left in the daemon's queue; by a process that can be killed, as it may itself be the last."""
    tcp, listener = lingering()
    closed_here, closes = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(closes)
            os.read(closed_here, 1)  # its end: our parent's close() is past, and was not the last
            s = connect()
            s.sendmsg([b"garbage of sorts"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [tcp.fileno()]))])
            tcp.close()
            time.sleep(60)
        finally:
            os._exit(0)  # never behind this place: it would go on making children of its own
    tcp.close()
    os.close(closes)
    os.close(closed_here)
    return child, listener


kept = [lingers() for i in range(20)]
sends("garbage after sockets that linger", b"GET / HTTP/1.0\r\n\r\n")
time.sleep(0.2)
for child, listener in kept:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
sends("garbage after their end", b"GET / HTTP/1.0\r\n\r\n")

# Half a message and then nothing: the daemon's patience has an end.
s = connect()
s.sendall(message(REQUEST, b"\x08\x01")[:9])
silent = connect()
closed(s, "half a message")
closed(silent, "nothing")
# Half a message and gone.
s = connect()
s.sendall(b"\x05\x00")
s.close()

# 1,000 connections: some stay, the others are turned away; none is answered, and nobody waits for them.
many = []
for i in range(1000):
    many.append(connect())
    if len(many) > 200:
        many.pop(0).close()


def is_turned_away(s):
    s.setblocking(False)
    try:
        return s.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


turned_away = 0
end = time.monotonic() + 20
while turned_away < 100 and time.monotonic() < end:  # those in the backlog have yet to be
    turned_away = sum(map(is_turned_away, many))
    time.sleep(0.05)
if turned_away < 100:
    sys.exit("of 200 connections only %d were turned away" % turned_away)
