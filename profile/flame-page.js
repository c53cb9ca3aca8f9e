/* flame-page.js - the table, the menu of processes, buttons and keys; starts it all.  Behind flame-draw.js. */
/* ---- the table of functions ---- */
let sortBy = "own", sortUp = false;
function functionRows() {
	const m = state.unit, F = D.fn.length, rows = [];
	const self = {samples: new Float64Array(F), weight: new Float64Array(F)};
	const total = {samples: new Float64Array(F), weight: new Float64Array(F)};
	const open = new Int32Array(F), path = [];
	const leave = upTo => { while (path.length && end[path[path.length - 1]] <= upTo) open[fn[path.pop()]]--; };
	for (const t of chosen) {
		for (let i = t.first; i < t.last; i++) {
			const f = fn[i];
			leave(i);
			for (const k of ["samples", "weight"]) {
				self[k][f] += own[k][i];
				if (!open[f]) total[k][f] += sum[k][i]; /* a recursive call counts once */
			}
			open[f]++;
			path.push(i);
		}
		leave(N);
	}
	for (let f = 0; f < F; f++)
		if (total.samples[f] && (!pattern || matches[f]))
			rows.push({f, name: D.fn[f], module: D.fk[f] === KERNEL ? "kernel" : baseName(moduleOf(f)), own: self[m][f],
				total: total[m][f], samples: total.samples[f], ownSamples: self.samples[f]});
	return rows;
}
function cell(text, cls) {
	const td = document.createElement("td");
	td.textContent = text;
	td.className = cls || "";
	return td;
}
function shareCell(value) {
	const td = document.createElement("td"), bar = document.createElement("span"), fill = document.createElement("i");
	bar.className = "share";
	fill.style.width = (root[state.unit] ? 100 * value / root[state.unit] : 0) + "%";
	bar.append(fill);
	td.append(bar, percent(value, root[state.unit]));
	return td;
}
function findFunction(f) {
	state.search = "^" + D.fn[f].replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + "$";
	state.tab = "flame";
	update(false);
}
function showTable() {
	const all = functionRows(), sign = sortUp ? 1 : -1, limit = 500;
	const head = document.createElement("tr"), body = document.createElement("tbody");
	const heads = [["own", "Self"], ["own", "Self " + (state.unit === "samples" ? "samples" : isTime ? "time" : D.unit)],
		["total", "Total"], ["total", "Total " + (state.unit === "samples" ? "samples" : isTime ? "time" : D.unit)],
		["name", "Function"], ["module", "Module"]];
	all.sort((a, b) => sign * (typeof a[sortBy] === "string" ? a[sortBy].localeCompare(b[sortBy]) : a[sortBy] - b[sortBy]) ||
		b.total - a.total || a.f - b.f);
	let marked = false;
	for (const [key, title] of heads) {
		const mark = key === sortBy && !marked, th = document.createElement("th"), b = document.createElement("button");
		const text = key === "name" || key === "module";
		th.className = text ? "left" : "";
		marked = marked || mark;
		if (mark) th.setAttribute("aria-sort", sortUp ? "ascending" : "descending");
		b.textContent = title + (mark ? (sortUp ? " ▴" : " ▾") : "");
		b.onclick = () => { sortUp = key === sortBy ? !sortUp : text; sortBy = key; showTable(); };
		th.append(b);
		head.append(th);
	}
	for (const r of all.slice(0, limit)) {
		const tr = document.createElement("tr"), name = cell(r.name, "left name"), unit = state.unit;
		name.title = r.name;
		name.onclick = () => findFunction(r.f);
		tr.append(shareCell(r.own), cell(unit === "samples" ? count(r.own) : amount(r.own, unit)), shareCell(r.total),
			cell(unit === "samples" ? count(r.total) : amount(r.total, unit)), name, cell(r.module, "left"));
		body.append(tr);
	}
	if (all.length > limit) {
		const tr = document.createElement("tr"), td = cell("and " + count(all.length - limit) + " more: search narrows them", "left");
		td.colSpan = heads.length;
		tr.append(td);
		body.append(tr);
	}
	const table = document.createElement("table"), thead = document.createElement("thead");
	thead.append(head);
	table.append(thead, body);
	$("table").replaceChildren(table);
}

