// The pure half of the page's script, without a browser.
"use strict";

const assert = require("node:assert/strict");
const test = require("node:test");
const app = require("../../crates/lab/src/report/app.js");

const experiment = (id, axes, p99, sent = 10) => ({
  id, experiment: id, base: "", title: "", testbed: "sim", conditions: "model", axes,
  counts: { sent, received: sent, not_routed: 0, refused: 0, lost: 0 }, buses: [],
  metrics: p99 === null ? {} : { total_latency: { count: sent, p99_ns: p99 } },
});

const REPORT = {
  metrics: ["total_latency", "gateway_latency"].map((key) => ({ key, label: key, formula: "" })),
  experiments: [
    experiment("flood-2", { "traffic.kind": "flood", rules: 2 }, 300),
    experiment("flood-10", { "traffic.kind": "flood", rules: 10 }, null),
    experiment("half-2", { "traffic.kind": "half", rules: 2 }, 100),
    experiment("half-10", { "traffic.kind": "half", rules: 10 }, 200),
  ],
};
const ids = (experiments) => experiments.map(({ id }) => id);

test("durations have four digits", () => {
  for (const [ns, text] of [
    [0, "0 ns"], [999, "999 ns"], [1_000, "1.000 µs"], [124_501, "124.5 µs"], [-35_000, "-35.00 µs"],
    [2_913_000, "2.913 ms"], [60_000_000_000, "60.00 s"],
  ]) assert.equal(app.duration(ns).replace("\u202f", " "), text);
});

test("an axis stays in one unit up to ten thousand of it", () => {
  for (const [ns, unit] of [[9_999, "ns"], [10_000, "µs"], [2_600_000, "µs"], [10_000_000, "ms"], [1e12, "s"], [1e15, "s"]]) {
    assert.equal(app.axisUnit(ns)[1], unit, String(ns));
  }
});

test("shares are never rounded to nothing", () => {
  assert.deepEqual([[0, 10], [1, 3], [1, 100_000], [1, 0]].map(([part, whole]) => app.percent(part, whole).replace("\u202f", " ")),
    ["0 %", "33.3 %", "< 0.1 %", ""]);
});

test("axes are those in which experiments differ, numbers in their order", () => {
  assert.deepEqual(app.axesOf(REPORT.experiments), [["traffic.kind", ["flood", "half"]], ["rules", ["2", "10"]]]);
  assert.deepEqual(app.axesOf(REPORT.experiments.slice(0, 1)), []);
});

test("a search finds all its words, a filter exactly its value", () => {
  const find = (search, filters = {}) => ids(REPORT.experiments.filter((e) => app.matches(e, { search, filters })));
  assert.deepEqual(find(""), ids(REPORT.experiments));
  assert.deepEqual(find("HALF kind=half"), ["half-2", "half-10"]);
  assert.deepEqual(find("half flood"), []);
  assert.deepEqual(find("10", { "traffic.kind": "half" }), ["half-10"]);
  assert.deepEqual(find("", { rules: "2" }), ["flood-2", "half-2"]);
  assert.deepEqual(find("", { unknown: "2" }), []);
});

test("what has no value is sorted last either way", () => {
  const names = new Map(REPORT.experiments.map(({ id }) => [id, id]));
  const by = (key, descending) => ids(app.sorted(REPORT.experiments, "total_latency", { key, descending }, names));
  assert.deepEqual(by("p99", false), ["half-2", "half-10", "flood-2", "flood-10"]);
  assert.deepEqual(by("p99", true), ["flood-2", "half-10", "half-2", "flood-10"]);
  assert.deepEqual(by("name", false), ["flood-2", "flood-10", "half-2", "half-10"]);
  assert.deepEqual(by("", false), ids(REPORT.experiments));
});

