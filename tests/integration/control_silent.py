#!/usr/bin/env python3
"""control_silent.py SOCKET PID FILE SERVER - FILE, of a file system that SERVER serves and that answers no FLUSH from SIGUSR1 on, is
sent as the descriptor for the packets, again and again: each is answered, and the sender is refused in the end.  It says so and
stays, as its own end would wait for that answer too."""
import os
import sys
import time

import control_client
from control_client import DENIED, hear, request, send_with

path, pid, file = sys.argv[1], int(sys.argv[2]), os.open(sys.argv[3], os.O_RDONLY)
print("open", flush=True)
sys.stdin.readline()
stuck = 0
for i in range(200):
    s = control_client.connect(path)
    send_with(s, request([pid]), file)
    said = hear(s, DENIED)[1]
    s.close()
    stuck += b"is no socket" in said
    if b"could not be closed" in said:
        break
    if b"is no socket" not in said:
        sys.exit("answered: %r" % said)
print("refused after %u" % stuck, flush=True)
time.sleep(600)
