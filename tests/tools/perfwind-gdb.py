"""perfwind-gdb.py - gdb commands for perfwind's main tables:  gdb -x tests/tools/perfwind-gdb.py -p PID

  pw-processes [TABLE]    a struct process_table *: pid, incarnation, state of the mappings, command line
  pw-modules [MODULES]    a struct uw_modules *: path, state of both halves, bytes, oldest first
  pw-account [ACCOUNT]    a struct account *: the equation of samples, and whether it holds
  pw-session [SESSION]    a struct session *: all of the above
  pw-memory [SESSION]     a struct session *: entries and bytes of the tables that grow with what was seen

Without an argument each prints what belongs to the first session that a frame of any thread has.
"""
import gdb
import gdb.types


def slots(table):
    """The (key, value) pairs of a struct table (base/table.h)."""
    for i in range(int(table["n_slots"])):
        slot = table["slots"][i]
        if slot["used"]:
            yield int(slot["key"]), int(slot["value"])


def atomic(value):
    return int(value.cast(gdb.lookup_type("int"))) if value.type.sizeof == 4 else int(value.cast(gdb.lookup_type("long")))


def text(pointer, limit=60):
    return pointer.string(errors="replace", length=-1)[:limit] if pointer else ""


def name_of(kind, number):
    for field in gdb.lookup_type(kind).fields():
        if field.enumval == number:
            return field.name
    return str(number)


def show_processes(table):
    pointer = gdb.lookup_type("struct process").pointer()
    rows = sorted(slots(table["by_pid"]))
    print("%d processes" % len(rows))
    for pid, at in rows:
        p = gdb.Value(at).cast(pointer)
        print("%8d  serial %-6d %-24s %s%s" % (pid, int(p["serial"]), p["maps_state"],
              "exited " if p["exited"] else "", text(p["cmdline"])))


def show_modules(modules):
    entry = modules["oldest"]
    total = 0
    while entry:
        m = entry["module"]
        held = atomic(m["unwind_bytes"]) + atomic(m["symbol_bytes"]) + atomic(m["lines_bytes"])
        total += held
        print("%5d  unwind %-22s symbols %-22s %8d bytes  %s" % (int(m["serial"]),
              name_of("enum uw_module_state", atomic(m["unwind_state"])),
              name_of("enum uw_module_state", atomic(m["symbol_state"])), held, m["path"].address.cast(
                  gdb.lookup_type("char").pointer()).string(errors="replace")))
        entry = entry["newer"]
    print("%d modules, %d bytes" % (int(modules["n"]), total))


def show_account(account):
    skipped = {str(i): int(account["skipped"][i]) for i in range(account["skipped"].type.range()[1] + 1)}
    flight = int(account["queued"]) - int(account["answered"])
    received, emitted = int(account["received"]), int(account["emitted"])
    print("received %d = emitted %d + skipped %d + in flight %d: %s" % (received, emitted, sum(skipped.values()), flight,
          "holds" if received == emitted + sum(skipped.values()) + flight else "DOES NOT HOLD"))
    print("  skipped by enum skip_reason:", {name_of("enum skip_reason", int(k)): v for k, v in skipped.items() if v})
    print("  whole %d, cut %d" % (int(account["whole"]), int(account["cut"])))


def show_session(session):
    print("session %s: %s" % (session.address, session["state"]))
    show_account(session["account"])
    show_processes(session["processes"].dereference())
    show_modules(session["modules"].dereference())


def show_memory(session):
    writer = gdb.lookup_global_symbol("writer_sample").type.fields()[0].type  # one of several structs of this name
    intern, emit, modules = session["writer"].cast(writer)["intern"], session["emit"], session["modules"]
    slot = gdb.lookup_type("struct table_slot").sizeof
    print("frames %d of %d, %d bytes; names %d, %d bytes" % (int(intern["n_frames"]), int(intern["room_frames"]),
          int(intern["room_frames"]) * intern["frames"].dereference().type.sizeof + 4 * int(intern["n_frame_slots"]),
          int(intern["names"]["n_entries"]), int(intern["name_bytes"])))
    print("mappings %d, places %d; callstacks %d bytes" % (int(intern["n_mappings"]), int(intern["places"]["n_entries"]),
          int(intern["stacks"]["n_slots"]) * intern["stacks"]["slots"].dereference().type.sizeof))
    tables = lists = lined = 0
    for i in range(int(emit["n_modules"])):
        m = emit["modules"][i]
        tables += int(m["frames"]["n_slots"]) * slot
        lists += 8 * (int(m["unlined"]["room"]) + int(m["unnamed"]["room"]))
        lined += int(m["unlined"]["n"]) - int(m["unlined_asked"])
    print("modules with frames %d: tables %d bytes, lists %d bytes, %d addresses without lines" % (
          int(emit["n_modules"]), tables, lists, lined))
    print("frames without symbols %d of %d" % (int(emit["n_unsymbolized"]), int(emit["unsymbolized_room"])))
    held, entry = 0, modules["oldest"]
    while entry:
        held += atomic(entry["module"]["unwind_bytes"]) + atomic(entry["module"]["symbol_bytes"])
        entry = entry["newer"]
    print("modules %d: keys and paths %d bytes, halves %d bytes" % (int(modules["n"]), int(modules["bytes"]), held))
    processes = session["processes"]
    print("processes %d living, %d ended" % (int(processes["living"]["n"]), int(processes["exited"]["n"])))


def variables():
    """The arguments and local variables of every frame of every thread."""
    chosen = gdb.selected_thread()
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        frame = gdb.newest_frame()
        while frame:
            try:
                block = frame.block()
            except RuntimeError:
                block = None
            while block and not block.is_global and not block.is_static:
                for symbol in block:
                    if symbol.is_argument or symbol.is_variable:
                        yield symbol.value(frame)
                block = block.superblock
            frame = frame.older()
    chosen.switch()


def find_session():
    """A struct session *, or the one in a struct that a variable points to (struct recording, struct trace_run ...)."""
    for value in variables():
        try:
            target = value.type.target() if value.type.code == gdb.TYPE_CODE_PTR else value.type
            if str(target.unqualified()) == "struct session":
                return value.dereference() if value.type.code == gdb.TYPE_CODE_PTR else value
            if target.strip_typedefs().code == gdb.TYPE_CODE_STRUCT and gdb.types.has_field(target, "session"):
                inner = value["session"]
                if str(inner.type) == "struct session *" and inner:
                    return inner.dereference()
        except (gdb.error, RuntimeError):
            continue
    raise gdb.GdbError("no frame has a session: name one, as in `pw-session s`")


class Command(gdb.Command):
    def __init__(self, name, show, member):
        super().__init__(name, gdb.COMMAND_DATA)
        self.show, self.member = show, member

    def invoke(self, argument, from_tty):
        if argument:
            value = gdb.parse_and_eval(argument)
        else:
            session = find_session()
            value = session[self.member] if self.member else session
        self.show(value.dereference() if value.type.code == gdb.TYPE_CODE_PTR else value)


Command("pw-processes", show_processes, "processes")
Command("pw-modules", show_modules, "modules")
Command("pw-account", show_account, "account")
Command("pw-session", show_session, None)
Command("pw-memory", show_memory, None)
