// Results as `candor lab run` writes them, invented: a gateway under three kinds of traffic and
// two loads, and one experiment whose texts try to become markup. The same every time.
"use strict";

const fs = require("node:fs");
const path = require("node:path");

const TRANSMISSION_NS = 224_000;
const PERIOD_NS = { "one-at-a-time": 600_000, half: 448_000, flood: 230_000 };
const HOSTILE = `<script>globalThis.attacked = 1</script><img src=x onerror="globalThis.attacked = 2">%{x}`;

/** Mulberry32: small, seeded, good enough to invent latencies. */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** The taps of one frame, or the cause of its loss. */
function travel(next, traffic, load, start) {
  const end = start + TRANSMISSION_NS;
  const busy = load === "ethernet" && next() < 0.15;
  if (traffic === "flood" && load === "ethernet" && next() < 0.2) {
    return { outcome: next() < 0.8 ? "rx_overflow" : "egress_full", taps: [start - 500, start, end] };
  }
  const read = end + 4_000 + Math.round(next() * 2_000);
  const wait = (next() < 0.08 ? 20_000 : 0) + (busy ? Math.round(next() * 2_500_000) : 0);
  const decided = read + 22_000 + Math.round(next() * 9_000) + wait;
  const enqueued = decided + 3_000;
  const loaded = enqueued + 2_000 + Math.round(next() * 1_500);
  const targetStart = loaded + (traffic === "flood" ? Math.round(next() * 60_000) : 500);
  const taps = [start - 500, start, end, read, decided, enqueued, loaded, targetStart, targetStart + TRANSMISSION_NS];
  return { outcome: "forwarded", taps };
}

const METRICS = {
  total_latency: ([, , end, , , , , , last]) => last - end,
  gateway_latency: ([, , end, , , , , , last]) => last - end - TRANSMISSION_NS,
  source_wait: ([queued, start]) => start - queued,
  controller_wait: ([, , end, read]) => read - end,
  host_time: ([, , , read, , enqueued]) => enqueued - read,
  egress_wait: ([, , , , , enqueued, loaded]) => loaded - enqueued,
  bus_wait: ([, , , , , , loaded, start]) => start - loaded,
  end_to_end: ([queued, , , , , , , , last]) => last - queued,
};

function figures(values) {
  const sorted = Float64Array.from(values).sort();
  const rank = (permille) => sorted[Math.max(Math.ceil((sorted.length * permille) / 1000), 1) - 1];
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  const profile = [];
  sorted.forEach((value, index) => {
    if (value !== sorted[index - 1]) profile.push([value, sorted.length - index]);
  });
  return {
    count: values.length, min_ns: sorted[0], p50_ns: rank(500), p90_ns: rank(900), p99_ns: rank(990),
    p999_ns: rank(999), max_ns: sorted.at(-1), mean_ns: mean, stddev_ns: Math.sqrt(variance), profile,
  };
}

