<?php
// reuse.php SECONDS - functions that are made, run for some milliseconds and are freed, one after another, so that the next one is in the
// same memory.  Caller number K, of four, calls functions with names that begin with phase_K\ and no others.  Prints how many functions
// were at an address that one of another caller had.
function spin($n)
{
	for ($y = 1; $n > 0; $n--)
		$y = ($y * 1103515245 + 12345) & 0x7fffffff;
	return $y;
}

function call_0($f, $end) { return $f($end); }

function call_1($f, $end) { return $f($end); }

function call_2($f, $end) { return $f($end); }

function call_3($f, $end) { return $f($end); }

function made($number)
{
	// (The code of eval() is freed when no function of it is left.)
	return eval("namespace phase_$number; return function (\$end) { for (\$y = 1; hrtime(true) < \$end; ) for (\$i = 0; \$i < 50; \$i++) \$y = (\$y * 3 + \\spin(5)) & 0xffff; return \$y; };");
}

function main($seconds)
{
	$end = hrtime(true) + $seconds * 1e9;
	$calls = ['call_0', 'call_1', 'call_2', 'call_3'];
	for ($turn = 0; hrtime(true) < $end; $turn++) {
		$function = made($turn % 4);
		$calls[$turn % 4]($function, hrtime(true) + 4000000 * (1 + $turn % 5));
		unset($function);
	}
}

main((float)$argv[1]);
