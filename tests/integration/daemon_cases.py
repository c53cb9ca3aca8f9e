"""daemon_cases.py PERFWIND PROGRAMS TMP [CASE...] - `perfwind daemon` against the fake service, case by case.

A case is a function; its first line states what is promised.  Prints `ok NAME` or `not ok NAME: why`."""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

from fake_traced import Service, every, fields, message, one, perf_config, source_config

PERFWIND, PROGRAMS, TMP = sys.argv[1:4]
PYTHON = sys.executable
# Where systemd runs it as in the unit: systemd_unit.py.
UNIT_DAEMON = os.environ.get("UNIT_DAEMON")
CASES = []
names = iter(range(1 << 20))


def sanitized():
    """A sanitizer keeps what is freed, and looks for leaks itself."""
    with open(PERFWIND, "rb") as program:
        return b"__asan_init" in program.read()


# The access of the service's clients, for cases that are not about that: everything.
SHOWN = "traced-users = *\ntraced-kernel = yes\n"


def case(function):
    CASES.append(function)
    return function


class Skipped(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def wait_until(condition, what, timeout=30):
    end = time.monotonic() + timeout
    while not condition():
        expect(time.monotonic() < end, "waited in vain for " + what)
        time.sleep(0.02)


def unit_pid(stand_in):
    done = subprocess.run(["systemctl", "show", "-P", "MainPID", "perfwind-test-%d.service" % stand_in],
                          capture_output=True, text=True, check=True)
    return int(done.stdout)


def as_unit_user(rights):
    """As the unit does: a user of its own and ambient capabilities."""
    caps = ",".join(["-all"] + ["+" + right for right in rights.split(",")])
    return ["setpriv", "--reuid", "61001", "--regid", "61001", "--clear-groups", "--inh-caps", caps, "--ambient-caps",
            caps, "--bounding-set", caps]


class Daemon:
    def __init__(self, service_name, *arguments, env=None, pass_fds=(), rights=None):
        self.log_path = os.path.join(TMP, "daemon-%d.err" % next(names))
        settings = os.path.join(TMP, "none.conf")
        with open(settings, "w") as file:
            file.write("direct = yes\n" + SHOWN)
        if "--config" not in arguments:
            arguments += ("--config", settings)
        environment = dict(os.environ, PERFETTO_PRODUCER_SOCK_NAME=service_name, **(env or {}))
        command = [UNIT_DAEMON] if UNIT_DAEMON else [PERFWIND, "daemon"]
        if rights and UNIT_DAEMON:
            environment["UNIT_RIGHTS"] = rights
        elif rights:
            command = as_unit_user(rights) + command
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([*command, *arguments], stderr=log, env=environment, pass_fds=pass_fds)
        self.pid = self.process.pid
        if UNIT_DAEMON:
            wait_until(lambda: self.process.poll() is not None or unit_pid(self.process.pid), "the unit's process")
            self.pid = unit_pid(self.process.pid)

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def fds(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def threads(self):
        return len(os.listdir("/proc/%d/task" % self.pid))

    def rss_kb(self):
        with open("/proc/%d/status" % self.pid) as status:
            return int(status.read().split("VmRSS:")[1].split()[0])

    def own_kb(self):
        """Without the pages of its program and libraries, which others share."""
        with open("/proc/%d/status" % self.pid) as status:
            text = status.read()
        return sum(int(text.split(name)[1].split()[0]) for name in ("RssAnon:", "RssShmem:"))

    def cpu_s(self):
        with open("/proc/%d/stat" % self.pid) as stat:
            words = stat.read().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        """TERM and its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


class Setting:
    """A service, a daemon and a target; ended whatever happens."""

    def __init__(self, *arguments, service=True, env=None, pass_fds=(), rights=None):
        self.name = "@perfwind-test-%d-%d" % (os.getpid(), next(names))
        if UNIT_DAEMON:  # it has a network of its own, and so abstract names of its own
            self.name = os.path.join(TMP, self.name[1:])
        self.service = Service(self.name) if service else None
        self.daemon = Daemon(self.name, *arguments, env=env, pass_fds=pass_fds, rights=rights)
        self.targets = []

    def __enter__(self):
        return self

    def target(self, program="recursion", seconds=120):
        return self.run(os.path.join(PROGRAMS, program), str(seconds))

    def run(self, *command, **options):
        process = subprocess.Popen(command, **options)
        self.targets.append(process)
        return process.pid

    def begin(self):
        self.service.accept().begin()
        return self.service

    def __exit__(self, kind, value, trace):
        self.daemon.process.kill() if kind else None
        status = None
        try:
            if self.service and self.service.connection and not kind:
                # The service answers to the end.
                self.daemon.process.send_signal(signal.SIGTERM) if self.daemon.process.poll() is None else None
                while self.service.poll(10):
                    pass
            status = self.daemon.process.wait(30) if self.service and self.service.closed else self.daemon.end()
        except subprocess.TimeoutExpired:
            self.daemon.process.kill()
        for target in self.targets:
            target.kill()
            target.wait()
        if self.service:
            self.service.close()
        log = self.daemon.log()
        expect(kind or "the filter refuses" not in log, log[-2000:])
        if kind:
            print("    log:", *log.splitlines()[-15:], sep="\n    ")
            return
        expect("Sanitizer" not in log and "Assertion" not in log and "runtime error" not in log, log[-2000:])
        expect(status == 0, "status %s: %s" % (status, log[-1000:]))
        if self.service:
            expect(not self.service.violations, "violations: %s" % self.service.violations[:5])


def has_stack(samples):
    """Those with a callstack."""
    return [s for s in samples if one(s, 4) is not None]


def writer_of(service, buffer):
    return next(w for w, b in sorted(service.buffers.items(), reverse=True) if b == buffer)


def run_until_samples(service, writer, n, timeout=60):
    """Flushes until the writer has n samples with stacks; the number of flushes."""
    request = (service.flushed[-1] if service.flushed else 0) + 1
    end = time.monotonic() + timeout
    while True:
        service.flush(request, *range(1, 30))
        service.wait(lambda: request in service.flushed, "the answer to a flush")
        service.scrape()
        if len(has_stack(service.samples(writer))) >= n:
            return request
        expect(time.monotonic() < end, "only %d samples" % len(has_stack(service.samples(writer))))
        request += 1
        service.idle(0.1)


def sampling(service):
    """Has any sample of buffer 1 arrived by now?"""
    service.poll(0.1)
    service.scrape()
    return any(has_stack(service.samples(w)) for w, b in service.writers.items() if b == 1)


def full_session(s, service, config, instance=1, buffer=1, n=100):
    service.setup(instance, config)
    service.start(instance, config)
    service.wait(lambda: buffer in service.buffers.values(), "a writer")
    writer = writer_of(service, buffer)
    run_until_samples(service, writer, n)
    service.stop(instance)
    service.wait(lambda: instance in service.stopped, "the answer to stop")
    service.wait(lambda: writer in service.dead_writers, "the end of the writer")
    return writer


# ---- what it is for

def running(s):
    """Data source 1 samples a target of ours; the service, and the writer of its packets."""
    service = s.begin()
    pid = s.target()
    service.setup_tracing()
    config = source_config(perf_config(1000, [pid]))
    service.setup(1, config)
    service.start(1, config)
    service.wait(lambda: service.writers, "a writer")
    return service, writer_of(service, 1)


@case
def session():
    """Registration, setup, start, samples, flush, clear, stop: a trace that our own reader takes whole."""
    with Setting() as s:
        service = s.begin()
        expect(service.initialized["name"] == "perfetto.traced_perf", service.initialized)
        expect(service.initialized["scraping"] == 1, service.initialized)
        expect([d["name"] for d in service.descriptors] == ["linux.perf", "perfetto.metatrace"], service.descriptors)
        expect(service.descriptors[0] == {"name": "linux.perf", "stop": 1, "start": 0, "clear": 1, "no_flush": 0},
               service.descriptors[0])
        pid = s.target()
        service.setup_tracing()
        config = source_config(perf_config(1000, [pid]))
        service.setup(1, config)
        service.start(1, config)
        service.wait(lambda: service.writers, "a writer")
        writer = writer_of(service, 1)
        run_until_samples(service, writer, 200)
        service.clear(1)
        before = len(has_stack(service.samples(writer)))
        run_until_samples(service, writer, before + 200)
        service.stop(1)
        service.wait(lambda: service.stopped, "the answer to stop")
        expect(service.events[-1] == ("stopped", 1), service.events[-3:])
        expect(service.check_packets(writer) == 0, "samples without their state")
        cleared = [p for p in service.packets(writer) if (one(p, 13, 0) & 1)]
        expect(len(cleared) == 2, "%d packets begin a state" % len(cleared))
        expect(all(one(smp, 2) == pid for smp in has_stack(service.samples(writer))), "a stack of another process")
        trace = os.path.join(TMP, "session.pftrace")
        service.write_trace(trace)
        folded = subprocess.run([PERFWIND, "export", "--to", "folded", "-o", "-", trace], capture_output=True,
                                text=True, check=True).stdout
        lines = [line for line in folded.splitlines() if "recurse_even;recurse_odd" in line]
        total = sum(int(line.rsplit(" ", 1)[1]) for line in lines)
        expect(total >= 0.9 * len(has_stack(service.samples(writer))), "%d named stacks:\n%s" % (total, folded[:500]))
        expect(all(line.startswith("recursion;") for line in lines), "no process name: " + lines[0][:80])


@case
def several():
    """Sources of several sessions side by side: each in its own buffer, each ends alone."""
    with Setting() as s:
        service = s.begin()
        pids = [s.target(), s.target("qsort")]
        service.setup_tracing(n_pages=256)
        for i in range(1, 7):
            config = source_config(perf_config(200 + i, [pids[i % 2]]), buffer=i, session=1 + i // 2)
            service.setup(i, config)
            service.start(i, config)
        service.wait(lambda: len(service.writers) == 6, "six writers")
        expect(sorted(service.writers.values()) == [1, 2, 3, 4, 5, 6], service.writers)
        for i in range(1, 7):
            run_until_samples(service, writer_of(service, i), 20)
        own = s.daemon.own_kb()
        for i in (3, 1, 6, 2, 5, 4):
            service.stop(i)
            service.wait(lambda: i in service.stopped, "the answer to stop %d" % i)
            samples = has_stack(service.samples(writer_of(service, i)))
            expect(samples and all(one(smp, 2) == pids[i % 2] for smp in samples), "source %d: wrong processes" % i)
            expect(service.check_packets(writer_of(service, i)) == 0, "samples without their state")
        expect(sorted(service.stopped) == [1, 2, 3, 4, 5, 6], service.stopped)
        # Memory is given back, not only kept for the next.
        expect(sanitized() or s.daemon.own_kb() <= own / 4, "%d KiB, were %d" % (s.daemon.own_kb(), own))


@case
def every_state():
    """Commands in states that do not expect them: each stop is answered once, nothing else happens."""
    with Setting() as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing()
        config = source_config(perf_config(100, [pid]))
        service.stop(77)  # never set up
        service.wait(lambda: service.stopped == [77], "the answer")
        service.setup(1, config)
        service.stop(1)  # before its start
        service.wait(lambda: service.stopped == [77, 1], "the answer")
        service.start(1, config)  # late: as of a service that knows no setup
        service.wait(lambda: len(service.writers) == 1, "a writer")
        service.start(1, config)  # twice
        service.setup(1, config)
        service.flush(5, 1, 99, 1)
        service.flush(6, 98)
        service.flush(7)
        service.clear(1, 99)
        service.stop(1, 1)  # twice, while it drains
        service.wait(lambda: service.stopped == [77, 1, 1], "the answer")
        service.wait(lambda: service.flushed == [5, 6, 7], "the flushes")
        service.stop(1)  # and after
        service.wait(lambda: service.stopped == [77, 1, 1, 1], "the answer")
        service.start(2, config)  # no setup
        service.wait(lambda: len(service.writers) == 1, "a writer")
        service.stop(2)
        service.wait(lambda: service.stopped[-1] == 2, "the answer")
        service.idle(0.3)
        expect(service.stopped == [77, 1, 1, 1, 2], service.stopped)


@case
def refused_config():
    """Of a refused config the field is reported, once; its stop is answered; the others go on."""
    with Setting() as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing()
        bad = {
            1: source_config(perf_config(100, [pid], extra=message((18, "com.android.vending")))),
            2: source_config(perf_config(100, [pid], extra=message((3, 7)))),
            3: b"\x0a\x0alinux.perf\x10\x01\xfa\x06\x7f",
            4: source_config(perf_config(100, [pid]), buffer=0),
        }
        good = source_config(perf_config(100, [pid]))
        service.setup(9, good)
        service.start(9, good)
        for i, config in bad.items():
            service.setup(i, config)
            service.start(i, config)
            service.flush(i, i)
        service.wait(lambda: service.flushed == [1, 2, 3, 4], "the flushes")
        expect(service.stopped == [], service.stopped)
        for i in bad:
            service.stop(i)
        service.wait(lambda: service.stopped == [1, 2, 3, 4], "the answers")
        log = s.daemon.log()
        for word in ("target_installed_by", "ring_buffer_pages", "target_buffer"):
            expect(log.count(word) == 1, "%s: %d times in %s" % (word, log.count(word), log))
        service.flush(5, 9)
        service.wait(lambda: 5 in service.flushed, "the flush of the good one")
        service.stop(9)
        service.wait(lambda: service.stopped[-1] == 9, "the answer")


@case
def flushes_in_order():
    """A thousand flushes of one and of several instances: each answered once, in order."""
    with Setting() as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing()
        for i in (1, 2, 3):
            config = source_config(perf_config(300, [pid]), buffer=i)
            service.setup(i, config)
            service.start(i, config)
        for request in range(1, 1001):
            service.flush(request, *((1, 2, 3), (2,), (40,), ())[request % 4])
            if request % 50 == 0:
                service.poll(0)
        service.wait(lambda: len(service.flushed) == 1000, "all answers", timeout=60)
        expect(service.flushed == list(range(1, 1001)), "not each once")
        # Stops overtake no flush of the same instance.
        service.flush(1001, 1)
        service.stop(1)
        service.wait(lambda: 1 in service.stopped, "the stop")
        expect(service.events.index(("flushed", 1001)) < service.events.index(("stopped", 1)), service.events[-4:])


@case
def clear_at_once():
    """Clear before any sample, and again and again: what follows each is whole by itself."""
    with Setting() as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing()
        config = source_config(perf_config(500, [pid]))
        service.setup(1, config)
        service.clear(1)
        service.start(1, config)
        service.clear(1)
        service.wait(lambda: service.writers, "a writer")
        writer = writer_of(service, 1)
        for _ in range(5):
            service.scrape()
            run_until_samples(service, writer, len(has_stack(service.samples(writer))) + 20)
            service.clear(1)
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")
        packets = service.packets(writer)
        starts = [i for i, p in enumerate(packets) if one(p, 13, 0) & 1]
        expect(len(starts) == 7, "%d packets begin a state" % len(starts))
        # Read from the last one on, all ids are known: frames, stacks, strings.
        known = {5: set(), 6: set(), 7: set()}
        stacks = 0
        for p in packets[starts[-2]:]:
            if one(p, 13, 0) & 1:
                known = {number: set() for number in known}
            for number in known:
                known[number] |= {one(entry, 1) for entry in every(one(p, 12, b""), number)}
            sample = one(p, 66)
            if sample is not None and one(sample, 4):
                expect(one(sample, 4) in known[7], "callstack %d is not known" % one(sample, 4))
                stacks += 1
        expect(stacks >= 20, "only %d stacks" % stacks)


@case
def guardrail():
    """max_daemon_memory_kb: the source ends with the reason in the trace, and its stop is answered once."""
    with Setting() as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing()
        config = source_config(perf_config(100, [pid], extra=message((13, 1))))
        service.setup(1, config)
        service.start(1, config)
        service.wait(lambda: service.dead_writers, "its end")
        writer = service.dead_writers[0]
        reasons = [one(smp, 19) for smp in service.samples(writer) if one(smp, 19) is not None]
        expect(reasons == [message((1, 1))], "reasons: %r" % reasons)
        service.flush(1, 1)
        service.wait(lambda: service.flushed == [1], "the flush")
        expect(service.stopped == [], "stopped before it was asked for")
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")
        service.idle(0.3)
        expect(service.stopped == [1], service.stopped)


@case
def metatrace():
    """perfetto.metatrace: a valid packet or two, flushes answered, no answer to a stop (none is promised)."""
    with Setting() as s:
        service = s.begin()
        service.setup_tracing()
        config = source_config(None, buffer=3, name="perfetto.metatrace")
        service.setup(1, config)
        service.start(1, config)
        service.flush(1, 1)
        service.wait(lambda: service.flushed == [1], "the flush")
        writer = writer_of(service, 3)
        service.stop(1)
        service.wait(lambda: writer in service.dead_writers, "its end")
        packets = service.packets(writer)
        expect(len(packets) == 3, "%d packets" % len(packets))
        for p in packets:
            expect(one(p, 8) and dict(fields(one(p, 49))).keys() == {2, 4, 5}, repr(p))
        service.idle(0.2)
        expect(service.stopped == [], service.stopped)


@case
def pages_and_sizes():
    """Every page size that a service allows, from one page of memory up."""
    with Setting() as s:
        pid = s.target()
        for page_kb, n_pages in ((4, 64), (8, 32), (16, 4), (32, 8), (4, 1), (32, 1), (4, 8192)):
            service = s.begin() if not s.service.connection else s.service.accept().begin()
            service.setup_tracing(page_kb, n_pages)
            writer = full_session(s, service, source_config(perf_config(500, [pid])), n=40)
            expect(service.check_packets(writer) == 0 or n_pages < 16, "state was lost")
            expect(sum(service.memory.counts()[1:]) == 0, "chunks are left: %s" % service.memory.counts())
            service.close_connection()


@case
def scraping():
    """What is in the memory can be read before any of it is committed, and stays as it was."""
    with Setting() as s:
        service, writer = running(s)
        seen = 0
        for _ in range(100):
            service.idle(0.03)
            service.scrape()
            seen = max(seen, len(service.packets(writer)))
        expect(seen > 3, "only %d packets could be scraped" % seen)
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")
        expect(service.check_packets(writer) == 0, "samples without their state")


@contextlib.contextmanager
def ahead_of_all():
    """A service that waits for its CPU loses packets, and no daemon could help it: here no neighbour takes it, where that is allowed."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    except PermissionError:
        pass
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, nice)


@case
def fast():
    """4,000 Hz through the memory that a service gives by default: no packet is lost."""
    with Setting() as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing()
        with ahead_of_all():
            writer = full_session(s, service, source_config(perf_config(4000, [pid])), n=8000)
        expect(not [p for p in service.packets(writer) if one(p, 42)], "packets were lost")
        expect(service.check_packets(writer) == 0, "samples without their state")
        expect({one(x, 18, 4) for x in service.samples(writer)} == {4}, "samples were skipped that are in scope")


@case
def full_memory():
    """A service that frees no chunks: nothing blocks, answers come, the loss is flagged, state is written again."""
    path = os.path.join(TMP, "waiting.conf")
    with open(path, "w") as out:
        out.write("waiting-size = 64K\n" + SHOWN)
    with Setting("--config", path) as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing(4, 8)
        config = source_config(perf_config(4000, [pid]))
        service.hold_chunks = True
        service.setup(1, config)
        service.start(1, config)
        service.wait(lambda: len(service.held) >= 7, "a full memory")
        writer = writer_of(service, 1)
        # All state again, over and over: more than any waiting room holds.
        for i in range(1, 11):
            for _ in range(50):
                service.clear(1)
            service.flush(i, 1)
        service.wait(lambda: len(service.flushed) == 10, "the flushes")
        service.release_chunks()
        run_until_samples(service, writer, 500)
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")
        service.wait(lambda: writer in service.dead_writers, "the end of the writer")
        flagged = [p for p in service.packets(writer) if one(p, 42)]
        expect(flagged, "nothing was lost: the case shows nothing")
        expect(all(one(p, 42) == 257 for p in flagged), "the reason of the loss")
        expect(all(one(p, 13, 0) & 1 for p in flagged), "a loss is not followed by a new state")
        expect(service.check_packets(writer) == 0, "samples without their state")
        expect("packets were lost" in s.daemon.log(), s.daemon.log())


# ---- a service that goes, or is not there

@case
def not_there_yet():
    """Started before its service: waits, reports it once, and serves when it comes."""
    with Setting(service=False) as s:
        wait_until(lambda: "no tracing service" in s.daemon.log(), "the line")
        time.sleep(0.7)
        s.service = Service(s.name)
        service = s.begin()
        expect(s.daemon.log().count("; waiting for it") == 1, s.daemon.log())
        service.setup_tracing()
        full_session(s, service, source_config(perf_config(300, [s.target()])), n=10)


@case
def no_folder():
    """Root's daemon does not look in /tmp, where a service without /run/perfetto listens: it states what to do."""
    if UNIT_DAEMON or os.geteuid() or os.path.exists("/run/perfetto"):
        return
    daemon = Daemon("")
    wait_until(lambda: "no tracing service" in daemon.log(), "the line")
    expect("mkdir -m 755 /run/perfetto/" in daemon.log(), daemon.log())
    expect(daemon.end() == 0, "status")


@case
def disconnects():
    """Closed at any point: it comes again with clean state, and nothing is left over."""
    with Setting() as s:
        pid = s.target()
        config = source_config(perf_config(500, [pid]))

        def after_memory(service):
            service.begin().setup_tracing()

        def after_setup(service):
            after_memory(service)
            service.setup(1, config)

        def running(service):
            after_setup(service)
            service.start(1, config)
            service.wait(lambda: service.writers, "a writer")
            run_until_samples(service, writer_of(service, 1), 10)

        def flushing(service):
            running(service)
            service.flush(1000, 1)

        def stopping(service):
            running(service)
            service.stop(1)

        service = s.service
        service.accept()
        running(service)
        service.stop(1)
        service.wait(lambda: service.stopped, "the answer")
        service.idle(0.3)
        fds, threads = s.daemon.fds(), s.daemon.threads()
        for point in (lambda service: None, lambda service: service.poll(1), lambda service: service.begin(),
                      after_memory, after_setup, running, flushing, stopping):
            service.accept()
            point(service)
        service.accept().begin().setup_tracing()
        wait_until(lambda: s.daemon.threads() == threads, "its threads to end")
        writer = full_session(s, service, config)
        expect(writer == 1 and service.flushed[0] == 1, "ids go on from the connection before")
        service.idle(0.3)
        expect(s.daemon.fds() <= fds, "%d descriptors, were %d" % (s.daemon.fds(), fds))


# ---- a service that misbehaves

@case
def garbage():
    """Frames that mean nothing are skipped; a frame too large ends the connection; the next one is good."""
    with Setting() as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing()
        config = source_config(perf_config(300, [pid]))
        service.setup(1, config)
        service.start(1, config)
        service.wait(lambda: service.writers, "a writer")
        noise = bytes((i * 7919 + i // 3) & 0xFF for i in range(3000))
        for n in (0, 1, 5, 100, 3000):
            service.send_raw(len(noise[:n]).to_bytes(4, "little") + noise[:n])
        service.command(99, b"unknown")
        service.command(4, b"")
        service.command(2, b"\xff")
        service.reply(123456, b"to nobody")
        service.reply(service.command_stream, b"\x12\x7f", more=True)
        run_until_samples(service, writer_of(service, 1), 10)
        service.send_raw((131073).to_bytes(4, "little") + noise)
        service.wait_closed()
        wait_until(lambda: "frame that is too large" in s.daemon.log(), "the reason")
        service = s.begin()
        service.setup_tracing()
        full_session(s, service, config, n=10)


@case
def bad_memory():
    """Memory that is none, of a wrong size, that could be cut: a reason in the log, and the next connection is good."""
    with Setting() as s:
        config = source_config(perf_config(300, [s.target()]))
        service = s.service

        def raw(fd, kb):
            service.command(3, message((1, kb)), [fd] if fd >= 0 else [])

        def memory(**kind):
            service.setup_tracing(**kind)

        read_end, write_end = os.pipe()
        null = os.open("/dev/null", os.O_RDWR)
        folder = os.open("/", os.O_RDONLY)
        bad = [lambda: raw(-1, 4), lambda: raw(read_end, 4), lambda: raw(null, 4), lambda: raw(folder, 4),
               lambda: memory(page_kb=0, n_pages=1, size=4096), lambda: memory(page_kb=3, n_pages=4),
               lambda: memory(page_kb=4, n_pages=1, size=0), lambda: memory(page_kb=4, n_pages=1, size=100),
               lambda: memory(page_kb=4, n_pages=2, size=4096 + 512), lambda: memory(page_kb=4096, n_pages=1),
               lambda: memory(seal=False)]
        fds = None
        for i, send in enumerate(bad):
            service.accept().begin()
            before = s.daemon.log().count("was closed: ")
            fds = fds or s.daemon.fds()
            send()
            service.setup(1, config)
            service.start(1, config)
            try:
                service.wait_closed()
            except TimeoutError:
                raise AssertionError("memory %d is taken" % i) from None
            wait_until(lambda: s.daemon.log().count("was closed: ") == before + 1, "the reason for %d" % i)
        for fd in (read_end, write_end, null, folder):
            os.close(fd)
        service.accept().begin().setup_tracing()
        full_session(s, service, config, n=10)
        expect(s.daemon.fds() <= fds + 1, "%d descriptors, were %d" % (s.daemon.fds(), fds))


@case
def no_memory():
    """A start without shared memory is refused with a reason, and its stop is answered."""
    with Setting() as s:
        service = s.begin()
        config = source_config(perf_config(300, [s.target()]))
        service.setup(1, config)
        service.start(1, config)
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")
        expect("no memory" in s.daemon.log(), s.daemon.log())


@case
def stops_reading():
    """A service that reads no more: the daemon goes on without blocking, and serves the next connection."""
    with Setting() as s:
        service = s.begin()
        config = source_config(perf_config(2000, [s.target()]))
        service.setup_tracing(4, 16)
        service.setup(1, config)
        service.start(1, config)
        time.sleep(1)
        cpu = s.daemon.cpu_s()
        time.sleep(1.5)
        expect(s.daemon.cpu_s() - cpu < 1.0, "it spins")
        service.connection.setblocking(False)
        flood = message((5, message((1, 1), (2, 1))))
        try:
            for i in range(20000):
                service.connection.send(b"")  # nothing
                service.connection.send(wire_command(service, flood))
        except BlockingIOError:
            pass  # full in our direction: it does not read either while it has no room, which it may
        except (BrokenPipeError, ConnectionResetError):
            pass
        service.close_connection()
        service = s.begin()
        service.setup_tracing()
        full_session(s, service, config, n=10)


def wire_command(service, body):
    reply = message((1, 1), (2, 1), (3, body))
    frame = message((2, service.command_stream), (6, reply))
    return len(frame).to_bytes(4, "little") + frame


# ---- processes that may be the service

def refused_service(s, word):
    """The daemon has connected, and closes without a byte; what it logged of it."""
    service = s.service.accept()
    service.wait_closed()
    expect(service.last_request == 0 and not service.buffer, "it was sent something")
    wait_until(lambda: word in s.daemon.log(), "the line")
    return [line for line in s.daemon.log().splitlines() if word in line]


@case
def other_users_service():
    """A service of another user gets no byte, until the settings name that user; a command of root's or our own does."""
    path = os.path.join(TMP, "trust.conf")

    def write(text):
        with open(path, "w") as out:
            out.write(text + SHOWN)

    write("")
    with Setting("--config", path, service=False) as s:
        s.service = Service(s.name, uid=ALICE)
        line, = refused_service(s, "is refused: user %d runs it" % ALICE)
        expect("traced-service-users = %d" % ALICE in line, line)
        refused_service(s, line)
        # systemd_unit.py has it log each try (-v).
        expect(UNIT_DAEMON or s.daemon.log().count("is refused") == 1, "each try is logged: " + s.daemon.log())
        write("traced-service-users = %d\n" % ALICE)
        s.daemon.process.send_signal(signal.SIGHUP)
        # One that was refused may be in the queue yet.
        while s.service.accept() and not s.service.poll(5):
            pass
        s.service.begin()
        expect([d["name"] for d in s.service.descriptors] == ["linux.perf", "perfetto.metatrace"], "not registered")
    # What the name is now does not prove the identity of the peer: the listener is judged.
    with Setting(service=False, rights=RIGHTS) as s:
        s.service = Service(s.name, uid=BOB)
        refused_service(s, "user %d runs it" % BOB)
        s.service.close()
        if s.name[0] != "@":
            os.remove(s.name)
        s.service = Service(s.name)
        s.begin()


@case
def service_names():
    """Without a name from outside, only a daemon without privileges looks for its service in /tmp."""
    usual, by_hand = "/run/perfetto/traced-producer.sock", "/tmp/perfetto-producer"
    for command, where in (
            ([], usual), (as_unit_user(RIGHTS), usual),
            (as_user(ALICE, "--inh-caps=-all"), usual if os.path.isdir("/run/perfetto") else by_hand)):
        folder = public(PERFWIND)
        log = os.path.join(TMP, "names-%d.err" % next(names))
        with open(log, "w+b") as out:
            daemon = subprocess.Popen([*command, os.path.join(folder, "perfwind"), "daemon", "--config", "/dev/null",
                                       "--control-socket", "@perfwind-names-%d" % next(names), "--hook-socket",
                                       "@perfwind-names-%d" % os.getpid()], stderr=out,
                                      env=dict(os.environ, PERFETTO_PRODUCER_SOCK_NAME=""))
            def text():
                with open(log) as written:
                    return written.read()
            try:
                wait_until(lambda: "tracing service" in text() or daemon.poll() is not None, "a line")
                expect("tracing service at %s " % where in text(), text())
            finally:
                daemon.terminate()
                daemon.wait(30)


# ---- its own life

@case
def term_drains():
    """SIGTERM: what was sampled is committed, asked-for answers are given, the sources are unregistered; status 0."""
    with Setting() as s:
        service = s.begin()
        pid = s.target()
        service.setup_tracing()
        config = source_config(perf_config(1000, [pid]))
        for i in (1, 2):
            service.setup(i, source_config(perf_config(1000, [pid]), buffer=i))
            service.start(i, config)
        service.wait(lambda: len(service.writers) == 2, "writers")
        run_until_samples(service, writer_of(service, 1), 50)
        before = len(service.samples(writer_of(service, 2)))
        service.stop(1)
        s.daemon.process.send_signal(signal.SIGTERM)
        while service.poll(5):
            pass
        expect(service.closed, "the connection stays")
        expect(service.stopped == [1], service.stopped)
        expect(service.unregistered == ["linux.perf", "perfetto.metatrace"], service.unregistered)
        expect(not service.writers, "writers are left: %s" % service.writers)
        expect(len(service.samples(writer_of(service, 2))) >= before > 0, "samples of the second source")
        expect(all(c.committed for c in service.chunks.values()), "chunks were scraped, but never committed")
        expect(s.daemon.process.wait(20) == 0, "status")


@case
def term_at_once():
    """SIGTERM without a service, before it answers, and when it does not answer: it ends by itself."""
    with Setting(service=False) as s:
        wait_until(lambda: "no tracing service" in s.daemon.log(), "the line")
        expect(s.daemon.end() == 0, "status")
    with Setting() as s:
        s.service.accept()
        expect(s.daemon.end() == 0, "status")
    with Setting() as s:
        s.begin()
        expect(s.daemon.end() == 0, "status")  # no peer answers its Sync: given up after some seconds


@case
def term_twice():
    """A second SIGTERM ends it at once, and its sockets' files are gone all the same."""
    path = os.path.join(TMP, "notify-twice")
    systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    systemd.bind(path)
    systemd.settimeout(20)
    sockets = [os.path.join(TMP, name) for name in ("twice-control", "twice-hook")]
    name = "@perfwind-twice-%d" % os.getpid()
    service = Service(name)
    daemon = Daemon(name, "--control-socket", sockets[0], "--hook-socket", sockets[1], env={"NOTIFY_SOCKET": path})
    try:
        service.accept().begin()
        expect(all(os.path.exists(s) for s in sockets), "no sockets")
        daemon.process.send_signal(signal.SIGTERM)
        while b"STOPPING=1" not in systemd.recv(4096):
            pass
        daemon.process.send_signal(signal.SIGTERM)  # it waits for the service, which does not answer
        expect(daemon.process.wait(30) == 128 + signal.SIGTERM, "status %s" % daemon.process.returncode)
        expect(not any(os.path.exists(s) for s in sockets), "sockets are left")
    finally:
        daemon.process.kill()
        service.close()
        systemd.close()


@case
def reload_settings():
    """SIGHUP: hints come from the file at the next connection, a session is not touched, a bad file changes nothing."""
    path = os.path.join(TMP, "perfwind.conf")

    def write(text):
        with open(path, "w") as out:
            out.write(text + SHOWN)

    write("# nothing\nshmem-size = 1M\n")
    with Setting("--config", path) as s:
        service = s.begin()
        expect((service.initialized["size"], service.initialized["page"]) == (1 << 20, 0), service.initialized)
        config = source_config(perf_config(500, [s.target()]))
        service.setup_tracing()
        service.setup(1, config)
        service.start(1, config)
        service.wait(lambda: service.writers, "a writer")
        write("shmem-size = 2M\nshmem-page = 16K # each\n")
        s.daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "read again" in s.daemon.log(), "the line")
        write("shmem-size = lots\n")
        s.daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: ":1: shmem-size" in s.daemon.log(), "the complaint")
        run_until_samples(service, writer_of(service, 1), 10)
        expect(service.connections == 1, "it connected again")
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")
        service.accept().begin()
        expect((service.initialized["size"], service.initialized["page"]) == (2 << 20, 16384), service.initialized)
        service.close_connection()
    for bad in (["--shmem-size", "5000"], ["--shmem-page", "12K"], ["--config", path], ["--shmem-size", "4K",
                "--shmem-page", "8K"], ["--notify-fd", "99"]):
        done = subprocess.run([PERFWIND, "daemon", *bad], capture_output=True, text=True, timeout=20)
        expect(done.returncode == 2 and done.stderr.count("\n") == 1, "%s: %d %s" % (bad, done.returncode, done.stderr))


@case
def notify():
    """--notify-fd, $TRACED_PERF_NOTIFY_FD and systemd's socket are notified, and not too early."""
    for by_option in (True, False):
        path = os.path.join(TMP, "notify-%d" % by_option)
        systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        systemd.bind(path)
        systemd.settimeout(20)
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        env = {"NOTIFY_SOCKET": path}
        if not by_option:
            env["TRACED_PERF_NOTIFY_FD"] = str(write_end)
        with Setting(*(["--notify-fd", str(write_end)] if by_option else []), env=env, pass_fds=[write_end]) as s:
            os.close(write_end)
            expect(b"READY=1" in systemd.recv(4096), "no READY=1")
            s.service.accept()
            s.service.wait(lambda: s.service.bound)
            try:
                expect(not os.read(read_end, 10), "it is closed")
                raise AssertionError("notified before its sources are registered")
            except BlockingIOError:
                pass
            s.service.begin()
            expect(b"STATUS=serving" in systemd.recv(4096), "no STATUS")
            os.set_blocking(read_end, True)
            expect(os.read(read_end, 10) == b"1" and os.read(read_end, 10) == b"", "the byte")
            s.daemon.process.send_signal(signal.SIGHUP)
            expect(b"RELOADING=1\nMONOTONIC_USEC=" in systemd.recv(4096), "no RELOADING")
            expect(b"READY=1" in systemd.recv(4096), "no READY=1 after it")
            s.service.close_connection()
            s.service.listener.close()
            expect(b"STATUS=waiting" in systemd.recv(4096), "no STATUS")
            expect(s.daemon.end() == 0, "status")
            expect(b"STOPPING=1" in systemd.recv(4096), "no STOPPING")
        os.close(read_end)
        systemd.close()


@case
def android_sockets():
    """Sockets that Android's init has bound and handed over are served; what is none ends it at once, with a line."""
    place = os.path.join(TMP, "android-%d" % next(names))
    os.mkdir(place)
    bound = {name: socket.socket(socket.AF_UNIX) for name in ("control", "hook")}
    env = {}
    for name, s in bound.items():
        s.bind(os.path.join(place, name))
        env["ANDROID_SOCKET_perfwind_" + name] = str(s.fileno())
    with Setting(env=env, pass_fds=[s.fileno() for s in bound.values()]) as setting:
        setting.begin()
        for name in bound:
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(30)
            client.connect(os.path.join(place, name))
            try:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                expect(client.recv(1) == b"", "an answer to garbage")
            except (ConnectionResetError, BrokenPipeError):
                pass  # closed unread
    read_end, _ = os.pipe()
    for name in bound:
        wrong = dict(env, **{"ANDROID_SOCKET_perfwind_" + name: str(read_end)})
        daemon = Daemon("@nobody", env=wrong, pass_fds=[read_end, *(s.fileno() for s in bound.values())])
        expect(daemon.process.wait(30) == 1, "status %s" % daemon.process.returncode)
        expect('"%s" is not a listening socket' % name in daemon.log(), daemon.log())


@case
def target_exits():
    """The target ends meanwhile: the source stays, its stop is answered, its samples are there."""
    with Setting() as s:
        service, writer = running(s)
        run_until_samples(service, writer, 50)
        s.targets[0].kill()
        s.targets[0].wait()
        service.idle(0.3)
        expect(service.stopped == [], "it stopped by itself")
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")
        expect(len(has_stack(service.samples(writer))) >= 50, "samples")


@case
def too_many_sources():
    """max-sources: one more is refused with a reason, and its stop is answered."""
    path = os.path.join(TMP, "few.conf")
    with open(path, "w") as out:
        out.write("max-sources = 3\n" + SHOWN)
    with Setting("--config", path) as s:
        service = s.begin()
        service.setup_tracing()
        config = source_config(perf_config(10, [s.target()]))
        for i in range(1, 6):
            service.setup(i, config)
        for i in range(1, 6):
            service.stop(i)
        service.wait(lambda: service.stopped == [1, 2, 3, 4, 5], "the answers")
        expect(s.daemon.log().count("max-sources") == 2, s.daemon.log())


@case
def too_much_in_all():
    """traced-rate, traced-stack-bytes: what all data sources ask for together; a stopped one's part is free again."""
    path = os.path.join(TMP, "limits.conf")

    def write(text):
        with open(path, "w") as out:
            out.write(text + SHOWN)

    write("traced-rate = 1000\n")
    with Setting("--config", path) as s:
        service = s.begin()
        service.setup_tracing()
        pid = s.target()

        def start(i, hz, stacks):
            config = source_config(perf_config(hz, [pid], callstacks=stacks), buffer=i)
            service.setup(i, config)
            service.start(i, config)

        def refused(i):
            return "data source %d cannot start: " % i in s.daemon.log()

        def runs(i):
            service.flush(i, i)
            service.wait(lambda: i in service.flushed, "the answer to a flush")
            return not refused(i)

        start(1, 600, False)
        expect(runs(1), s.daemon.log())
        start(2, 600, False)
        wait_until(lambda: refused(2), "the refusal")
        expect("600 samples a second of a CPU are asked for, 1200 together with" in s.daemon.log() and
               "raise traced-rate in" in s.daemon.log(), s.daemon.log())
        service.stop(1, 2)
        service.wait(lambda: sorted(service.stopped) == [1, 2], "the answers")
        start(3, 600, False)
        expect(runs(3), s.daemon.log())
        # Each stack counts with 65,528 bytes: one source of 300 Hz fits into 32 MiB, two do not.
        write("traced-stack-bytes = 32M\n")
        s.daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "read again" in s.daemon.log(), "the line")
        start(4, 300, True)
        expect(runs(4), s.daemon.log())
        start(5, 300, True)
        wait_until(lambda: refused(5), "the refusal")
        expect("39316800 together with" in s.daemon.log() and "raise traced-stack-bytes in" in s.daemon.log(),
               s.daemon.log())
        for i in (3, 4, 5):
            service.stop(i)
        service.wait(lambda: sorted(service.stopped) == [1, 2, 3, 4, 5], "the answers")


