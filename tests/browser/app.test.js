// The pure half of the page's script, without a browser.
"use strict";

const assert = require("node:assert/strict");
const test = require("node:test");
const app = require("../../crates/lab/src/report/app.js");

const experiment = (id, axes, p99, sent = 10) => ({
  id, experiment: id, title: "", testbed: "sim", conditions: "model", axes,
  counts: { sent, lost: 0 }, buses: [],
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
  const by = (key, descending) => ids(app.sorted(REPORT.experiments, "total_latency", { key, descending }));
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
    chosen: ["half-10", null, "flood-2"], metric: "total_latency", view: "histogram", scale: "linear",
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

test("the first forty-two series all look different", () => {
  const theme = { series: ["1", "2", "3", "4", "5", "6", "7"] };
  const looks = Array.from({ length: 42 }, (_, place) => Object.values(app.styleOf(place, theme)).join());
  assert.equal(new Set(looks).size, 42);
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
