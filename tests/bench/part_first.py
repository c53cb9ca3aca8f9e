"""part_first.py - starting: how long until the first sample, and what a start costs.

The first sample's time is in the trace (monotonic clock); what a start costs is the CPU time of a recording of a process
that sleeps: one for 0.3 s, less what another second of it costs.
"""
import time
import zlib

import measure

TITLE = "from the start to the first sample; CPU time of a start"
SAMPLE, TIMESTAMP, COMPRESSED = 66, 8, 50  # fields of TracePacket


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data, at, end):
    """(number, value) of a message: an integer, or (start, end) of bytes."""
    while at < end:
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            length, at = varint(data, at)
            value, at = (at, at + length), at + length
        else:
            size = {1: 8, 5: 4}[tag & 7]
            value, at = (at, at + size), at + size
        yield tag >> 3, value


def packets(data):
    for _, (start, end) in fields(data, 0, len(data)):
        packet = dict(fields(data, start, end))
        if COMPRESSED in packet:
            yield from packets(zlib.decompress(data[slice(*packet[COMPRESSED])]))
        else:
            yield packet


def first_sample(path):
    with open(path, "rb") as f:
        data = f.read()
    for packet in packets(data):
        if SAMPLE in packet and TIMESTAMP in packet:
            return packet[TIMESTAMP] / 1e9
    raise measure.BenchError("no sample in the trace")


def measure_part(setup):
    rounds = 3 if setup.quick else 9
    delay, stop = {"-p": [], "-a": []}, []
    with measure.python_work(setup) as busy:
        for _ in range(rounds):
            for name, target in (("-p", ["-p", str(busy.pid)]), ("-a", ["-a"])):
                at = time.monotonic()
                run = measure.perfwind(setup, target, 0.6, 999)
                delay[name].append((first_sample(setup.file("bench.pftrace")) - at) * 1e3)
                stop.append(run.stop_s)
    rows, result = [["", "-p", "-a"]], {}
    delays = {k: measure.spread(v) for k, v in delay.items()}
    rows.append(["first sample after, ms", *(measure.show(delays[k]) for k in ("-p", "-a"))])
    cpu, idle = {}, {}
    with measure.Busy(["sleep", "1000"], settle=0.2) as asleep:
        for name, target in (("-p", ["-p", str(asleep.pid)]), ("-a", ["-a"])):
            short = [measure.perfwind(setup, target, 0.3, 999).cpu for _ in range(rounds)]
            long = [measure.perfwind(setup, target, 2.3, 999).cpu for _ in range(rounds // 2 + 1)]
            cpu[name] = measure.spread([1e3 * c for c in short])
            idle[name] = (measure.spread(long)["median"] - measure.spread(short)["median"]) / 2 * 1e3
    rows.append(["CPU of a recording of 0.3 s, ms", *(measure.show(cpu[k]) for k in ("-p", "-a"))])
    rows.append(["CPU a second when nothing runs, ms", f"{idle['-p']:.2f}", f"{idle['-a']:.2f}"])
    measure.table(rows)
    result.update({"first_sample_ms": delays, "short_cpu_ms": cpu, "idle_ms_per_s": idle, "stop_s": measure.spread(stop)})
    return result