/* ---- processes and threads ---- */
const opened = new Set();
function tree() {
	const groups = new Map();
	for (const t of threads) {
		const g = addTo(groups, null, t.process, () => ({name: D.names[t.process], pids: new Map(), samples: 0, weight: 0}));
		const p = addTo(g.pids, null, t.pid, () => ({pid: t.pid, tids: new Map(), threads: [], samples: 0, weight: 0}));
		const one = addTo(p.tids, null, t.tid, () => {
			const made = {pid: t.pid, tid: t.tid, names: new Set(), samples: 0, weight: 0};
			p.threads.push(made);
			return made;
		});
		one.names.add(D.names[t.name]); /* all it had, if it was renamed */
		for (const m of ["samples", "weight"]) { g[m] += t[m]; p[m] += t[m]; one[m] += t[m]; }
	}
	return [...groups.values()].sort((a, b) => b[state.unit] - a[state.unit]);
}
function item(level, text, value, whole, choice, key, hasKids) {
	const div = document.createElement("div"), open = document.createElement("button"), what = document.createElement("button");
	const name = document.createElement("span"), share = document.createElement("span");
	div.className = "item" + (["process", "pid", "tid"].every(k => (choice[k] || "") === state[k]) ? " chosen" : "");
	div.style.paddingLeft = 16 * level + "px";
	open.className = "open";
	open.textContent = hasKids ? (opened.has(key) ? "▾" : "▸") : "";
	open.tabIndex = hasKids ? 0 : -1;
	open.onclick = e => { e.stopPropagation(); opened.has(key) ? opened.delete(key) : opened.add(key); showMenu(); };
	what.className = "what";
	name.textContent = text;
	share.textContent = percent(value, whole);
	what.append(name, share);
	what.onclick = () => {
		Object.assign(state, {process: "", pid: "", tid: "", zoom: ""}, choice);
		toggleMenu(false);
		update(true);
	};
	div.append(open, what);
	return div;
}
function showMenu() {
	const groups = tree(), m = state.unit, want = $("filter").value.toLowerCase(), out = [];
	const whole = threads.reduce((s, t) => s + t[m], 0);
	const has = text => text.toLowerCase().includes(want);
	const threadText = t => [...t.names].join(", ") + "  tid " + t.tid;
	if (!want) out.push(item(0, "All processes", whole, whole, {}, "", false));
	for (const g of groups) {
		const one = g.pids.size === 1, pids = [...g.pids.values()].sort((a, b) => b[m] - a[m]);
		const hit = has(g.name) || pids.some(p => has(String(p.pid)) || p.threads.some(t => has(threadText(t))));
		if (!hit || out.length > 400) continue;
		const key = "g" + g.name, wide = one ? pids[0].threads.length > 1 : true;
		out.push(item(0, g.name + (one ? "  pid " + pids[0].pid : "  (" + g.pids.size + " processes)"), g[m], whole,
			{process: g.name}, key, wide));
		if (!opened.has(key) && !(want && !has(g.name))) continue;
		for (const p of pids) {
			const pkey = key + "p" + p.pid, level = one ? 1 : 2;
			if (!one) {
				out.push(item(1, "pid " + p.pid, p[m], whole, {process: g.name, pid: String(p.pid)}, pkey, p.threads.length > 1));
				if (!opened.has(pkey) && !(want && p.threads.some(t => has(threadText(t))))) continue;
			}
			if (p.threads.length > 1)
				for (const t of p.threads.slice().sort((a, b) => b[m] - a[m]))
					if (!want || has(threadText(t)) || has(g.name))
						out.push(item(level, threadText(t), t[m], whole,
							{process: g.name, pid: String(t.pid), tid: String(t.tid)}, "", false));
		}
	}
	if (!out.length) out.push(document.createTextNode("nothing of that name"));
	$("list").replaceChildren(...out);
}
function toggleMenu(on) {
	$("menu").classList.toggle("open", on);
	$("chosen").setAttribute("aria-expanded", String(on));
	if (on) {
		/* Keep it inside the page. */
		$("menu").style.right = "0";
		const left = $("menu").getBoundingClientRect().left;
		if (left < 6) $("menu").style.right = left - 6 + "px";
		showMenu();
		$("filter").focus();
	}
}
function chosenText() {
	if (state.tid) return [...new Set(chosen.map(t => D.names[t.name]))].join(", ") + "  tid " + state.tid;
	if (state.pid) return (state.process || "pid") + "  " + state.pid;
	return state.process || "All processes";
}

