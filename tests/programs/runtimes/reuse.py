"""reuse.py SECONDS - four functions, one after another: each is made, runs for a quarter of the CPU time, and is freed, so the next
one's code object is in the same memory.  Prints how many of them were at an address that an earlier one had."""
import sys
import time

TURN = float(sys.argv[1]) / 4


def make(number):
    scope = {}
    exec("def phase_%d(end, now):\n    while now() < end:\n        sum(range(300))\n" % number, scope)
    return scope.pop("phase_%d" % number)


def main():
    seen = set()
    again = 0
    for number in range(4):
        function = make(number)
        again += id(function.__code__) in seen
        seen.add(id(function.__code__))
        function(time.process_time() + TURN, time.process_time)
        del function
    print(again)


main()
