"""fake_traced.py - a tracing service for tests: the other side of `perfwind daemon`.

Written from the facts of the protocol alone and with nothing of perfwind's in it, so that it can judge.  It speaks
ProducerPort, makes the shared memory, sends the commands that are given, reads chunks when they are committed and by
scraping, puts packets together, adds the trusted fields and writes a trace.  What breaks a rule of the protocol or of
the memory's layout is a line in Service.violations; a test ends with that list empty.  It can also misbehave:
send_raw(), memory of any kind, not reading, closing at any point."""
import array
import ctypes
import fcntl
import functools
import mmap
import os
import random
import select
import socket
import struct
import time

FRAME_MAX = 131072 - 4
METHODS = ["InitializeConnection", "RegisterDataSource", "UnregisterDataSource", "CommitData", "GetAsyncCommand",
           "RegisterTraceWriter", "UnregisterTraceWriter", "NotifyDataSourceStarted", "NotifyDataSourceStopped",
           "ActivateTriggers", "Sync", "UpdateDataSource"]
FREE, BEING_WRITTEN, BEING_READ, COMPLETE = range(4)
CHUNKS = {0: 0, 1: 1, 2: 2, 3: 4, 4: 7, 5: 14, 6: 0, 7: 0}
CONTINUES, CONTINUED, NEEDS_PATCH = 1, 2, 4
DROP_PACKET = 0x0FFFFFFF
# Fields that only the service may write.
FORBIDDEN = {3, 10, 33, 35, 36, 50, 133, 69, 79, 98, 124, 125}
SEAL_SHRINK, SEAL_GROW, SEAL_SEAL, ADD_SEALS = 2, 4, 1, 1033


# ---- protobuf, by hand
def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def padded(value):
    """A length as the service writes it: always four bytes."""
    return bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21 & 0x7F])


def message(*fields, length=varint):
    """(number, int | bytes | str) ... -> bytes"""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + length(len(value)) + value
    return out


class Malformed(Exception):
    pass


def read_varint(data, at):
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for i in range(10):
        if at >= len(data):
            raise Malformed("a varint is cut")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at
    raise Malformed("a varint of more than ten bytes")


def fields(data):
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        wire, number = tag & 7, tag >> 3
        if number == 0:
            raise Malformed("field 0")
        if wire == 0:
            value, at = read_varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = bytes(data[at:at + size]), at + size
        elif wire == 2:
            size, at = read_varint(data, at)
            value, at = bytes(data[at:at + size]), at + size
        else:
            raise Malformed("wire type %d" % wire)
        if at > len(data):
            raise Malformed("field %d goes beyond the end" % number)
        yield number, value


@functools.lru_cache(maxsize=1 << 18)
def last_fields(data):
    """Each field's last value: what counts of a field that is not repeated.  Packets are looked at often."""
    return dict(fields(data))


def one(data, number, default=None):
    return last_fields(data).get(number, default)


def every(data, number):
    return [value for n, value in fields(data) if n == number]


# ---- compare and swap of a word that another process changes too
try:
    COMPARE_EXCHANGE = getattr(ctypes.CDLL("libatomic.so.1"), "__atomic_compare_exchange_4")
    COMPARE_EXCHANGE.restype = ctypes.c_bool  # as an int the upper bytes are what the register held: a failure is none
except (OSError, AttributeError):
    COMPARE_EXCHANGE = None


