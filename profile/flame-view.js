"use strict";
/* flame-view.js - the stored forest, the state, and the tree that is looked at.  See html.c and flame.html. */
/* The head of html.c describes the data.  Names in it are not trusted: they reach the page only by
 * textContent and fillText. */
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);
const KERNEL = 1, MARKER = 2, PROCESS = 3, ROOT = 4; /* kinds; 0 is user */
const ROW = 19, TINY = 0.5;

/* ---- the stored forest: arrays by node, in preorder ---- */
const N = D.f.length;
const fn = new Int32Array(N), inlined = new Uint8Array(N), guessed = new Uint8Array(N), parent = new Int32Array(N), end = new Int32Array(N);
const own = {samples: new Float64Array(N), weight: new Float64Array(N)};
const sum = {samples: new Float64Array(N), weight: new Float64Array(N)};
const threads = [];
(function decode() {
	for (const i of D.guessed || []) guessed[i] = 1;
	let at = 0;
	for (const [pid, tid, p, t, n] of D.threads) {
		threads.push({pid, tid, process: p, name: t, first: at, last: at + n, samples: 0, weight: 0});
		const path = [];
		for (const stop = at + n; at < stop; at++) {
			path.length = Math.max(0, path.length - D.up[at]);
			parent[at] = path.length ? path[path.length - 1] : -1;
			path.push(at);
			inlined[at] = D.f[at] < 0 ? 1 : 0;
			fn[at] = D.f[at] < 0 ? -1 - D.f[at] : D.f[at];
			own.samples[at] = D.c[at];
			own.weight[at] = D.c[at] * D.base + D.w[at];
			end[at] = at + 1;
		}
	}
	for (let i = N - 1; i >= 0; i--) {
		for (const m of ["samples", "weight"]) {
			sum[m][i] += own[m][i];
			if (parent[i] >= 0)
				sum[m][parent[i]] += sum[m][i];
		}
		if (parent[i] >= 0)
			end[parent[i]] = Math.max(end[parent[i]], end[i]);
	}
	for (const t of threads)
		for (let i = t.first; i < t.last; i = end[i])
			for (const m of ["samples", "weight"])
				t[m] += sum[m][i];
})();

/* ---- state, kept in the address's #hash so that a view can be passed on ---- */
const dark = matchMedia("(prefers-color-scheme: dark)");
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const processNames = new Set(threads.map(t => t.process));
const first = {tab: "flame", unit: "weight", invert: "0", flip: "0", colour: "kind",
	split: processNames.size > 1 ? "process" : "none", search: "", process: "", pid: "", tid: "", theme: "", zoom: ""};
const state = Object.assign({}, first);
function readHash() {
	for (const part of location.hash.slice(1).split("&")) {
		const cut = part.indexOf("=");
		const key = cut < 0 ? part : part.slice(0, cut);
		if (!Object.prototype.hasOwnProperty.call(first, key))
			continue;
		try { state[key] = decodeURIComponent(cut < 0 ? "1" : part.slice(cut + 1)); } catch (e) { /* not ours */ }
	}
	if (!["samples", "weight"].includes(state.unit)) state.unit = "weight";
	if (!["none", "process", "thread"].includes(state.split)) state.split = first.split;
	if (!["kind", "module"].includes(state.colour)) state.colour = "kind";
}
function writeHash() {
	let text = Object.keys(first).filter(k => state[k] !== first[k])
		.map(k => k + "=" + encodeURIComponent(state[k])).join("&");
	if (text.length > 6000) text = "";
	try { history.replaceState(null, "", text ? "#" + text : location.pathname + location.search); } catch (e) { /* some viewers forbid it */ }
}

