// The page of a latency report. First pure functions, which `node --test` checks; then the page.
//
// Data come from scripts beside this one: data.js calls candorReport() once; the profiles of an
// experiment call candorProfiles(), and its frames candorFrames(), when they are wanted. Nothing is
// ever fetched. Text from data enters the document through textContent only, and plots through
// plotText().
"use strict";

// ---- Numbers and words ---------------------------------------------------------------------

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** Nanoseconds to four digits in a fitting unit: `["124.5", "µs"]`. */
function durationParts(ns) {
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) ?? UNITS.at(-1);
  if (size === 1) return [String(ns), unit];
  return [(ns / size).toPrecision(4), unit];
}

const duration = (ns) => durationParts(ns).join("\u202f");

const count = (number) => number.toLocaleString("en-US", { maximumFractionDigits: 6 });
const counted = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

function percent(part, whole) {
  if (!(whole > 0)) return "";
  const value = (100 * part) / whole;
  return value >= 0.1 || value === 0 ? `${Number(value.toPrecision(3))}\u202f%` : "< 0.1\u202f%";
}

/** The unit of an axis that reaches up to `ns`: up to 10,000 of a unit before the next one. */
const axisUnit = (ns) => UNITS.findLast(([size]) => Math.abs(ns) < 1e4 * size) ?? UNITS[0];

const framesText = (number) => `${count(number)} ${number === 1 ? "frame" : "frames"}`;

/** Text for Plotly, which reads a little markup and templates in its strings. */
const plotText = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// ---- Experiments -----------------------------------------------------------------------------

const figure = (experiment, metric, key) => experiment.metrics[metric]?.[`${key}_ns`] ?? null;

const busiest = (experiment) =>
  (experiment.buses ?? []).reduce((top, bus) => (bus.load_percent > (top?.load_percent ?? -1) ? bus : top), null);

/** How frames end: `sent` is the sum of these counts. */
const ENDINGS = [["received", "Received"], ["not_routed", "Not routed"], ["refused", "Refused"], ["lost", "Lost"]];

/** The columns of every table: what they sort by. The name is sorted as text, the others as numbers. */
const COLUMNS = [
  { key: "name", label: "Experiment", value: (e, metric, names) => names.get(e.id) },
  { key: "p50", label: "p50", value: (e, metric) => figure(e, metric, "p50") },
  { key: "p99", label: "p99", value: (e, metric) => figure(e, metric, "p99") },
  { key: "p999", label: "p99.9", value: (e, metric) => figure(e, metric, "p999") },
  { key: "max", label: "Max", value: (e, metric) => figure(e, metric, "max") },
  { key: "sent", label: "Sent", value: (e) => e.counts.sent },
  ...ENDINGS.map(([key, label]) => ({ key, label, value: (e) => e.counts[key] })),
  { key: "load", label: "Busiest bus", value: (e) => busiest(e)?.load_percent ?? null },
];

/** The columns of the table of these experiments: behind the name one for each axis. */
function columnsOf(experiments) {
  const axes = axesOf(experiments).map(([axis]) => axis);
  const short = axisNames(axes);
  const column = (axis) => ({
    key: `axis.${axis}`, label: short.get(axis), axis, compare: orderOf(experiments, axis),
    value: (e) => (axis in e.axes ? axisText(e.axes[axis]) : null),
  });
  return [COLUMNS[0], ...axes.map(column), ...COLUMNS.slice(1)];
}

/** The axes in which experiments differ, each with its values. */
function axesOf(experiments) {
  const axes = new Map();
  for (const { axes: own } of experiments) {
    for (const [axis, value] of Object.entries(own)) {
      if (!axes.has(axis)) axes.set(axis, new Set());
      axes.get(axis).add(axisText(value));
    }
  }
  return [...axes]
    .filter(([, values]) => values.size > 1)
    .map(([axis, values]) => [axis, [...values].sort(orderOf(experiments, axis))]);
}

/** What the values of an axis are: "versions", "numbers" or "words". A version may look like a number; the program tells them apart. */
function kindOf(experiments, axis) {
  const having = experiments.filter((e) => axis in e.axes);
  if (having.length > 0 && having.every((e) => (e.versions ?? []).includes(axis))) return "versions";
  return having.every((e) => numberOf(axisText(e.axes[axis])) !== null) ? "numbers" : "words";
}

const collator = new Intl.Collator("en", { numeric: true });

/** How the values of an axis are compared. */
function orderOf(experiments, axis) {
  const orders = { versions: compareVersions, numbers: (a, b) => numberOf(a) - numberOf(b), words: collator.compare };
  return orders[kindOf(experiments, axis)];
}

/** Numbers in versions are numbers, and a candidate comes before its release: 6.9, 6.18-rc3, 6.18, 6.18-rt. */
function compareVersions(a, b) {
  const parts = (text) => text.replace(/^debian:/, "").replaceAll("-rc", "~rc").match(/\d+|\D/g) ?? [];
  // A candidate, the end, a number, a letter.
  const rank = (part) => (part === undefined ? 1 : part === "~" ? 0 : /^\d/.test(part) ? 2 : 3);
  const [left, right] = [parts(a), parts(b)];
  for (let at = 0; at < Math.max(left.length, right.length); at += 1) {
    const [one, other] = [left[at], right[at]];
    const order = rank(one) - rank(other) || (rank(one) === 2 && one - other) || (one < other ? -1 : Number(one > other));
    if (order !== 0) return order;
  }
  // The same release in two notations.
  return a < b ? -1 : Number(a > b);
}

const axisText = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** The shortest end of each axis that names it alone: `traffic.kind` is `traffic`, `vm.mips` is `mips`. */
function axisNames(axes) {
  const parts = axes.map((axis) => axis.replace(/(.)\.kind$/, "$1").split("."));
  const end = (part, length) => part.slice(-length).join(".");
  return new Map(axes.map((axis, index) => {
    const own = parts[index];
    const isTaken = (length) => parts.some((other, at) => at !== index && end(other, length) === end(own, length));
    let length = 1;
    while (length < own.length && isTaken(length)) length += 1;
    return [axis, isTaken(length) ? axis : end(own, length)];
  }));
}

/** Groups by a key, in the order of first appearance. */
function groupBy(list, keyOf) {
  const groups = new Map();
  for (const item of list) {
    const key = keyOf(item);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(item);
  }
  return groups;
}

/** What an experiment is about, as far as it shares that with others: its title, or else its name without the values of its matrix. */
const subjectOf = (e) => (e.title && e.title !== (e.group ?? e.experiment) ? e.title : e.base ?? e.experiment);

/**
 * A name for each experiment, by its id, each a different one. A title is a name if only one
 * experiment has it. Others are named by the axes in which they differ, behind the title or the name that they share;
 * what has none, or the same ones as another, by its own name, and what shares even that by its id.
 */
function namesOf(experiments) {
  const names = new Map();
  const titles = groupBy(experiments, subjectOf);
  for (const [title, group] of titles) {
    if (group.length === 1) {
      names.set(group[0].id, group[0].title || group[0].experiment);
      continue;
    }
    const axes = axesOf(group).map(([axis]) => axis);
    const short = axisNames(axes);
    const inAxes = (e) => axes.filter((axis) => axis in e.axes)
      .map((axis) => `${short.get(axis)} ${axisText(e.axes[axis])}`).join(" · ");
    const prefix = titles.size > 1 && title !== "" ? `${title}: ` : "";
    for (const [text, same] of groupBy(group, inAxes)) {
      for (const e of same) names.set(e.id, text !== "" && same.length === 1 ? prefix + text : e.experiment);
    }
  }
  for (const same of groupBy(experiments, (e) => names.get(e.id)).values()) {
    if (same.length > 1) same.forEach((e) => names.set(e.id, e.id));
  }
  return names;
}

/** The number that a value of an axis stands for: durations in µs; null if it stands for none. */
function numberOf(text) {
  const [, number, unit] = /^(-?\d+(?:\.\d+)?)\s*(ns|us|ms|s)?$/.exec(text) ?? [];
  return number === undefined ? null : Number(number) * ({ ns: 1e-3, us: 1, ms: 1e3, s: 1e6 }[unit] ?? 1);
}

/** The axes over which latencies can be drawn: those with three or more values, all of them numbers or all of them versions. */
function drawnAxes(experiments) {
  return axesOf(experiments)
    .filter(([axis, values]) => axis !== "seed" && values.length >= 3 && kindOf(experiments, axis) !== "words")
    .map(([axis]) => axis);
}

/**
 * Latencies over an axis: a series for each set of experiments that differ in that axis and the seed only. Each has
 * points of the place on the axis, of a version its name, and the figures there; several runs have the smallest min, the largest max and the
 * median of the others.
 */
