<?php
// leaves.php SECONDS - functions of libraries that are each called by one PHP function, from several callers; leaves.py --check php
// reads folded stacks and has the table of what is right.
define('DATA', str_repeat(implode('', array_map('chr', range(0, 255))), 40));
define('SMALL', gzcompress(DATA, 1));

function crushed($data) { return gzcompress($data, 1); }

function expanded($data) { return gzuncompress($data); }

function matched($data) { return preg_match('/(?:[a-y]|[0-9])*z[0-9]/', $data); }

function spin($n)
{
	$y = 1;
	for ($i = 0; $i < $n; $i++)
		$y = ($y * 1103515245 + 12345) & 0x7fffffff;
	return $y;
}

class Pair
{
	function one($n) { return strlen(crushed(DATA)) + matched(DATA) + spin($n); }

	static function two($n) { return strlen(expanded(SMALL)) + spin($n); }
}

function generate($pair, $n)
{
	for ($i = 0; $i < $n; $i++)
		yield $pair->one(50) + Pair::two(50);
}

function left($pair)
{
	$sum = 0;
	foreach (generate($pair, 2) as $value)
		$sum += $value;
	return $sum + spin(30);
}

function right($pair)
{
	return max(array_map(function ($n) use ($pair) { return $pair->one($n); }, [20, 30])) + spin(30);
}

function main($seconds)
{
	$end = microtime(true) + $seconds;
	$pair = new Pair();
	while (microtime(true) < $end) {
		left($pair);
		right($pair);
	}
}

main((float)$argv[1]);