test("a choice keeps the places of the others", () => {
  assert.deepEqual(app.toggled(["a", "b", "c"], "b"), ["a", null, "c"]);
  assert.deepEqual(app.toggled(["a", null, "c"], "d"), ["a", "d", "c"]);
  assert.deepEqual(app.toggled(["a", null, "c"], "c"), ["a"]);
  assert.deepEqual(app.toggled(["a"], "a"), []);
});

test("a state survives the address", () => {
  const state = {
    chosen: ["half-10", null, "flood-2"], metric: "total_latency", view: "histogram", scale: "linear", colour: "rules", over: "", past: "",
    sort: { key: "p99", descending: true }, search: "a & b=c", filters: { "traffic.kind": "half" },
  };
  assert.deepEqual(app.stateFromHash(app.stateToHash(state), REPORT), state);
  const none = { ...state, chosen: [] };
  assert.deepEqual(app.stateFromHash(app.stateToHash(none), REPORT), none);
});

test("an address of another report does no harm", () => {
  const hash = "#metric=x&view=x&scale=x&sort=x&show=x&show=half-2&show=half-2&axis=traffic.kind=x&axis=x";
  const state = app.stateFromHash(hash, REPORT);
  assert.deepEqual(state, { ...app.initialState(REPORT), chosen: [null, "half-2"] });
});

// The colours of both themes as the page has them.
const CSS = require("node:fs").readFileSync(require.resolve("../../crates/lab/src/report/style.css"), "utf8");
const list = (name) => [...CSS.matchAll(new RegExp(`--${name}: ([^;]+);`, "g"))].map(([, colours]) => colours.split(/\s+/));
const panels = list("panel").map(([colour]) => colour);

/** Red, green and blue as light, from 0 to 1. */
const light = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255)
  .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));

/** Lightness and two axes of hue, in which equal distances look alike (Ottosson: Oklab, 2020). */
function oklab(colour) {
  const [r, g, b] = light(colour);
  const [l, m, s] = [
    0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
    0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
    0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
  ].map(Math.cbrt);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

/** The contrast of two colours (Web Content Accessibility Guidelines 2.1). */
function contrast(a, b) {
  const of = (colour) => light(colour).reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0.05);
  return Math.max(of(a), of(b)) / Math.min(of(a), of(b));
}

test("the colours of eighteen series are told apart, and from the panel", () => {
  assert.equal(list("series").length, 2);
  list("series").forEach((colours, theme) => {
    assert.equal(colours.length, 18);
    colours.forEach((colour, at) => {
      assert.ok(contrast(colour, panels[theme]) >= 2.5, `${colour} on ${panels[theme]}`);
      for (const other of colours.slice(0, at)) {
        const distance = Math.hypot(...oklab(colour).map((value, axis) => value - oklab(other)[axis]));
        assert.ok(distance >= 0.09, `${colour} and ${other}: ${distance.toFixed(3)}`);
      }
    });
  });
});

test("the first hundred and eight series all look different", () => {
  const theme = { series: list("series")[0] };
  const looks = Array.from({ length: 108 }, (_, place) => Object.values(app.styleOf(place, theme)).join());
  assert.equal(new Set(looks).size, 108);
});

test("a ramp goes from its first colour to its last", () => {
  const ramp = ["#000000", "#ff0000", "#ffff00"];
  assert.deepEqual([-1, 0, 0.25, 0.5, 1, 2].map((part) => app.rampColour(ramp, part)),
    ["#000000", "#000000", "#800000", "#ff0000", "#ffff00", "#ffff00"]);
  const theme = { series: list("series")[0], ramp };
  assert.deepEqual([...app.axisStyles(["1", "5", "10"], theme).values()].map(({ color }) => color), ramp);
  assert.equal(app.axisStyles(["cpu", "none"], theme).get("none").color, theme.series[1]);
});

