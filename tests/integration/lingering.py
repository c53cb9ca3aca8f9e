"""lingering.py - what may stand in the queue of a connection that anyone makes."""
import socket
import struct


def lingering():
    """A TCP socket with bytes that no reader takes, so that its last close() takes an hour, and its other end, which is not to be
    closed meanwhile."""
    listener = socket.create_server(("127.0.0.1", 0))
    tcp = socket.create_connection(listener.getsockname())
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    tcp.setblocking(False)
    try:
        while True:
            tcp.send(bytes(65536))
    except BlockingIOError:
        pass
    return tcp, listener
