"use strict";
// Shows /metrics, and the difference to the look before once there is one. Text that others have chosen becomes text
// nodes alone.

const EVERY = 5000;
// What has no room is counted.
const MOST_GROUPS = 50;
const HISTORY = 60;
const OWN = ["direction", "stage", "part", "le"];

// Prometheus text 0.0.4: a series per line, values of labels in quotes with \\, \" and \n.
function parse(text) {
	const series = new Map();
	for (const line of text.split("\n")) {
		if (line === "" || line.startsWith("#")) continue;
		const head = /^[^{ ]+/.exec(line)[0];
		const labels = {};
		let at = head.length;
		if (line[at] === "{") {
			const label = /[{,]([^=]+)="((?:[^"\\]|\\.)*)"/y;
			label.lastIndex = at;
			for (let match; (match = label.exec(line)); at = label.lastIndex) {
				labels[match[1]] = match[2].replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
			}
			at += 1;
		}
		if (!series.has(head)) series.set(head, []);
		series.get(head).push({ key: line.slice(0, at), labels, value: Number(line.slice(at)) });
	}
	return series;
}

// The growth of counters since the last look; a counter that shrank began anew.
function since(now, before) {
	const last = new Map();
	for (const list of before.values()) for (const { key, value } of list) last.set(key, value);
	const growth = new Map();
	for (const [name, list] of now) {
		growth.set(name, list.map((one) => {
			const was = last.get(one.key) ?? 0;
			return { ...one, value: one.value >= was ? one.value - was : one.value };
		}));
	}
	return growth;
}

function time(seconds) {
	if (seconds >= 1) return `${seconds.toPrecision(2)} s`;
	if (seconds >= 1e-3) return `${Number((seconds * 1e3).toPrecision(2))} ms`;
	return `${Number((seconds * 1e6).toPrecision(2))} µs`;
}

function group(labels) {
	const own = Object.entries(labels).filter(([name]) => !OWN.includes(name));
	if (labels.otel_metric_overflow) return "all others";
	return own.map(([name, value]) => value || `no ${name}`).join(" ") || "all";
}

function sums(list = [], of) {
	const found = new Map();
	for (const { labels, value } of list) {
		const name = of(labels);
		found.set(name, (found.get(name) ?? 0) + value);
	}
	return found;
}

// The bound below which 99 % of the messages are; the buckets are cumulative.
function p99(buckets) {
	buckets.sort((a, b) => a.le - b.le);
	const all = buckets.at(-1).value;
	return all > 0 ? buckets.find(({ value }) => value >= 0.99 * all).le : undefined;
}

function heat(name, seconds) {
	const cell = element(name, seconds === Infinity ? "> 32 s" : seconds === undefined ? "" : time(seconds));
	if (seconds !== undefined) cell.className = `h${Math.min(6, Math.max(0, Math.ceil(Math.log10(seconds) + 5)))}`;
	return cell;
}

function element(name, text, ...children) {
	const made = document.createElement(name);
	if (text !== undefined) made.textContent = text;
	made.append(...children);
	return made;
}

function shape(name, attributes) {
	const made = document.createElementNS("http://www.w3.org/2000/svg", name);
	for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
	return made;
}

function table(series) {
	const cells = new Map();
	const stages = new Set();
	for (const { labels, value } of series.get("sockstamp_stage_seconds_bucket") ?? []) {
		const row = group(labels);
		if (!cells.has(row)) cells.set(row, new Map());
		const stage = cells.get(row);
		if (!stage.has(labels.stage)) stage.set(labels.stage, new Map());
		const buckets = stage.get(labels.stage);
		buckets.set(labels.le, (buckets.get(labels.le) ?? 0) + value);
		stages.add(labels.stage);
	}
	const messages = sums(series.get("sockstamp_messages_total"), group);
	const rows = [...cells.keys()].sort((a, b) => (messages.get(b) ?? 0) - (messages.get(a) ?? 0));
	const head = element("tr", undefined, element("th", "group"), element("th", "messages"));
	for (const stage of stages) head.append(element("th", stage));
	const body = element("tbody");
	for (const row of rows.slice(0, MOST_GROUPS)) {
		const line = element("tr", undefined, element("th", row), element("td", messages.get(row) ?? 0));
		for (const stage of stages) {
			const buckets = cells.get(row).get(stage) ?? new Map();
			const list = [...buckets].map(([le, value]) => ({ le: le === "+Inf" ? Infinity : Number(le), value }));
			line.append(heat("td", list.length > 0 ? p99(list) : undefined));
		}
		body.append(line);
	}
	const left = rows.length - MOST_GROUPS;
	if (left > 0) body.append(element("tr", undefined, element("th", `and ${left} groups`)));
	document.getElementById("heat").replaceChildren(element("thead", undefined, head), body);
}