function sweeps(experiments, axis, metric) {
  const used = experiments.filter((e) => axis in e.axes && e.metrics[metric]?.count > 0);
  const others = axesOf(used).map(([name]) => name).filter((name) => name !== axis && name !== "seed");
  const short = axisNames([...others, axis]);
  const subjects = new Set(used.map(subjectOf));
  const testbeds = new Set(used.map((e) => e.testbed));
  const nameOf = (e) => [
    subjects.size > 1 ? subjectOf(e) : "", testbeds.size > 1 ? e.testbed : "",
    ...others.filter((name) => name in e.axes).map((name) => `${short.get(name)} ${axisText(e.axes[name])}`),
  ].filter(Boolean).join(" · ");
  const middle = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
  const isOfVersions = kindOf(used, axis) === "versions";
  const compare = isOfVersions ? compareVersions : (a, b) => a - b;
  return [...groupBy(used, nameOf)].map(([name, group]) => {
    const points = [...groupBy(group, (e) => axisText(e.axes[axis]))].map(([value, runs]) => {
      const all = (key) => runs.map((e) => figure(e, metric, key));
      return { at: isOfVersions ? value : numberOf(value), min: Math.min(...all("min")), p50: middle(all("p50")), max: Math.max(...all("max")) };
    });
    return { name, points: points.sort((a, b) => compare(a.at, b.at)) };
  });
}

/** The bars of a direction of a link; a frame that reaches over the end of the cycle has one at its begin, too. */
function scheduleParts(frames, cycle) {
  return frames.flatMap(({ flow, begin_ns: begin, end_ns: end }) => {
    const label = `${flow}: ${duration(begin)} to ${duration(end)}`;
    const rest = end > cycle ? [{ flow, begin: 0, end: end - cycle, label }] : [];
    return [{ flow, begin, end: Math.min(end, cycle), label }, ...rest];
  });
}

/** Whether every word of the search and every chosen axis value is found. */
function matches(experiment, { search, filters }, names) {
  for (const [axis, wanted] of Object.entries(filters)) {
    if (!(axis in experiment.axes) || axisText(experiment.axes[axis]) !== wanted) return false;
  }
  const axes = Object.entries(experiment.axes).map(([axis, value]) => `${axis}=${axisText(value)}`);
  const { title, experiment: name, testbed, conditions } = experiment;
  const text = [names?.get(experiment.id), title, name, testbed, conditions, ...axes].join("\n").toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Sorted by a column; what has no value comes last either way. */
function sorted(experiments, metric, sort, names, columns = COLUMNS) {
  const column = columns.find(({ key }) => key === sort.key);
  if (!column) return [...experiments];
  const compare = column.compare ?? ((a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b));
  const sign = sort.descending ? -1 : 1;
  return experiments
    .map((experiment) => [column.value(experiment, metric, names), experiment])
    .sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * compare(a, b);
    })
    .map(([, experiment]) => experiment);
}

/** The profiles as a file: one line per point. */
function profilesCsv(metric, profiles) {
  const cell = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = ["experiment,metric,latency_ns,frames_at_least"];
  for (const { id, points } of profiles) {
    for (const [ns, frames] of points) lines.push(`${cell(id)},${metric},${ns},${frames}`);
  }
  return `${lines.join("\n")}\n`;
}

/**
 * A classic histogram out of a latency profile: between two points of a profile lie as many frames
 * as their counts differ by. Bins are equally wide on the axis that shows them.
 */
function bins(points, from, to, number, isLog) {
  const scale = isLog ? Math.log : (ns) => ns;
  const unscale = isLog ? Math.exp : (ns) => ns;
  const [low, high] = [scale(from), scale(to)];
  const width = (high - low) / number || 1;
  const counts = new Array(number).fill(0);
  points.forEach(([ns, atLeast], index) => {
    const bin = Math.floor((scale(isLog ? Math.max(ns, from) : ns) - low) / width);
    counts[Math.min(Math.max(bin, 0), number - 1)] += atLeast - (points[index + 1]?.[1] ?? 0);
  });
  return counts.map((frames, bin) => [unscale(low + bin * width), unscale(low + (bin + 1) * width), frames]);
}

/** How many frames of a profile took at least `ns`. */
function atLeast(points, ns) {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < ns) low = middle + 1;
    else high = middle;
  }
  return points[low]?.[1] ?? 0;
}

/** The points of a profile that can be told apart on `columns` by `rows` pixels, ends included. */
function visible(points, place, columns, rows) {
  if (points.length <= 2) return points;
  const x = ([ns]) => Math.log(Math.max(place(ns), Number.MIN_VALUE));
  const y = ([, frames]) => Math.log(frames);
  const [first, last] = [points[0], points.at(-1)];
  const step = [Math.abs(x(last) - x(first)) / columns, Math.abs(y(first) - y(last)) / rows];
  const kept = [first];
  for (const point of points.slice(1, -1)) {
    const previous = kept.at(-1);
    if (x(point) - x(previous) >= step[0] || y(previous) - y(point) >= step[1]) kept.push(point);
  }
  kept.push(last);
  return kept;
}

/** Undoes the differences in a chart file. */
function runningSum(differences) {
  let sum = 0;
  return differences.map((difference) => (sum += difference));
}

// ---- What the user chose, as text after the # of the address -----------------------------------

/** So many of the experiments that ran last are chosen at first: the worst of them. */
const SERIES_DEFAULT = 7;

/** The experiments that ran last; all, if nobody knows. */
function latestOf({ latest, experiments }) {
  const ids = new Set(latest?.length ? latest : experiments.map(({ id }) => id));
  return experiments.filter(({ id }) => ids.has(id));
}

/**
 * Those that are chosen at first, in the order of the table: the worst by the largest latency. The worst seed of
 * each experiment comes before the second worst of any.
 */
function worst(report, metric) {
  const latest = latestOf(report);
  if (latest.length <= SERIES_DEFAULT) return latest.map(({ id }) => id);
  const max = (experiment) => figure(experiment, metric, "max") ?? -Infinity;
  // Sorting keeps the order of equals.
  const worse = (a, b) => (max(a) === max(b) ? 0 : max(b) - max(a));
  const groups = groupBy(latest, ({ id, group }) => (group === undefined ? `= ${id}` : `+ ${group}`));
  const ranked = [...groups.values()].flatMap((runs) => runs.sort(worse).map((run, rank) => ({ run, rank })));
  const hasNone = ({ run }) => Number(figure(run, metric, "max") === null);
  ranked.sort((a, b) => hasNone(a) - hasNone(b) || a.rank - b.rank || worse(a.run, b.run));
  const wanted = new Set(ranked.slice(0, SERIES_DEFAULT).map(({ run }) => run.id));
  return latest.map(({ id }) => id).filter((id) => wanted.has(id));
}

/** That what is chosen is the worst of more, and of how many; nothing if something else is chosen. */
function worstText(report, { chosen, metric }) {
  const latest = latestOf(report);
  const ids = chosen.filter((id) => id !== null);
  const wanted = worst(report, metric);
  if (latest.length <= ids.length || ids.length !== wanted.length || !wanted.every((id) => ids.includes(id))) return "";
  const isOneGroup = latest.every(({ group }) => group !== undefined && group === latest[0].group);
  const label = report.metrics.find(({ key }) => key === metric)?.label ?? metric;
  return `${count(ids.length)} of ${count(latest.length)} ${isOneGroup ? "seeds" : "experiments"}: the worst, by the largest ${label.toLowerCase()}.`;
}

/** The state of a page that was opened without one. */
function initialState(report) {
  const { metrics, experiments, past = [] } = report;
  const used = metrics.filter(({ key }) => experiments.some((e) => e.metrics[key]?.count > 0));
  const main = ["gateway_latency", "network_latency", "round_trip", "delivery", "reception"];
  const metric = main.map((name) => used.find(({ key }) => key === name)).find(Boolean) ?? used[0] ?? metrics[0];
  return {
    // One place per series: an experiment keeps its colour while others come and go.
    chosen: worst(report, metric.key),
    metric: metric.key,
    view: "profile",
    scale: "log",
    colour: "",
    over: drawnAxes(experiments)[0] ?? "",
    past: past[0]?.experiment ?? "",
    sort: { key: "", descending: false },
    search: "",
    filters: {},
  };
}

function stateToHash({ chosen, metric, view, scale, colour, over, past, sort, search, filters }, run) {
  const parts = new URLSearchParams({ metric, view, scale });
  if (run) parts.set("run", run);
  chosen.forEach((id) => parts.append("show", id ?? ""));
  if (chosen.length === 0) parts.append("show", "");
  if (colour) parts.set("colour", colour);
  if (over) parts.set("over", over);
  if (past) parts.set("past", past);
  if (sort.key) parts.set("sort", (sort.descending ? "-" : "") + sort.key);
  if (search) parts.set("find", search);
  for (const [axis, value] of Object.entries(filters)) parts.append("axis", `${axis}=${value}`);
  return `#${parts}`;
}

/**
 * Reads a state; what makes no sense for this report is left at its default. After another run the
 * experiments of that run are chosen: what ran last is what is shown.
 */
