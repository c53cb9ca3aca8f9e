#!/usr/bin/env python3
"""control_hostile.py SOCKET - what no client of the control socket should send.  Each is refused: the connection is
closed; the daemon's other clients are looked at by control.sh."""
import array
import os
import signal
import socket
import struct
import sys
import time

import control_client
from control_client import DENIED, REQUEST, STOP, hear, message
from lingering import lingering

path = sys.argv[1]


def connect():
    return control_client.connect(path)


def closed(s, what):
    """True: without a word.  The kernel resets a connection with bytes that were not read."""
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


def denied(what, data, words):
    s = connect()
    s.sendall(data)
    kind, text = hear(s, DENIED)
    if words not in text:
        sys.exit("%s was answered: %r" % (what, text))
    closed(s, what)


sends("garbage", b"GET / HTTP/1.0\r\n\r\n")
sends("a request that is none", message(REQUEST, b"\xff" * 100))
denied("no version", message(REQUEST), b"of version 0")
denied("the first version", message(REQUEST, b"\x08\x01"), b"of version 1")
denied("a later version", message(REQUEST, b"\x08\x63"), b"of version 99")
denied("the second version", message(REQUEST, b"\x08\x02"), b"of version 2")
sends("a stop before all", message(STOP))
sends("a trigger before all", message(5, struct.pack("<I", 0) + b"x"))
sends("an unknown type", message(99, b"x"))
sends("a daemon's message", message(DENIED, b"x"))
sends("a message without end", struct.pack("<II", 0xffffffff, REQUEST))

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

# 1,000 connections: some stay, the others are turned away; none is answered, and no client waits for them.
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