/* ---- the page ---- */
function press(id, value) {
	for (const b of $(id).querySelectorAll("button")) b.setAttribute("aria-pressed", String(b.dataset.v === value));
}
function showLegend() {
	const items = state.colour === "module" ? [] : [["user", isDark ? hsl(30, 52, 40) : hsl(30, 88, 70)],
		["inlined", isDark ? hsl(30, 52, 33) : hsl(30, 88, 81)], ["kernel", isDark ? hsl(208, 38, 40) : hsl(208, 58, 72)]];
	if (state.colour !== "module" && D.fl)
		for (const k of [...new Set(D.fl)].map(l => D.kinds[l]).filter(k => HUES[k] !== undefined))
			items.push([k, hsl(HUES[k] + 5, isDark ? 40 : 60, isDark ? 40 : 72)]);
	for (const reason of D.fn.map((name, f) => reasonOf(f)).filter(r => r))
		items.push([reason, reasonColour(reason, isDark ? 40 : 64)]);
	$("legend").replaceChildren(...items.map(([text, c]) => {
		const span = document.createElement("span"), i = document.createElement("i");
		i.style.background = c;
		span.append(i, text);
		return span;
	}));
}
function setTheme() {
	isDark = state.theme ? state.theme === "dark" : dark.matches;
	document.documentElement.dataset.theme = isDark ? "dark" : "light";
	document.documentElement.style.colorScheme = isDark ? "dark" : "light";
	colours.clear();
	showLegend();
}
/* @rebuild: the view itself changes, not only how it is shown. */
function update(rebuild) {
	document.body.classList.toggle("functions", state.tab === "functions");
	press("tab", state.tab);
	press("unit", state.unit);
	press("invert", state.invert);
	$("flip").setAttribute("aria-pressed", String(state.flip === "1"));
	$("split").value = state.split;
	$("colour").value = state.colour;
	if ($("search").value !== state.search) $("search").value = state.search;
	setTheme();
	if (rebuild) {
		chooseThreads();
		cancelAnimationFrame(animation);
		hover(null);
		build();
	}
	$("chosen").textContent = chosenText() + " ▾";
	$("chosen").title = "Show one process or thread";
	runSearch();
	showCrumbs();
	if (state.tab === "functions") showTable(); else if (!width) resize();
	redraw();
	writeHash();
}
function showHead() {
	$("title").textContent = D.title;
	const small = document.createElement("small");
	small.textContent = "perfwind";
	$("title").append(small);
	for (const [name, value, warn] of D.facts) {
		const div = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
		dt.textContent = name;
		dd.textContent = value;
		div.title = name + ": " + value;
		div.className = warn ? "warn" : "";
		div.append(dt, dd);
		$("facts").append(div);
	}
	$("notes").hidden = !D.notes.length;
	$("notes").querySelector("summary").textContent = D.notes.length === 1 ? "1 note" : D.notes.length + " notes";
	for (const text of D.notes) {
		const li = document.createElement("li");
		li.textContent = text;
		$("notes").querySelector("ul").append(li);
	}
	$("unit").querySelector("[data-v=weight]").textContent = isTime ? "Time" : D.unit === "cycles" ? "Cycles" : "Weight";
	if (threads.length < 2) $("split").hidden = true;
}
function on(id, type, run) { $(id).addEventListener(type, run); }
for (const id of ["tab", "unit", "invert"])
	on(id, "click", e => {
		if (!e.target.dataset.v || state[id] === e.target.dataset.v) return;
		state[id] = e.target.dataset.v;
		if (id === "invert") { state.zoom = ""; scroll.scrollTop = 0; }
		update(id !== "tab");
	});
