#!/usr/bin/env python3
"""control_outputs.py SOCKET PID - descriptors that a client sends, which the daemon never receives, and what a client can do to the
socket that the packets come over.  The daemon's other clients are looked at by control.sh."""
import array
import os
import socket
import sys
import tempfile

import control_client
from control_client import ACCEPTED, DENIED, DONE, FAILED, PROGRESS, STOP, ask, close, field, hear, message, request, send_with
from lingering import lingering

path, pid = sys.argv[1], int(sys.argv[2])


def rights(*fds):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]


def denied(what, *sent):
    """With the request, as version 2 had it."""
    s = control_client.connect(path)
    send_with(s, request([pid]), *[one if isinstance(one, int) else one.fileno() for one in sent or (s,)])
    kind, text = hear(s, DENIED, ACCEPTED)
    if kind != DENIED or b"has a descriptor, as in version 2" not in text or s.packets:
        sys.exit("%s was answered: %u %r" % (what, kind, text))
    try:
        more = s.recv(1)
    except ConnectionResetError:
        more = b""
    if more:
        sys.exit("%s: the connection is not closed" % what)
    s.close()


def accepted(s):
    kind, text = hear(s, DENIED, ACCEPTED)
    if kind != ACCEPTED:
        sys.exit("denied: %r" % text)
    if not s.packets:
        sys.exit("accepted without a descriptor for the packets")


def all_of(packets):
    data = b""
    while True:
        more = packets.recv(1 << 20)
        if not more:
            return data
        data += more


def ends_whole(what, s):
    """Stopped: DONE has the number of bytes, and the packets are that many bytes, and then the end."""
    s.sendall(message(STOP))
    kind, summary = hear(s, DONE, FAILED)
    if kind != DONE:
        sys.exit("%s: %r" % (what, summary))
    got = len(all_of(s.packets))
    if not got or got != field(summary, 26):
        sys.exit("%s: %u bytes of %u" % (what, got, field(summary, 26)))
    close(s)


with tempfile.TemporaryFile() as file:
    denied("a file", file)
    denied("two files", file, file)
    denied("many files", *[file] * 200)
denied("one end of a pair", socket.socketpair()[0])
denied("a folder", os.open("/", os.O_RDONLY))
denied("a file of procfs", os.open("/proc/self/comm", os.O_RDWR))
tcp, listener = lingering()
denied("a TCP socket that lingers", tcp)
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
denied("the connection itself")
other = control_client.connect(path)
denied("another connection to the daemon", other)
other.close()

# The reader has gone, or has shut its end for reading.  A session that has not started yet is denied behind its ACCEPTED.
for what, gone in ("that has gone", socket.socket.close), ("that is shut", lambda s: s.shutdown(socket.SHUT_RD)):
    s = ask(path, [pid], 999)
    accepted(s)
    gone(s.packets)
    kind, text = hear(s, DENIED, DONE, FAILED)
    if kind == DONE or b"has closed its end" not in text:
        sys.exit("a reader %s was answered: %u %r" % (what, kind, text))
    if kind == FAILED:
        hear(s, DONE)
    close(s)
# The daemon takes the end of the connection for the end of the client.
s = ask(path, [pid])
accepted(s)
s.close()
all_of(s.packets)

# Not read while it is recorded, nor the messages: all is there in the end.
s = ask(path, [pid], 999)
accepted(s)
for i in range(6):
    hear(s, PROGRESS)
ends_whole("not read", s)

# Neither rubbish nor descriptors can be written into it, and no room that the client gives it changes what comes.
s = ask(path, [pid], 999)
accepted(s)
for option in socket.SO_SNDBUF, socket.SO_RCVBUF:
    s.packets.setsockopt(socket.SOL_SOCKET, option, 1 << 24)
s.packets.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
tcp, listener = lingering()
for sent in [], rights(tcp.fileno()):
    try:
        s.packets.sendmsg([b"rubbish"], sent)
        sys.exit("the daemon's end takes what a client writes")
    except BrokenPipeError:
        pass
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
for i in range(3):
    hear(s, PROGRESS)
ends_whole("written into", s)

# The connection is kept open by a queue that it lies in itself when its process has gone: the recording ends all the same.
for i in range(8):  # more than one user may have at once
    child = os.fork()
    if not child:
        try:
            s = ask(path, [pid])
            accepted(s)
            here, there = socket.socketpair()
            here.sendmsg([b"a circle"], rights(s.fileno(), s.packets.fileno(), here.fileno(), there.fileno()))
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        sys.exit("the recording of process %u of 8 was refused" % (i + 1))

# A descriptor behind the request breaks the protocol.
s = ask(path, [pid])
accepted(s)
s.sendmsg([message(STOP)], rights(listener.fileno()))
all_of(s.packets)
close(s)