@case
def max_cpu():
    """recording-max-cpu: a data source that takes more has a lower rate, its samples weigh more, and the trace states it."""
    path = os.path.join(TMP, "max-cpu.conf")
    with open(path, "w") as out:
        out.write("recording-max-cpu = 1\n" + SHOWN)
    with Setting("-v", "--config", path) as s:
        service = s.begin()
        service.setup_tracing(n_pages=256)
        config = source_config(perf_config(8000, [s.target()]))
        service.setup(1, config)
        service.start(1, config)
        service.wait(lambda: "samples a second on each CPU (were 8000)" in s.daemon.log(), "a lower rate", timeout=60)
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")
        trace = os.path.join(TMP, "max-cpu.pftrace")
        service.write_trace(trace)
        report = subprocess.run([PERFWIND, "report", trace], capture_output=True, text=True, check=True).stdout
        expect("to use at most 1 % of a CPU" in report, report[:2000])


@case
def thousand_sessions():
    """A thousand sessions one after another leave no descriptor, no thread, no memory behind."""
    n = int(os.environ.get("DAEMON_SESSIONS", "1000"))
    with Setting() as s:
        service = s.begin()
        service.setup_tracing()
        config = source_config(perf_config(100, [s.target()]))
        rss = fds = threads = None
        for i in range(1, n + 1):
            service.setup(i, config)
            service.start(i, config)
            if i % 3 == 0:
                service.flush(i, i)
            service.stop(i)
            service.wait(lambda: i in service.stopped[-1:], "the answer to stop %d" % i)
            if i == n // 2:
                rss, fds, threads = s.daemon.rss_kb(), s.daemon.fds(), s.daemon.threads()
        service.wait(lambda: not service.writers, "the end of all writers")
        expect(len(service.stopped) == n and len(service.flushed) == n // 3, "answers")
        expect(s.daemon.fds() <= fds, "%d descriptors, were %d" % (s.daemon.fds(), fds))
        expect(s.daemon.threads() <= threads, "%d threads, were %d" % (s.daemon.threads(), threads))
        # A KiB a session would be half a MiB.
        expect(sanitized() or s.daemon.rss_kb() <= rss + 512, "%d KiB, were %d" % (s.daemon.rss_kb(), rss))


# ---- its rights

def public(*programs):
    """Copies that any user may run: the build folder may be root's alone."""
    folder = os.path.join(TMP, "public")
    os.makedirs(folder, exist_ok=True)
    for program in programs:
        path = os.path.join(folder, os.path.basename(program))
        shutil.copy(program, path + ".new")
        os.rename(path + ".new", path)  # a program of an earlier case may still run
    return folder


def works(rights, direct):
    """What a daemon of its own user can do with these: words of the table in ARCHITECTURE.md."""
    folder = public(PERFWIND, os.path.join(PROGRAMS, "recursion"),
                    os.path.join(os.path.dirname(PERFWIND), "libperfwind-hook.so"))
    private, asked = os.path.join(folder, "private"), os.path.join(folder, "asked")
    for name in (private, asked):
        shutil.copy(os.path.join(folder, "recursion"), name)
    os.chmod(private, 0o700)
    settings = os.path.join(TMP, "rights.conf")
    with open(settings, "w") as out:
        out.write("direct = %s\n" % direct + SHOWN)
    hook = os.path.join(TMP, "hook-%d" % next(names), "socket")
    os.mkdir(os.path.dirname(hook))
    os.chmod(os.path.dirname(hook), 0o777)
    words = []
    with Setting("-v", "--config", settings, "--hook-socket", hook, rights=rights) as s:
        service = s.begin()
        service.setup_tracing(n_pages=256)
        pids = {
            "stacks": s.target(),
            "private": s.run(private, "120"),
            "consent": s.run(os.path.join(folder, "perfwind"), "run", "--hook-socket", hook, "--",
                             asked, "120"),
            "kernel-names": s.run("dd", "if=/dev/zero", "of=/dev/null", "bs=64k", stderr=subprocess.DEVNULL),
        }
        wait_until(lambda: os.readlink("/proc/%d/exe" % pids["consent"]).endswith("asked"), "the exec")
        config = source_config(perf_config(500, pids.values(), kernel=True))
        service.setup(1, config)
        service.start(1, config)

        def refused():
            return "cannot start" in s.daemon.log()

        # A writer prints nothing yet: it is there before the events are opened.
        wait_until(lambda: refused() or sampling(service), "a start")
        if not refused():
            writer = writer_of(service, 1)

            def samples_of(pid):
                return [x for x in has_stack(service.samples(writer)) if one(x, 2) == pid]

            run_until_samples(service, writer, 100)
            wait_until(lambda: run_until_samples(service, writer, 1) and all(len(samples_of(pid)) > 5
                                                                             for pid in pids.values()), "each's samples")
            words.append("events")
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer to stop")
        trace = os.path.join(TMP, "rights.pftrace")
        service.write_trace(trace)
        folded = subprocess.run([PERFWIND, "export", "--to", "folded", "-o", "-", trace], capture_output=True,
                                text=True, check=False).stdout
        named = "main;(recurse_even;recurse_odd;){20,}"
        words += [word for word, regex in (("stacks", "^recursion;.*" + named), ("private", "^private;.*" + named),
                                           ("kernel-names", "^dd;.*(vfs_|ksys_|do_sys)[a-z0-9_]*_\\[k\\]"))
                  if re.search(regex, folded, re.M)]
        if re.search("process %d .*: asked" % pids["consent"], s.daemon.log()):
            words.append("consent")
    return sorted(words)


@case
def rights():
    """With each capability missing in turn: what stands in ARCHITECTURE.md, of the data source too."""
    if os.geteuid() != 0:
        raise Skipped("needs root")

    def gives_to_everyone():
        with open("/proc/sys/kernel/perf_event_paranoid") as level:
            return int(level.read()) < 2

    # PERFMON opens the mappings of all processes since Linux 6.15.
    opens_maps = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())) >= (6, 15)
    by_maps = ["private", "stacks"] if opens_maps else []
    for missing, kept, direct, expected in (
            ("none", "perfmon,kill,dac_read_search,syslog,sys_ptrace", "yes",
             ["events", "kernel-names", "private", "stacks"]),
            ("sys_ptrace", "perfmon,kill,dac_read_search,syslog", "no",
             ["consent", "events", "kernel-names", *by_maps]),
            ("syslog", "perfmon,kill,dac_read_search", "no", ["consent", "events", *by_maps]),
            ("dac_read_search", "perfmon,kill,syslog", "no",
             ["consent", "events", "kernel-names", *by_maps[1:]]),
            ("kill", "perfmon,dac_read_search,syslog", "no", ["events", "kernel-names", *by_maps]),
            ("perfmon", "kill,dac_read_search,syslog", "no", [])):
        if UNIT_DAEMON and missing not in ("none", "sys_ptrace"):
            continue  # those that the unit has, and all
        before = gives_to_everyone()
        had = works(kept, direct)
        if before or gives_to_everyone():
            raise Skipped("perf_event_paranoid is less than 2, or changes")
        print("    without %s: %s" % (missing, ", ".join(had) or "nothing"))
        expect(had == expected, "without %s: %s, not %s" % (missing, had, expected))