test("names come from the axes that differ", () => {
  const of = (id, title, axes) => ({ id, experiment: id, title, axes });
  const named = (...experiments) => [...app.namesOf(experiments).values()];
  const axes = (kind, load) => ({ "traffic.kind": kind, "load.kind": load, "vm.mips": "500" });
  assert.deepEqual(named(of("a", "One", {}), of("b", "Two", {})), ["One", "Two"]);
  assert.deepEqual(named(of("a", "T", axes("half", "none")), of("b", "T", axes("flood", "none"))), ["traffic half", "traffic flood"]);
  assert.deepEqual(named(of("a", "T", axes("half", "none")), of("b", "T", axes("flood", "cpu"))),
    ["traffic half · load none", "traffic flood · load cpu"]);
  assert.deepEqual(named(of("a", "T", axes("half", "none")), of("b", "T", axes("flood", "none")), of("c", "U", {})),
    ["T: traffic half", "T: traffic flood", "U"]);
  assert.deepEqual(named(of("a", "T", {}), of("b", "T", {})), ["a", "b"], "nothing differs");
  assert.deepEqual(named({ id: "x 1", experiment: "x", title: "x", axes: {} }, { id: "x 2", experiment: "x", title: "x", axes: {} }), ["x 1", "x 2"]);
  // Without a title, the name that a matrix made them of is in its place.
  const untitled = (id, base, size) => ({ ...of(id, "", { size }), base });
  assert.deepEqual(named(untitled("2", "", "2"), untitled("8", "", "8")), ["size 2", "size 8"]);
  assert.deepEqual(named(untitled("a-2", "a", "2"), untitled("a-8", "a", "8"), untitled("b-2", "b", "2")), ["a: size 2", "a: size 8", "b-2"]);
  assert.deepEqual([...app.axisNames(["a.size", "b.size", "load.kind"]).values()], ["a.size", "b.size", "load"]);
});

test("all curves are read at one place", () => {
  const points = [[10, 100], [20, 40], [1_000, 1]];
  assert.deepEqual([0, 10, 11, 20, 1_000, 1_001].map((ns) => app.atLeast(points, ns)), [100, 100, 40, 40, 1, 0]);
  assert.equal(app.atLeast([], 5), 0);
  const series = Array.from({ length: 50 }, (_, id) => ({ id, level: id }));
  const read = ({ level }) => ({ value: level, text: String(level) });
  const at = (pointer) => app.readout(series, read, 1, pointer, 8);
  for (const [pointer, nearest, above, below] of [[49, 49, 0, 42], [0, 0, 42, 0], [25, 25, 20, 22]]) {
    const found = at(pointer);
    assert.deepEqual([found.nearest, found.above, found.below, found.rows.length], [nearest, above, below, 8]);
    assert.ok(found.rows.some(({ id }) => id === nearest));
  }
  assert.equal(app.readout(series.slice(0, 3), read, 1, 1, 8).rows.length, 3);
});

test("what is drawn of a profile keeps its ends and its steps", () => {
  const points = Array.from({ length: 2_000 }, (_, at) => [1_000 + at, 2_000 - at]);
  const drawn = app.visible(points, (ns) => ns, 100, 50);
  assert.ok(drawn.length < 200, `${drawn.length} points`);
  assert.deepEqual([drawn[0], drawn.at(-1)], [points[0], points.at(-1)]);
  assert.deepEqual(app.visible(points.slice(0, 2), (ns) => ns, 10, 10), points.slice(0, 2));
});

test("exactly what is wanted is chosen, in its place", () => {
  assert.deepEqual(app.chosenExactly(["a", null, "c"], ["c", "d", "e"]), ["d", "e", "c"]);
  assert.deepEqual(app.chosenExactly(["a", "b"], []), []);
  assert.deepEqual(app.chosenExactly([], ["a"]), ["a"]);
});

