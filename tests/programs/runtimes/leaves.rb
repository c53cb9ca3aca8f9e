# leaves.rb SECONDS [threads] - functions of libraries that are each called by one Ruby method, from several callers; leaves.py --check ruby
# reads folded stacks and has the table of what is right.
require 'zlib'

DATA_ = (0..255).to_a.pack('C*') * 40
SMALL = Zlib.deflate(DATA_, 1)

# (A method that matches has variables of its own in front of its method entry.)
module Packing
  def crushed(data) = 'pair' =~ /a/ && Zlib.deflate(data, 1)

  def self.expanded(data) = Zlib.inflate(data)
end

def summed(data) = Zlib.crc32(data)

def spin(n)
  y = 1
  while n > 0
    y = (y * 1103515245 + 12345) & 0x7fffffff
    n -= 1
  end
  y
end

class Pair
  include Packing

  def one(n) = crushed(DATA_).size + summed(DATA_) + spin(n)

  def self.two(n) = Packing.expanded(SMALL).size + spin(n)
end

def generate(pair, n)
  n.times { |i| yield pair.one(50) + Pair.two(50) }
end

def left(pair)
  sum = 0
  generate(pair, 2) { |value| sum += value + spin(20) }
  sum + spin(30)
end

def right(pair)
  [20, 30].map { |n| pair.one(n) }.max + spin(30)
end

def main(seconds)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  pair = Pair.new
  while Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish
    left(pair)
    right(pair)
  end
end

if ARGV[1] == 'threads'
  2.times.map { Thread.new { main(ARGV[0].to_f) } }.each(&:join)
else
  main(ARGV[0].to_f)
end