# ---- the access of the service's clients

ALICE, BOB = 61002, 61003
RIGHTS = "perfmon,kill,dac_read_search,syslog"


def as_user(uid, *command, groups=()):
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid),
            "--groups=" + ",".join(map(str, groups)) if groups else "--clear-groups", *command]


class Shown:
    """A daemon with privileges beyond its user's, with settings of its own; targets of several users, by name."""

    def __init__(self, settings):
        self.folder = public(PERFWIND, os.path.join(PROGRAMS, "recursion"),
                             os.path.join(os.path.dirname(PERFWIND), "libperfwind-hook.so"))
        os.chmod(TMP, 0o755)
        self.settings = os.path.join(TMP, "shown-%d.conf" % next(names))
        self.write(settings)
        place = os.path.join(TMP, "hook-%d" % next(names))
        os.mkdir(place)
        os.chmod(place, 0o777)
        self.hook = os.path.join(place, "socket")
        self.setting = Setting("-v", "--config", self.settings, "--hook-socket", self.hook, rights=self.rights())
        self.pids, self.buffers = {}, iter(range(1, 100))

    @staticmethod
    def rights():
        # Where PERFMON does not open mappings, processes that do not consent need ptrace to be read.
        release = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))
        return RIGHTS + ("" if release >= (6, 15) else ",sys_ptrace")

    def write(self, settings):
        with open(self.settings, "w") as out:
            out.write("direct = yes\n" + settings)

    def reload(self, settings):
        daemon = self.setting.daemon
        n = daemon.log().count("read again")
        self.write(settings)
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: daemon.log().count("read again") > n, "the line")

    def copy(self, name):
        path = os.path.join(self.folder, name)
        shutil.copy(os.path.join(self.folder, "recursion"), path)
        return path

    def start(self, name, uid, groups=(), consents=False):
        run = [os.path.join(self.folder, "perfwind"), "run", "--hook-socket", self.hook, "--"] if consents else []
        path = self.copy(name)
        self.pids[name] = self.setting.run(*as_user(uid, *run, path, "300", groups=groups))
        wait_until(lambda: os.readlink("/proc/%d/exe" % self.pids[name]) == path, "the exec")

    def record(self, service, wanted=(), printed=""):
        """A data source: until those have stacks and this is printed.  Its trace, and the names of those that have stacks."""
        buffer = next(self.buffers)
        config = source_config(perf_config(500, self.pids.values(), kernel=True), buffer=buffer)
        service.setup(buffer, config)
        service.start(buffer, config)
        service.wait(lambda: buffer in service.buffers.values(), "a writer")
        writer = writer_of(service, buffer)

        def with_stack(name):
            return sum(one(x, 2) == self.pids[name] for x in has_stack(service.samples(writer)))

        def left_out(name):
            return sum(one(x, 2) == self.pids[name] and one(x, 18) == 4 for x in service.samples(writer))

        def each_was_there():
            request = (service.flushed[-1] if service.flushed else 0) + 1
            service.flush(request, buffer)
            service.wait(lambda: request in service.flushed, "the answer to a flush")
            service.scrape()
            return printed in self.setting.daemon.log() and all(with_stack(n) > 20 if n in wanted else left_out(n) > 20
                                                                   for n in self.pids)

        wait_until(each_was_there, "samples of each: %s" % {n: (with_stack(n), left_out(n)) for n in self.pids}, 60)
        service.stop(buffer)
        service.wait(lambda: buffer in service.stopped, "the answer to stop")
        expect(service.check_packets(writer) == 0, "samples without their state")
        return b"".join(service.packets(writer)), sorted(n for n in self.pids if with_stack(n))