test("a history has a line for each Debian, and diamonds where something changed", () => {
  const change = (figure, before, after, functions) => ({ figure, before, after, functions });
  const changes = [change("min", 7000, 7600, [["can_rcv", 30], ["kfree", -2.2]]), change("instructions", 500, 480, [])];
  assert.equal(app.changeText(changes), "min +600 ns, instructions -20: can_rcv +30, kfree -2");
  assert.equal(app.changeText([]), "");
  assert.deepEqual([null, [7000, 7000], [7000, 7600]].map(app.rangeText), ["", app.duration(7000), `${app.duration(7000)} to ${app.duration(7600)}`]);
  const release = (release, p50, changes) => ({ release, p50_ns: p50 && [p50, p50 + 100], p999_ns: null, instructions: null, lost: 0, changes });
  const lines = [
    { experiment: "a", built_by: "deb12", releases: [release("6.1", 7000, []), release("6.12", 7600, changes)] },
    { experiment: "a", built_by: "deb13, -rt", releases: [release("6.12", null, []), release("7.2", 9000, [])] },
  ];
  const { data } = app.pastPlot(lines, "linear", { series: list("series")[0] });
  assert.deepEqual(data.map(({ x }) => x), [["6.1", "6.12"], [], ["7.2"], []]);
  assert.deepEqual(data[0].y, [7050, 7650], "the middle of the seeds");
  assert.deepEqual(data[0].marker.symbol, ["circle", "diamond"]);
  assert.deepEqual(data[2].marker.symbol, ["circle"]);
  const past = [{ experiment: "a" }, { experiment: "b" }];
  const state = app.stateFromHash("#past=b", { ...REPORT, past });
  assert.equal(state.past, "b");
  assert.equal(app.stateFromHash(app.stateToHash(state), { ...REPORT, past }).past, "b");
  assert.equal(app.stateFromHash("#past=c", { ...REPORT, past }).past, "a");
});

test("claims are counted without those about alternatives, and empty columns are left out", () => {
  const claim = (id, agreement, alternative = null) => ({ id, says: `says ${id}`, published: "", found: "1.0", bounds: "at most 2", agreement, alternative, note: "" });
  const claims = [claim("a", "yes"), claim("b", "no"), claim("c", "depends"), claim("d", "no"), claim("a", "no", "board")];
  assert.equal(app.claimsText(claims), "1 of 4 claims agrees, 2 no, 1 depends");
  assert.equal(app.claimsText([claim("a", "yes")]), "1 of 1 claim agrees");
  assert.deepEqual(app.claimRows(claims.slice(0, 2)), {
    head: ["Id", "Claim", "Found", "Agreement is", "Agrees"], keys: ["id", "says", "found", "bounds", "agreement"],
    rows: [["a", "says a", "1.0", "at most 2", "yes"], ["b", "says b", "1.0", "at most 2", "no"]],
  });
  assert.ok(app.claimRows(claims).head.includes("Of"));
});

test("what ran last is chosen, also against an older address", () => {
  const report = { ...REPORT, latest: ["half-2"], run: "b" };
  assert.deepEqual(app.initialState(report).chosen, ["half-2"]);
  const older = app.stateToHash({ ...app.initialState(REPORT), chosen: ["flood-2"], scale: "linear", search: "flood" }, "a");
  const state = app.stateFromHash(older, report);
  assert.deepEqual([state.chosen, state.scale, state.search], [["half-2"], "linear", ""]);
  const same = app.stateFromHash(older.replace("run=a", "run=b"), report);
  assert.deepEqual([same.chosen, same.search], [["flood-2"], "flood"]);
});

