/* flame-draw.js - search, colours, the canvas, zoom and what is under the pointer.  Behind flame-view.js. */
/* ---- search ---- */
let pattern = null, matches = new Uint8Array(D.fn.length);
function compilePattern() {
	pattern = null;
	$("search").classList.remove("bad");
	if (!state.search) return;
	try {
		pattern = new RegExp(state.search, "i");
	} catch (e) {
		$("search").classList.add("bad");
		pattern = new RegExp(state.search.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
	}
}
function runSearch() {
	compilePattern();
	$("clear").hidden = !state.search;
	$("matched").textContent = "";
	if (!pattern) return;
	for (let f = 0; f < matches.length; f++) matches[f] = pattern.test(D.fn[f]) ? 1 : 0;
	let hit = {samples: 0, weight: 0};
	for (const t of chosen)
		for (let i = t.first; i < t.last;) {
			if (!matches[fn[i]]) { i++; continue; }
			hit.samples += sum.samples[i];
			hit.weight += sum.weight[i];
			i = end[i];
		}
	const b = document.createElement("b");
	b.textContent = percent(hit[state.unit], root[state.unit]);
	$("matched").append(b, " matched, " + amount(hit[state.unit], state.unit));
}
function isMatch(n) { return n.f >= 0 ? matches[n.f] : pattern.test(n.name); }

/* ---- colours ---- */
function hash(text) {
	let h = 2166136261;
	for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
	h ^= h >>> 15; h = Math.imul(h, 0x2c1b3c6d); h ^= h >>> 12;
	return (h >>> 0) / 4294967296;
}
let isDark = false;
const colours = new Map();
/* The hue of each kind of code; native code is 14 to 50, the kernel's 196 to 222. */
const HUES = {"java-interpreted": 60, "java-c1": 92, "java-c2": 132, js: 168, python: 232, php: 268, ruby: 346};
/* Why threads wait: [hue, saturation].  The frame of a wait is of module "[wait]" (protos/wait-module.h). */
const REASONS = {sleep: [220, 10], lock: [0, 70], disk: [24, 75], "pipe or socket": [172, 50], poll: [190, 30], child: [262, 35],
	"page fault": [310, 55], preempted: [52, 85], runnable: [74, 60], waiting: [330, 25], running: [100, 50],
	"records lost": [0, 0]};
function reasonOf(f) { return f >= 0 && moduleOf(f) === "[wait]" ? D.fn[f].slice(1, -1) : ""; }
function reasonColour(reason, l) { const [h, s] = REASONS[reason] || REASONS.waiting; return hsl(h, s, l); }
function kindOf(n) { return n.f >= 0 && D.fl ? D.kinds[D.fl[n.f]] : ""; }
function hsl(h, s, l) { return "hsl(" + h.toFixed(0) + "," + s + "%," + l.toFixed(1) + "%)"; }
function colourOf(n) {
	if (pattern && isMatch(n)) return isDark ? "hsl(322,62%,50%)" : "hsl(322,85%,74%)";
	const key = n.kind + (n.f >= 0 ? "f" + n.f : n.name) + (n.inlined && n.f >= 0 ? "i" : "");
	let c = colours.get(key);
	if (c) return c;
	const v = hash(n.name), l = (isDark ? 36 : 70) + 6 * v + (n.inlined && n.f >= 0 ? (isDark ? -5 : 9) : 0);
	if (n.kind === ROOT) c = isDark ? "#3a3d42" : "#dcdad3";
	else if (n.kind === PROCESS) c = isDark ? "#474b52" : "#cfccc2";
	else if (n.kind === MARKER) c = isDark ? "#5a5a5e" : "#bdbdbd";
	else if (reasonOf(n.f)) c = reasonColour(reasonOf(n.f), isDark ? 40 : 64);
	else if (state.colour === "module") c = hsl(360 * hash("m" + moduleOf(n.f)), isDark ? 36 : 62, l);
	else if (n.kind === KERNEL) c = hsl(196 + 26 * v, isDark ? 38 : 58, l);
	else if (HUES[kindOf(n)] !== undefined) c = hsl(HUES[kindOf(n)] + 10 * v, isDark ? 40 : 60, l);
	else c = hsl(14 + 36 * v, isDark ? 52 : 88, l - (isDark ? 0 : 2));
	colours.set(key, c);
	return c;
}

/* ---- drawing ---- */
const canvas = $("graph"), scroll = $("scroll"), space = $("space"), ctx = canvas.getContext("2d");
let width = 0, height = 0, ratio = 1, contentRows = 1, hits = [], hovered = null, charWidth = 7, pending = 0;
const FONT = "11.5px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
function resize() {
	ratio = window.devicePixelRatio || 1;
	width = scroll.clientWidth;
	height = scroll.clientHeight;
	canvas.width = Math.max(1, Math.round(width * ratio));
	canvas.height = Math.max(1, Math.round(height * ratio));
	canvas.style.width = width + "px";
	canvas.style.height = height + "px";
	ctx.font = FONT;
	charWidth = ctx.measureText("MMMMMMMMMM").width / 10;
	draw();
}
function redraw() {
	if (!pending) pending = requestAnimationFrame(() => { pending = 0; draw(); });
}
function rowTop(depth) {
	return state.flip === "1" ? Math.max(contentRows * ROW, height) - (depth + 1) * ROW : depth * ROW;
}
function label(text, room) {
	const fits = Math.floor(room / charWidth);
	if (text.length <= fits) return text;
	return fits < 3 ? "" : text.slice(0, fits - 1) + "…";
}
/* Depth first with a stack of its own.  Frames narrower than TINY are one grey strip with their neighbours. */
function draw() {
	if (!width || !root) return;
	const m = state.unit, [from, to] = range, scale = width / Math.max(to - from, 1e-9);
	const top = scroll.scrollTop, faint = isDark ? "#2b2d31" : "#eceae5", ink = isDark ? "#f3f1ec" : "#1d1c19";
	const stack = [root];
	let rows = 1;
	ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
	ctx.clearRect(0, 0, width, height);
	ctx.font = FONT;
	ctx.textBaseline = "middle";
	hits = [];
	while (stack.length) {
		const n = stack.pop(), y = rowTop(n.depth) - top;
		const x0 = Math.max(0, (n.x - from) * scale), x1 = Math.min(width, (n.x + n[m] - from) * scale);
		rows = Math.max(rows, n.depth + 1);
		if (y > -ROW && y < height) {
			const dimmed = pattern && !isMatch(n);
			const w = Math.max(x1 - x0 - (x1 - x0 > 3 ? 1 : 0), 0.5);
			ctx.globalAlpha = n.depth < zoom.depth ? 0.55 : 1;
			ctx.fillStyle = dimmed && n.f >= 0 ? faint : colourOf(n);
			ctx.fillRect(x0, y, w, ROW - 1);
			if (n === hovered || n === selected) {
				ctx.strokeStyle = ink;
				ctx.strokeRect(x0 + 0.5, y + 0.5, Math.max(w - 1, 1), ROW - 2);
			}
			if (x1 - x0 > 4 * charWidth) {
				const text = label(n.name, x1 - x0 - 7);
				ctx.fillStyle = dimmed && n.f >= 0 ? (isDark ? "#8d8c88" : "#8a867d") : ink;
				if (text) ctx.fillText(text, x0 + 4, y + ROW / 2, x1 - x0 - 6);
			}
			ctx.globalAlpha = 1;
			(hits[n.depth] = hits[n.depth] || []).push([x0, x1, n]);
		}
		let dust = -1, dustEnd = -1;
		const yk = rowTop(n.depth + 1) - top, strip = () => {
			if (dustEnd - dust >= TINY && yk > -ROW && yk < height) {
				ctx.fillStyle = isDark ? "#3c3e43" : "#dedbd3";
				ctx.fillRect(dust, yk, dustEnd - dust, ROW - 1);
				rows = Math.max(rows, n.depth + 2);
			}
			dust = -1;
		};
		for (const k of kids(n)) {
			const a = (k.x - from) * scale, b = a + k[m] * scale;
			if (b <= 0 || a >= width) continue;
			if (b - a < TINY) {
				if (dust < 0) dust = Math.max(0, a);
				dustEnd = b;
				continue;
			}
			if (dust >= 0) strip();
			stack.push(k);
		}
		if (dust >= 0) strip();
	}
	setRows(rows);
}
/* The scroll bar's length follows what is drawn; the root stays in sight when it is at the bottom. */
function setRows(rows) {
	const px = Math.max(rows * ROW + 4, height) + "px";
	if (rows === contentRows && space.style.height === px) return;
	const below = space.offsetHeight - scroll.scrollTop;
	contentRows = rows;
	space.style.height = px;
	if (state.flip === "1") scroll.scrollTop = space.offsetHeight - below;
	redraw();
}
function nodeAt(event) {
	const box = canvas.getBoundingClientRect(), x = event.clientX - box.left;
	const y = event.clientY - box.top + scroll.scrollTop;
	const depth = state.flip === "1" ? Math.floor((Math.max(contentRows * ROW, height) - y) / ROW) : Math.floor(y / ROW);
	const hit = (hits[depth] || []).find(h => x >= h[0] && x < h[1]);
	return hit ? hit[2] : null;
}

/* ---- zoom ---- */
let animation = 0;
function glide(start, from) {
	animation = requestAnimationFrame(now => {
		const t = Math.min(1, (now - start) / 180), e = 1 - Math.pow(1 - t, 3);
		range = [from[0] + (target[0] - from[0]) * e, from[1] + (target[1] - from[1]) * e];
		draw();
		if (t < 1) glide(start, from);
	});
}
function zoomTo(n) {
	const path = [];
	zoom = n;
	for (let k = n; k.up; k = k.up) path.unshift(k.key);
	state.zoom = path.join(".");
	target = [n.x, n.x + n[state.unit]];
	cancelAnimationFrame(animation);
	if (calm.matches || document.hidden) { range = target; redraw(); } else glide(performance.now(), range);
	showCrumbs();
	writeHash();
}
function crumb(n) {
	const b = document.createElement("button");
	b.textContent = b.title = n.name;
	b.onclick = () => zoomTo(n);
	return b;
}
function showCrumbs() {
	const path = [], out = [];
	for (let k = zoom; k; k = k.up) path.unshift(k);
	$("reset").disabled = zoom === root;
	path.forEach((n, i) => {
		if (path.length > 7 && i === 2) out.push(document.createTextNode(" › … " + (path.length - 6) + " … "));
		if (path.length > 7 && i >= 2 && i < path.length - 4) return;
		if (i) out.push(document.createTextNode("›"));
		out.push(crumb(n));
	});
	$("crumbs").replaceChildren(...out);
}

/* ---- what is under the pointer ---- */
function describe(n) {
	const what = n.kind === KERNEL ? "kernel" : n.kind === MARKER ? "the stack did not reach its root" :
		n.kind === PROCESS ? (state.split === "thread" ? "thread" : "process") : n.kind === ROOT ? "" :
		reasonOf(n.f) ? "why the thread does not run" :
		(HUES[kindOf(n)] !== undefined ? kindOf(n) + ", " : "") +
		(baseName(moduleOf(n.f)) ? moduleOf(n.f) : "no module");
	return what + (n.f >= 0 && n.inlined ? (what ? ", " : "") + "inlined" : "");
}
function tipRow(name, weight, samples) {
	const tr = document.createElement("tr");
	for (const text of [name, percent(state.unit === "weight" ? weight : samples, root[state.unit]),
		amount(weight, "weight"), amount(samples, "samples")]) {
		const td = document.createElement("td");
		td.textContent = text;
		tr.append(td);
	}
	return tr;
}
function showTip(n, event) {
	const tip = $("tip"), name = document.createElement("div"), from = document.createElement("div");
	const table = document.createElement("table");
	name.className = "name";
	from.className = "from";
	name.textContent = n.name;
	from.textContent = describe(n);
	table.append(tipRow("Total", n.weight, n.samples));
	if (n.f >= 0 && state.invert !== "1") table.append(tipRow("Self", n.ownWeight, n.ownSamples));
	tip.replaceChildren(name, from, table);
	if (n.guessed) {
		const guess = document.createElement("div");
		guess.className = "from";
		guess.textContent = "guessed: found by frame pointer, for want of unwind information";
		tip.append(guess);
	}
	if (n.up && n.up !== root) {
		const of = document.createElement("div");
		of.className = "from";
		of.textContent = percent(n[state.unit], n.up[state.unit]) + " of " + n.up.name.slice(0, 80);
		tip.append(of);
	}
	tip.style.display = "block";
	const w = tip.offsetWidth, h = tip.offsetHeight;
	const x = event.clientX + 14 + w > innerWidth ? event.clientX - w - 10 : event.clientX + 14;
	const y = event.clientY + 18 + h > innerHeight ? event.clientY - h - 10 : event.clientY + 18;
	tip.style.left = Math.max(4, x) + "px";
	tip.style.top = Math.max(4, y) + "px";
}
function hover(n, event) {
	if (n && event) showTip(n, event); else $("tip").style.display = "none";
	$("status").textContent = n ? n.name + "  —  " + percent(n[state.unit], root[state.unit]) + ", " +
		amount(n[state.unit], state.unit) : "";
	canvas.style.cursor = n ? "pointer" : "default";
	if (n !== hovered) {
		hovered = n;
		redraw();
	}
}

