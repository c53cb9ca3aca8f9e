<?php
// closures.php SECONDS - closures that each call makes and frees, in functions, methods, closures and traits.  leaf_X() is called by a closure
// that only X() makes, with the class of X(): `X;..;{closure};leaf_X`.
namespace App;

function spin($n)
{
	for ($y = 1; $n > 0; $n--)
		$y = ($y * 1103515245 + 12345) & 0x7fffffff;
	return $y;
}

function leaf_mapped($n) { return spin($n); }

function leaf_arrow($n) { return spin($n); }

function leaf_matched($n) { return spin($n); }

function leaf_yielded($n) { return spin($n); }

function leaf_total($n) { return spin($n); }

function leaf_sorted($n) { return spin($n); }

function leaf_nested($n) { return spin($n); }

function leaf_shared($n) { return spin($n); }

function mapped() { return array_map(function ($n) { return leaf_mapped($n); }, [200, 300]); }

function arrow() { return array_map(fn ($n) => leaf_arrow($n), [200, 300]); }

function matched() { return preg_replace_callback('/[a-z]+/', function ($m) { return leaf_matched(150) . $m[0]; }, 'ab cd ef'); }

function yielded()
{
	foreach ((function () { for ($i = 0; $i < 3; $i++) yield leaf_yielded(150); })() as $value)
		;
	return $value;
}

trait Shared
{
	function shared() { return array_map(function ($n) { return leaf_shared($n) + $this->factor; }, [200, 200]); }
}

class Cart
{
	use Shared;
	private $factor = 3;

	function total() { return array_map(function ($n) { return leaf_total($n) * $this->factor; }, [200, 300]); }

	static function sorted()
	{
		$list = [3, 1, 2];
		usort($list, fn ($a, $b) => leaf_sorted(150) ? $a <=> $b : 0);
		return $list;
	}

	function nested()
	{
		return array_map(function ($n) { return array_map(fn ($k) => leaf_nested($n) + $k + $this->factor, [1, 2]); }, [100, 150]);
	}
}

class Order
{
	use Shared;
	private $factor = 4;
}

$end = microtime(true) + (float)$argv[1];
$cart = new Cart();
$order = new Order();
while (microtime(true) < $end) {
	mapped();
	arrow();
	matched();
	yielded();
	$cart->total();
	Cart::sorted();
	$cart->nested();
	$cart->shared();
	$order->shared();
}