@case
def shown():
    """A process that consents is shown, others by user and group in the settings; of the rest neither stack nor name."""
    if os.geteuid() != 0:
        raise Skipped("needs root")
    s = Shown("")
    with s.setting as setting:
        service = setting.begin()
        service.setup_tracing(n_pages=512)
        s.start("of-alice", ALICE)
        s.start("of-bob", BOB, groups=[61100])
        s.start("consents", BOB, consents=True)
        s.start("of-root", 0)
        trace, seen = s.record(service, ["consents"], printed="are not shown")
        expect(seen == ["consents"], seen)
        for name in (b"of-alice", b"of-bob", b"of-root"):
            expect(name not in trace, "%s is named" % name)
        expect(b"skipped.not-allowed" in trace and b"traced-kernel" in trace, "statistics and notes")
        expect(b"are not shown" in trace and b"perfwind run" in trace, "the hint")
        expect(b"do_syscall" not in trace and b"asm_" not in trace, "frames of the kernel")
        s.reload("traced-users = %d\ntraced-kernel = yes\n" % ALICE)
        trace, seen = s.record(service, ["consents", "of-alice"])
        expect(seen == ["consents", "of-alice"], seen)
        expect(b"of-bob" not in trace and b"of-root" not in trace, "others are named")
        s.reload("traced-groups = 61100")
        trace, seen = s.record(service, ["consents", "of-bob"])
        expect(seen == ["consents", "of-bob"], seen)
        s.reload("traced-users = *")
        trace, seen = s.record(service, list(s.pids))
        expect(seen == sorted(s.pids), seen)
        expect(b"are not shown" not in trace and b"skipped.not-allowed" not in trace, "some are left out")
        # What is the whole machine's is the kernel's.
        polled = source_config(message((15, message((6, 100)))), buffer=90)
        service.setup(90, polled)
        service.start(90, polled)
        service.stop(90)
        service.wait(lambda: 90 in service.stopped, "the answer")
        expect("counters of whole CPUs" in setting.daemon.log(), setting.daemon.log()[-500:])


