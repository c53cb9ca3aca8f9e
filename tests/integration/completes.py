"""completes.py - completion as a person types it: a line and a tab on a terminal of bash or zsh, then the line as it is;
fish answers `complete -C`.  SHELL PERFWIND FOLDER.  Prints ok or not ok lines."""
import os
import pty
import re
import select
import subprocess
import sys
import time

SHELL, PERFWIND, FOLDER = sys.argv[1:4]
SETUP = {
    "bash": "bind 'set bell-style none'; bind 'set show-all-if-ambiguous on'; bind 'set completion-query-items 100000'; "
            "bind 'set page-completions off'; bind 'set enable-bracketed-paste off'; "
            "eval \"$(perfwind generate bash)\"",
    "zsh": "unsetopt beep prompt_cr zle_bracketed_paste; unset zle_bracketed_paste; LISTMAX=1000000; fpath=($PWD $fpath); "
           "perfwind generate zsh >_perfwind; autoload -Uz compinit && compinit -u -D",
}
COMMAND = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}


ENVIRONMENT = dict(os.environ, TERM="dumb", PS1="$ ", LC_ALL="C", HOME=FOLDER,
                   PATH="%s:%s:%s" % (FOLDER, os.path.dirname(PERFWIND), os.environ["PATH"]))


class Shell:
    def __init__(self):
        self.text = ""
        pid, self.fd = pty.fork()
        if not pid:
            os.chdir(FOLDER)
            os.execvpe(COMMAND[SHELL][0], COMMAND[SHELL], ENVIRONMENT)
        self.pid = pid
        self.type(SETUP[SHELL] + "; echo READY$((6 * 7))\r")
        self.until("READY42")

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, regex):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            found = re.search(regex, self.text, re.S)
            if found:
                self.text = self.text[found.end():]
                return found
            if select.select([self.fd], [], [], 0.2)[0]:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
        raise AssertionError("in vain for %r in %r" % (regex, self.text[-300:]))

    def completed(self, line):
        """The line after it was typed with a tab behind it: printed by the shell itself."""
        self.type(line + "\t" + "\x01echo \"A$((6 * 7))<\" '\x05'\r")
        return self.until(r"A42< ([^\r\n]*?) *[\r\n]")[1]

    def lists(self, line, regex):
        self.type(line + "\t")
        try:
            return self.until(regex)
        finally:
            self.type("\x15")


class Fish:
    """The last word is what is completed; one candidate is inserted."""

    def answers(self, line):
        return subprocess.run(["fish", "--no-config", "-c", "perfwind generate fish | source; complete -C $argv[1]", line],
                              stdout=subprocess.PIPE, check=True, cwd=FOLDER, env=ENVIRONMENT, encoding="utf-8").stdout

    def completed(self, line):
        words = [row.split("\t")[0] for row in self.answers(line).splitlines()]
        return line[:line.rindex(" ") + 1] + words[0] if len(words) == 1 else line

    def lists(self, line, regex):
        if not re.search(regex, self.answers(line)):
            raise AssertionError("no %r for %r" % (regex, line))


# What is typed before a tab, and the line behind it.
LINES = {
    "command": ("perfwind anno", "perfwind annotate"),
    "help": ("perfwind help losse", "perfwind help losses"),
    "option": ("perfwind record --wak", "perfwind record --wakers"),
    "short": ("perfwind record -g -e page-f", "perfwind record -g -e page-faults"),
    "equals": ("perfwind record --event=page-f", "perfwind record --event=page-faults"),
    "list": ("perfwind record -e cs,page-f", "perfwind record -e cs,page-faults"),
    "stat-event": ("perfwind stat -e page-f", "perfwind stat -e page-faults"),
    "top-event": ("perfwind top -e page-f", "perfwind top -e page-faults"),
    "choice": ("perfwind record --unwinder libd", "perfwind record --unwinder libdw"),
    "by": ("perfwind report --by modu", "perfwind report --by module"),
    "format": ("perfwind export -t fold", "perfwind export -t folded"),
    "subcommand": ("perfwind episodes dele", "perfwind episodes delete"),
    "file": ("perfwind report only-f", "perfwind report only-file.pftrace"),
    "file-of-option": ("perfwind record -o only-f", "perfwind record -o only-file.pftrace"),
    "no-file-for-a-number": ("perfwind record -F only-f", "perfwind record -F only-f"),
    "behind": ("perfwind record -- only-comm", "perfwind record -- only-command-here"),
    "behind-stat": ("perfwind stat -e cs -- only-comm", "perfwind stat -e cs -- only-command-here"),
    "behind-no-dashes": ("perfwind top -e cs only-comm", "perfwind top -e cs only-command-here"),
    "behind-file": ("perfwind record -- cat only-f", "perfwind record -- cat only-file.pftrace"),
    "behind-own-option": ("perfwind record -- cat --wak", "perfwind record -- cat --wak"),
    "behind-own-short": ("perfwind record cat --wak", "perfwind record cat --wak"),
    "path": ("perfwind run -- ./only-comm", "perfwind run -- ./only-command-here"),
}

open(os.path.join(FOLDER, "only-file.pftrace"), "w").close()
with open(os.path.join(FOLDER, "only-command-here"), "w") as f:
    f.write("#!/bin/sh\n")
os.chmod(f.name, 0o755)
start = Fish if SHELL == "fish" else Shell
sleeper = subprocess.Popen(["sleep", "600"])
shell = start()
try:
    for name, (line, expected) in LINES.items():
        try:
            got = shell.completed(line)
            print("ok" if got == expected else "not ok", "complete-%s-%s" % (SHELL, name) + (
                "" if got == expected else ": %r" % got), flush=True)
        except AssertionError as e:
            print("not ok complete-%s-%s: %s" % (SHELL, name, e), flush=True)
            shell = start()
    for name, line in (("pid", "perfwind record -p "), ("pid-list", "perfwind top -p 1,")):
        try:
            shell.lists(line, r"\b%d\s+sleep\b" % sleeper.pid)
            print("ok complete-%s-%s" % (SHELL, name), flush=True)
        except AssertionError as e:
            print("not ok complete-%s-%s: %s" % (SHELL, name, e), flush=True)
            shell = start()
finally:
    sleeper.kill()