class Memory:
    """The shared memory, as the service sees it."""

    def __init__(self, page_size, n_pages, size=None, seal=True):
        self.page_size, self.n_pages = page_size, n_pages
        self.size = page_size * n_pages if size is None else size
        self.fd = os.memfd_create("fake_shmem", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        if seal:
            fcntl.fcntl(self.fd, ADD_SEALS, SEAL_SHRINK | SEAL_GROW | SEAL_SEAL)
        self.map = mmap.mmap(self.fd, self.size) if self.size else None
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map)) if self.size else 0

    def word(self, page):
        return struct.unpack_from("<I", self.map, page * self.page_size)[0]

    def swap(self, page, old, new):
        if COMPARE_EXCHANGE:
            expected, address = ctypes.c_uint32(old), ctypes.c_void_p(self.base + page * self.page_size)
            return bool(COMPARE_EXCHANGE(address, ctypes.byref(expected), ctypes.c_uint32(new), 4, 2))
        # One chunk a page: no other side touches a word with a single chunk that is ours to read.
        assert CHUNKS[old >> 28 & 7] == 1
        struct.pack_into("<I", self.map, page * self.page_size, new)
        return True

    def set_state(self, page, chunk, was, now):
        for _ in range(1000):
            old = self.word(page)
            if old >> (2 * chunk) & 3 != was:
                return False
            new = old & ~(3 << (2 * chunk)) | now << (2 * chunk)
            if new & 0x0FFFFFFF == 0:
                new = 0
            if self.swap(page, old, new):
                return True
        return False

    def chunk_range(self, page, chunk, layout):
        size = ((self.page_size - 8) // CHUNKS[layout]) & ~3
        start = page * self.page_size + 8 + chunk * size
        return start, size

    def counts(self):
        """How many chunks are in each state."""
        n = [0, 0, 0, 0]
        for page in range(self.n_pages):
            word = self.word(page)
            for chunk in range(CHUNKS[word >> 28 & 7]):
                n[word >> (2 * chunk) & 3] += 1
        return n


class Chunk:
    def __init__(self, chunk_id, writer, count, flags, payload):
        self.id, self.writer, self.count, self.flags, self.payload = chunk_id, writer, count, flags, payload
        self.committed = False
        self.cut = False  # scraped while it was written: what follows may be of a later moment
        self.pieces = None


class Service:
    """One listening socket and the connection accepted last."""

    def __init__(self, name, offset=30, uid=None):
        self.name, self.offset = name, offset
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind("\0" + name[1:] if name[0] == "@" else name)
        if name[0] != "@":
            os.chmod(name, 0o666)
        self.listen_as(uid)
        self.connection = None
        self.violations = []
        self.connections = 0
        self.shuffled = METHODS[:]
        random.Random(offset).shuffle(self.shuffled)
        self.reset()

    def listen_as(self, uid):
        """Listens as this user (None: ours): the one that the other side of a connection is given as its peer."""
        child = os.fork() if uid is not None else 0
        if not child:
            try:
                if uid is not None:
                    os.setresuid(uid, uid, uid)
                self.listener.listen(4)
            finally:
                if uid is not None:
                    os._exit(0)
            return
        os.waitpid(child, 0)

    def reset(self):
        self.buffer = b""
        self.last_request = 0
        self.bound = self.initialized = None
        self.command_stream = None
        self.descriptors, self.unregistered = [], []
        self.writers, self.dead_writers = {}, []
        self.stopped, self.started, self.flushed = [], [], []
        self.events = []  # (what, id) in the order of arrival
        self.memory = None
        self.chunks = {}  # (writer, chunk id) -> Chunk, as copied last
        self.next_chunk = {}  # writer -> chunk id that must come next
        self.buffers = {}  # writer -> buffer
        self.closed = False
        self.synced = 0
        self.hold_chunks, self.held = False, []
        self.commit_frames = 0
        self.triggers = []

    def violation(self, text):
        self.violations.append(text)

    # ---- the socket
    def accept(self, timeout=20):
        self.close_connection()
        ready, _, _ = select.select([self.listener], [], [], timeout)
        if not ready:
            raise TimeoutError("nobody connects")
        self.connection, _ = self.listener.accept()
        self.connection.setblocking(False)
        self.connections += 1
        self.reset()
        return self

    def close_connection(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def close(self):
        self.close_connection()
        self.listener.close()

    def send_raw(self, data, fds=()):
        """False: the producer has closed the connection."""
        try:
            self.connection.setblocking(True)
            self.connection.settimeout(20)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            sent = self.connection.sendmsg([data], rights)
            self.connection.sendall(data[sent:])
            return True
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True
            return False
        finally:
            self.connection.setblocking(False)

    @staticmethod
    def frame(request, number, body):
        frame = message((2, request)) + varint(number << 3 | 2) + padded(len(body)) + body
        return struct.pack("<I", len(frame)) + frame

    def send_frame(self, request, number, body, fds=()):
        return self.send_raw(self.frame(request, number, body), fds)

    def reply(self, request, body=b"", success=True, more=False, fds=()):
        return self.send_frame(request, 6, message((1, int(success)), (2, int(more)), (3, body)), fds)

    def poll(self, timeout=0.0):
        """Takes what has arrived; False when nothing came in time."""
        if self.closed or not self.connection:
            return False
        if not select.select([self.connection], [], [], timeout)[0]:
            return False
        try:
            data = self.connection.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        if not data:
            self.closed = True
            return False
        self.buffer += data
        while len(self.buffer) >= 4:
            size = struct.unpack_from("<I", self.buffer)[0]
            if size > FRAME_MAX:
                self.violation("a frame of %d bytes" % size)
                self.closed = True
                return False
            if len(self.buffer) < 4 + size:
                break
            frame, self.buffer = self.buffer[4:4 + size], self.buffer[4 + size:]
            try:
                self.take_frame(frame)
            except Malformed as e:
                self.violation("a frame that cannot be read: %s" % e)
        return True

    def wait(self, condition, what="", timeout=30):
        """Until condition() is true.  An exception after the time, which is there against hanging only."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError("waited in vain%s" % (" for " + what if what else ""))
            if self.closed:
                raise ConnectionError("the producer has closed the connection%s" % (", before " + what if what else ""))
            self.poll(0.05)

    def wait_closed(self, timeout=30):
        end = time.monotonic() + timeout
        while not self.closed:
            if time.monotonic() > end:
                raise TimeoutError("the producer stays")
            self.poll(0.05)

    def idle(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.closed:
            self.poll(0.02)

    # ---- frames
    def take_frame(self, frame):
        request = one(frame, 2, 0)
        if request != self.last_request + 1:
            self.violation("request %d after %d" % (request, self.last_request))
        self.last_request = request
        bind, invoke = one(frame, 3), one(frame, 5)
        if bind is not None:
            self.take_bind(request, bind)
        elif invoke is not None:
            self.take_call(request, invoke)
        else:
            self.violation("a frame that is not a request")

    def take_bind(self, request, body):
        if self.bound is not None:
            self.violation("bound twice")
        self.bound = one(body, 1, b"").decode()
        if self.bound != "ProducerPort":
            self.violation("binds to %s" % self.bound)
        infos = [(3, message((1, self.offset + i), (2, name))) for i, name in enumerate(self.shuffled)]
        self.send_frame(request, 4, message((1, 1), (2, 5), *infos, length=padded))

    def take_call(self, request, body):
        service, method = one(body, 1, 0), one(body, 2, 0) - self.offset
        arguments, drop = one(body, 3, b""), one(body, 4, 0)
        if self.bound is None:
            self.violation("a call before binding")
        if service != 5 or not 0 <= method < len(self.shuffled):
            self.violation("a call of method %d of service %d" % (method, service))
            return
        name = self.shuffled[method]
        if not self.initialized and name != "InitializeConnection":
            self.violation("%s before InitializeConnection" % name)
        wants_reply = getattr(self, "on_" + name)(request, arguments)
        if wants_reply and not drop:
            self.reply(request)

    def on_InitializeConnection(self, request, arguments):
        if self.initialized:
            self.violation("initialized twice")
        self.initialized = {"page": one(arguments, 1, 0), "size": one(arguments, 2, 0),
                            "name": one(arguments, 3, b"").decode(), "scraping": one(arguments, 4, 0),
                            "version": one(arguments, 8, b"").decode()}
        self.reply(request, message((2, 1)))

    def on_GetAsyncCommand(self, request, arguments):
        if self.command_stream:
            self.violation("two command streams")
        self.command_stream = request

    def on_RegisterDataSource(self, request, arguments):
        if not self.command_stream:
            self.violation("a data source before GetAsyncCommand: commands would be dropped")
        descriptor = one(arguments, 1, b"")
        self.descriptors.append({"name": one(descriptor, 1, b"").decode(), "stop": one(descriptor, 2, 0),
                                 "start": one(descriptor, 3, 0), "clear": one(descriptor, 4, 0),
                                 "no_flush": one(descriptor, 9, 0)})
        return True

    def on_UnregisterDataSource(self, request, arguments):
        self.unregistered.append(one(arguments, 1, b"").decode())

    def on_UpdateDataSource(self, request, arguments):
        return True

    def on_ActivateTriggers(self, request, arguments):
        self.triggers += [name.decode() for name in every(arguments, 1)]
        return True

    def on_Sync(self, request, arguments):
        self.synced += 1
        return True

    def on_RegisterTraceWriter(self, request, arguments):
        writer, buffer = one(arguments, 1, 0), one(arguments, 2, 0)
        if not 1 <= writer <= 32767:
            self.violation("writer id %d" % writer)
        if writer in self.writers:
            self.violation("writer %d is registered twice" % writer)
        self.writers[writer] = self.buffers[writer] = buffer

    def on_UnregisterTraceWriter(self, request, arguments):
        writer = one(arguments, 1, 0)
        if self.writers.pop(writer, None) is None:
            self.violation("writer %d is unregistered, but was not registered" % writer)
        self.dead_writers.append(writer)

    def on_NotifyDataSourceStarted(self, request, arguments):
        self.started.append(one(arguments, 1, 0))
        self.events.append(("started", one(arguments, 1, 0)))

    def on_NotifyDataSourceStopped(self, request, arguments):
        self.stopped.append(one(arguments, 1, 0))
        self.events.append(("stopped", one(arguments, 1, 0)))

    def on_CommitData(self, request, arguments):
        self.commit_frames += 1
        for move in every(arguments, 1):
            place = (one(move, 1, 0), one(move, 2, 0), one(move, 3, 0))
            if self.hold_chunks:
                self.held.append(place)
            else:
                self.take_chunk(*place)
        if every(arguments, 2):
            self.violation("patches, though packets have their final sizes")
        flush = one(arguments, 3, 0)
        if flush:
            if self.flushed and flush <= self.flushed[-1]:
                self.violation("flush %d is answered after %d" % (flush, self.flushed[-1]))
            self.flushed.append(flush)
            self.events.append(("flushed", flush))
        return True

    def release_chunks(self):
        self.hold_chunks = False
        for place in self.held:
            self.take_chunk(*place)
        self.held = []

    # ---- commands
    def command(self, number, body, fds=()):
        return self.reply(self.command_stream, message((number, body)), more=True, fds=fds)

    def begin(self):
        self.wait(lambda: self.synced and len(self.descriptors) == 2, "registration")
        return self

    def setup_tracing(self, page_kb=4, n_pages=64, **kind):
        self.memory = Memory(page_kb * 1024, n_pages, **kind)
        self.command(3, message((1, page_kb)), [self.memory.fd])

    def setup(self, instance, config):
        self.command(6, message((1, instance), (2, config)))

    def start(self, instance, config):
        self.command(1, message((1, instance), (2, config)))

    def stop(self, *instances):
        """Of several the producer hears at once: none is answered before the next is read."""
        replies = [message((1, 1), (2, 1), (3, message((2, message((1, i)))))) for i in instances]
        self.send_raw(b"".join(self.frame(self.command_stream, 6, reply) for reply in replies))

    def flush(self, request, *instances):
        self.command(5, message(*[(1, i) for i in instances], (2, request), (3, 0x21)))

    def clear(self, *instances):
        self.command(7, message(*[(1, i) for i in instances]))

    # ---- chunks
    def copy_chunk(self, page, chunk, layout):
        start, size = self.memory.chunk_range(page, chunk, layout)
        header = bytes(self.memory.map[start:start + 8])
        chunk_id, writer, packets = struct.unpack("<IHH", header)
        return Chunk(chunk_id, writer, packets & 0x3FF, packets >> 10, bytes(self.memory.map[start + 8:start + size]))

    def take_chunk(self, page, chunk, buffer):
        where = "page %d chunk %d" % (page, chunk)
        if not self.memory:
            return self.violation("%s is committed, but there is no memory" % where)
        if page >= self.memory.n_pages:
            return self.violation("%s is not in the memory" % where)
        layout = self.memory.word(page) >> 28 & 7
        if chunk >= CHUNKS[layout]:
            return self.violation("%s: the page has layout %d" % (where, layout))
        if not self.memory.set_state(page, chunk, COMPLETE, BEING_READ):
            return self.violation("%s is committed, but not complete" % where)
        copy = self.copy_chunk(page, chunk, layout)
        copy.committed = True
        self.check_chunk(copy, buffer, where)
        start, _ = self.memory.chunk_range(page, chunk, layout)
        self.memory.map[start:start + 8] = bytes(8)
        if not self.memory.set_state(page, chunk, BEING_READ, FREE):
            self.violation("%s was touched while it was being read" % where)

    def check_chunk(self, copy, buffer, where):
        where = "%s (writer %d, id %d)" % (where, copy.writer, copy.id)
        if copy.writer not in self.buffers:
            self.violation("%s: the writer is not registered" % where)
        elif self.buffers[copy.writer] != buffer:
            self.violation("%s goes to buffer %d, its writer to %d" % (where, buffer, self.buffers[copy.writer]))
        expected = self.next_chunk.get(copy.writer, 0)
        if copy.id != expected:
            self.violation("%s: id %d was to come" % (where, expected))
        self.next_chunk[copy.writer] = (copy.id + 1) & 0xFFFFFFFF
        if copy.flags & ~(CONTINUES | CONTINUED):
            self.violation("%s: flags %d" % (where, copy.flags))
        earlier = self.chunks.get((copy.writer, copy.id))
        if earlier:
            self.check_recommit(earlier, copy, where)
        self.chunks[copy.writer, copy.id] = copy
        self.fragments(copy, where)

    def check_recommit(self, earlier, copy, where):
        if copy.count < earlier.count or earlier.flags & ~copy.flags:
            self.violation("%s: had %d fragments and flags %d when it was scraped, now %d and %d" %
                           (where, earlier.count, earlier.flags, copy.count, copy.flags))
        before = self.fragments(earlier, where)
        if self.fragments(copy, where)[:len(before)] != before:
            self.violation("%s: what was published is written again" % where)

    def fragments(self, copy, where):
        """The chunk's fragments; None stands for the mark of a dropped packet."""
        if copy.pieces is not None:
            return copy.pieces
        out, at = [], 0
        for i in range(copy.count):
            try:
                size, after = read_varint(copy.payload, at)
            except Malformed:
                self.violation("%s: fragment %d of %d has no size" % (where, i, copy.count))
                break
            if after - at > 4:
                self.violation("%s: a size of %d bytes" % (where, after - at))
            if size == DROP_PACKET:
                out.append(None)
                break
            if after + size > len(copy.payload):
                self.violation("%s: fragment %d goes beyond the chunk" % (where, i))
                break
            out.append(copy.payload[after:after + size])
            at = after + size
        copy.pieces = out
        return out

    def scrape(self):
        """As at the end of a flush: whatever registered writers have published."""
        for page in range(self.memory.n_pages):
            word = self.memory.word(page)
            layout = word >> 28 & 7
            for chunk in range(CHUNKS[layout]):
                state = word >> (2 * chunk) & 3
                if state not in (BEING_WRITTEN, COMPLETE):
                    continue
                copy = self.copy_chunk(page, chunk, layout)
                if copy.writer not in self.writers or (state == BEING_WRITTEN and copy.count < 2):
                    continue
                if state == BEING_WRITTEN:
                    copy.count -= 1
                    copy.flags &= ~(CONTINUED | NEEDS_PATCH)
                    copy.cut = True
                known = self.chunks.get((copy.writer, copy.id))
                if not known or not known.committed and copy.count > known.count:
                    self.chunks[copy.writer, copy.id] = copy

    # ---- packets
    def packets(self, writer):
        """The writer's packets in order: what a trace buffer would give, were it read now."""
        out, partial, expected, cut = [], None, 0, False
        for chunk_id in sorted(i for w, i in self.chunks if w == writer):
            copy = self.chunks[writer, chunk_id]
            if chunk_id != expected:
                self.violation("writer %d: chunk %d is missing" % (writer, expected))
                partial = None
            expected = chunk_id + 1
            pieces = self.fragments(copy, "writer %d, chunk %d" % (writer, chunk_id))
            continues = bool(copy.flags & CONTINUES)
            unknown = cut and continues  # its beginning was not written yet
            cut = copy.cut
            if continues != (partial is not None) and not unknown:
                self.violation("writer %d, chunk %d: flags and the chunk before disagree" % (writer, chunk_id))
            for i, piece in enumerate(pieces):
                first, last = i == 0, i == len(pieces) - 1
                if piece is None or (first and unknown):
                    partial = None
                    cut |= first and last and bool(copy.flags & CONTINUED)
                    continue
                whole = (partial or b"") + piece if first and copy.flags & CONTINUES else piece
                partial = None
                if last and copy.flags & CONTINUED:
                    partial = whole
                elif whole:
                    out.append(whole)
        return out

    def check_packets(self, writer):
        """Rules for the packets of one sequence.  Returns how many could not be understood: lost state."""
        valid, useless = False, 0
        for i, packet in enumerate(self.packets(writer)):
            try:
                got = last_fields(packet)
            except Malformed as e:
                self.violation("writer %d, packet %d: %s" % (writer, i, e))
                continue
            for number in FORBIDDEN & set(got):
                self.violation("writer %d, packet %d has field %d" % (writer, i, number))
            if bool(got.get(87)) != (i == 0):
                self.violation("writer %d, packet %d: first_packet_on_sequence" % (writer, i))
            flags = got.get(13, 0)
            valid = bool(flags & 1) or (valid and not got.get(42))
            useless += bool(flags & 2) and not valid
        return useless

    def samples(self, writer):
        """PerfSample messages of the writer."""
        return [one(p, 66) for p in self.packets(writer) if one(p, 66) is not None]

    def write_trace(self, path, uid=0, pid=1):
        clocks = [(6, 7), (2, 5), (4, 6), (1, 0), (3, 1), (5, 4)]
        snapshot = [(1, message((1, number), (2, time.clock_gettime_ns(clock)))) for number, clock in clocks]
        packets = [message((6, message(*snapshot, (2, 6))), (3, uid), (10, 1))]
        for sequence, writer in enumerate(sorted(self.buffers), 2):
            packets += [p + message((3, uid), (10, sequence), (79, pid)) for p in self.packets(writer)]
        with open(path, "wb") as out:
            for packet in packets:
                out.write(message((1, packet)))


# ---- configs
def perf_config(frequency=1000, pids=(), kernel=False, callstacks=True, extra=b""):
    scope = message((1, message(*[(1, pid) for pid in pids])), (2, int(kernel)))
    return message((15, message((2, frequency))), *([(16, scope)] if callstacks else [])) + extra


def source_config(perf, buffer=1, session=1, name="linux.perf"):
    return message((1, name), (2, buffer), (4, session), *([(111, perf)] if perf is not None else []))