function bars(place, values, show) {
	const all = [...values.values()].reduce((sum, value) => sum + value, 0);
	const found = [...values].filter(([, value]) => value > 0).sort((a, b) => b[1] - a[1]);
	const rows = found.map(([name, value]) => {
		const svg = shape("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
		svg.append(shape("rect", { width: (100 * value) / all, height: 10 }));
		const row = element("div", undefined, element("span", name), svg, element("span", show(value, all)));
		row.className = "row";
		return row;
	});
	document.getElementById(place).replaceChildren(...(rows.length > 0 ? rows : [element("p", "nothing")]));
}

// Stages in which a message is on its way: the others are not part of its time.
const isOnTheWay = (stage) => /^[tr]x\./.test(stage) && stage !== "tx.network";
const percent = (value, all) => `${((100 * value) / all).toFixed(1)} %`;

function tail(messages) {
	if (messages === null) return document.getElementById("tail").replaceChildren(element("p", "No slow messages are kept."));
	const stages = messages.flatMap((message) => message.stages).filter(({ name }) => isOnTheWay(name));
	bars("tail", sums(stages.map(({ name, ns }) => ({ labels: name, value: ns })), (name) => name), percent);
}

// What each cause took, per second, over the last looks.
const history = new Map();
function causes(series, seconds) {
	const parts = (series.get("sockstamp_part_seconds_total") ?? []).filter(({ labels }) => labels.stage === "tx.queue");
	const now = sums(parts, (labels) => labels.part);
	for (const name of now.keys()) if (!history.has(name)) history.set(name, []);
	const rows = [];
	for (const [name, values] of history) {
		values.push((now.get(name) ?? 0) / seconds);
		values.splice(0, values.length - HISTORY);
		const most = Math.max(...values, 1e-9);
		const points = values.map((value, at) => `${(100 * at) / (HISTORY - 1)},${10 - (9 * value) / most}`);
		const svg = shape("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
		svg.append(shape("polyline", { points: points.join(" ") }));
		const row = element("div", undefined, element("span", name), svg, element("span", `${time(values.at(-1))} per s`));
		row.className = "row";
		rows.push(row);
	}
	document.getElementById("causes").replaceChildren(...(rows.length > 0 ? rows : [element("p", "nothing")]));
}

function cost(now, growth, seconds) {
	const one = (series, name) => series.get(name)?.[0]?.value ?? 0;
	const programs = (growth.get("sockstamp_program_seconds_total") ?? []).reduce((sum, { value }) => sum + value, 0);
	const counted = one(now, "sockstamp_program_statistics_enabled") > 0;
	const entries = [
		["CPU", `${((100 * one(growth, "process_cpu_seconds_total")) / seconds).toFixed(2)} % of a core`],
		["CPU in the kernel", counted ? `${((100 * programs) / seconds).toFixed(2)} % of a core` : "not counted: kernel.bpf_stats_enabled is 0"],
		["memory", `${(one(now, "process_resident_memory_bytes") / 1e6).toFixed(1)} MB`],
		["groups", String(one(now, "sockstamp_groups"))],
	];
	const list = entries.flatMap(([name, text]) => [element("dt", name), element("dd", text)]);
	document.getElementById("cost").replaceChildren(...list);
}

// The stages of a message on one axis of time, and the causes within them.
function waterfall({ stages }) {
	const whole = Math.max(1, ...stages.map(({ after_ns, ns }) => after_ns + ns));
	return stages.map(({ name, after_ns, ns, parts }) => {
		const svg = shape("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
		// The shortest is still seen.
		svg.append(shape("rect", { x: (100 * after_ns) / whole, width: Math.max(0.2, (100 * ns) / whole), height: 10 }));
		const causes = parts.filter(([, part]) => part > 0).map(([part, took]) => `${part} ${time(took / 1e9)}`);
		const stage = causes.length > 0 ? `${name} (${causes.join(", ")})` : name;
		const row = element("div", undefined, element("span", stage), svg, element("span", time(ns / 1e9)));
		row.className = "row";
		return row;
	});
}

// What a finding says, and behind it how to check and to cure it.
const MOST_FINDINGS = 3;
const opened = new Set();
function findings({ slow_ns, duration_ns, findings: found, notes }) {
	document.getElementById("span").textContent = `Where the last ${(duration_ns / 6e10).toFixed(1)} minutes were lost; ${time(slow_ns / 1e9)} or longer is slow.`;
	const rows = found.slice(0, MOST_FINDINGS).map(({ node, services, sentence, next, evidence, alike, check, cure }) => {
		const more = [["evidence", evidence], ["looks the same", alike], ["check", check], ["usual cure", cure], ["next", `sockstamp ${next.replace(/^sockstamp /, "")}`]];
		const list = element("dl", undefined, ...more.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
		const row = element("details", undefined, element("summary", sentence), list);
		const key = JSON.stringify([node, services]);
		row.dataset.key = key;
		row.open = opened.has(key);
		row.addEventListener("toggle", () => (row.open ? opened.add(key) : opened.delete(key)));
		return row;
	});
	const more = found.length - rows.length;
	if (more > 0) rows.push(element("p", `and ${more} more: sockstamp stat --by peer,port`));
	rows.push(...notes.map((note) => element("p", `Note: ${note}`)));
	const place = document.getElementById("findings");
	const focused = place.contains(document.activeElement) ? document.activeElement.parentNode.dataset.key : undefined;
	place.replaceChildren(...(rows.length > 0 ? rows : [element("p", "nothing")]));
	// A reader who has come to a finding by keys stays there.
	if (focused !== undefined) rows.find((row) => row.dataset.key === focused)?.firstChild.focus();
}

// Those that a reader has opened stay open, and none is drawn anew.
const drawn = new Map();
function slow(messages) {
	const place = document.getElementById("slow");
	if (messages === null) return place.replaceChildren(element("p", "None are kept: slow of [page] in the settings is not set."));
	const known = new Set();
	const rows = messages.map((message) => {
		const { end_ms, direction, protocol, comm, pid, local, remote, bytes, time_ns, cause } = message;
		const key = JSON.stringify([end_ms, direction, pid, local, remote, time_ns]);
		known.add(key);
		if (!drawn.has(key)) {
			const at = new Date(end_ms).toISOString().replace("T", " ").replace("Z", " UTC");
			const why = cause === null ? "" : `: ${cause}`;
			const words = ` ${direction} ${protocol} ${comm}/${pid} ${local} → ${remote}, ${bytes} B, ${at}${why}`;
			drawn.set(key, element("details", undefined, element("summary", undefined, element("b", time(time_ns / 1e9)), words), ...waterfall(message)));
		}
		return drawn.get(key);
	});
	for (const key of drawn.keys()) if (!known.has(key)) drawn.delete(key);
	const focused = document.activeElement;
	place.replaceChildren(...(rows.length > 0 ? rows : [element("p", "nothing")]));
	if (place.contains(focused)) focused.focus();
}

// The address of the page may have a name and a token in it, with which nothing is fetched.
const own = (path) => location.origin + path;

async function explain() {
	const place = document.getElementById("explained");
	const button = document.getElementById("explain");
	button.disabled = true;
	place.textContent = "The recordings are read.";
	try {
		const answer = await fetch(own("/explain"), { method: "POST", headers: { "Sockstamp-Explain": "1" } });
		const text = await answer.text();
		place.textContent = answer.ok ? text : `No explanation: ${text || answer.status}`;
	} catch (error) {
		place.textContent = `No explanation: ${error.message}`;
	}
	button.disabled = false;
}

let before;
async function look() {
	const state = document.getElementById("state");
	try {
		const answer = await fetch(own("/metrics"), { headers: { Accept: "text/plain" } });
		if (!answer.ok) throw new Error(`the agent answers ${answer.status}`);
		const now = parse(await answer.text());
		const at = performance.now();
		const start = now.get("process_start_time_seconds")[0].value;
		const seconds = before ? (at - before.at) / 1000 : Math.max(1, Date.now() / 1000 - start);
		const growth = before ? since(now, before.series) : now;
		table(growth);
		const shares = growth.get("sockstamp_stage_seconds_sum")?.filter(({ labels }) => isOnTheWay(labels.stage));
		bars("shares", sums(shares, (labels) => labels.stage), percent);
		causes(growth, seconds);
		const refused = sums(growth.get("sockstamp_verdicts_total"), (labels) => labels.verdict);
		refused.delete("valid");
		for (const [reason, count] of sums(growth.get("sockstamp_losses_total"), (labels) => labels.reason)) refused.set(`lost: ${reason}`, count);
		bars("refused", refused, (value) => String(value));
		cost(now, growth, seconds);
		const told = await fetch(own("/findings"));
		if (!told.ok) throw new Error(`the agent answers ${told.status}`);
		findings(await told.json());
		const kept = await fetch(own("/slow"));
		if (!kept.ok) throw new Error(`the agent answers ${kept.status}`);
		const messages = await kept.json();
		slow(messages);
		tail(messages);
		state.textContent = before ? `The last ${seconds.toFixed(0)} s` : "Since the start of the agent";
		before = { series: now, at };
	} catch (error) {
		state.textContent = `No figures: ${error.message}`;
	}
	setTimeout(look, EVERY);
}
document.getElementById("explain").addEventListener("click", explain);
look();
