// leaves.js SECONDS - functions of V8 in C++ that are each called by one function, from several callers (leaves.py checks the stacks).
'use strict';
// An optimizing compiler would put callees into their callers, which have no frame then.
require('v8').setFlagsFromString('--no-turbo-inlining');

const LIST = Array.from({ length: 400 }, (_, i) => ({ i, name: 'item ' + i }));
const TEXT = JSON.stringify(LIST);

function written() {
	return JSON.stringify(LIST).length;
}

function parsed() {
	return JSON.parse(TEXT).length;
}

function spin(n) {
	let y = 1;
	for (let i = 0; i < 40 * n; i++)
		y = (Math.imul(y, 1103515245) + 12345) ^ (y >>> 7);
	return y;
}

class Pair {
	one(n) {
		return written() + spin(n);
	}

	two(n) {
		return parsed() + spin(n);
	}
}

function* generate(pair, n) {
	for (let i = 0; i < n; i++)
		yield pair.one(50) + pair.two(50);
}

function left(pair) {
	let sum = 0;
	for (const x of generate(pair, 2))
		sum += x;
	return sum + spin(30);
}

function right(pair) {
	return Math.max(...[20, 30].map(n => pair.one(n))) + spin(30);
}

function main(seconds) {
	const end = Date.now() + 1000 * seconds, pair = new Pair();
	// On a busy machine there is little CPU time in a second.
	for (let round = 0; round < 300 || Date.now() < end; round++) {
		left(pair);
		right(pair);
	}
}

main(Number(process.argv[2]));
