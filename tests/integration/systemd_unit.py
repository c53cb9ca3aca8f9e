#!/usr/bin/python3
"""systemd_unit.py ARGUMENTS... - `perfwind daemon ARGUMENTS...` as rc/perfwind.service has it, run by systemd.

Stands for the daemon: its log goes to our standard error (a file), TERM and HUP are passed on to it, and its status is
ours.  Its own process id is MainPID of perfwind-test-PID.service, PID being ours.  Needs `make install PREFIX=/usr`.

Every line of the unit is as it is installed, but for
  ExecStart             the arguments, and -v: each call that our own filter refuses is logged
  UNIT_REFUSED          in the environment: SystemCallErrorNumber, as "kill" instead of EPERM
  Restart, sockets      none of its own: its sockets are at --control-socket and --hook-socket, if these are given
  UNIT_RIGHTS           in the environment: capabilities (perfmon,kill) instead of the unit's
  PERF...               of the environment is handed on, but PERFWIND_REFUSED: the unit may write to /dev/shm alone, and what is there
                        at the end goes to its log"""
import fcntl
import os
import select
import signal
import subprocess
import sys

FOLDER = "/run/systemd/system/"
INSTALLED = "/lib/systemd/system/perfwind.service"
NAME = "perfwind-test-%d" % os.getpid()
SERVICE = NAME + ".service"
ENDED = "/run/%s.ended" % NAME
REFUSED = "/dev/shm/%s.refused" % NAME


def systemctl(*arguments, check=True):
    done = subprocess.run(["systemctl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if check and done.returncode:
        raise RuntimeError("systemctl %s: %s" % (" ".join(arguments), done.stderr.strip()))
    return done.stdout.strip()


def write_unit(name, lines):
    with open(FOLDER + name, "w", encoding="ascii") as out:
        out.write("\n".join(lines) + "\n")


def socket_unit(kind, path):
    name = "%s-%s.socket" % (NAME, kind)
    with open(INSTALLED.replace(".service", "-%s.socket" % kind), encoding="ascii") as unit:
        lines = [line for line in unit.read().splitlines() if not line.startswith(("ListenStream=", "Service="))]
    at = lines.index("[Socket]") + 1
    write_unit(name, lines[:at] + ["ListenStream=" + path, "Service=" + SERVICE] + lines[at:])
    return name


def split(arguments):
    """The daemon's settings, and the paths of its sockets."""
    rest, sockets = [], {}
    words = iter(arguments)
    for word in words:
        if word in ("--control-socket", "--hook-socket"):
            sockets[word[2:-7]] = next(words)
        else:
            rest.append(word)
    return rest, sockets


def rights():
    """Instead of the unit's own."""
    given = " ".join("CAP_" + right.upper() for right in os.environ["UNIT_RIGHTS"].split(","))
    return {"AmbientCapabilities": given, "CapabilityBoundingSet": given}


def service_unit(arguments, sockets):
    log = os.readlink("/proc/self/fd/2")
    if not os.path.isfile(log):
        raise RuntimeError("standard error is to be a file, not " + log)
    with open(INSTALLED, encoding="ascii") as unit:
        lines = unit.read().splitlines()
    changed = {
        "ExecStart": "/usr/bin/perfwind daemon %s" % " ".join('"%s"' % word for word in
                                                              arguments + ["-v"] * ("-v" not in arguments)),
        "Restart": "no",
        "Sockets": " ".join(sockets),
        "Requires": " ".join(sockets),
        "After": " ".join(sockets),
    }
    if "UNIT_RIGHTS" in os.environ:
        changed |= rights()
    if "UNIT_REFUSED" in os.environ:
        changed["SystemCallErrorNumber"] = os.environ["UNIT_REFUSED"]
    for i, line in enumerate(lines):
        key = line.partition("=")[0]
        if key in changed:
            lines[i] = "%s=%s" % (key, changed.pop(key))
    if changed:
        raise RuntimeError("the unit has no line to change: %s" % ", ".join(changed))
    at = lines.index("[Service]") + 1
    lines[at:at] = ["StandardError=append:" + log, "ExecStopPost=+sh -c 'echo $$EXIT_CODE $$EXIT_STATUS >%s'" % ENDED,
                    "ExecStopPost=+sh -c 'test ! -e %s || { cat %s >&2; rm %s; }'" % (REFUSED, REFUSED, REFUSED)]
    handed_on = {key: value for key, value in os.environ.items() if key.startswith("PERF")} | {"PERFWIND_REFUSED": REFUSED}
    lines[at:at] = ['Environment="%s=%s"' % pair for pair in handed_on.items()]
    write_unit(SERVICE, lines)


def shown(key):
    return systemctl("show", "-P", key, SERVICE)


def wait_for_end():
    try:
        pidfd = os.pidfd_open(int(shown("MainPID")))
    except (ProcessLookupError, ValueError, OSError):
        return  # it has ended
    while not select.select([pidfd], [], [], 1)[0]:
        pass


def main():
    arguments, paths = split(sys.argv[1:])
    sockets = [socket_unit(kind, path) for kind, path in paths.items()]
    service_unit(arguments, sockets)

    def hand_on(number, _):
        systemctl("kill", "--kill-whom=main", "--signal", str(number), SERVICE, check=False)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, hand_on)
    try:
        systemctl("start", *sockets, SERVICE)
        wait_for_end()
        while shown("ActiveState") not in ("inactive", "failed"):
            select.select([], [], [], 0.02)
        with open(ENDED, encoding="ascii") as ended:
            code, status = ended.read().split()
    finally:
        systemctl("stop", *sockets, SERVICE, check=False)
        for name in (*sockets, SERVICE):
            os.unlink(FOLDER + name)
    if code == "exited":
        return int(status)
    print("perfwind daemon: %s by signal %s" % (code, status), file=sys.stderr)
    return 128


# Others write to the same file.
fcntl.fcntl(2, fcntl.F_SETFL, fcntl.fcntl(2, fcntl.F_GETFL) | os.O_APPEND)
sys.exit(main())
