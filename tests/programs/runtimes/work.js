// work.js SECONDS - recursion, polymorphic calls, closures, strings, sorting, exceptions; inner() does the work;
// north() calls northLeaf(), south() southLeaf(), and both nothing else, so the leaf of these samples is known.
function inner(x) { let y = x; for (let i = 0; i < 60; i++) y = (Math.imul(y, 1103515245) + 12345) ^ (y >>> 7); return y; }
function recurse(n, x) { return n === 0 ? inner(x) : recurse(n - 1, x + n) + 1; }
class A { area(x) { return inner(x); } } class B { area(x) { return inner(x + 1); } } class C { area(x) { return inner(x) * 2; } }
const all = [new A(), new B(), new C()];
function shapes(x) { let s = 0; for (let i = 0; i < 9; i++) s += all[i % 3].area(x + i); return s; }
function lambdas(x) { return [1, 2, 3, 4, 5].map(v => inner(v + x)).filter(v => v & 1).reduce((a, b) => a + b, 0); }
function strings(x) { let s = ''; for (let i = 0; i < 10; i++) s += x + i + ','; return s.split(',').join(';').replace(/;/g, '-').length; }
function sorts(x) { const a = []; for (let i = 0; i < 20; i++) a.push(inner(x + i)); a.sort((p, q) => p - q); return a[3]; }
function exceptions(x) { try { if (x % 16 == 0) throw new Error('x' + x); return inner(x); } catch (e) { return e.message.length; } }
function northLeaf(x) { let y = x; for (let i = 0; i < 3200000; i++) y = (Math.imul(y, 1103515245) + 12345) ^ (y >>> 7); return y; }
function southLeaf(x) { let y = x; for (let i = 0; i < 3200000; i++) y = (Math.imul(y, 1664525) + 12345) ^ (y >>> 9); return y; }
function north(x) { return northLeaf(x) + 1; }
function south(x) { return southLeaf(x) + 1; }
function main(seconds) {
	const end = Date.now() + 1000 * seconds;
	let x = 0, sum = 0;
	// On a busy machine there is little CPU time in a second.
	for (let round = 0; round < 40 || Date.now() < end; round++) {
		sum += north(x) + south(x);
		for (let i = 0; i < 50; i++) {
			x++;
			for (let k = 0; k < 20; k++) sum += recurse(30, x + k);
			sum += shapes(x) + lambdas(x) + strings(x) + sorts(x) + exceptions(x);
		}
	}
	return sum;
}
console.log(main(Number(process.argv[2])) & 1);
// Code is read while its process lives.
setTimeout(() => {}, 300);
