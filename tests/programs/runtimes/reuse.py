"""reuse.py SECONDS - ten functions, one after another: each is made, runs for a tenth of the time, and is freed, so the next
one's code object is in the same memory.  Prints how many of them were at an address that an earlier one had."""
import sys
import time

TURN = float(sys.argv[1]) / 10


def make(number):
    scope = {}
    exec("def phase_%d(end, now):\n    while now() < end:\n        sum(range(300))\n" % number, scope)
    return scope.pop("phase_%d" % number)


def main():
    seen = set()
    again = 0
    for number in range(10):
        function = make(number)
        again += id(function.__code__) in seen
        seen.add(id(function.__code__))
        function(time.monotonic() + TURN, time.monotonic)
        del function
    print(again)


main()
