"""traced.py - a recording through Perfetto's tracing service: `traced`, `perfetto` as its consumer, and a producer of
linux.perf: `traced_perf` or `perfwind daemon`.

The programs are not part of this repository: TRACED_PERF names a folder with the three.  Each run starts a service and a
producer of its own, with sockets in the scratch folder, and ends both by pid.

    CPU       the producer, from its start to its end after the session; the service is counted apart, the consumer not
    samples   of the trace: with a stack
    config    tuned for traced_perf, the same for both producers: with its defaults traced_perf loses most samples
"""
import json
import os
import select
import signal
import subprocess
import time

import measure

PROGRAMS = ("traced", "traced_perf", "perfetto")
WAIT_S = 30
RING_PAGES = 4096  # 16 MiB a CPU
READ_MS = 20
QUEUE_KB = 1 << 20  # what may wait for the unwinder
CONFIG = """
duration_ms: {ms}
data_source_stop_timeout_ms: 8000
buffers {{ size_kb: 131072 fill_policy: DISCARD }}
data_sources {{ config {{ name: "linux.perf" perf_event_config {{
  timebase {{ counter: SW_CPU_CLOCK frequency: {hz} }}
  callstack_sampling {{ kernel_frames: true scope {{ target_pid: {pid} }} }}
  ring_buffer_pages: {pages} ring_buffer_read_period_ms: {read_ms} max_enqueued_footprint_kb: {queue_kb}
}} }} }}
"""


def find():
    """The folder that TRACED_PERF names; None without the variable."""
    folder = os.environ.get("TRACED_PERF")
    if not folder:
        return None
    for program in PROGRAMS:
        if not os.access(os.path.join(folder, program), os.X_OK):
            raise measure.BenchError(f"TRACED_PERF={folder} has no program {program}")
    return os.path.abspath(folder)


class Started:
    """A program that runs until stop(): its log goes to a file."""

    def __init__(self, setup, argv, env, **kwargs):
        self.log = setup.file("traced-" + os.path.basename(argv[0]) + ".log")
        self.name = os.path.basename(argv[0])
        with open(self.log, "w") as log:
            self.process = measure.start(argv, stdout=log, stderr=log, env=env, **kwargs)
        self.pid = self.process.pid
        self.ended = None

    def stop(self):
        """CPU seconds and rusage, start included."""
        if not self.ended and self.process.returncode is not None:
            self.ended = (0, None)  # it was reaped: the number may be another process's
        if not self.ended:
            os.kill(self.pid, signal.SIGTERM)
            self.ended = measure.reap(self.process)
        return self.ended

    def last_line(self):
        with open(self.log, errors="replace") as log:
            return "".join(log.read().strip().splitlines()[-1:])

    def failed(self, what):
        return measure.BenchError(f"{self.name}: {what}: {self.last_line()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def start_service(setup, env):
    for name in ("producer", "consumer"):
        if os.path.exists(setup.file(name)):
            os.unlink(setup.file(name))
    service = Started(setup, [os.path.join(setup.traced, "traced")], env)
    end = time.monotonic() + WAIT_S
    while not os.path.exists(setup.file("consumer")):
        if time.monotonic() > end:
            service.stop()
            raise service.failed("no socket")
        time.sleep(0.02)
    return service


def start_producer(setup, argv, env):
    """Returns when the service knows the data source: both producers write a byte to this descriptor then."""
    known, notify = os.pipe()
    try:
        producer = Started(setup, argv, {**env, "TRACED_PERF_NOTIFY_FD": str(notify)}, pass_fds=[notify])
    finally:
        os.close(notify)
    with os.fdopen(known, "rb", buffering=0) as known:
        if select.select([known], [], [], WAIT_S)[0] and known.read(1):
            return producer
    producer.stop()
    raise producer.failed("no data source")


def session(setup, env, producer, config, seconds, each):
    """One session of @seconds; @each(pid of the producer) is called ten times a second."""
    path = setup.file("traced.config")
    with open(path, "w") as f:
        f.write(config)
    output = setup.file("traced.pftrace")
    argv = [os.path.join(setup.traced, "perfetto"), "--txt", "-c", path, "-o", output]
    with Started(setup, argv, env) as consumer:
        end = time.monotonic() + seconds
        while time.monotonic() < end and consumer.process.poll() is None:
            if each:
                try:
                    each(producer.pid)
                except OSError:
                    raise producer.failed("it ended") from None
            time.sleep(0.1)
        try:
            status = consumer.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            raise consumer.failed("the session did not end") from None
        consumer.ended = (0, None)
        if status:
            raise consumer.failed(f"status {status}")
    return output


def judge(setup, trace):
    """Samples with a stack, and data that was lost, as the trace has them."""
    def answer(*argv):
        done = subprocess.run([setup.perfwind, *argv, "--json", trace], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return json.loads(done.stdout) if done.stdout.strip() else None

    report = answer("report")
    rows = answer("losses") or []
    return report["samples"] if report else 0, sum(row["value"] for row in rows if row["severity"] == "data_loss")


def record(setup, argv, pid, seconds, hz, each=None):
    env = {**os.environ, "PERFETTO_PRODUCER_SOCK_NAME": setup.file("producer"),
           "PERFETTO_CONSUMER_SOCK_NAME": setup.file("consumer")}
    config = CONFIG.format(ms=int(seconds * 1000), hz=hz, pid=pid, pages=RING_PAGES, read_ms=READ_MS, queue_kb=QUEUE_KB)
    at = time.monotonic()
    with start_service(setup, env) as service:
        with start_producer(setup, argv, env) as producer:
            trace = session(setup, env, producer, config, seconds, each)
            cpu, usage = producer.stop()
        service_cpu, _ = service.stop()
    run = measure.Run(cpu, usage, 0, time.monotonic() - at)
    run.samples, run.lost = judge(setup, trace)
    run.service_cpu = service_cpu
    run.bytes = os.path.getsize(trace)
    os.unlink(trace)
    return run


def traced_perf(setup, pid, seconds, hz, each=None):
    return record(setup, [os.path.join(setup.traced, "traced_perf")], pid, seconds, hz, each)


def perfwind_daemon(setup, pid, seconds, hz, each=None):
    settings = setup.file("traced-daemon.conf")
    with open(settings, "w") as f:
        f.write("direct = yes\ntraced-users = *\ntraced-kernel = yes\n")
    argv = [setup.perfwind, "daemon", "--config", settings, "--control-socket", setup.file("control"),
            "--hook-socket", setup.file("hook")]
    return record(setup, argv, pid, seconds, hz, each)