function stateFromHash(hash, report) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initialState(report);
  const pick = (name, allowed) => {
    if (allowed.includes(parts.get(name))) state[name] = parts.get(name);
  };
  pick("metric", report.metrics.map(({ key }) => key));
  state.chosen = worst(report, state.metric);
  pick("view", ["profile", "histogram"]);
  pick("scale", ["log", "linear"]);
  const axes = axesOf(report.experiments);
  pick("colour", axes.map(([axis]) => axis));
  pick("over", drawnAxes(report.experiments));
  pick("past", (report.past ?? []).map(({ experiment }) => experiment));
  const isSameRun = !parts.has("run") || parts.get("run") === report.run;
  if (parts.has("show") && isSameRun) {
    const ids = new Set(report.experiments.map(({ id }) => id));
    const known = parts.getAll("show").map((id) => (ids.delete(id) ? id : null));
    state.chosen = known.slice(0, known.findLastIndex((id) => id !== null) + 1);
  }
  const sort = parts.get("sort") ?? "";
  const key = sort.replace(/^-/, "");
  if (columnsOf(report.experiments).some((column) => column.key === key)) {
    state.sort = { key, descending: sort.startsWith("-") };
  }
  state.search = isSameRun ? parts.get("find") ?? "" : "";
  for (const filter of isSameRun ? parts.getAll("axis") : []) {
    const [axis, values] = axes.find(([axis]) => filter.startsWith(`${axis}=`)) ?? [];
    const value = filter.slice((axis?.length ?? 0) + 1);
    if (values?.includes(value)) state.filters[axis] = value;
  }
  return state;
}

/** Chooses or drops an experiment; a new one takes the first free place. */
function toggled(chosen, id) {
  if (chosen.includes(id)) {
    const rest = chosen.map((other) => (other === id ? null : other));
    return rest.slice(0, rest.findLastIndex((other) => other !== null) + 1);
  }
  const free = chosen.indexOf(null);
  return free < 0 ? [...chosen, id] : chosen.with(free, id);
}

/** Exactly these, those chosen already in their places. */
function chosenExactly(chosen, ids) {
  const wanted = new Set(ids);
  const kept = chosen.map((id) => (wanted.delete(id) ? id : null));
  for (const id of wanted) {
    const free = kept.indexOf(null);
    if (free < 0) kept.push(id);
    else kept[free] = id;
  }
  return kept.slice(0, kept.findLastIndex((id) => id !== null) + 1);
}

// ---- Plots ---------------------------------------------------------------------------------------

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

/** More curves than this, and a legend would be larger than the chart. */
const LEGEND_MOST = 12;

/** Colour and dash of the series in that place: all different for the first 108. */
function styleOf(place, theme) {
  const round = Math.floor(place / theme.series.length);
  return { color: theme.series[place % theme.series.length], dash: DASHES[(place + round) % DASHES.length] };
}

/** The colour at a part from 0 to 1 of a ramp of colours such as `#0072b2`. */
function rampColour(ramp, part) {
  const at = Math.min(Math.max(part, 0), 1) * (ramp.length - 1);
  const [from, to] = [Math.floor(at), Math.ceil(at)];
  const channel = (colour, index) => parseInt(colour.slice(1 + 2 * index, 3 + 2 * index), 16);
  const mixed = [0, 1, 2].map((index) => {
    const value = channel(ramp[from], index) * (1 - (at - from)) + channel(ramp[to], index) * (at - from);
    return Math.round(value).toString(16).padStart(2, "0");
  });
  return `#${mixed.join("")}`;
}

/** A style for each value of an axis: numbers along a ramp, words each in a colour of their own. */
function axisStyles(values, theme) {
  const isOrdered = values.length > 2 && values.every((value) => /^\d+(\.\d+)?\D{0,3}$/.test(value));
  return new Map(values.map((value, index) => [value, isOrdered
    ? { color: rampColour(theme.ramp, index / (values.length - 1)), dash: "solid" }
    : styleOf(index, theme)]));
}

function layout(theme, axes) {
  const axis = (own) => ({
    gridcolor: theme.line, linecolor: theme.muted, zerolinecolor: theme.line, automargin: true,
    ticks: "outside", tickcolor: theme.line, ticklen: 4, ...own,
    title: { standoff: 8, font: { size: 13 }, ...own.title },
  });
  const { xaxis, yaxis, ...rest } = axes;
  return {
    paper_bgcolor: theme.panel, plot_bgcolor: theme.panel, hovermode: "closest", hoverdistance: 40,
    font: { family: theme.sans, size: 12.5, color: theme.text },
    hoverlabel: { font: { family: theme.sans, size: 13 }, align: "left" },
    margin: { l: 56, r: 14, t: 12, b: 46 },
    modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: theme.line, activecolor: theme.muted },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemclick: false, itemdoubleclick: false },
    xaxis: axis(xaxis), yaxis: axis(yaxis), ...rest,
  };
}

/** An axis for latencies. On a logarithmic one, what is not above zero stands at its left end. */
function latencyAxis(title, scale, points) {
  const times = points.map(([ns]) => ns);
  const [size, unit] = axisUnit(times.reduce((a, b) => Math.max(a, b), 0));
  const least = times.reduce((a, b) => (b > 0 && b < a ? b : a), Infinity);
  const floor = least === Infinity ? 1 : least;
  const place = (ns) => (scale === "log" ? Math.max(ns, floor) : ns) / size;
  const axis = { title: { text: `${plotText(title)} (${unit})` }, type: scale, nticks: 6, tickformat: "," };
  return { place, axis, size };
}

/** The legend of the curves: each by its name, or each value of an axis once. */
function legendOf(series) {
  const seen = new Set();
  return series.map(({ id, name, group }) => {
    const text = group ?? name;
    const isFirst = !seen.has(text);
    seen.add(text);
    return { name: plotText(text), legendgroup: group === undefined ? id : text, showlegend: isFirst };
  });
}

const hasLegend = (legend) => legend.filter(({ showlegend }) => showlegend).length <= LEGEND_MOST;

/**
 * The overlaid latency profiles: a curve for each, and the marks of the worst cases. `read` tells
 * the frames of a series at a place of the axis.
 */
function profilePlot(series, title, scale, theme) {
  const { place, axis, size } = latencyAxis(title, scale, series.flatMap(({ points }) => points));
  const legend = legendOf(series);
  const width = series.length > 40 ? 1.25 : 2;
  const data = series.map(({ points, style }, index) => {
    const shown = visible(points, place, 1600, 900);
    return {
      ...legend[index], type: "scatter", mode: "lines", hoverinfo: "skip",
      line: { ...style, width, shape: "vh" }, x: shown.map(([ns]) => place(ns)), y: shown.map(([, n]) => n),
    };
  });
  const worst = series.map(({ points }) => points.at(-1));
  data.push({
    type: "scatter", mode: "markers", showlegend: false, hoverinfo: "skip", cliponaxis: false,
    marker: { color: series.map(({ style }) => style.color), size: series.length > 40 ? 5 : 8, line: { color: theme.panel, width: 1.5 } },
    x: worst.map(([ns]) => place(ns)), y: worst.map(([, n]) => n),
  });
  const most = series.reduce((most, { points }) => Math.max(most, points[0][1]), 1);
  const yaxis = {
    title: { text: "Frames with at least this latency" }, type: "log",
    range: [-0.18, Math.log10(most) + 0.12], dtick: 1, tickformat: ",",
  };
  const read = ({ points }, at) => {
    const number = atLeast(points, at * size);
    return { value: number, text: `${count(number)} (${percent(number, points[0][1])})` };
  };
  const head = (at) => `at least ${duration(Math.round(at * size))}`;
  return { data, read, head, layout: layout(theme, { xaxis: axis, yaxis, showlegend: hasLegend(legend) }) };
}

/** Latencies over an axis: of each series the median, in the middle of a band from the smallest to the largest. Versions stand at equal distances. */
function sweepPlot(series, axis, title, scale, theme) {
  const all = series.flatMap(({ points }) => points.flatMap(({ min, max }) => [[min], [max]]));
  const { place, axis: yaxis } = latencyAxis(title, scale, all);
  const data = series.flatMap(({ name, points }, index) => {
    const { color } = styleOf(index, theme);
    const x = points.map(({ at }) => (typeof at === "string" ? plotText(at) : at));
    const line = (key, own) => ({ type: "scatter", x, y: points.map((point) => place(point[key])), legendgroup: name, ...own });
    const edge = { mode: "lines", line: { color, width: 0.75 }, showlegend: false, hoverinfo: "skip" };
    return [
      line("min", edge),
      line("max", { ...edge, fill: "tonexty", fillcolor: `${color}26` }),
      line("p50", {
        name: plotText(name), mode: "lines+markers", line: { color, width: 2 }, marker: { color, size: 6 },
        showlegend: series.length > 1 && series.length <= LEGEND_MOST,
        hovertemplate: "%{text}<extra></extra>",
        text: points.map(({ min, p50, max }) => [["min", min], ["p50", p50], ["max", max]].map(([key, ns]) => `${key} ${duration(Math.round(ns))}`).join("<br>")),
      }),
    ];
  });
  // All versions in their order, also those that the first series does not have.
  const places = [...new Set(series.flatMap(({ points }) => points.map(({ at }) => at)))];
  const xaxis = places.some((at) => typeof at === "string")
    ? { title: { text: plotText(axis) }, type: "category", categoryorder: "array", categoryarray: places.sort(compareVersions).map(plotText) }
    : { title: { text: plotText(axis) }, tickformat: "," };
  return { data, layout: layout(theme, { xaxis, yaxis, showlegend: series.length > 1 }) };
}