function experiment(traffic, load, count, seed) {
  const next = random(seed);
  const all = Array.from({ length: count }, (_, index) =>
    travel(next, traffic, load, 1_000_000 + index * PERIOD_NS[traffic]));
  const forwarded = all.filter(({ outcome }) => outcome === "forwarded").map(({ taps }) => taps);
  const causes = ["rx_overflow", "egress_full"].map((cause) => [cause, all.filter(({ outcome }) => outcome === cause).length]);
  const name = `${traffic}-${load}`;
  const result = {
    schema: "candor-result/1", experiment: name, candor: "0.1.0",
    title: { "one-at-a-time": "One frame at a time", half: "50 % bus load", flood: "Flood" }[traffic]
      + { none: "", ethernet: ", Ethernet load" }[load],
    command: `candor lab run campaigns/simple.toml --only ${name} --seed 1`,
    testbed: "sim", conditions: "model mpc5200-2.6.33, virtual time", seed: 1,
    axes: { "traffic.kind": traffic, "load.kind": load },
    config: `[experiment]\nname = "${name}"\n\n[traffic]\nkind = "${traffic}"\ncount = ${count}\n\n[load]\nkind = "${load}"\n`,
    inputs: [{ path: "campaigns/simple.toml", sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" }],
    duration_ns: count * PERIOD_NS[traffic],
    counts: { sent: count, received: forwarded.length, lost: count - forwarded.length, unrouted: 0, duplicated: 0, reordered: 0 },
    refused: causes.filter(([, frames]) => frames > 0).map(([cause, frames]) =>
      ({ where: "gateway", rule: cause === "rx_overflow" ? "" : "all", cause, frames })),
    buses: [["in", count], ["out", forwarded.length]].map(([bus, frames]) => ({
      name: bus, bitrate: 500_000, data_bitrate: 500_000, frames, error_frames: 0, bus_offs: 0,
      load_percent: (100 * frames * TRANSMISSION_NS) / (count * PERIOD_NS[traffic]),
    })),
    rules: [{ name: "all", to: "out", handled: forwarded.length, dropped: causes[1][1], deleted: 0 }],
    metrics: Object.fromEntries(Object.entries(METRICS).map(([key, metric]) => [key, figures(forwarded.map(metric))])),
  };
  return { name, result, frames: csv(all) };
}

const TAPS = ["queued", "source_start", "source_end", "read", "decided", "enqueued", "loaded", "target_start", "target_end"];

function csv(all) {
  const lines = all.map(({ outcome, taps }, index) => {
    const frame = `123#${(index & 0xffff).toString(16).toUpperCase().padStart(4, "0")}5A5A`;
    const came = taps.length === TAPS.length;
    const latencies = came ? [METRICS.total_latency(taps), METRICS.gateway_latency(taps)] : ["", ""];
    const rule = '"all, without exception"';
    return [index, frame, came ? frame : "", outcome, rule, ...TAPS.map((_, tap) => taps[tap] ?? ""), ...latencies].join(",");
  });
  const columns = [...TAPS, "total_latency", "gateway_latency"].map((name) => `${name}_ns`);
  return `${[["number", "sent", "received", "outcome", "rule", ...columns].join(","), ...lines].join("\n")}\n`;
}

/** Every text that a stranger could have written is hostile; there is no per-frame file. */
function hostile() {
  const { result } = experiment("half", "none", 200, 7);
  Object.assign(result, {
    experiment: HOSTILE, title: HOSTILE, command: HOSTILE, conditions: HOSTILE, testbed: HOSTILE,
    candor: HOSTILE, config: HOSTILE, axes: { [HOSTILE]: HOSTILE },
    inputs: [{ path: HOSTILE, sha256: HOSTILE }],
    refused: [{ where: HOSTILE, rule: HOSTILE, cause: HOSTILE, frames: 1 }],
    rules: [{ name: HOSTILE, to: HOSTILE, handled: 1, dropped: 0, deleted: 0 }],
    notes: [HOSTILE],
    machine: {
      kernel: HOSTILE, release: HOSTILE, package: HOSTILE, kernel_sha256: HOSTILE, guest_sha256: HOSTILE,
      qemu: HOSTILE, flags: [HOSTILE], shift: 1, mips: 500,
    },
  });
  result.buses[0].name = HOSTILE;
  return { name: "zz hostile & 100%", result, frames: null };
}

/** Writes the results of the fixture under `dir`. */
function write(dir) {
  const results = path.join(dir, "results");
  fs.mkdirSync(results, { recursive: true });
  const all = [];
  for (const [load, seed] of [["none", 1], ["ethernet", 2]]) {
    all.push(experiment("one-at-a-time", load, 3_000, seed));
    all.push(experiment("half", load, 3_000, seed + 10));
    all.push(experiment("flood", load, 10_000, seed + 20));
  }
  for (const { name, result, frames } of [...all, hostile()]) {
    fs.writeFileSync(path.join(results, `${name}.json`), JSON.stringify(result, null, 1));
    if (frames !== null) fs.writeFileSync(path.join(results, `${name}.csv`), frames);
  }
}

module.exports = { HOSTILE, write };
