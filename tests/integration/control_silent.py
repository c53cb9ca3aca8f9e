#!/usr/bin/env python3
"""control_silent.py SOCKET PID FILE SERVER - FILE, of a file system that SERVER serves and that answers no FLUSH from SIGUSR1 on, is
sent with the request, again and again: each request is denied.  It reports it and stays, as its own end would wait for that answer
too."""
import os
import sys
import time

import control_client
from control_client import DENIED, hear, request, send_with

path, pid, file = sys.argv[1], int(sys.argv[2]), os.open(sys.argv[3], os.O_RDONLY)
print("open", flush=True)
sys.stdin.readline()
for i in range(200):
    s = control_client.connect(path)
    send_with(s, request([pid]), file)
    text = hear(s, DENIED)[1]
    s.close()
    if b"has a descriptor, as in version 2" not in text:
        sys.exit("answered: %r" % text)
print("denied", flush=True)
time.sleep(600)