/** How figures changed: `min +600 ns, path +612 ns: cgw_csum_xor_rel +89`. */
function changeText(changes) {
  const signed = (number) => (number < 0 ? "-" : "+") + count(Math.round(Math.abs(number)));
  const figures = changes.map(({ figure, before, after }) => `${figure} ${signed(after - before)}${["instructions", "lost"].includes(figure) ? "" : " ns"}`);
  const functions = (changes[0]?.functions ?? []).map(([name, more]) => `${name} ${signed(more)}`);
  return figures.join(", ") + (functions.length > 0 ? `: ${functions.join(", ")}` : "");
}

/** A latency over the seeds: one value, or the smallest and the largest. */
function rangeText(range) {
  const [least, most] = (range ?? []).map((ns) => duration(Math.round(ns)));
  return range === null ? "" : least === most ? least : `${least} to ${most}`;
}

/** How many claims agree, without those about alternatives: `29 of 30 claims agree, 1 depends`. */
function claimsText(claims) {
  const counted = claims.filter(({ alternative }) => alternative === null);
  const others = groupBy(counted.filter(({ agreement }) => agreement !== "yes"), ({ agreement }) => agreement);
  const yes = counted.filter(({ agreement }) => agreement === "yes").length;
  return [`${count(yes)} of ${count(counted.length)} ${counted.length === 1 ? "claim" : "claims"} agree${yes === 1 ? "s" : ""}`,
    ...[...others].map(([word, of]) => `${count(of.length)} ${word}`)].join(", ");
}

/** The head and the rows of the table of claims: texts, with columns that are empty left out. */
function claimRows(claims) {
  const columns = [["Id", "id"], ["Claim", "says"], ["Of", "alternative"], ["Published", "published"], ["Found", "found"],
    ["Agreement is", "bounds"], ["Agrees", "agreement"], ["Note", "note"]];
  const used = columns.filter(([, key]) => claims.some((claim) => claim[key]));
  return { head: used.map(([label]) => label), keys: used.map(([, key]) => key), rows: claims.map((claim) => used.map(([, key]) => claim[key] ?? "")) };
}

/** An experiment on one release after the other; a line for each Debian, with and without PREEMPT_RT. */
function pastPlot(lines, scale, theme) {
  const middle = (range) => (range[0] + range[1]) / 2;
  const values = lines.flatMap(({ releases }) => releases.flatMap(({ p50_ns, p999_ns }) => [p50_ns, p999_ns].filter(Boolean).map((range) => [middle(range)])));
  const { place, axis: yaxis } = latencyAxis("Latency", scale, values);
  const data = lines.flatMap(({ built_by: name, releases }, index) => {
    const { color } = styleOf(index, theme);
    const line = (key, label, own) => {
      const shown = releases.filter((release) => release[key]);
      return {
        type: "scatter", mode: "lines+markers", legendgroup: name,
        x: shown.map(({ release }) => plotText(release)), y: shown.map((release) => place(middle(release[key]))),
        text: shown.map((release) => [`${label} ${rangeText(release[key])}`, changeText(release.changes)].filter(Boolean).map(plotText).join("<br>")),
        hovertemplate: "%{text}<extra></extra>", ...own,
      };
    };
    const symbol = releases.filter(({ p50_ns }) => p50_ns).map(({ changes }) => (changes.length > 0 ? "diamond" : "circle"));
    const size = symbol.map((symbol) => (symbol === "diamond" ? 11 : 6));
    return [
      line("p50_ns", "p50", { name: plotText(name), line: { color, width: 2 }, marker: { color, symbol, size }, showlegend: lines.length > 1 }),
      line("p999_ns", "p99.9", { line: { color, width: 1, dash: "dot" }, marker: { color, size: 4 }, showlegend: false }),
    ];
  });
  const xaxis = { type: "category", tickangle: -30, automargin: true };
  return { data, layout: layout(theme, { xaxis, yaxis, showlegend: lines.length > 1 }) };
}

/** The classic histograms over one another. */
function histogramPlot(series, title, scale, theme) {
  const all = series.flatMap(({ points }) => points);
  const { place, axis, size } = latencyAxis(title, scale, all);
  const times = all.map(([ns]) => ns).filter((ns) => scale !== "log" || ns > 0);
  const from = times.reduce((a, b) => Math.min(a, b), Infinity);
  const to = times.reduce((a, b) => Math.max(a, b), -Infinity);
  const legend = legendOf(series);
  const allBars = new Map(series.map(({ id, points }) =>
    [id, times.length ? bins(points, from, to, 100, scale === "log") : []]));
  const data = series.map(({ id, style }, index) => {
    const bars = allBars.get(id);
    return {
      ...legend[index], type: "scatter", mode: "lines", hoverinfo: "skip",
      line: { ...style, width: 1.75, shape: "hv" },
      ...(series.length > LEGEND_MOST ? {} : { fill: "tozeroy", fillcolor: `${style.color}26` }),
      x: [...bars.map(([from]) => place(from)), place(to)], y: [...bars.map(([, , n]) => n), 0],
    };
  });
  const yaxis = { title: { text: "Frames" }, rangemode: "tozero", tickformat: "," };
  const barAt = (bars, at) => bars.find(([from, to]) => at * size >= from && at * size < to);
  const read = ({ id }, at) => {
    const [, , number] = barAt(allBars.get(id), at) ?? [0, 0, 0];
    return { value: number, text: count(number) };
  };
  const head = (at) => {
    const bar = barAt([...allBars.values()][0] ?? [], at);
    return bar ? `${duration(Math.round(bar[0]))} to ${duration(Math.round(bar[1]))}` : duration(Math.round(at * size));
  };
  return { data, read, head, layout: layout(theme, { xaxis: axis, yaxis, showlegend: hasLegend(legend) }) };
}

/**
 * What all curves say at one place of the axis, the highest first: at most `most` of them, those
 * around the value that the pointer is at, and how many are above and below.
 */
function readout(series, read, at, pointer, most) {
  const rows = series.map((one) => ({ ...one, ...read(one, at) })).sort((a, b) => b.value - a.value);
  const distance = ({ value }) => Math.abs(Math.log1p(value) - Math.log1p(Math.max(pointer, 0)));
  let nearest = 0;
  rows.forEach((row, index) => {
    if (distance(row) < distance(rows[nearest])) nearest = index;
  });
  const above = Math.max(Math.min(nearest - Math.floor(most / 2), rows.length - most), 0);
  const shown = rows.slice(above, above + most);
  return { rows: shown, nearest: rows[nearest]?.id, above, below: rows.length - above - shown.length };
}

/** Only losses are alarming: not routed and refused is what the rules say. */
const causeColour = (ending, theme) => (ending === "lost" ? theme.warn : theme.muted);

/** Latency over time, and below it when frames were stopped, a row per cause. */
function timePlot(frames, metric, title, scale, style, theme, endingOf) {
  const kept = frames.latencies[metric] ?? { number: [], time_ns: [], latency_ns: [] };
  const times = runningSum(kept.time_ns);
  const numbers = runningSum(kept.number);
  const stopped = Object.entries(frames.stopped).map(([cause, list]) => ({
    cause, times: runningSum(list.time_ns), numbers: runningSum(list.number), frames: list.frames,
  }));
  const ends = [times, ...stopped.map(({ times }) => times)].flatMap((list) => [list[0], list.at(-1)]);
  const start = ends.filter((ns) => ns !== undefined).reduce((a, b) => Math.min(a, b), Infinity);
  const end = ends.filter((ns) => ns !== undefined).reduce((a, b) => Math.max(a, b), start);
  const [size, unit] = axisUnit(end - start);
  const since = (list) => list.map((ns) => (ns - start) / size);
  const { place, axis } = latencyAxis(title, scale, kept.latency_ns.map((ns) => [ns]));
  const data = [{
    type: "scatter", mode: "markers", hoverinfo: "text", cliponaxis: false,
    marker: { color: style.color, size: 3.5, opacity: 0.75 },
    x: since(times), y: kept.latency_ns.map(place),
    hovertext: kept.latency_ns.map((ns, i) => `<b>${duration(ns)}</b><br>frame ${count(numbers[i])} at ${duration(times[i] - start)}`),
  }];
  stopped.forEach(({ cause, times, numbers, frames: list }, row) => data.push({
    type: "scatter", mode: "markers", hoverinfo: "text", yaxis: "y2",
    marker: { color: causeColour(endingOf(cause), theme), symbol: "line-ns-open", size: 9, line: { width: 1.25 } },
    x: since(times), y: times.map(() => row),
    hovertext: times.map((ns, i) => `<b>${framesText(list[i])}</b>: ${plotText(cause)}<br>from frame ${count(numbers[i])} at ${duration(ns - start)}`),
  }));
  const strip = stopped.length ? Math.min(0.06 + 0.07 * stopped.length, 0.5) : 0;
  const own = {
    xaxis: { title: { text: `Time since the first frame (${unit})` }, anchor: stopped.length ? "y2" : "y", showgrid: false },
    yaxis: { ...axis, domain: [strip && strip + 0.04, 1] },
    showlegend: false,
  };
  if (stopped.length) {
    own.yaxis2 = {
      domain: [0, strip], automargin: true, fixedrange: true, zeroline: false, showgrid: false,
      range: [stopped.length - 0.4, -0.6], tickvals: stopped.map((_, row) => row),
      ticktext: stopped.map(({ cause }) => plotText(cause)), tickfont: { color: theme.muted },
    };
  }
  return { data, layout: layout(theme, own) };
}