/* ---- numbers ---- */
const isTime = D.unit === "ns";
function count(v) { return Math.round(v).toLocaleString("en-US"); }
function scaled(v, steps) {
	for (const [from, unit] of steps)
		if (v >= from * 0.99995)
			return (v / from).toPrecision(v / from >= 999.5 ? 4 : 3).replace(/e.*/, "") + unit;
	return count(v);
}
function amount(v, unit) {
	if (unit === "samples") return count(v) + (Math.round(v) === 1 ? " sample" : " samples");
	if (isTime) return v ? scaled(v, [[1e9, " s"], [1e6, " ms"], [1e3, " µs"], [1, " ns"]]) : "0";
	return scaled(v, [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) + " " + D.unit;
}
function percent(part, whole) {
	const p = whole ? 100 * part / whole : 0;
	return part > 0 && p < 0.005 ? "<0.01%" : p.toFixed(p < 10 ? 2 : 1) + "%";
}

/* ---- names ---- */
function moduleOf(f) { return D.fm[f] >= 0 ? D.modules[D.fm[f]] : ""; }
function baseName(path) { return path.replace(/^.*\/(?=.)/, ""); }

/* ---- the view: a tree that is made as far as it is looked at ----
 * A view node stands for many stored nodes.  Top down: `list` holds the nodes merged in it, its children are their
 * children by function.  Inverted: `list` holds where each chain began (its own time counts) and `at` how far up it
 * is, its children are the callers by function. */
let chosen = threads, root, zoom, selected = null, range = [0, 1], target = [0, 1];
function viewNode(up, key, name, kind, f) {
	return {up, key, name, kind, f, list: [], at: null, threads: null, samples: 0, weight: 0, ownSamples: 0,
		ownWeight: 0, x: 0, depth: up ? up.depth + 1 : 0, kids: null, inlined: 1, guessed: 0};
}
function chooseThreads() {
	chosen = threads.filter(t => (!state.process || D.names[t.process] === state.process) &&
		(!state.pid || String(t.pid) === state.pid) && (!state.tid || String(t.tid) === state.tid));
	if (!chosen.length) {
		state.process = state.pid = state.tid = "";
		chosen = threads;
	}
}
function build() {
	root = viewNode(null, "", "all", ROOT, -1);
	root.threads = chosen;
	for (const t of chosen) {
		root.samples += t.samples;
		root.weight += t.weight;
	}
	if (state.invert === "1") {
		root.at = root.list;
		for (const t of chosen)
			for (let i = t.first; i < t.last; i++)
				if (own.samples[i]) root.list.push(i);
	}
	zoom = root;
	selected = null;
	for (const key of state.zoom ? state.zoom.split(".") : []) {
		const kid = kids(zoom).find(k => k.key === key);
		if (!kid) break;
		zoom = kid;
	}
	target = range = [zoom.x, zoom.x + zoom[state.unit]];
}
function addTo(map, up, key, make) {
	let n = map.get(key);
	if (!n) map.set(key, n = make(key));
	return n;
}
function callNode(up) { return f => viewNode(up, String(f), D.fn[f], D.fk[f], f); }
function threadKey(t) {
	/* A pid stands for several processes in turn, a thread has several names: each is one. */
	return state.split === "thread" ? "t" + t.pid + "-" + t.tid + "-" + t.process + "-" + t.name : "p" + t.process;
}
function threadNode(up, t) {
	const name = state.split === "thread" ? D.names[t.name] + " (" + t.tid + ")" : D.names[t.process];
	const n = viewNode(up, threadKey(t), name, PROCESS, -1);
	n.threads = [];
	return n;
}
function kidsDown(n, map) {
	const add = i => {
		const k = addTo(map, n, fn[i], callNode(n));
		k.list.push(i);
		k.samples += sum.samples[i];
		k.weight += sum.weight[i];
		k.ownSamples += own.samples[i];
		k.ownWeight += own.weight[i];
		k.inlined &= inlined[i];
		k.guessed |= guessed[i];
	};
	if (n.kind === ROOT && state.split !== "none") {
		for (const t of n.threads) {
			const k = addTo(map, n, threadKey(t), () => threadNode(n, t));
			k.threads.push(t);
			k.samples += t.samples;
			k.weight += t.weight;
		}
	} else if (n.threads) {
		for (const t of n.threads)
			for (let i = t.first; i < t.last; i = end[i]) add(i);
	} else {
		for (const i of n.list)
			for (let k = i + 1; k < end[i]; k = end[k]) add(k);
	}
}
let threadOfNode = null;
function threadOf(i) {
	if (!threadOfNode) {
		threadOfNode = new Int32Array(N);
		threads.forEach((t, k) => threadOfNode.fill(k, t.first, t.last));
	}
	return threads[threadOfNode[i]];
}
function kidsUp(n, map) {
	for (let j = 0; j < n.list.length; j++) {
		const i = n.list[j], at = n.kind === ROOT ? i : parent[n.at[j]];
		let k;
		if (n.kind === PROCESS) return;
		if (at >= 0) {
			k = addTo(map, n, fn[at], callNode(n));
			k.inlined &= inlined[at];
			k.guessed |= guessed[at];
		} else if (state.split !== "none") {
			const t = threadOf(i);
			k = addTo(map, n, threadKey(t), () => threadNode(n, t));
		} else {
			continue;
		}
		if (!k.at) k.at = [];
		k.list.push(i);
		k.at.push(at);
		k.samples += own.samples[i];
		k.weight += own.weight[i];
		if (n.kind === ROOT) {
			k.ownSamples += own.samples[i];
			k.ownWeight += own.weight[i];
		}
	}
}
function kids(n) {
	if (n.kids) return n.kids;
	const map = new Map(), m = state.unit;
	(state.invert === "1" ? kidsUp : kidsDown)(n, map);
	n.kids = [...map.values()].sort((a, b) => b[m] - a[m] || (a.name < b.name ? -1 : 1));
	let x = n.x;
	for (const k of n.kids) {
		k.x = x;
		x += k[m];
	}
	return n.kids;
}