test("of many seeds the worst are chosen, and it is said of how many", () => {
  const run = (group, seed, max) => ({
    ...experiment(`${group}-seed-${seed}`, { seed }, max), group,
    metrics: max === null ? {} : { total_latency: { count: 9, max_ns: max }, gateway_latency: { count: 9, max_ns: 1000 - max } },
  });
  const seeds = Array.from({ length: 20 }, (_, seed) => run("car", seed, (seed * 7) % 20));
  const metrics = REPORT.metrics.map((metric) => ({ ...metric, label: metric.key === "total_latency" ? "Total latency" : "Gateway latency" }));
  const report = { metrics, experiments: seeds };
  const maxima = (ids) => ids.map((id) => seeds.find((e) => e.id === id).metrics.total_latency.max_ns).sort((a, b) => b - a);
  assert.deepEqual(maxima(app.worst(report, "total_latency")), [19, 18, 17, 16, 15, 14, 13]);
  assert.deepEqual(maxima(app.worst(report, "gateway_latency")), [6, 5, 4, 3, 2, 1, 0]);
  const state = app.stateFromHash("#metric=total_latency", report);
  assert.deepEqual(maxima(state.chosen), [19, 18, 17, 16, 15, 14, 13]);
  // They stand in the order of the table.
  assert.deepEqual(state.chosen, ids(seeds).filter((id) => state.chosen.includes(id)));
  assert.equal(app.worstText(report, state), "7 of 20 seeds: the worst, by the largest total latency.");
  assert.equal(app.worstText(report, { ...state, metric: "gateway_latency" }), "");
  assert.equal(app.worstText(report, { ...state, chosen: state.chosen.with(2, null) }), "");
  // Of two experiments the worst seeds of both are there, and runs without that metric come last.
  const both = { metrics, experiments: [...seeds, run("bike", 1, 3), run("bike", 2, null)] };
  const chosen = app.worst(both, "total_latency");
  assert.deepEqual([chosen.length, chosen.filter((id) => id.startsWith("bike"))], [7, ["bike-seed-1"]]);
  assert.match(app.worstText(both, { ...state, chosen }), /^7 of 22 experiments: the worst/);
  // What ran last is all that counts, and few are not called the worst.
  const few = { ...report, latest: ids(seeds.slice(0, 7)) };
  assert.deepEqual(app.worst(few, "total_latency"), few.latest);
  assert.equal(app.worstText(few, { ...state, chosen: few.latest }), "");
});

test("latencies are drawn over axes of numbers", () => {
  assert.deepEqual(["64", "2.5", "25us", "3ms", "1s", "6.12-rt", "us", ""].map(app.numberOf), [64, 2.5, 25, 3_000, 1e6, null, null, null]);
  const run = (id, delay, min, p50, max, kind = "a") => ({
    ...experiment(id, { delay, kind }, 1), metrics: { latency: { count: 1, min_ns: min, p50_ns: p50, max_ns: max } },
  });
  const all = [
    run("1", "100us", 8, 9, 12), run("2", "25us", 1, 2, 3), run("3", "25us", 0, 3, 5), run("4", "25us", 2, 4, 4),
    run("5", "3ms", 6, 7, 8), run("6", "25us", 5, 5, 5, "b"),
  ];
  assert.deepEqual(app.drawnAxes(all), ["delay"]);
  assert.deepEqual(app.sweeps(all, "delay", "latency"), [
    { name: "kind a", points: [{ at: 25, min: 0, p50: 3, max: 5 }, { at: 100, min: 8, p50: 9, max: 12 }, { at: 3_000, min: 6, p50: 7, max: 8 }] },
    { name: "kind b", points: [{ at: 25, min: 5, p50: 5, max: 5 }] },
  ]);
  assert.deepEqual(app.sweeps(all, "delay", "absent"), []);
  // Without titles, experiments are kept apart by their names before the matrix.
  const named = [["a", "1us", 1], ["a", "2us", 2], ["b", "1us", 3]].map(([base, delay, ns]) => ({ ...run(`${base}-${delay}`, delay, ns, ns, ns), base }));
  assert.deepEqual(app.sweeps(named, "delay", "latency").map(({ name, points }) => [name, points.length]), [["a", 2], ["b", 1]]);
});

