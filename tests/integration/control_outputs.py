#!/usr/bin/env python3
"""control_outputs.py SOCKET PID - descriptors for the packets that are none, and what a client can do to one that is.  Each is
answered with its reason, or served; the daemon's other clients are looked at by control.sh."""
import array
import os
import select
import socket
import sys
import tempfile

import control_client
from control_client import ACCEPTED, DENIED, DONE, FAILED, PROGRESS, STOP, ask, field, hear, message, request, send_with
from lingering import lingering

path, pid = sys.argv[1], int(sys.argv[2])


def denied(what, words, *sent):
    """Numbers, or what has one; nothing: the connection's own."""
    fds = [one if isinstance(one, int) else one.fileno() for one in sent]
    s = control_client.connect(path)
    send_with(s, request([pid]), *(fds or [s.fileno()]))
    kind, said = hear(s, DENIED, ACCEPTED)
    if kind != DENIED or words not in said:
        sys.exit("%s was answered: %u %r" % (what, kind, said))
    try:
        more = s.recv(1)
    except ConnectionResetError:
        more = b""
    if more:
        sys.exit("%s: the connection is not closed" % what)
    s.close()


def accepted(s):
    kind, said = hear(s, DENIED, ACCEPTED)
    if kind != ACCEPTED:
        sys.exit("denied: %r" % said)


def all_of(packets):
    data = b""
    while True:
        more = packets.recv(1 << 20)
        if not more:
            return data
        data += more


def ends_whole(what, s, packets):
    """Stopped: the end is told with the number of bytes, and these come, and then the end of them."""
    s.sendall(message(STOP))
    kind, summary = hear(s, DONE, FAILED)
    if kind != DONE:
        sys.exit("%s: %r" % (what, summary))
    got = len(all_of(packets))
    if not got or got != field(summary, 26):
        sys.exit("%s: %u bytes of %u" % (what, got, field(summary, 26)))
    s.close()
    packets.close()


NO_SOCKET = b"is no socket"
with tempfile.TemporaryFile() as file:
    denied("a file", NO_SOCKET, file)
    denied("two files", b"more descriptors", file, file)
    denied("many files", b"more descriptors", *[file] * 200)
pair = socket.socketpair()
denied("two sockets", b"more descriptors", pair[0], pair[1])
for end in os.pipe():
    denied("a pipe", NO_SOCKET, end)
denied("a memfd", NO_SOCKET, os.memfd_create("output"))
denied("a folder", NO_SOCKET, os.open("/", os.O_RDONLY))
denied("a path", NO_SOCKET, os.open("/dev/null", os.O_PATH))
denied("a device", NO_SOCKET, os.open("/dev/null", os.O_WRONLY))
denied("a file of procfs", NO_SOCKET, os.open("/proc/self/comm", os.O_RDWR))
denied("an epoll", NO_SOCKET, select.epoll())
tcp, listener = lingering()
denied("a TCP socket that lingers", b"not AF_UNIX", tcp)
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
denied("a socket that listens", b"not AF_UNIX", listener)
denied("datagrams", b"not SOCK_STREAM", socket.socketpair(type=socket.SOCK_DGRAM)[0])
denied("packets in sequence", b"not SOCK_STREAM", socket.socketpair(type=socket.SOCK_SEQPACKET)[0])
denied("a socket of nobody", b"not connected", socket.socket(socket.AF_UNIX))
own = socket.socket(socket.AF_UNIX)
own.bind("\0control-outputs-%d" % os.getpid())
own.listen()
denied("a listener", b"not connected", own)
client = socket.socket(socket.AF_UNIX)
client.connect(own.getsockname())
denied("a connection to a server", b"a socket with a name", client)
denied("a server's end of it", b"a socket with a name", own.accept()[0])
denied("the connection itself", b"a socket with a name")
other = control_client.connect(path)
denied("another connection to the daemon", b"a socket with a name", other)
other.close()

# Nobody is at the other end.
s = control_client.connect(path)
here, theirs = socket.socketpair()
here.close()
send_with(s, request([pid]), theirs.fileno())
kind, said = hear(s, DENIED, FAILED)
if b"nobody reads" not in said:
    sys.exit("a peer that is gone was answered: %r" % said)
s.close()
# ... any more, or it is shut for reading.  A session that has not started yet is denied behind its ACCEPTED.
for what, gone in ("that has gone", socket.socket.close), ("that is shut", lambda s: s.shutdown(socket.SHUT_RD)):
    s, packets = ask(path, [pid], 999)
    accepted(s)
    gone(packets)
    kind, said = hear(s, DENIED, DONE, FAILED)
    if kind == DONE or b"nobody reads" not in said:
        sys.exit("a reader %s was answered: %u %r" % (what, kind, said))
    if kind == FAILED:
        hear(s, DONE)
    s.close()
# Shut for writing, which nobody asked for.
s, packets = ask(path, [pid])
accepted(s)
packets.shutdown(socket.SHUT_WR)
hear(s, PROGRESS)
ends_whole("shut for writing", s, packets)
# The connection is the client's life.
s, packets = ask(path, [pid])
accepted(s)
s.close()
all_of(packets)

# Not read while it is recorded, nor the words: all is there in the end.
s, packets = ask(path, [pid], 999)
for i in range(6):
    hear(s, PROGRESS)
ends_whole("not read", s, packets)

# Rubbish, sockets in sockets and one that lingers are written into it; its sender keeps it and changes what he can.
s = control_client.connect(path)
packets, theirs = socket.socketpair()
packets.settimeout(20)
send_with(s, request([pid], 999), theirs.fileno())
accepted(s)
theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
theirs.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
tcp, listener = lingering()
inner = socket.socketpair()
inner[0].sendmsg([b"in a socket"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [tcp.fileno()]))])
packets.sendmsg([b"rubbish"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [inner[1].fileno(), tcp.fileno()]))])
packets.setblocking(False)
try:
    while True:
        packets.send(bytes(65536))
except BlockingIOError:
    packets.settimeout(20)
for end in inner:
    end.close()
for i in range(3):
    hear(s, PROGRESS)
s.sendall(message(STOP))
kind, summary = hear(s, DONE, FAILED)
if kind != DONE or len(all_of(packets)) != field(summary, 26):
    sys.exit("a descriptor full of rubbish: %u %r" % (kind, summary))
theirs.close()
tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
s.close()

# The connection is kept open by its own packets' queue when its process has gone: that was its life all the same.
for i in range(8):  # more than one user may have at once
    child = os.fork()
    if not child:
        try:
            s = control_client.connect(path)
            packets, theirs = socket.socketpair()
            ends = array.array("i", [s.fileno(), packets.fileno()])
            packets.sendmsg([b"a circle"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
            send_with(s, request([pid]), theirs.fileno())
            accepted(s)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        sys.exit("the recording of process %u of 8 was refused" % (i + 1))

# A descriptor behind the request is none that was asked for.
s, packets = ask(path, [pid])
accepted(s)
s.sendmsg([message(STOP)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pair[0].fileno()]))])
all_of(packets)
s.close()
