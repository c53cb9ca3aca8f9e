"""marks_events.py TRACE - the TrackEvents of a trace in order of time, one a line:

  PATH  CATEGORY      a slice: the names of its callers and its own, "a/b/c"
  !PATH               an instant on a thread's track
  =NAME VALUE         a counter

Then "open N" and "alone N": slices without an end, and ends without a slice."""
import os, re, subprocess, sys

text = subprocess.run([os.environ["PERFWIND"], "trace", "--dump", sys.argv[1]], capture_output=True, text=True, check=True).stdout


def field(packet, name):
    found = re.search(r'\b%s: "?([^"\n]*)' % name, packet)
    return found.group(1) if found else ""


events, names = [], {}
for packet in text.split("\n# packet"):
    if "track_descriptor {" in packet:
        names[field(packet, "uuid")] = field(packet, "name")
    if "track_event {" in packet:
        events.append((int(field(packet, "timestamp")), field(packet, "type"), field(packet, "track_uuid"), field(packet, "name"),
                       field(packet, "categories"), field(packet, "counter_value")))
events.sort(key=lambda e: e[0])
stacks, alone = {}, 0
for _, kind, track, name, category, value in events:
    stack = stacks.setdefault(track, [])
    if kind == "TYPE_SLICE_BEGIN":
        stack.append(name)
        print("/".join(stack), category)
    elif kind == "TYPE_SLICE_END":
        alone += not stack
        del stack[-1:]
    elif kind == "TYPE_INSTANT":
        print("!" + "/".join(stack + [name]))
    elif kind == "TYPE_COUNTER":
        print("=" + names[track], value)
print("open", sum(len(s) for s in stacks.values()))
print("alone", alone)
