"""control_client.py - the control socket's protocol for tests, written from daemon/control/control-protocol.h alone."""
import array
import socket
import struct

REQUEST, STOP, RENEW, ACCEPTED, DENIED, NOTE, PROGRESS, DONE, FAILED, RENEWED = 1, 2, 3, 16, 17, 18, 20, 21, 22, 23
VERSION = 4


def varint(n):
    data = b""
    while n > 127:
        data += bytes([n & 127 | 128])
        n >>= 7
    return data + bytes([n])


def message(kind, data=b""):
    return struct.pack("<II", len(data), kind) + data


def request(pids, frequency=99, version=VERSION):
    """A ControlRequest: these processes with their children, by CLOCK_MONOTONIC, user and kernel code."""
    packed = b"".join(map(varint, pids))
    return message(REQUEST, b"\x08" + varint(version) + b"\x22" + varint(len(packed)) + packed + b"\x28\x01\x40" +
                   varint(frequency) + b"\x70\x01\xb0\x01\x07")


class Connection(socket.socket):
    packets = None  # the daemon's descriptor, once it has come


def connect(path):
    s = Connection(socket.AF_UNIX)
    s.connect(path)  # waits while the backlog is full
    s.settimeout(20)
    return s


def send_with(s, data, *fds):
    """All of @data, the descriptors with its first byte."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sent = s.sendmsg([data], rights)
    if sent < len(data):
        s.sendall(data[sent:])


def ask(path, pids, frequency=99):
    s = connect(path)
    s.sendall(request(pids, frequency))
    return s


def read(s, n):
    data = b""
    while len(data) < n:
        more, fds, flags, _ = socket.recv_fds(s, n - len(data), 1)
        for fd in fds:
            s.packets = socket.socket(fileno=fd)
            s.packets.settimeout(20)
        if flags & socket.MSG_CTRUNC:
            raise ValueError("more descriptors than one")
        if not more:
            raise ConnectionResetError
        data += more
    return data


def close(s):
    if s.packets:
        s.packets.close()
    s.close()


def hear(s, *wanted):
    """The next message of these kinds: its kind and its bytes."""
    while True:
        n, kind = struct.unpack("<II", read(s, 8))
        data = read(s, n)
        if kind in wanted:
            return kind, data


def field(data, wanted):
    """A number of a ControlSummary; 0 where it is not there."""
    at, found = 0, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        value = number() if tag & 7 in (0, 2) else 0
        at += {0: 0, 1: 8, 2: value, 5: 4}[tag & 7]
        if tag >> 3 == wanted:
            found = value
    return found
