#!/usr/bin/env python3
"""A perf.data of more programs than fit into memory at once, and the folded stacks that it is.

usage: many_modules.py FOLDER MODULES SYMBOLS

FOLDER/MODULES files of code are made of one by other names and build ids; each process maps a few of them, and its stacks
go through them in any order, so that what is dropped is wanted again.  FOLDER/SYMBOLS: symbols that nothing is in, to make
each file large.  Written are FOLDER/many.data (pipe mode) and FOLDER/many.folded.
"""
import collections
import os
import random
import struct
import subprocess
import sys

MAPPED, DEPTH, EACH = 8, 6, 6
BUILD_ID = bytes([0xA5] * 20)
NAME = b"fn_00000"
SAMPLE_TYPE = 1 << 16 | 1 << 0 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 13
REGS = 0xFF0FFF
REG_SP, REG_IP = 7, 8
ID = 0x11
# Its caller is at [rsp], wherever it is; behind its call is where its callees return to.
CODE = """
	.text
	.skip 64
	.globl fn_00000
	.type fn_00000, @function
fn_00000:
	.cfi_startproc
	nop
	.byte 0xe8, 0, 0, 0, 0
	nop
	ret
	.cfi_endproc
	.size fn_00000, .-fn_00000
	.section .note.GNU-stack, "", @progbits
"""


def compile_first(folder, symbols):
    source, library = os.path.join(folder, "first.s"), os.path.join(folder, "first.so")
    with open(source, "w") as out:
        out.write(CODE + "\t.text\n")
        for i in range(symbols):
            out.write(f"unused_{i:06}: .byte 0\n\t.type unused_{i:06}, @function\n\t.size unused_{i:06}, 1\n")
    subprocess.run(["cc", "-shared", "-nostdlib", "-Wl,-z,noseparate-code", "-Wl,--build-id=0x" + BUILD_ID.hex(), "-o",
                    library, source], check=True)
    symbol = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    at = next(int(line.split()[0], 16) for line in symbol.splitlines() if line.endswith(" " + NAME.decode()))
    with open(library, "rb") as file:
        return file.read(), at


def make_modules(folder, n, first):
    files = []
    for i in range(n):
        path = os.path.join(folder, f"m{i}.so")
        with open(path, "wb") as out:
            out.write(first.replace(NAME, f"fn_{i:05}".encode()).replace(BUILD_ID, struct.pack("<I", i + 1) * 5))
        files.append((path, os.stat(path)))
    return files


def record(kind, misc, body):
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def padded(text):
    text = text.encode() + b"\0"
    return text + b"\0" * (-len(text) % 8)


def head():
    attr = bytearray(128)
    struct.pack_into("<IIQQQ", attr, 0, 1, 128, 0, 1000000, SAMPLE_TYPE)
    struct.pack_into("<Q", attr, 40, 1 << 18)  # sample_id_all
    struct.pack_into("<QI", attr, 80, REGS, DEPTH * 8)
    machine = struct.pack("<Q", 6) + struct.pack("<I", 12) + b"x86_64\0\0" + b"\0" * 4
    return (b"PERFILE2" + struct.pack("<Q", 16) + record(64, 0, bytes(attr) + struct.pack("<Q", ID)) +
            record(80, 0, machine))


def trailer(pid, time):
    return struct.pack("<IIQQQ", pid, pid, time, 0, ID)


def mapping(pid, time, start, size, path, st):
    body = struct.pack("<IIQQQ", pid, pid, start, size, 0)
    body += struct.pack("<IIQQII", os.major(st.st_dev), os.minor(st.st_dev), st.st_ino, 0, 5, 2)
    return record(10, 2, body + padded(path) + trailer(pid, time))


def sample(pid, time, pc, stack):
    regs = [0] * bin(REGS).count("1")
    regs[REG_SP], regs[REG_IP] = 0x7FFF00000000, pc
    body = struct.pack("<QQIIQQQQ", ID, pc, pid, pid, time, 0, 1, 2) + struct.pack(f"<{len(regs)}Q", *regs)
    body += struct.pack("<Q", DEPTH * 8) + struct.pack(f"<{DEPTH}Q", *stack) + struct.pack("<Q", DEPTH * 8)
    return record(9, 2, body)


def process(pid, time, files, at, chance, expected):
    """All records of one, in order; its stacks are added to what is expected."""
    out = [record(3, 1 << 13, struct.pack("<II", pid, pid) + padded(f"p{pid}") + trailer(pid, time))]
    mapped = chance.sample(range(len(files)), MAPPED)
    for i, which in enumerate(mapped):
        path, st = files[which]
        out.append(mapping(pid, time + 1, (i + 1) << 32, st.st_size + 4095 & ~4095, path, st))
    for i in range(EACH):
        frames = [chance.randrange(MAPPED) for _ in range(DEPTH)]
        function = [((frame + 1) << 32) + at for frame in frames]
        stack = [address + 6 for address in function[1:]] + [0]
        out.append(sample(pid, time + 2 + i, function[0] + 1, stack))
        names = [f"fn_{mapped[frame]:05}" for frame in reversed(frames)]
        expected[";".join([f"p{pid}"] + names)] += 1
    words = struct.pack("<IIIIQ", pid, 1, pid, 1, time + 99)
    out.append(record(4, 0, words + trailer(pid, time + 99)))
    return b"".join(out)


def main():
    folder, n, symbols = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(7)
    first, at = compile_first(folder, symbols)
    files = make_modules(folder, n, first)
    expected = collections.Counter()
    with open(os.path.join(folder, "many.data"), "wb") as out:
        out.write(head())
        for i in range(n):
            out.write(process(1000 + i, 1000000 + i * 1000, files, at, chance, expected))
            if i % 16 == 15:
                out.write(record(68, 0, b""))
    with open(os.path.join(folder, "many.folded"), "w") as out:
        out.writelines(sorted(f"{stack} {count}\n" for stack, count in expected.items()))


main()
