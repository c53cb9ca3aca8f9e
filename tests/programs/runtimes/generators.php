<?php
// generators.php SECONDS - generators that wait in `yield from` for others and for iterators, and destructors.  Above each leaf_X() is the
// list of its callers.
function spin($n)
{
	for ($y = 1; $n > 0; $n--)
		$y = ($y * 1103515245 + 12345) & 0x7fffffff;
	return $y;
}

// {main} run outermost outer inner
function leaf_inner() { return spin(300); }

// {main} run outermost outer
function leaf_outer() { return spin(300); }

// {main} run outermost
function leaf_outermost() { return spin(300); }

// {main} hand first second (and a function of Generator)
function leaf_second() { return spin(300); }

// {main} iterate around over Values::current
function leaf_values() { return spin(200); }

// {main} hold Held::__destruct
function leaf_held() { return spin(300); }

// {main} finish before last Ended::__destruct
function leaf_ended() { return spin(300); }

function inner()
{
	for ($i = 0; $i < 3; $i++)
		yield leaf_inner();
}

function outer()
{
	yield leaf_outer();
	yield from inner();
}

function outermost()
{
	yield leaf_outermost();
	yield from outer();
}

function run() { foreach (outermost() as $value); }

function second() { yield leaf_second(); yield leaf_second(); }

function first() { yield from second(); }

function hand()
{
	for ($generator = first(); $generator->valid(); $generator->next())
		;
}

class Values implements Iterator
{
	private $at = 0;

	function current(): mixed { return leaf_values(); }

	function key(): mixed { return $this->at; }

	function next(): void { $this->at++; }

	function valid(): bool { return $this->at < 3; }

	function rewind(): void { $this->at = 0; }
}

function over() { yield from new Values(); }

function around() { yield from over(); }

function iterate() { foreach (around() as $value); }

class Held
{
	function __destruct() { leaf_held(); }
}

function hold()
{
	$held = new Held();
	return 1;
}

class Ended
{
	function __destruct() { leaf_ended(); }
}

function last()
{
	$ended = new Ended();
	yield 1;
}

function before() { yield from last(); }

function finish() { foreach (before() as $value); }

$end = microtime(true) + (float)$argv[1];
while (microtime(true) < $end) {
	run();
	hand();
	iterate();
	hold();
	finish();
}
