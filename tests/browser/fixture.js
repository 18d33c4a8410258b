// Results for the tests of the page, all made by `candor lab run`: what the page is shown is what
// the program writes. The files of the experiments are beside this one.
"use strict";

const { execFileSync, spawnSync } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");

const CANDOR = process.env.CANDOR ?? path.join(__dirname, "../../target/debug/candor");
const HOSTILE = `<script>globalThis.attacked = 1</script><img src=x onerror="globalThis.attacked = 2">%{x}`;
/** The id of the result that somebody has edited. */
const EDITED = "zz hostile & 100%";

/** Runs the experiments of a file; returns what the program printed. */
function run(dir, file, ...options) {
  const args = ["lab", "run", path.join(__dirname, "experiments", file), "--out", dir, ...options];
  return execFileSync(CANDOR, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

/** The result of an experiment. */
const result = (dir, id) => JSON.parse(fs.readFileSync(path.join(dir, "results", `${id}.json`)));

/** A result as a stranger may hand it on: every text in it is hostile, its numbers are real. */
function edit(dir, id) {
  const own = result(dir, id);
  const strange = (value) => {
    if (typeof value === "string") return HOSTILE;
    if (Array.isArray(value)) return value.map(strange);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, value]) => [key, strange(value)]));
  };
  const edited = { ...strange(own), schema: own.schema, metrics: own.metrics, axes: { [HOSTILE]: HOSTILE }, notes: [HOSTILE] };
  edited.machine = {
    kernel: HOSTILE, release: HOSTILE, package: HOSTILE, kernel_sha256: HOSTILE, guest_sha256: HOSTILE,
    qemu: HOSTILE, flags: [HOSTILE], shift: 1, mips: 500,
  };
  fs.writeFileSync(path.join(dir, "results", `${EDITED}.json`), JSON.stringify(edited, null, 2));
}

/** Fills `dir` with results and their report: six of a matrix ran last. */
function write(dir) {
  run(dir, "endings.toml");
  edit(dir, "endings");
  run(dir, "matrix.toml");
}

/** The report of an experiment that a matrix has put on these kernels; its figures are those of a simulation. */
function kernels(dir, names) {
  run(dir, "matrix.toml", "--only", "flood-none");
  const own = result(dir, "flood-none");
  fs.rmSync(path.join(dir, "results", "flood-none.json"));
  for (const name of names) {
    const experiment = `flood-${name.replaceAll(/[^\w.-]/g, "-")}`;
    const edited = { ...own, experiment, axes: { "vm.kernel": name } };
    fs.writeFileSync(path.join(dir, "results", `${experiment}.json`), JSON.stringify(edited, null, 2));
  }
  report(dir);
}

/** Writes the report again. */
function report(dir) {
  execFileSync(CANDOR, ["lab", "report", dir], { stdio: "ignore" });
}

/** Claims and their report: one holds, and one does not, so that the exit code is 1. */
function claims(dir) {
  const text = fs.readFileSync(path.join(__dirname, "experiments", "matrix.toml"), "utf8").replace(/\[\[figure\]\][^]*/, "");
  const file = path.join(dir, "claims.toml");
  fs.writeFileSync(file, `${text}
[[claim]]
id = "G1"
says = "no frame is faster"
published = "35 us"
value = "flood-none gateway_latency min"
at_least = 30
[[claim]]
id = "G2"
published = "none"
value = "flood-none total_latency min"
at_most = 0.001
note = "the model has a bus"
`);
  const { status } = spawnSync(CANDOR, ["lab", "claims", file, "--out", dir], { stdio: "ignore" });
  if (status !== 1) throw new Error(`the exit code is ${status}`);
}

module.exports = { EDITED, HOSTILE, claims, kernels, report, result, run, write };