function flip() {
	state.flip = state.flip === "1" ? "0" : "1";
	update(false);
	scroll.scrollTop = state.flip === "1" ? space.offsetHeight : 0;
}
on("flip", "click", flip);
on("split", "change", e => { state.split = e.target.value; state.zoom = ""; update(true); });
on("colour", "change", e => { state.colour = e.target.value; update(false); });
on("theme", "click", () => { state.theme = isDark ? "light" : "dark"; update(false); });
on("reset", "click", () => zoomTo(root));
on("chosen", "click", e => { e.stopPropagation(); toggleMenu(!$("menu").classList.contains("open")); });
on("menu", "click", e => e.stopPropagation());
on("filter", "input", showMenu);
document.addEventListener("click", () => toggleMenu(false));
let typing = 0;
on("search", "input", e => {
	clearTimeout(typing);
	typing = setTimeout(() => { state.search = e.target.value; update(false); }, 90);
});
on("clear", "click", () => { state.search = ""; update(false); $("search").focus(); });
canvas.addEventListener("mousemove", e => hover(nodeAt(e), e));
canvas.addEventListener("mouseleave", () => hover(null));
canvas.addEventListener("click", e => { const n = nodeAt(e); selected = null; if (n) zoomTo(n); });
scroll.addEventListener("scroll", () => { $("tip").style.display = "none"; redraw(); });
function move(key) {
	let n = selected || zoom;
	if (key === (state.flip === "1" ? "ArrowDown" : "ArrowUp")) n = n.up || n;
	else if (key === "ArrowUp" || key === "ArrowDown") n = kids(n)[0] || n;
	else if (n.up) {
		const row = kids(n.up), i = row.indexOf(n) + (key === "ArrowRight" ? 1 : -1);
		n = row[i] || n;
	}
	selected = n;
	const y = rowTop(n.depth);
	if (y < scroll.scrollTop) scroll.scrollTop = y;
	if (y + ROW > scroll.scrollTop + height) scroll.scrollTop = y + ROW - height;
	hover(null);
	$("status").textContent = n.name + "  —  " + percent(n[state.unit], root[state.unit]) + ", " + amount(n[state.unit], state.unit);
	redraw();
}
function escape(inField) {
	if ($("menu").classList.contains("open")) return toggleMenu(false);
	if (inField) {
		if (state.search) { state.search = $("search").value = ""; update(false); }
		return $("search").blur();
	}
	if (zoom !== root) return zoomTo(root);
	if (state.search) { state.search = ""; update(false); }
}
document.addEventListener("keydown", e => {
	const inField = /INPUT|SELECT/.test(e.target.tagName);
	if (e.key === "Escape") return escape(inField);
	if (inField || e.ctrlKey || e.metaKey || e.altKey) return;
	if (e.key === "/") { e.preventDefault(); $("search").focus(); $("search").select(); }
	else if (e.key === "i") { state.invert = state.invert === "1" ? "0" : "1"; state.zoom = ""; update(true); }
	else if (e.key === "f") flip();
	else if (e.key === "Backspace" && zoom.up) zoomTo(zoom.up);
	else if (e.key.startsWith("Arrow") && state.tab === "flame") { e.preventDefault(); move(e.key); }
	else if (e.key === "Enter" && selected && e.target.tagName !== "BUTTON") zoomTo(selected);
});
dark.addEventListener("change", () => update(false));
addEventListener("hashchange", () => { Object.assign(state, first); readHash(); update(true); });
new ResizeObserver(resize).observe(scroll);
readHash();
showHead();
update(true);
resize();
if (state.flip === "1") scroll.scrollTop = space.offsetHeight;
