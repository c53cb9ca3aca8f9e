"""service_stats.py TRACE - the statistics that a tracing service has put into a trace: exits 1 when they show a loss."""
import sys

from fake_traced import every, fields, one

# TraceStats and its BufferStats: numbers of what must be 0.
TRACE = {8: "chunks_discarded", 9: "patches_discarded", 10: "invalid_packets", 14: "flushes_failed"}
BUFFER = {3: "chunks_overwritten", 4: "write_wrap_count", 6: "patches_failed",
          9: "abi_violations", 11: "chunks_committed_out_of_order", 18: "chunks_discarded",
          19: "trace_writer_packet_loss"}

stats, first, lost = None, set(), []
with open(sys.argv[1], "rb") as trace:
    packets = [packet for _, packet in fields(trace.read())]
for packet in packets:
    stats = one(packet, 35, stats)
    # The first packet of each sequence may report it: nothing is known of before.
    if one(packet, 42) and one(packet, 10) in first:
        lost.append("previous_packet_dropped on sequence %d" % one(packet, 10))
    first.add(one(packet, 10))
if stats is None:
    sys.exit("no statistics in %s" % sys.argv[1])
lost += ["%s %d" % (name, one(stats, number)) for number, name in TRACE.items() if one(stats, number)]
for buffer in every(stats, 1):
    lost += ["%s %d" % (name, one(buffer, number)) for number, name in BUFFER.items() if one(buffer, number)]
if lost:
    sys.exit("\n".join(lost))
