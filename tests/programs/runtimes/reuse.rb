# reuse.rb SECONDS - methods that are made, run for some milliseconds and are freed, so that the next ones are in the same memory.
# Caller number K, of four, calls methods with names that begin with phase_K_ and no others.
def spin(n)
  y = 1
  while n > 0
    y = (y * 1103515245 + 12345) & 0x7fffffff
    n -= 1
  end
  y
end

def call_0(object, name, finish) = object.send(name, finish)

def call_1(object, name, finish) = object.send(name, finish)

def call_2(object, name, finish) = object.send(name, finish)

def call_3(object, name, finish) = object.send(name, finish)

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

# (A class of its own each time: it is freed with its methods.)
def made(name)
  Class.new.class_eval("def #{name}(finish)\n y = 1\n while now < finish\n  i = 0\n  while i < 50\n   y = (y * 3 + spin(5)) & 0xffff\n   i += 1\n  end\n end\n y\nend\nself").new
end

def main(seconds)
  finish = now + seconds
  turn = 0
  while now < finish
    name = "phase_#{turn % 4}_#{turn % 7}"
    send("call_#{turn % 4}", made(name), name, now + 0.004 * (1 + turn % 5))
    GC.start if turn % 3 == 0
    turn += 1
  end
end

main(ARGV[0].to_f)
