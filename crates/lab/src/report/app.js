// The page of a latency report. First pure functions, which `node --test` checks; then the page.
//
// Data come from scripts beside this one: data.js calls candorReport() once; the charts of an
// experiment call candorChart() when they are wanted. Nothing is ever fetched. Text from data
// enters the document through textContent only, and plots through plotText().
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

function percent(part, whole) {
  if (!(whole > 0)) return "";
  const value = (100 * part) / whole;
  return value >= 0.1 || value === 0 ? `${Number(value.toPrecision(3))}\u202f%` : "< 0.1\u202f%";
}

/** The unit of an axis that reaches up to `ns`: up to 10,000 of a unit before the next one. */
const axisUnit = (ns) => UNITS.findLast(([size]) => Math.abs(ns) < 1e4 * size) ?? UNITS[0];

const frames = (number) => `${count(number)} ${number === 1 ? "frame" : "frames"}`;

/** Text for Plotly, which reads a little markup and templates in its strings. */
const plotText = (text) =>
  String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

// ---- Experiments -----------------------------------------------------------------------------

const figure = (experiment, metric, key) => experiment.metrics[metric]?.[`${key}_ns`] ?? null;

const busiest = (experiment) =>
  experiment.buses.reduce((top, bus) => (bus.load_percent > (top?.load_percent ?? -1) ? bus : top), null);

/** The columns of the table: what they sort by. The name is sorted as text, the others as numbers. */
const COLUMNS = [
  { key: "name", label: "Experiment", value: (e) => e.title || e.experiment },
  { key: "p50", label: "p50", value: (e, metric) => figure(e, metric, "p50") },
  { key: "p99", label: "p99", value: (e, metric) => figure(e, metric, "p99") },
  { key: "p999", label: "p99.9", value: (e, metric) => figure(e, metric, "p999") },
  { key: "max", label: "Max", value: (e, metric) => figure(e, metric, "max") },
  { key: "sent", label: "Sent", value: (e) => e.counts.sent },
  { key: "lost", label: "Lost", value: (e) => e.counts.lost },
  { key: "load", label: "Busiest bus", value: (e) => busiest(e)?.load_percent ?? null },
];

/** The axes in which experiments differ, each with its values. */
function axesOf(experiments) {
  const axes = new Map();
  for (const { axes: own } of experiments) {
    for (const [axis, value] of Object.entries(own)) {
      if (!axes.has(axis)) axes.set(axis, new Set());
      axes.get(axis).add(axisText(value));
    }
  }
  const collator = new Intl.Collator("en", { numeric: true });
  return [...axes]
    .filter(([, values]) => values.size > 1)
    .map(([axis, values]) => [axis, [...values].sort(collator.compare)]);
}

const axisText = (value) => (typeof value === "string" ? value : JSON.stringify(value));

