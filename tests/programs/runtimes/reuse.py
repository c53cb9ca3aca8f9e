"""reuse.py SECONDS - four functions, one after another: each is made, runs for a quarter of the CPU time, and is freed, so the next
one's code object is in the same memory.  Then, for as long, bodies of modules of 4 ms, each of which is freed when it has run: functions
never_0() .. that do not run are made in its memory.  Prints how many code objects were where an earlier one had been: functions, bodies."""
import marshal
import sys
import time

SECONDS = float(sys.argv[1])
BODY = """
import time as t
end = t.process_time() + 0.004
while t.process_time() < end:
    sum(range(300))
"""


def make(number):
    scope = {}
    exec("def phase_%d(end, now):\n    while now() < end:\n        sum(range(300))\n" % number, scope)
    return scope.pop("phase_%d" % number)


def functions():
    seen = set()
    again = 0
    for number in range(4):
        function = make(number)
        again += id(function.__code__) in seen
        seen.add(id(function.__code__))
        function(time.process_time() + SECONDS / 4, time.process_time)
        del function
    return again


def never(number):
    """Code of a function with a size of its own: one of them is as large as the body's."""
    source = "def never_%d(x):\n%s" % (number, "    x = 1\n" * (3 * number + 1))
    return compile(source, "never.py", "exec").co_consts[0]


def body(data):
    code = marshal.loads(data)
    exec(code, {})
    return id(code)


def bodies():
    data = marshal.dumps(compile(BODY, "body.py", "exec"))
    nevers = [marshal.dumps(never(number)) for number in range(40)]
    end = time.process_time() + SECONDS
    again = 0
    while time.process_time() < end:
        freed = body(data)
        kept = [marshal.loads(never) for never in nevers]
        again += freed in [id(code) for code in kept]
    return again


def main():
    print(functions(), bodies())


main()