@case
def shown_changes():
    """It is by the user that a process has: one that changes its user, or runs a set-user-ID program, is left out."""
    if os.geteuid() != 0:
        raise Skipped("needs root")
    program = ("import os, signal\n"
               "signal.signal(signal.SIGUSR1, lambda *_: os.setresuid(%d, %d, %d))\n"
               "while True: pass\n" % (BOB, BOB, BOB))
    s = Shown("traced-users = 0 %d\n" % ALICE)
    with s.setting as setting:
        service = setting.begin()
        service.setup_tracing(n_pages=512)
        s.pids["python"] = setting.run(PYTHON, "-c", program)
        suid = s.copy("of-nobody")
        os.chown(suid, BOB, BOB)
        os.chmod(suid, 0o4755)
        s.start("of-alice", ALICE)
        waits = setting.run(*as_user(ALICE, "sh", "-c", "while [ ! -e %s/go ]; do :; done; exec %s 300" %
                                     (s.folder, suid)))
        s.pids["runs"] = waits
        trace, seen = s.record(service, ["python", "of-alice", "runs"])
        expect(seen == ["of-alice", "python", "runs"], seen)
        os.kill(s.pids["python"], signal.SIGUSR1)
        with open(os.path.join(s.folder, "go"), "w"):
            pass
        wait_until(lambda: os.readlink("/proc/%d/exe" % waits) == suid, "the exec")
        wait_until(lambda: os.stat("/proc/%d" % s.pids["python"]).st_uid == BOB, "the change of user")
        nosuid = os.stat("/proc/%d" % waits).st_uid != BOB  # the mount makes it any other program
        if nosuid:
            del s.pids["runs"]
        trace, seen = s.record(service, ["of-alice"])
        expect(seen == ["of-alice"], seen)
        expect(nosuid or b"of-nobody" not in trace, "the set-user-ID program is named")
        os.remove(os.path.join(s.folder, "go"))