test("versions are ordered as versions and drawn at equal distances, numbers stay numbers", () => {
  const order = ["6.9", "6.12", "6.12-rt", "debian:6.12.9+deb13-amd64", "debian:6.12.90+deb13-amd64", "6.18-rc3", "6.18", "debian:6.18", "7.2", "bzImage-6.9", "bzImage-6.18"];
  assert.deepEqual([...order].reverse().sort(app.compareVersions), order);
  const run = (axis, value, versions) => ({
    ...experiment(value, { [axis]: value }, 1), versions, metrics: { latency: { count: 1, min_ns: 1, p50_ns: 2, max_ns: 3 } },
  });
  const kernels = ["6.18", "6.9", "6.12-rt"].map((value) => run("vm.kernel", value, ["vm.kernel"]));
  const rates = ["6.18", "6.9", "10.1"].map((value) => run("rate", value));
  assert.deepEqual([kernels, rates].map((all) => app.axesOf(all)), [[["vm.kernel", ["6.9", "6.12-rt", "6.18"]]], [["rate", ["6.18", "6.9", "10.1"]]]]);
  assert.deepEqual([app.kindOf(kernels, "vm.kernel"), app.kindOf(rates, "rate"), app.kindOf(REPORT.experiments, "traffic.kind")], ["versions", "numbers", "words"]);
  assert.deepEqual([app.drawnAxes(kernels), app.drawnAxes(rates)], [["vm.kernel"], ["rate"]]);
  // The table is in the same order.
  const key = "axis.vm.kernel";
  const table = app.sorted(kernels, "latency", { key, descending: false }, new Map(), app.columnsOf(kernels));
  assert.deepEqual(ids(table), ["6.9", "6.12-rt", "6.18"]);
  const places = (all, axis) => app.sweeps(all, axis, "latency")[0].points.map(({ at }) => at);
  assert.deepEqual([places(kernels, "vm.kernel"), places(rates, "rate")], [["6.9", "6.12-rt", "6.18"], [6.18, 6.9, 10.1]]);
  const theme = { series: list("series")[0] };
  const [{ points }] = app.sweeps(kernels, "vm.kernel", "latency");
  // The first series has no 6.9.
  const { layout } = app.sweepPlot([{ name: "a", points: points.slice(1) }, { name: "b", points }], "kernel", "Latency", "log", theme);
  assert.deepEqual([layout.xaxis.type, layout.xaxis.categoryarray], ["category", ["6.9", "6.12-rt", "6.18"]]);
  assert.equal(app.sweepPlot(app.sweeps(rates, "rate", "latency"), "rate", "Latency", "log", theme).layout.xaxis.type, undefined);
});

test("a frame of a schedule that reaches over the end of the cycle has a part at its begin", () => {
  const frames = [{ flow: "a", begin_ns: 100, end_ns: 300 }, { flow: "b", begin_ns: 900, end_ns: 1_150 }];
  assert.deepEqual(app.scheduleParts(frames, 1_000).map(({ flow, begin, end }) => [flow, begin, end]), [
    ["a", 100, 300], ["b", 900, 1_000], ["b", 0, 150],
  ]);
});

test("bins hold every frame of a profile", () => {
  const points = [[-5, 100], [10, 90], [1_000, 7], [100_000, 2]];
  for (const isLog of [false, true]) {
    const counts = app.bins(points, isLog ? 10 : -5, 100_000, 20, isLog).map(([, , frames]) => frames);
    assert.equal(counts.length, 20);
    assert.equal(counts.reduce((a, b) => a + b), 100);
    assert.equal(counts.at(-1), 2);
  }
  assert.equal(app.bins([[5, 3]], 5, 5, 4, false).reduce((sum, [, , frames]) => sum + frames, 0), 3);
});

test("files quote what must be quoted", () => {
  assert.equal(app.profilesCsv("total_latency", [{ id: 'a,"b"', points: [[5, 2], [7, 1]] }]),
    'experiment,metric,latency_ns,frames_at_least\n"a,""b""",total_latency,5,2\n"a,""b""",total_latency,7,1\n');
});

test("differences are summed up again", () => {
  assert.deepEqual(app.runningSum([5, 1, -2]), [5, 6, 4]);
  assert.deepEqual(app.runningSum([]), []);
});

test("texts reach plots as texts", () => {
  assert.equal(app.plotText("<b>&amp;"), "&lt;b&gt;&amp;amp;");
});
