"""nested.py SECONDS - recursion, methods, generators, sorting by a key function; inner() does the work."""
import sys
import time


def inner(x):
    y = x
    for _ in range(30):
        y = (y * 6364136223846793005 + 1) & 0xFFFFFFFFFFFF
    return y


def recurse(depth, x):
    return inner(x) if depth == 0 else recurse(depth - 1, x + depth) + 1


class Shape:
    def __init__(self, x):
        self.x = x

    def area(self):
        return inner(self.x)


def generate(x):
    for i in range(5):
        yield inner(x + i)


def sort(x):
    return sorted([inner(x + i) for i in range(10)], key=lambda v: inner(v))


def main():
    end = time.monotonic() + float(sys.argv[1])
    x = total = 0
    while time.monotonic() < end:
        x += 1
        total += recurse(10, x) + Shape(x).area() + sum(generate(x)) + sum(sort(x))
    print(total & 1)


main()