/** Whether every word of the search and every chosen axis value is found. */
function matches(experiment, { search, filters }) {
  for (const [axis, wanted] of Object.entries(filters)) {
    if (!(axis in experiment.axes) || axisText(experiment.axes[axis]) !== wanted) return false;
  }
  const axes = Object.entries(experiment.axes).map(([axis, value]) => `${axis}=${axisText(value)}`);
  const { title, experiment: name, testbed, conditions } = experiment;
  const text = [title, name, testbed, conditions, ...axes].join("\n").toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Sorted by a column; what has no value comes last either way. */
function sorted(experiments, metric, sort) {
  const column = COLUMNS.find(({ key }) => key === sort.key);
  if (!column) return [...experiments];
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => (typeof a === "string" ? collator.compare(a, b) : a - b);
  const sign = sort.descending ? -1 : 1;
  return experiments
    .map((experiment) => [column.value(experiment, metric), experiment])
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

/** Undoes the differences in a chart file. */
function runningSum(differences) {
  let sum = 0;
  return differences.map((difference) => (sum += difference));
}

// ---- What the user chose, as text after the # of the address -----------------------------------

const SERIES_DEFAULT = 3;

/** The state of a page that was opened without one. */
function initialState(report) {
  const { metrics, experiments } = report;
  const used = metrics.filter(({ key }) => experiments.some((e) => e.metrics[key]?.count > 0));
  const metric = used.find(({ key }) => key === "gateway_latency") ?? used[0] ?? metrics[0];
  return {
    // One place per series: an experiment keeps its colour while others come and go.
    chosen: experiments.slice(0, SERIES_DEFAULT).map(({ id }) => id),
    metric: metric.key,
    view: "profile",
    scale: "log",
    sort: { key: "", descending: false },
    search: "",
    filters: {},
  };
}

function stateToHash({ chosen, metric, view, scale, sort, search, filters }) {
  const parts = new URLSearchParams({ metric, view, scale });
  chosen.forEach((id) => parts.append("show", id ?? ""));
  if (chosen.length === 0) parts.append("show", "");
  if (sort.key) parts.set("sort", (sort.descending ? "-" : "") + sort.key);
  if (search) parts.set("find", search);
  for (const [axis, value] of Object.entries(filters)) parts.append("axis", `${axis}=${value}`);
  return `#${parts}`;
}

/** Reads a state; what makes no sense for this report is left at its default. */
function stateFromHash(hash, report) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const state = initialState(report);
  const pick = (name, allowed) => {
    if (allowed.includes(parts.get(name))) state[name] = parts.get(name);
  };
  pick("metric", report.metrics.map(({ key }) => key));
  pick("view", ["profile", "histogram"]);
  pick("scale", ["log", "linear"]);
  if (parts.has("show")) {
    const ids = new Set(report.experiments.map(({ id }) => id));
    const known = parts.getAll("show").map((id) => (ids.delete(id) ? id : null));
    state.chosen = known.slice(0, known.findLastIndex((id) => id !== null) + 1);
  }
  const sort = parts.get("sort") ?? "";
  const key = sort.replace(/^-/, "");
  if (COLUMNS.some((column) => column.key === key)) {
    state.sort = { key, descending: sort.startsWith("-") };
  }
  state.search = parts.get("find") ?? "";
  for (const filter of parts.getAll("axis")) {
    const [axis, values] = axesOf(report.experiments).find(([axis]) => filter.startsWith(`${axis}=`)) ?? [];
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

// ---- Plots ---------------------------------------------------------------------------------------

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];

/** Colour and dash of the series in that place: all different for the first 42. */
const styleOf = (place, theme) => ({
  color: theme.series[place % theme.series.length],
  dash: DASHES[place % DASHES.length],
});

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
  return { place, axis };
}

/** The overlaid latency profiles: a curve and the mark of the worst case for each. */
function profilePlot(series, title, scale, theme) {
  const { place, axis } = latencyAxis(title, scale, series.flatMap(({ points }) => points));
  const data = series.flatMap(({ id, name, points, style }) => {
    const hovertext = points.map(([ns, n]) => `<b>${frames(n)}</b> took at least <b>${duration(ns)}</b><br>${plotText(name)}`);
    const [worst, worstCount] = points.at(-1);
    const common = { name: plotText(name), legendgroup: id, hoverinfo: "text" };
    return [
      {
        ...common, type: "scatter", mode: "lines", line: { ...style, width: 2, shape: "vh" },
        x: points.map(([ns]) => place(ns)), y: points.map(([, n]) => n), hovertext,
      },
      {
        ...common, type: "scatter", mode: "markers", showlegend: false, hovertext: [hovertext.at(-1)],
        marker: { color: style.color, size: 8, line: { color: theme.panel, width: 1.5 } },
        x: [place(worst)], y: [worstCount], cliponaxis: false,
      },
    ];
  });
  const most = Math.max(...series.map(({ points }) => points[0][1]));
  const yaxis = {
    title: { text: "Frames with at least this latency" }, type: "log",
    range: [-0.18, Math.log10(most) + 0.12], dtick: 1, tickformat: ",",
  };
  return { data, layout: layout(theme, { xaxis: axis, yaxis }) };
}

/** The classic histograms over one another. */
function histogramPlot(series, title, scale, theme) {
  const all = series.flatMap(({ points }) => points);
  const { place, axis } = latencyAxis(title, scale, all);
  const times = all.map(([ns]) => ns).filter((ns) => scale !== "log" || ns > 0);
  const from = times.reduce((a, b) => Math.min(a, b), Infinity);
  const to = times.reduce((a, b) => Math.max(a, b), -Infinity);
  const data = series.map(({ id, name, points, style }) => {
    const bars = times.length ? bins(points, from, to, 100, scale === "log") : [];
    return {
      type: "scatter", mode: "lines", name: plotText(name), legendgroup: id, hoverinfo: "text",
      line: { ...style, width: 1.75, shape: "hv" }, fill: "tozeroy", fillcolor: `${style.color}26`,
      x: [...bars.map(([from]) => place(from)), place(to)], y: [...bars.map(([, , n]) => n), 0],
      hovertext: bars.map(([from, to, n]) => `<b>${frames(n)}</b> from ${duration(Math.round(from))} to ${duration(Math.round(to))}<br>${plotText(name)}`),
    };
  });
  const yaxis = { title: { text: "Frames" }, rangemode: "tozero", tickformat: "," };
  return { data, layout: layout(theme, { xaxis: axis, yaxis }) };
}

/** A frame that no rule takes is no loss. */
const causeColour = (cause, theme) => (cause === "no_rule" ? theme.muted : theme.warn);

/** Latency over time, and below it when frames were refused, a row per cause. */
function timePlot(chart, metric, title, scale, style, theme) {
  const kept = chart.frames.latencies[metric] ?? { number: [], time_ns: [], latency_ns: [] };
  const times = runningSum(kept.time_ns);
  const numbers = runningSum(kept.number);
  const refused = Object.entries(chart.frames.refused).map(([cause, list]) => ({
    cause, times: runningSum(list.time_ns), numbers: runningSum(list.number), frames: list.frames,
  }));
  const ends = [times, ...refused.map(({ times }) => times)].flatMap((list) => [list[0], list.at(-1)]);
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
  refused.forEach(({ cause, times, numbers, frames: lost }, row) => data.push({
    type: "scatter", mode: "markers", hoverinfo: "text", yaxis: "y2",
    marker: { color: causeColour(cause, theme), symbol: "line-ns-open", size: 9, line: { width: 1.25 } },
    x: since(times), y: times.map(() => row),
    hovertext: times.map((ns, i) => `<b>${frames(lost[i])}</b>: ${plotText(cause)}<br>from frame ${count(numbers[i])} at ${duration(ns - start)}`),
  }));
  const strip = refused.length ? Math.min(0.06 + 0.07 * refused.length, 0.5) : 0;
  const own = {
    xaxis: { title: { text: `Time since the first frame (${unit})` }, anchor: refused.length ? "y2" : "y", showgrid: false },
    yaxis: { ...axis, domain: [strip && strip + 0.04, 1] },
    showlegend: false,
  };
  if (refused.length) {
    own.yaxis2 = {
      domain: [0, strip], automargin: true, fixedrange: true, zeroline: false, showgrid: false,
      range: [refused.length - 0.4, -0.6], tickvals: refused.map((_, row) => row),
      ticktext: refused.map(({ cause }) => plotText(cause)), tickfont: { color: theme.muted },
    };
  }
  return { data, layout: layout(theme, own) };
}

// ---- The page ------------------------------------------------------------------------------------

if (typeof document !== "undefined") startPage();

function startPage() {
  const $ = (id) => document.getElementById(id);
  const charts = new Map();
  const waiting = new Map();
  let report = null;
  let state = null;

  window.candorReport = (data) => {
    report = data;
    state = stateFromHash(location.hash, report);
    buildHead();
    buildControls();
    buildColumns();
    render();
    document.body.dataset.ready = "true";
  };

  window.candorChart = (id, chart) => {
    charts.set(id, chart);
    waiting.get(id)?.resolve();
  };

  /** The charts of an experiment, loaded once. */
  function load(id) {
    if (charts.has(id)) return Promise.resolve();
    if (!waiting.has(id)) {
      let done;
      const promise = new Promise((resolve, reject) => (done = { resolve, reject }));
      waiting.set(id, { ...done, promise });
      const script = document.createElement("script");
      script.src = `report/charts/${encodeURIComponent(id)}.js`;
      script.onerror = () => waiting.get(id).reject(new Error(`report/charts/${id}.js is missing; run \`candor lab report\` on this folder again`));
      document.head.append(script);
    }
    return waiting.get(id).promise;
  }

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
    return { ...Object.fromEntries(names.map((name) => [name, value(name)])), series: value("series").split(/\s+/) };
  }

  const experimentOf = (id) => report.experiments.find((experiment) => experiment.id === id);
  const chosen = () => state.chosen.map((id, place) => ({ id, place })).filter(({ id }) => id !== null);
  const metricOf = (key) => report.metrics.find((metric) => metric.key === key);

  // -- Head and controls, built once.

  function buildHead() {
    const all = report.experiments;
    const distinct = (key) => [...new Set(all.map((e) => e[key]).filter((value) => value !== "" && value !== null))];
    const spans = [`${all.length} ${all.length === 1 ? "experiment" : "experiments"}`];
    const conditions = distinct("conditions");
    spans.push(...(conditions.length <= 2 ? conditions : [`${conditions.length} sets of conditions`]));
    const seeds = distinct("seed_text");
    if (seeds.length === 1) spans.push(`seed ${seeds[0]}`);
    spans.push(...distinct("candor").map((version) => `candor ${version}`));
    const testbeds = distinct("testbed");
    if (all.length === 1 && all[0].title) $("headline").textContent = all[0].title;
    document.title = all.length === 1 && all[0].title ? `${all[0].title} – latency report` : "Latency report";
    $("conditions").replaceChildren(...testbeds.map(badge), ...spans.map((text) => h("span", {}, text)));
    const limits = {
      sim: "Experiments on the testbed “sim” are computed from a model with published parameters. They are no measurements of a real machine.",
      vm: "Experiments on the testbed “vm” ran on real kernels with emulated controllers, on buses that take no time. Their times are counted instructions: exact where kernels, drivers, rules and gateways are compared, and no forecast for a board.",
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
    $("metric").onchange = (event) => change({ metric: event.target.value });
    for (const name of ["view", "scale"]) {
      for (const input of document.getElementsByName(name)) {
        input.onchange = () => change({ [name]: input.value });
      }
    }
    $("search").oninput = (event) => change({ search: event.target.value });
    for (const [axis, values] of axesOf(report.experiments)) {
      const select = h("select", { "data-axis": axis },
        h("option", { value: "" }, "all"), values.map((value) => h("option", { value: `=${value}` }, value)));
      select.onchange = () => {
        const { [axis]: _, ...filters } = state.filters;
        change({ filters: select.value ? { ...filters, [axis]: select.value.slice(1) } : filters });
      };
      $("filters").append(h("label", { className: "field" }, axis, select));
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
    for (const { key, label } of COLUMNS) {
      const button = h("button", { type: "button" }, label);
      // Text is wanted from A on, numbers from the worst on.
      const isDescending = key !== "name";
      button.onclick = () => {
        const again = state.sort.key === key;
        change({ sort: { key, descending: again ? !state.sort.descending : isDescending } });
      };
      $("columns").append(h("th", { scope: "col", "data-key": key }, button));
    }
  }

  // -- State to page.

  function change(part) {
    state = { ...state, ...part };
    history.replaceState(null, "", stateToHash(state));
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
    $("formula").textContent = `${state.metric} = ${metricOf(state.metric).formula}`;
    $("overlay-title").textContent = state.view === "profile" ? "Latency profile" : "Histogram";
    for (const name of ["view", "scale"]) {
      for (const input of document.getElementsByName(name)) input.checked = input.value === state[name];
    }
    if ($("search").value !== state.search) $("search").value = state.search;
    for (const select of $("filters").querySelectorAll("select")) {
      const value = state.filters[select.dataset.axis];
      select.value = value === undefined ? "" : `=${value}`;
    }
  }

  function showRows() {
    const shown = sorted(report.experiments.filter((e) => matches(e, state)), state.metric, state.sort);
    const total = report.experiments.length;
    $("shown").textContent = `${shown.length} of ${total} shown, ${chosen().length} chosen`;
    for (const th of $("columns").children) {
      if (th.dataset.key !== state.sort.key) th.removeAttribute("aria-sort");
      else th.setAttribute("aria-sort", state.sort.descending ? "descending" : "ascending");
    }
    const focused = document.activeElement?.dataset?.experiment;
    const colours = theme();
    const none = h("tr", { className: "empty" }, h("td", { colSpan: COLUMNS.length }, "No experiment matches. Clear the search or choose “all”."));
    $("rows").replaceChildren(...(shown.length ? shown.map((e) => row(e, colours)) : [none]));
    for (const input of $("rows").querySelectorAll("input")) {
      if (input.dataset.experiment === focused) input.focus();
    }
  }

  function row(experiment, colours) {
    const place = state.chosen.indexOf(experiment.id);
    const box = h("input", { type: "checkbox", checked: place >= 0, "data-experiment": experiment.id });
    box.onchange = () => change({ chosen: toggled(state.chosen, experiment.id) });
    const title = experiment.title || experiment.experiment;
    const name = h("label", {}, box, swatch(place, colours), h("span", { className: "name" }, title),
      title === experiment.id ? null : h("small", {}, experiment.id));
    const { sent, lost } = experiment.counts;
    const bus = busiest(experiment);
    const cells = COLUMNS.slice(1, 5).map(({ value }) => h("td", {}, time(value(experiment, state.metric))));
    cells.push(h("td", {}, count(sent)));
    cells.push(lost > 0
      ? h("td", { className: "bad" }, `${count(lost)} (${percent(lost, sent)})`)
      : h("td", { className: "zero" }, "0"));
    cells.push(h("td", {}, bus ? [`${bus.load_percent.toFixed(1)}\u202f%`, " ", h("span", { className: "bus", title: bus.name }, bus.name)] : "–"));
    return h("tr", {}, h("th", { scope: "row" }, name), cells);
  }

  function swatch(place, colours) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "swatch");
    svg.setAttribute("aria-hidden", "true");
    if (place < 0) return svg;
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const { color, dash } = styleOf(place, colours);
    const pattern = { solid: "", dash: "8 4", dot: "2 3", dashdot: "8 3 2 3", longdash: "13 4", longdashdot: "13 3 2 3" };
    const attributes = { x1: 1, x2: "97%", y1: 5, y2: 5, stroke: color, "stroke-width": 3, "stroke-dasharray": pattern[dash] };
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
    const panels = new Map([...$("details").children].map((panel) => [panel.dataset.experiment, panel]));
    const wanted = chosen().map(({ id, place }) => {
      const panel = panels.get(id) ?? detail(experimentOf(id));
      panel.querySelector(".swatch").replaceWith(swatch(place, theme()));
      return panel;
    });
    for (const panel of panels.values()) {
      if (!wanted.includes(panel)) {
        seen.unobserve(panel.querySelector(".chart"));
        Plotly.purge(panel.querySelector(".chart"));
      }
    }
    const current = [...$("details").children];
    if (wanted.length !== current.length || wanted.some((panel, index) => panel !== current[index])) {
      $("details").replaceChildren(...wanted);
    }
  }

  function detail(experiment) {
    const { sent, received, lost, unrouted, local, duplicated, reordered } = experiment.counts;
    const became = [[unrouted, "not routed"], [local, "on other buses"], [duplicated, "duplicated"], [reordered, "reordered"]]
      .filter(([number]) => number > 0).map(([number, word]) => `, ${count(number)} ${word}`);
    const chart = h("div", { className: "chart short" });
    const panel = h("section", { className: "panel detail", "data-experiment": experiment.id },
      h("div", { className: "panel-head" },
        h("div", {},
          h("h2", {}, swatch(-1), experiment.title || experiment.experiment),
          h("p", { className: "hint" }, `${frames(sent)} sent: ${count(received)} received, ${count(lost)} lost${became.join("")}`),
          h("p", { className: "hint" }, badge(experiment.testbed), ` ${experiment.conditions}`),
          (experiment.notes ?? []).map((note) => h("p", { className: "hint" }, `Note: ${note}`)))),
      h("h3", {}, "Over time"),
      chart,
      h("p", { className: "hint thinned" }),
      h("div", { className: "halves" },
        h("div", {}, metricsTable(experiment)),
        h("div", {}, refusedTable(experiment), busesTable(experiment), rulesTable(experiment), machineTable(experiment))),
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
    return part("Where the time goes", ["Metric", "min", "p50", "p99", "max"], rows);
  }

  function refusedTable(experiment) {
    const rows = experiment.refused.map(({ where, rule, cause, frames }) => [
      cause, [where, rule].filter(Boolean).join(" · "), count(frames), percent(frames, experiment.counts.sent),
    ]);
    return part("Refused frames", ["Cause", "Where", "Frames", "Of sent"], rows)
      ?? h("section", {}, h("h3", {}, "Refused frames"), h("p", { className: "hint" }, "None."));
  }

  function busesTable(experiment) {
    const rate = ({ bitrate, data_bitrate }) =>
      [...new Set([bitrate, data_bitrate])].map((rate) => count(rate / 1000)).join(" / ");
    const rows = experiment.buses.map((bus) => [
      bus.name, rate(bus), count(bus.frames), count(bus.error_frames), count(bus.bus_offs),
      h("span", {}, `${bus.load_percent.toFixed(1)}\u202f%`, meter(bus.load_percent)),
    ]);
    return part("Buses", ["Bus", "kbit/s", "Frames", "Errors", "Bus-offs", "Load"], rows);
  }

  function meter(value) {
    const bar = h("i");
    bar.style.width = `${Math.min(Math.max(value, 0), 100)}%`;
    return h("span", { className: "meter", "aria-hidden": "true" }, bar);
  }

  function rulesTable(experiment) {
    const rows = experiment.rules.map(({ name, to, handled, dropped, deleted }) =>
      [name, to, count(handled), count(dropped), count(deleted)]);
    return part("Rules", ["Rule", "To", "Handled", "Dropped", "Deleted"], rows);
  }

  /** The machine that an experiment ran on, and what it took there. */
  function machineTable({ machine, effort }) {
    if (!machine) return null;
    const { kernel, release, package: from, kernel_sha256, guest_sha256, qemu, flags, shift, mips } = machine;
    const hash = (sha256) => h("span", { className: "hash" }, sha256);
    const rows = [
      ["Linux", kernel === release ? release : `${release} (${kernel})`],
      ["Package", from ?? "an own build"],
      ["Kernel and modules", hash(kernel_sha256)],
      ["QEMU", qemu],
      ["Guest program", hash(guest_sha256)],
      ["Time", `counted instructions of ${2 ** shift}\u202fns (shift ${shift}, ${count(mips)} MIPS)`],
    ];
    const perFrame = effort?.gateway_instructions_per_frame;
    if (perFrame) rows.push(["Gateway process", `${count(Math.round(perFrame))} instructions per frame`]);
    return h("div", {}, part("Machine", ["Part", "What it is"], rows),
      h("details", {}, h("summary", {}, "Its options"), h("pre", { className: "config", tabIndex: 0 }, h("code", {}, flags.join(" ").replaceAll(" -", "\n-")))));
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

  async function drawCharts() {
    const colours = theme();
    const wanted = JSON.stringify([state.chosen, state.metric, state.view, state.scale, colours]);
    if (wanted === drawn) return; // the search or the order of the table changed
    drawn = wanted;
    const turn = ++drawing;
    const loaded = await Promise.allSettled(chosen().map(({ id }) => load(id)));
    if (turn !== drawing) return; // something else was chosen meanwhile
    const missing = loaded.filter(({ status }) => status === "rejected").map(({ reason }) => reason.message);
    drawOverlay(missing);
    for (const chart of document.querySelectorAll(".detail .chart")) {
      delete chart.dataset.drawn;
      if (chart.dataset.seen === "true") drawTime(chart.closest(".detail"));
    }
  }

  function series(colours) {
    return chosen().map(({ id, place }) => {
      const experiment = experimentOf(id);
      const points = charts.get(id)?.profiles[state.metric] ?? [];
      return { id, name: experiment.title || experiment.experiment, points, style: styleOf(place, colours) };
    }).filter(({ points }) => points.length > 0);
  }

  function overlay(colours) {
    const plot = state.view === "profile" ? profilePlot : histogramPlot;
    return plot(series(colours), metricOf(state.metric).label, state.scale, colours);
  }

  function drawOverlay(missing) {
    const shown = series(theme());
    const hints = [...missing];
    if (chosen().length === 0) hints.push("Choose experiments in the table to lay their latency profiles over one another.");
    else if (shown.length < chosen().length - missing.length) hints.push("Some of the chosen experiments have no frame with this metric.");
    $("overlay-hint").textContent = hints.join(" ");
    $("export-csv").disabled = $("export-svg").disabled = shown.length === 0;
    if (shown.length === 0) {
      Plotly.purge($("overlay"));
      $("overlay").hidden = true;
      return;
    }
    $("overlay").hidden = false;
    const { data, layout } = overlay(theme());
    Plotly.react($("overlay"), data, layout, config);
  }

  function drawTime(panel) {
    const target = panel.querySelector(".chart");
    const { experiment: id } = panel.dataset;
    const place = state.chosen.indexOf(id);
    const chart = charts.get(id);
    if (!chart || place < 0 || target.dataset.drawn) return;
    target.dataset.drawn = "true";
    const hint = panel.querySelector(".thinned");
    if (!chart.frames || chart.frames.count === 0) {
      target.hidden = true;
      hint.textContent = "There is no file with one line per frame, so there is no time chart.";
      return;
    }
    const every = chart.frames.frames_per_bucket;
    hint.textContent = every > 2 ? `Of every ${count(every)} frames the fastest and the slowest are drawn.` : "";
    const colours = theme();
    const { data, layout } = timePlot(chart, state.metric, metricOf(state.metric).label, state.scale, styleOf(place, colours), colours);
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
    axesOf, axisUnit, bins, count, duration, initialState, matches, percent, plotText, profilePlot,
    profilesCsv, runningSum, sorted, stateFromHash, stateToHash, styleOf, timePlot, toggled,
  };
}