// ---- The page ------------------------------------------------------------------------------------

if (typeof document !== "undefined") startPage();

function startPage() {
  /** From so many experiments on, the table stands beside the charts. */
  const MANY = 13;
  /** So many panels of chosen experiments are shown, and so many more each time. */
  const PANELS = 6;
  /** So many lines has the readout of a chart at most. */
  const READOUT_LINES = 18;

  const $ = (id) => document.getElementById(id);
  let report = null;
  let names = null;
  let columns = null;
  let causes = null;
  let state = null;
  let panels = PANELS;

  window.candorReport = (data) => {
    report = data;
    names = namesOf(report.experiments);
    columns = columnsOf(report.experiments);
    causes = new Map(report.causes.map((cause) => [cause.name, cause]));
    state = stateFromHash(location.hash, report);
    document.body.classList.toggle("many", report.experiments.length >= MANY);
    buildHead();
    buildControls();
    buildColumns();
    buildClaims();
    buildReadout();
    render();
    document.body.dataset.ready = "true";
  };

  // -- Files of experiments, each loaded once.

  /** A folder of scripts that hand over something of an experiment. */
  function shelf(folder) {
    const found = new Map();
    const waiting = new Map();
    return {
      get: (id) => found.get(id),
      put(id, content) {
        found.set(id, content);
        waiting.get(id)?.resolve();
      },
      load(id) {
        if (found.has(id)) return Promise.resolve();
        if (!waiting.has(id)) {
          let done;
          const promise = new Promise((resolve, reject) => (done = { resolve, reject }));
          waiting.set(id, { ...done, promise });
          const script = document.createElement("script");
          script.src = `report/${folder}/${encodeURIComponent(id)}.js`;
          script.onerror = () => waiting.get(id).reject(new Error(`report/${folder}/${id}.js is missing; run \`candor lab report\` on this folder again`));
          document.head.append(script);
        }
        return waiting.get(id).promise;
      },
    };
  }
  const profiles = shelf("charts");
  const perFrame = shelf("frames");
  window.candorProfiles = profiles.put;
  window.candorFrames = perFrame.put;

  /** An element with properties and children; strings become text. */
  function h(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name in element) element[name] = value;
      else element.setAttribute(name, value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== ""));
    return element;
  }

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(`--${name}`).trim();
    const names = ["panel", "text", "muted", "line", "warn", "sans"];
    const lists = ["series", "ramp"].map((name) => [name, value(name).split(/\s+/)]);
    return { ...Object.fromEntries(names.map((name) => [name, value(name)])), ...Object.fromEntries(lists) };
  }

  const experimentOf = (id) => report.experiments.find((experiment) => experiment.id === id);
  const chosen = () => state.chosen.map((id, place) => ({ id, place })).filter(({ id }) => id !== null);
  const metricOf = (key) => report.metrics.find((metric) => metric.key === key);
  const shownRows = () => sorted(report.experiments.filter((e) => matches(e, state, names)), state.metric, state.sort, names, columns);

  /** How each chosen experiment is drawn, by its id: `group` is what it shares a colour with. */
  function styles(colours) {
    const values = state.colour && axesOf(report.experiments).find(([axis]) => axis === state.colour)?.[1];
    if (!values) return new Map(chosen().map(({ id, place }) => [id, { style: styleOf(place, colours) }]));
    const byValue = axisStyles(values, colours);
    const short = axisNames([state.colour]).get(state.colour);
    return new Map(chosen().map(({ id, place }) => {
      const value = experimentOf(id).axes[state.colour];
      if (value === undefined) return [id, { style: styleOf(place, colours), group: `no ${short}` }];
      return [id, { style: byValue.get(axisText(value)), group: `${short} ${axisText(value)}` }];
    }));
  }

  // -- Head and controls, built once.

  function buildHead() {
    const all = report.experiments;
    const distinct = (key) => [...new Set(all.map((e) => e[key]).filter((value) => value !== "" && value !== null))];
    const spans = [`${count(all.length)} ${all.length === 1 ? "experiment" : "experiments"}`];
    const conditions = distinct("conditions");
    spans.push(...(conditions.length <= 2 ? conditions : [`${conditions.length} sets of conditions`]));
    const seeds = distinct("seed_text");
    if (seeds.length === 1) spans.push(`seed ${seeds[0]}`);
    spans.push(...distinct("candor").map((version) => `candor ${version}`));
    const testbeds = distinct("testbed");
    const titles = distinct("title");
    if (titles.length === 1 && all.every(({ title }) => title)) {
      $("headline").textContent = titles[0];
      document.title = `${titles[0]} – latency report`;
    }
    $("conditions").replaceChildren(...testbeds.map(badge), ...spans.map((text) => h("span", {}, text)));
    const limits = {
      sim: "Experiments on the testbed “sim” are computed from a model with published parameters. They are not measurements of a real machine.",
      vm: "Experiments on the testbed “vm” ran on real kernels with emulated controllers, on buses that take no time. Their times are counted instructions: exact for comparing kernels, drivers, rules and gateways, but not a forecast for a board.",
    };
    $("footer").textContent = Object.keys(limits).filter((name) => testbeds.includes(name)).map((name) => limits[name]).join(" ");
  }

  function badge(testbed) {
    const words = { sim: "model", vm: "emulated hardware", host: "this machine", live: "real buses" };
    return h("span", { className: "badge", title: `testbed ${testbed}` }, words[testbed] ?? testbed);
  }

  function buildControls() {
    const used = report.metrics.filter(({ key }) => report.experiments.some((e) => e.metrics[key]?.count > 0));
    $("metric").replaceChildren(...used.map(({ key, label }) => h("option", { value: key }, label)));
    $("metric").onchange = ({ target }) => {
      // Of another metric others are the worst.
      const isWorst = worstText(report, state) !== "";
      change({ metric: target.value, ...(isWorst ? { chosen: worst(report, target.value) } : {}) });
    };
    for (const name of ["view", "scale"]) {
      for (const input of document.getElementsByName(name)) {
        input.onchange = () => change({ [name]: input.value });
      }
    }
    $("search").oninput = (event) => change({ search: event.target.value });
    const axes = axesOf(report.experiments);
    const short = axisNames(axes.map(([axis]) => axis));
    for (const [axis, values] of axes) {
      const select = h("select", { "data-axis": axis },
        h("option", { value: "" }, "all"), values.map((value) => h("option", { value: `=${value}` }, value)));
      select.onchange = () => {
        const { [axis]: _, ...filters } = state.filters;
        change({ filters: select.value ? { ...filters, [axis]: select.value.slice(1) } : filters });
      };
      $("filters").append(h("label", { className: "field", title: axis }, short.get(axis), select));
    }
    $("colour").append(h("option", { value: "" }, "experiment"), ...axes.map(([axis]) => h("option", { value: axis }, short.get(axis))));
    $("colour").onchange = (event) => change({ colour: event.target.value });
    $("colour-field").hidden = axes.length === 0;
    const numeric = drawnAxes(report.experiments);
    $("sweep").hidden = numeric.length === 0;
    $("over").replaceChildren(...numeric.map((axis) => h("option", { value: axis }, short.get(axis))));
    $("over").onchange = (event) => change({ over: event.target.value });
    const pasts = [...new Set(report.past.map(({ experiment }) => experiment))];
    $("past").hidden = pasts.length === 0;
    $("past-of").replaceChildren(...pasts.map((name) => h("option", { value: name }, name)));
    $("past-of").onchange = (event) => change({ past: event.target.value });
    $("figures").hidden = report.figures.length === 0;
    $("figures").replaceChildren(...report.figures.map(({ title, metric, experiments }) =>
      h("a", { href: stateToHash({ ...initialState(report), metric, chosen: experiments }, report.run) }, title)));
    const choose = { "choose-all": () => report.experiments, "choose-none": () => [], "choose-shown": shownRows };
    for (const [id, wanted] of Object.entries(choose)) {
      $(id).onclick = () => change({ chosen: chosenExactly(state.chosen, wanted().map((e) => e.id)) });
    }
    $("export-svg").onclick = exportSvg;
    $("export-csv").onclick = exportCsv;
    document.querySelector(".skip").onclick = (event) => {
      event.preventDefault();
      $("rows").querySelector("input")?.focus();
    };
    window.onhashchange = () => {
      state = stateFromHash(location.hash, report);
      render();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => render());
  }

  function buildColumns() {
    // With one title for all, the axes alone tell experiments apart.
    const titles = new Set(report.experiments.map((e) => e.title));
    const isBare = titles.size === 1 && columns.length > COLUMNS.length;
    $("table").classList.toggle("bare", isBare);
    for (const { key, label, axis } of columns) {
      const text = isBare && key === "name" ? "Name" : label;
      const button = h("button", { type: "button", title: axis ?? "" }, text);
      // Text is wanted from A on, numbers from the worst on.
      const isDescending = key !== "name" && axis === undefined;
      button.onclick = () => {
        const again = state.sort.key === key;
        change({ sort: { key, descending: again ? !state.sort.descending : isDescending } });
      };
      $("columns").append(h("th", { scope: "col", "data-key": key, className: axis === undefined ? "" : "axis" }, button));
    }
  }

  /** What became of the claims, as the program judged them. */
  function buildClaims() {
    const { claims } = report;
    $("claims").hidden = claims.length === 0;
    if (claims.length === 0) return;
    $("claims-hint").replaceChildren(`${claimsText(claims)}, when they were last judged. `,
      h("code", {}, "candor lab claims FILE --no-run"), " judges them again. Times are in µs.");
    const { head, keys, rows } = claimRows(claims);
    const classOf = (at, text) => {
      if (keys[at] === "agreement" && !["yes", "too few seeds"].includes(text)) return "bad";
      return ["says", "published", "note", "alternative"].includes(keys[at]) ? "words" : "";
    };
    $("claims-table").replaceChildren(
      h("thead", {}, h("tr", {}, head.map((text, at) => h("th", { scope: "col", className: classOf(at, "yes") }, text)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((text, at) => h("td", { className: classOf(at, text) }, text))))));
  }

  // -- State to page.

  function change(part) {
    state = { ...state, ...part };
    history.replaceState(null, "", stateToHash(state, report.run));
    render();
  }

  function render() {
    showControls();
    showRows();
    showDetails();
    drawCharts();
  }

  function showControls() {
    $("metric").value = state.metric;
    $("over").value = state.over;
    $("past-of").value = state.past;
    $("colour").value = state.colour;
    $("formula").textContent = `${state.metric} = ${metricOf(state.metric).formula}`;
    $("overlay-title").textContent = state.view === "profile" ? "Latency profile" : "Histogram";
    for (const name of ["view", "scale"]) {
      for (const input of document.getElementsByName(name)) input.checked = input.value === state[name];
    }
    if ($("search").value !== state.search) $("search").value = state.search;
    for (const select of $("filters").querySelectorAll("select[data-axis]")) {
      const value = state.filters[select.dataset.axis];
      select.value = value === undefined ? "" : `=${value}`;
    }
  }

  function showRows() {
    const shown = shownRows();
    const total = report.experiments.length;
    $("shown").textContent = `${count(shown.length)} of ${count(total)} shown, ${count(chosen().length)} chosen`;
    $("choose-shown").textContent = shown.length === total ? "Shown" : `Shown (${count(shown.length)})`;
    for (const th of $("columns").children) {
      if (th.dataset.key !== state.sort.key) th.removeAttribute("aria-sort");
      else th.setAttribute("aria-sort", state.sort.descending ? "descending" : "ascending");
    }
    const focused = document.activeElement?.dataset?.experiment;
    const drawn = styles(theme());
    const none = h("tr", { className: "empty" }, h("td", { colSpan: columns.length }, "No experiment matches. Clear the search or choose “all”."));
    $("rows").replaceChildren(...(shown.length ? shown.map((e) => row(e, drawn)) : [none]));
    for (const input of $("rows").querySelectorAll("input")) {
      if (input.dataset.experiment === focused) input.focus({ preventScroll: true });
    }
  }

  function row(experiment, drawn) {
    const { id, counts } = experiment;
    const box = h("input", { type: "checkbox", checked: drawn.has(id), "data-experiment": id, "aria-label": names.get(id) });
    box.onchange = () => change({ chosen: toggled(state.chosen, id) });
    const axes = columns.filter(({ axis }) => axis !== undefined);
    // What the axes say stands in their columns.
    const hasAxes = axes.some(({ axis }) => axis in experiment.axes);
    const title = hasAxes ? experiment.title || experiment.experiment : names.get(id);
    const name = h("label", { title: names.get(id) }, box, swatch(drawn.get(id)?.style), h("span", { className: "name" }, title),
      title === id ? null : h("small", {}, id));
    const bus = busiest(experiment);
    const cells = axes.map(({ value }) => h("td", { className: "axis" }, value(experiment) ?? "–"));
    cells.push(...COLUMNS.slice(1, 5).map(({ value }) => h("td", {}, time(value(experiment, state.metric)))));
    cells.push(h("td", {}, count(counts.sent)));
    cells.push(...ENDINGS.map(([key]) => ended(key, counts)));
    cells.push(h("td", {}, bus ? [`${bus.load_percent.toFixed(1)}\u202f%`, " ", h("span", { className: "bus", title: bus.name }, bus.name)] : "–"));
    const line = h("tr", { className: drawn.has(id) ? "chosen" : "" }, h("th", { scope: "row" }, name), cells);
    line.onmouseenter = () => highlight(id);
    line.onmouseleave = () => highlight(null);
    return line;
  }

  /** How many frames ended in a way; losses stand out. */
  function ended(key, counts) {
    const number = counts[key];
    const classes = { received: "", not_routed: "zero", refused: "", lost: "bad" };
    const share = key === "lost" && number > 0 ? ` (${percent(number, counts.sent)})` : "";
    return h("td", { className: number === 0 && key !== "received" ? "zero" : classes[key] }, `${count(number)}${share}`);
  }

  function swatch(style) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("aria-hidden", "true");
    if (!style) return svg;
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const pattern = { solid: "", dash: "8 4", dot: "2 3", dashdot: "8 3 2 3", longdash: "13 4", longdashdot: "13 3 2 3" };
    const attributes = { x1: 1, x2: "97%", y1: 5, y2: 5, stroke: style.color, "stroke-width": 3, "stroke-dasharray": pattern[style.dash] };
    for (const [name, value] of Object.entries(attributes)) line.setAttribute(name, value);
    svg.append(line);
    return svg;
  }

  const unit = (text) => h("span", { className: "unit" }, text);

  function time(ns) {
    if (ns === null) return "–";
    const [number, suffix] = durationParts(ns);
    return h("span", {}, `${number}\u202f`, unit(suffix));
  }

  // -- One panel per chosen experiment.

  function showDetails() {
    const there = new Map([...$("details").children].map((panel) => [panel.dataset.experiment, panel]));
    const drawn = styles(theme());
    const wanted = chosen().slice(0, panels).map(({ id }) => {
      const panel = there.get(id) ?? detail(experimentOf(id));
      panel.querySelector(".swatch").replaceWith(swatch(drawn.get(id).style));
      return panel;
    });
    for (const panel of there.values()) {
      if (!wanted.includes(panel)) {
        seen.unobserve(panel.querySelector(".chart"));
        Plotly.purge(panel.querySelector(".chart"));
      }
    }
    const current = [...$("details").children];
    if (wanted.length !== current.length || wanted.some((panel, index) => panel !== current[index])) {
      $("details").replaceChildren(...wanted);
    }
    const more = chosen().length - wanted.length;
    $("more").hidden = more <= 0;
    $("more").textContent = `Show ${Math.min(more, PANELS)} more of ${counted(more, "chosen experiment")}`;
    $("more").onclick = () => {
      panels += PANELS;
      showDetails();
    };
  }

  /** `20,000 sent = 10,612 received + 0 not routed + 0 refused + 9,388 lost` */
  function sum({ counts }) {
    const { sent, duplicated, reordered } = counts;
    const parts = ENDINGS.map(([key, label]) => `${count(counts[key])} ${label.toLowerCase()}`);
    const also = [[duplicated, "further copies received"], [reordered, "out of order"]]
      .filter(([number]) => number > 0).map(([number, word]) => `; ${count(number)} ${word}`);
    return `${count(sent)} sent = ${parts.join(" + ")}${also.join("")}`;
  }

  function detail(experiment) {
    const chart = h("div", { className: "chart short" });
    const title = names.get(experiment.id);
    const sections = (form) => report.sections.filter(({ key }) => formOf(experiment[key]) === form).map((it) => sectionTable(experiment, it));
    const panel = h("section", { className: "panel detail", "data-experiment": experiment.id },
      h("div", { className: "panel-head" },
        h("div", {},
          h("h2", {}, swatch(), title),
          title === experiment.id ? null : h("p", { className: "hint" }, experiment.id),
          h("p", { className: "sum" }, sum(experiment)),
          h("p", { className: "hint" }, badge(experiment.testbed), ` ${experiment.conditions}`),
          (experiment.notes ?? []).map((note) => h("p", { className: "hint" }, `Note: ${note}`)))),
      h("h3", {}, "Over time"),
      chart,
      h("p", { className: "hint thinned" }),
      h("div", { className: "halves" },
        h("div", {}, metricsTable(experiment), sections("values")),
        h("div", {}, stoppedTable(experiment), sections("table"), idleRules(experiment))),
      scheduleChart(experiment),
      sections("figures"),
      repeat(experiment));
    seen.observe(chart);
    return panel;
  }

  function part(title, columns, rows) {
    if (rows.length === 0) return null;
    const head = columns.map((column, index) => h("th", { scope: "col", className: index ? "" : "text" }, column));
    const body = rows.map(([first, ...cells]) => h("tr", {}, h("th", { scope: "row", className: "text" }, first), cells.map((cell) => h("td", {}, cell))));
    return h("section", {}, h("h3", {}, title),
      h("div", { className: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body))));
  }

  function metricsTable(experiment) {
    const rows = report.metrics.filter(({ key }) => experiment.metrics[key]?.count > 0).map(({ key, label, formula }) => [
      h("span", { title: `${key} = ${formula}` }, label),
      ...["min", "p50", "p99", "max"].map((name) => time(figure(experiment, key, name))),
    ]);
    const table = part("Where the time goes", ["Metric", "min", "p50", "p99", "max"], rows);
    table?.append(h("p", { className: "hint" }, `max: the largest of ${counted(experiment.counts.received, "frame")} with one seed, and no bound.`));
    return table;
  }

  /** What stopped frames: not routed first, losses last, as in the sum above. */
  function stoppedTable(experiment) {
    const order = ENDINGS.map(([key]) => key);
    const label = (ending) => ENDINGS.find(([key]) => key === ending)?.[1] ?? ending;
    const rows = [...experiment.stopped]
      .sort((a, b) => order.indexOf(a.ending) - order.indexOf(b.ending) || b.frames - a.frames)
      .map(({ where, rule, cause, ending, frames }) => [
        h("span", { className: ending === "lost" ? "bad" : "" }, label(ending)),
        h("span", { title: causes.get(cause)?.meaning ?? "", className: "cause" }, cause),
        [where, rule].filter(Boolean).join(" · "), count(frames), percent(frames, experiment.counts.sent),
      ]);
    return part("Frames that did not pass", ["Ending", "Cause", "Where", "Frames", "Of sent"], rows)
      ?? h("section", {}, h("h3", {}, "Frames that did not pass"), h("p", { className: "hint" }, "None."));
  }

  /** A value of a section for people. */
  function shown(value, unit) {
    if (value === undefined) return "–";
    if (Array.isArray(value)) return h("details", {}, h("summary", {}, counted(value.length, "value")), h("pre", { className: "config", tabIndex: 0 }, h("code", {}, value.join(" ").replaceAll(" -", "\n-"))));
    if (typeof value === "object") return ["min", "p50", "p99", "max"].map((name) => `${name} ${duration(value[`${name}_ns`] ?? 0)}`).join(", ");
    if (typeof value === "string") return /^[0-9a-f]{40,}$/.test(value) ? h("span", { className: "hash" }, value) : value;
    if (unit === "ns") return time(value);
    if (unit === "percent") return h("span", {}, `${value.toFixed(1)}\u202f%`, meter(value));
    return unit === "bit/s" ? `${count(value / 1000)} kbit/s` : count(Math.round(value * 1000) / 1000);
  }

  function meter(value) {
    const bar = h("i");
    bar.style.width = `${Math.min(Math.max(value, 0), 100)}%`;
    return h("span", { className: "meter", "aria-hidden": "true" }, bar);
  }

  const hasFigures = (row, key) => row[key]?.p50_ns !== undefined;

  /** Whether a section is values that there are once, a table, or one with figures, which is wide. */
  function formOf(section) {
    if (!Array.isArray(section)) return section && "values";
    return section.some((row) => Object.keys(row).some((key) => hasFigures(row, key))) ? "figures" : "table";
  }

  /** A section of a result: a table, or values one below the other. What is nothing but zeros is left out. */
  function sectionTable(experiment, { key, title, columns }) {
    const section = experiment[key];
    const rows = [section ?? []].flat();
    const known = columns.filter((column) => rows.some((row) => row[column.key] !== undefined && row[column.key] !== 0));
    if (!Array.isArray(section)) return part(title, ["", ""], known.map(({ key, label, unit }) => [label, shown(section?.[key], unit)]));
    // Figures have several columns.
    const cells = known.flatMap(({ key, label, unit }) => {
      const figures = rows.some((row) => hasFigures(row, key));
      const bad = (row) => key === "lost" && row[key] > 0 ? h("span", { className: "bad" }, shown(row[key], unit)) : shown(row[key], unit);
      if (!figures) return [[label, bad]];
      return ["min", "p50", "p99", "max"].map((name) => [`${label} ${name}`, (row) => time(row[key]?.[`${name}_ns`] ?? null)]);
    });
    return part(title, cells.map(([label]) => label), rows.map((row) => cells.map(([, cell]) => cell(row))));
  }

  /** How many rules there are besides those in the table. */
  function idleRules({ idle_rules: idle }) {
    return idle > 0 ? h("p", { className: "hint" }, `${count(idle)} more ${idle === 1 ? "rule" : "rules"} matched no frame.`) : null;
  }

  /** A cycle of the schedule of time-triggered frames: a row for each direction of a link. */
  function scheduleChart({ flow: { cycle_ns: cycle } = {}, schedule }) {
    if (!schedule?.length) return null;
    const flows = [...new Set(schedule.flatMap(({ frames }) => frames.map(({ flow }) => flow)))];
    const colours = new Map(flows.map((flow, index) => [flow, styleOf(index, theme()).color]));
    const bar = ({ flow, begin, end, label }) => {
      const it = h("i", { title: label });
      Object.assign(it.style, { left: `${(begin / cycle) * 100}%`, width: `${((end - begin) / cycle) * 100}%`, background: colours.get(flow) });
      return it;
    };
    const rows = schedule.map(({ link, from, to, frames }) => h("div", { className: "track-row" },
      h("span", { className: "track-name" }, `${link}: ${from} → ${to}`),
      h("div", { className: "track", role: "img", "aria-label": `${link}: ${counted(frames.length, "frame")} in a cycle` },
        scheduleParts(frames, cycle).map(bar))));
    const legend = flows.map((flow) => {
      const colour = h("i", { className: "track-colour" });
      colour.style.background = colours.get(flow);
      return h("span", {}, colour, flow);
    });
    return h("section", { className: "schedule" }, h("h3", {}, "Schedule"),
      h("p", { className: "hint" }, `A cycle of ${duration(cycle)}: what time-triggered frames occupy, from the preamble to the gap, jitter included.`),
      h("div", { className: "tracks" }, rows,
        h("div", { className: "track-row" }, h("span", { className: "track-name" }), h("div", { className: "track-ends" }, h("span", {}, "0"), h("span", {}, duration(cycle))))),
      h("p", { className: "hint track-legend" }, legend));
  }

  function repeat(experiment) {
    const copy = h("button", { type: "button" }, "Copy");
    copy.onclick = async () => {
      await copyText(experiment.command);
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    };
    const inputs = experiment.inputs.map(({ path, sha256 }) => h("p", { className: "hint" }, `Input ${path} `, h("span", { className: "hash" }, sha256 && `sha256 ${sha256}`)));
    return h("div", { className: "repeat" },
      experiment.command
        ? h("section", {}, h("h3", {}, "Run it again"), h("div", { className: "command" }, h("pre", { tabIndex: 0 }, h("code", {}, experiment.command)), copy))
        : null,
      inputs,
      experiment.config
        ? h("details", {}, h("summary", {}, "The whole experiment"), h("pre", { className: "config", tabIndex: 0 }, h("code", {}, experiment.config)))
        : null);
  }

  async function copyText(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // No permission, or no clipboard for pages from disk: the old way.
      const area = h("textarea", { value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  // -- Charts: the overlay at once, time charts when they come into view.

  const config = {
    responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { format: "svg", filename: "latency", width: 1200, height: 640, scale: 1 },
  };
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      target.dataset.seen = isIntersecting;
      if (isIntersecting) drawTime(target.closest(".detail"));
    }
  }, { rootMargin: "300px" });
  let drawn = "";
  let drawing = 0;
  /** What the overlay shows, for the readout. */
  let shownPlot = null;

  async function drawCharts() {
    const colours = theme();
    const wanted = JSON.stringify([state.chosen, state.metric, state.view, state.scale, state.colour, state.over, colours]);
    if (wanted === drawn) return; // the search or the order of the table changed
    drawn = wanted;
    const turn = ++drawing;
    const loaded = await Promise.allSettled(chosen().map(({ id }) => profiles.load(id)));
    if (turn !== drawing) return; // something else was chosen meanwhile
    const missing = loaded.filter(({ status }) => status === "rejected").map(({ reason }) => reason.message);
    drawOverlay(missing);
    drawSweep();
    drawPast();
    for (const chart of document.querySelectorAll(".detail .chart")) {
      delete chart.dataset.drawn;
      if (chart.dataset.seen === "true") drawTime(chart.closest(".detail"));
    }
  }

  function series(colours) {
    const drawn = styles(colours);
    // In a chart only what the chosen ones differ by is worth its place.
    const short = namesOf(chosen().map(({ id }) => experimentOf(id)));
    return chosen().map(({ id }) => {
      const points = profiles.get(id)?.[state.metric] ?? [];
      return { id, name: short.get(id), points, ...drawn.get(id) };
    }).filter(({ points }) => points.length > 0);
  }

  function overlay(colours) {
    const plot = state.view === "profile" ? profilePlot : histogramPlot;
    const shown = series(colours);
    return { series: shown, ...plot(shown, metricOf(state.metric).label, state.scale, colours) };
  }

  function drawOverlay(missing) {
    const shown = series(theme());
    const hints = missing.slice(0, 3);
    if (missing.length > 3) hints.push(`Missing files besides these: ${count(missing.length - 3)}.`);
    if (chosen().length === 0) hints.push("Choose experiments in the table to compare their latency profiles.");
    else if (shown.length < chosen().length - missing.length) hints.push("Some of the chosen experiments have no frames with this metric.");
    if ((shown.length > LEGEND_MOST || innerWidth < 640) && shown.length > 3 && !state.colour) hints.push("Point at the chart or at a table row to see which curve is which.");
    const of = worstText(report, state);
    if (of) hints.push(of);
    $("overlay-hint").textContent = hints.join(" ");
    $("export-csv").disabled = $("export-svg").disabled = shown.length === 0;
    hideReadout();
    if (shown.length === 0) {
      Plotly.purge($("overlay"));
      $("overlay-box").hidden = true;
      shownPlot = null;
      return;
    }
    $("overlay-box").hidden = false;
    shownPlot = overlay(theme());
    // On a small screen the table is legend enough.
    if (innerWidth < 640 && shown.length > 3) shownPlot.layout.showlegend = false;
    Plotly.react($("overlay"), shownPlot.data, shownPlot.layout, config);
  }

  /** All experiments over an axis, whichever are chosen. */
  function drawSweep() {
    if (!state.over) return;
    const { label } = metricOf(state.metric);
    const short = axisNames(axesOf(report.experiments).map(([axis]) => axis)).get(state.over);
    const isOfNumbers = kindOf(report.experiments, state.over) === "numbers";
    const isTime = isOfNumbers && axesOf(report.experiments).some(([axis, values]) => axis === state.over && /s$/.test(values[0]));
    const shown = sweeps(report.experiments, state.over, state.metric);
    $("sweep-title").textContent = `${label} over ${short}`;
    const plot = sweepPlot(shown, isTime ? `${short} (µs)` : short, label, state.scale, theme());
    Plotly.react($("sweep-chart"), plot.data, plot.layout, config);
  }

  /** The chosen experiment on one kernel after the other. */
  function drawPast() {
    const lines = report.past.filter(({ experiment }) => experiment === state.past);
    if (lines.length === 0) return;
    const plot = pastPlot(lines, state.scale, theme());
    Plotly.react($("past-chart"), plot.data, plot.layout, config);
    const heads = ["Built by", "Release", "p50", "p99.9", "Instructions", "Lost", "Change"];
    const row = (line, it) => h("tr", {},
      [line.built_by, it.release, rangeText(it.p50_ns), rangeText(it.p999_ns),
        it.instructions ? [...new Set(it.instructions.map((n) => count(Math.round(n))))].join(" to ") : "",
        count(it.lost), changeText(it.changes)].map((cell) => h("td", {}, cell)));
    $("past-table").replaceChildren(
      h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", {}, lines.flatMap((line) => line.releases.map((it) => row(line, it)))));
  }

  let highlighted = null;

  /** Draws one curve thicker than the others; `null` for none. */
  function highlight(id) {
    if (!shownPlot || id === highlighted) return;
    const width = (id, width) => {
      const index = shownPlot.series.findIndex((one) => one.id === id);
      if (index >= 0) Plotly.restyle($("overlay"), { "line.width": width }, [index]);
    };
    const usual = shownPlot.data[0].line.width;
    if (highlighted !== null) width(highlighted, usual);
    if (id !== null) width(id, usual + 2.5);
    highlighted = id;
  }

  // -- The readout: what all curves say at one place of the axis.

  let cursor = 0.5;

  function buildReadout() {
    const box = $("overlay-box");
    const inside = () => {
      const { _offset: left, _length: width } = $("overlay")._fullLayout.xaxis;
      const { _offset: top, _length: height } = $("overlay")._fullLayout.yaxis;
      return { left, top, width, height };
    };
    box.onmousemove = (event) => {
      if (!shownPlot) return;
      const { left, top, width, height } = inside();
      const from = $("overlay").getBoundingClientRect();
      const [x, y] = [event.clientX - from.left - left, event.clientY - from.top - top];
      if (x < 0 || x > width || y < 0 || y > height || event.buttons !== 0) return hideReadout();
      showReadout(x / width, y / height);
    };
    box.onmouseleave = hideReadout;
    box.onblur = hideReadout;
    box.onkeydown = (event) => {
      const step = { ArrowLeft: -0.01, ArrowRight: 0.01, PageDown: -0.1, PageUp: 0.1 }[event.key];
      if (event.key === "Escape") hideReadout();
      if (step === undefined || !shownPlot) return;
      event.preventDefault();
      showReadout(Math.min(Math.max(cursor + step, 0), 1), 0.5);
    };
  }

  /** At these parts of the width and the height of the plot. */
  function showReadout(part, height) {
    cursor = part;
    const { xaxis, yaxis } = $("overlay")._fullLayout;
    const at = xaxis.p2d(part * xaxis._length);
    const pointer = yaxis.p2d(height * yaxis._length);
    const { rows, nearest, above, below } = readout(shownPlot.series, shownPlot.read, at, pointer, READOUT_LINES);
    const rest = (number, where) => (number > 0 ? h("p", { className: "hint" }, `… ${count(number)} ${where}`) : null);
    const line = ({ id, name, style, text }) => h("li", { className: id === nearest ? "nearest" : "" },
      swatch(style), h("span", { className: "name" }, name), h("span", { className: "value" }, text));
    const panel = $("readout");
    panel.replaceChildren(...[
      h("p", { className: "at" }, shownPlot.head(at)), rest(above, "above"), h("ul", {}, rows.map(line)), rest(below, "below"),
    ].filter(Boolean));
    panel.hidden = $("crosshair").hidden = false;
    $("crosshair").style.left = `${xaxis._offset + part * xaxis._length}px`;
    $("crosshair").style.top = `${yaxis._offset}px`;
    $("crosshair").style.height = `${yaxis._length}px`;
    // Beside the line, on the side where there is more room.
    const isLeft = part > 0.5;
    const beside = xaxis._offset + part * xaxis._length;
    panel.style.left = isLeft ? "auto" : `${beside + 14}px`;
    panel.style.right = isLeft ? `${$("overlay").clientWidth - beside + 14}px` : "auto";
    highlight(shownPlot.series.length > 1 ? nearest : null);
  }

  function hideReadout() {
    if ($("readout").hidden) return;
    $("readout").hidden = $("crosshair").hidden = true;
    highlight(null);
  }

  async function drawTime(panel) {
    const target = panel.querySelector(".chart");
    const { experiment: id } = panel.dataset;
    if (target.dataset.drawn) return;
    target.dataset.drawn = "true";
    const hint = panel.querySelector(".thinned");
    const say = (text) => {
      target.hidden = true;
      hint.textContent = text;
    };
    if (!experimentOf(id).has_frames) {
      return say("There is no time chart, because no line per frame was written; set per_frame = true in the experiment to get both.");
    }
    try {
      await perFrame.load(id);
    } catch (error) {
      return say(error.message);
    }
    const place = state.chosen.indexOf(id);
    if (place < 0 || !panel.isConnected) return;
    const frames = perFrame.get(id);
    if (frames.count === 0) return say("No frame was sent.");
    const every = frames.frames_per_bucket;
    hint.textContent = every > 2 ? `The chart shows the fastest and the slowest of every ${count(every)} frames.` : "";
    const colours = theme();
    const ending = (cause) => causes.get(cause)?.ending ?? "lost";
    const { style } = styles(colours).get(id);
    const { data, layout } = timePlot(frames, state.metric, metricOf(state.metric).label, state.scale, style, colours, ending);
    Plotly.react(target, data, layout, config);
  }

  // -- Files to take away.

  function exportSvg() {
    // Paper is white, whatever the screen is.
    const paper = { ...theme(), panel: "#ffffff", text: "#16191d", muted: "#5a626c", line: "#dfe3e7" };
    const { data, layout } = overlay(paper);
    Plotly.downloadImage({ data, layout }, { ...config.toImageButtonOptions, filename: `${state.metric}-${state.view}` });
  }

  function exportCsv() {
    const url = URL.createObjectURL(new Blob([profilesCsv(state.metric, series(theme()))], { type: "text/csv" }));
    const link = h("a", { href: url, download: `${state.metric}-profiles.csv` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
}

if (typeof module !== "undefined") {
  module.exports = {
    ENDINGS, atLeast, axesOf, axisNames, axisStyles, axisUnit, bins, changeText, chosenExactly, claimRows, claimsText, columnsOf, compareVersions, count,
    drawnAxes, duration, initialState, kindOf, matches, namesOf, numberOf, pastPlot, percent, plotText, profilePlot, profilesCsv, rampColour, rangeText, readout,
    runningSum, scheduleParts, sorted, stateFromHash, stateToHash, styleOf, sweepPlot, sweeps, timePlot, toggled, visible,
    worst, worstText,
  };
}
