"""foreign.py - a perf.data of this machine made into what another machine's perf writes.

    foreign.py IN OUT arch NAME       the machine's name, as uname -m has it there
    foreign.py IN OUT swapped         all numbers of the file's header and attributes the other way round
    foreign.py IN OUT without BIT     a feature section is not there (2: build ids, 6: the machine)
    foreign.py IN OUT registers N     samples have N user registers, numbered from 0
    foreign.py IN OUT inode N         every mapped file had this inode (0: none)

File mode only (tools/perf/Documentation/perf.data-file-format.txt), one event, samples as perf record
--call-graph dwarf writes them."""

import struct
import sys

FEATURES_AT, HEADER, BUILD_ID, ARCH = 72, 104, 2, 6
IP, TID, TIME, ADDR, CALLCHAIN, ID, CPU, PERIOD = 1, 2, 4, 8, 32, 64, 128, 256
STREAM_ID, IDENTIFIER, REGS_USER, STACK_USER = 512, 1 << 16, 1 << 12, 1 << 13
SAMPLE, MMAP2, MISC_BUILD_ID = 9, 10, 1 << 14


class File:
    def __init__(self, data):
        self.data = bytearray(data)
        assert self.data[:8] == b"PERFILE2" and self.u64(8) == HEADER
        self.attr_at = self.u64(24)
        self.records_at, self.records_len = self.u64(40), self.u64(48)
        bits = int.from_bytes(self.data[FEATURES_AT : FEATURES_AT + 32], "little")
        self.features = [n for n in range(256) if bits >> n & 1]
        self.table_at = self.records_at + self.records_len

    def u64(self, at):
        return struct.unpack_from("<Q", self.data, at)[0]

    def put(self, at, value):
        struct.pack_into("<Q", self.data, at, value)

    def section(self, feature):
        at = self.table_at + 16 * self.features.index(feature)
        return self.u64(at), self.u64(at + 8)


def arch(file, name):
    at, size = file.section(ARCH)
    room = size - 4
    file.data[at + 4 : at + size] = name.encode().ljust(room, b"\0")


def swapped(file):
    """Only what stands before the records: no reader goes on after the magic."""
    for at in range(0, FEATURES_AT, 8):
        file.data[at : at + 8] = file.data[at : at + 8][::-1]


def without(file, bit):
    """The table's entries stand in the order of the bits."""
    n = file.features.index(int(bit))
    end = file.table_at + 16 * len(file.features)
    gone = file.table_at + 16 * n
    file.data[gone : end - 16] = file.data[gone + 16 : end]
    byte = FEATURES_AT + int(bit) // 8
    file.data[byte] &= ~(1 << int(bit) % 8)


def before_registers(data, at, sample_type):
    """The offset of a sample's user registers (linux/perf_event.h has the order)."""
    at += 8
    for bit in (IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD):
        at += 8 if sample_type & bit else 0
    if sample_type & CALLCHAIN:
        at += 8 + 8 * struct.unpack_from("<Q", data, at)[0]
    return at


def registers(file, n):
    n = int(n)
    sample_type, had = file.u64(file.attr_at + 24), bin(file.u64(file.attr_at + 80)).count("1")
    assert sample_type & REGS_USER and sample_type & STACK_USER and not sample_type & 0xC10
    file.put(file.attr_at + 80, (1 << n) - 1)
    records, at, end = bytearray(), file.records_at, file.table_at
    while at < end:
        kind, misc, size = struct.unpack_from("<IHH", file.data, at)
        record = bytearray(file.data[at : at + size])
        if kind == SAMPLE:
            regs = before_registers(record, 0, sample_type)
            if struct.unpack_from("<Q", record, regs)[0]:
                record[regs + 8 + 8 * had : regs + 8 + 8 * had] = bytes(8 * (n - had))
        struct.pack_into("<IHH", record, 0, kind, misc, len(record))
        records += record
        at += size
    more = len(records) - file.records_len
    for i in range(len(file.features)):
        file.put(file.table_at + 16 * i, file.u64(file.table_at + 16 * i) + more)
    file.put(48, len(records))
    file.data[file.records_at : end] = records


def inode(file, number):
    at = file.records_at
    while at < file.table_at:
        kind, misc, size = struct.unpack_from("<IHH", file.data, at)
        if kind == MMAP2 and not misc & MISC_BUILD_ID:
            struct.pack_into("<IIQ", file.data, at + 40, 1000, 1000, int(number))
        at += size


def main():
    source, to, how = sys.argv[1:4]
    with open(source, "rb") as f:
        file = File(f.read())
    {"arch": arch, "swapped": swapped, "without": without, "registers": registers, "inode": inode}[how](file, *sys.argv[4:])
    with open(to, "wb") as f:
        f.write(file.data)


main()