@case
def shown_live():
    """... in a data source that runs, and within a second or so."""
    if os.geteuid() != 0:
        raise Skipped("needs root")
    program = ("import os, signal\n"
               "signal.signal(signal.SIGUSR1, lambda *_: os.setresuid(%d, %d, %d))\n"
               "while True: pass\n" % (BOB, BOB, BOB))
    s = Shown("traced-users = 0\n")
    with s.setting as setting:
        service = setting.begin()
        service.setup_tracing(n_pages=512)
        pid = setting.run(PYTHON, "-c", program)
        config = source_config(perf_config(500, [pid]))
        service.setup(1, config)
        service.start(1, config)
        service.wait(lambda: service.writers, "a writer")
        writer = writer_of(service, 1)
        run_until_samples(service, writer, 50)
        os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: os.stat("/proc/%d" % pid).st_uid == BOB, "the change of user")
        request = service.flushed[-1]

        def samples():
            nonlocal request
            request += 1
            service.flush(request, 1)
            service.wait(lambda: request in service.flushed, "the answer to a flush")
            service.scrape()
            return [(one(p, 8), one(one(p, 66), 18) == 4) for p in service.packets(writer)
                    if one(p, 66) is not None and one(one(p, 66), 2) == pid]

        # Some that lay in the rings come with a stack, and behind others in the trace; of later ones none does.
        wait_until(lambda: sum(out for at, out in samples()) > 50, "samples that are left out")
        first = min(at for at, out in samples() if out)
        expect(all(out for at, out in samples() if at > first), "one with a stack was taken after it was left out")
        service.stop(1)
        service.wait(lambda: service.stopped == [1], "the answer")


# The start as a unit is notified by systemd's own start (boot.sh), without further descriptors.
NOT_AS_UNIT = ("notify", "term_twice", "android_sockets", "service_names")


def main():
    wanted = sys.argv[4:]
    for function in CASES:
        if wanted and function.__name__ not in wanted:
            continue
        name = "daemon-" + function.__name__.replace("_", "-")
        if UNIT_DAEMON and function.__name__ in NOT_AS_UNIT:
            continue
        began = time.monotonic()
        try:
            function()
            print("ok", name, flush=True)
            if os.environ.get("V"):
                print("    %.1f s" % (time.monotonic() - began))
        except Skipped as e:
            print("skip %s: %s" % (name, e), flush=True)
        except Exception as e:  # a case may fail in any way; the others are to run
            for line in traceback.format_exc().splitlines()[-6:]:
                print("    " + line)
            print("not ok %s: %s" % (name, str(e).replace("\n", " ")[:300]), flush=True)


main()
