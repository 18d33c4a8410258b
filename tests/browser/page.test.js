// The report in a real browser: opened from disk, with the network off.
//
// CANDOR is the program that writes the report, CHROMIUM the browser. SCREENSHOTS, if set, is a
// folder for pictures of the page, wide and narrow, light and dark.
"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const test = require("node:test");
const { chromium } = require("playwright-core");
const fixture = require("./fixture.js");

const CANDOR = process.env.CANDOR ?? path.join(__dirname, "../../target/debug/candor");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const THREE = "#metric=gateway_latency&show=one-at-a-time-none&show=half-ethernet&show=flood-ethernet";

let dir, browser, page, trouble;

test.before(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), "candor-report-"));
  fixture.write(dir);
  execFileSync(CANDOR, ["lab", "report", dir], { stdio: ["ignore", "ignore", "inherit"] });
  // Chromium's sandbox does not work for root, as in most containers.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  browser = await chromium.launch({ executablePath: CHROMIUM, args });
});

test.after(async () => {
  await browser?.close();
  if (dir) fs.rmSync(dir, { recursive: true });
});

test.afterEach(async () => {
  await page?.context().close();
  assert.deepEqual(trouble, [], "the console stays silent and nothing is loaded from elsewhere");
});

/** Opens the report; everything it complains about or loads from elsewhere is noted. */
async function open(hash = "", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, offline: true, acceptDownloads: true, ...options });
  page = await context.newPage();
  trouble = [];
  page.on("console", (message) => trouble.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(String(error)));
  page.on("request", (request) => {
    if (!/^(file|data|blob):/.test(request.url())) trouble.push(`loads ${request.url()}`);
  });
  await page.goto(pathToFileURL(path.join(dir, "index.html")).href + hash);
  await page.waitForSelector("body[data-ready]");
}

/** Waits until the overlay shows so many series. */
const seriesCount = (count) => page.waitForFunction((count) =>
  new Set((document.getElementById("overlay").data ?? []).map(({ legendgroup }) => legendgroup)).size === count, count);
const overlay = (read) => page.evaluate(`(${read})(document.getElementById("overlay"))`);
const names = () => page.locator("#rows .name").allTextContents();
const box = (id) => page.locator(`#rows input[data-experiment="${id}"]`);

test("opens with a few experiments, their figures and their world", async () => {
  await open();
  await seriesCount(3);
  assert.equal((await names()).length, 7);
  const head = await page.locator("#conditions").innerText();
  assert.match(head, /model/);
  assert.match(head, /model mpc5200-2\.6\.33, virtual time/);
  assert.match(await page.locator("footer").innerText(), /no measurements/);
  assert.equal(await page.locator("#formula").innerText(), "gateway_latency = target_end - source_end - transmission");
  const row = await page.locator("#rows tr", { hasText: "flood-ethernet" }).innerText();
  assert.match(row, /10,000\s+2,0\d\d \(20\.\d.%\)\s+97\.4.% in/);
});

test("columns sort both ways by click and by keyboard", async () => {
  await open();
  const max = page.locator("#columns th", { hasText: "Max" });
  await max.locator("button").click();
  assert.equal(await max.getAttribute("aria-sort"), "descending");
  assert.equal((await names())[0], "Flood, Ethernet load");
  await max.locator("button").press("Enter");
  assert.equal(await max.getAttribute("aria-sort"), "ascending");
  assert.equal((await names()).at(-1), "Flood, Ethernet load");
  await page.locator("#columns button", { hasText: "Experiment" }).click();
  assert.equal((await names())[1], "50 % bus load");
});

test("search and axis filters narrow the table", async () => {
  await open();
  await page.fill("#search", "ethernet half");
  assert.deepEqual(await names(), ["50 % bus load, Ethernet load"]);
  assert.match(await page.locator("#shown").innerText(), /^1 of 7 shown/);
  await page.fill("#search", "");
  await page.selectOption('select[data-axis="load.kind"]', { label: "none" });
  assert.equal((await names()).length, 3);
  await page.fill("#search", "nothing like this");
  assert.match(await page.locator("#rows").innerText(), /No experiment matches/);
});

test("choosing experiments changes the series and the panels below", async () => {
  await open(THREE);
  await seriesCount(3);
  const colour = () => overlay((plot) => plot.data.find(({ legendgroup }) => legendgroup === "flood-ethernet").line.color);
  const before = await colour();
  await box("half-ethernet").press("Space");
  await seriesCount(2);
  assert.equal(await colour(), before, "a series keeps its colour");
  assert.equal(await page.locator(".detail").count(), 2);
  await box("half-none").check();
  await box("flood-none").check();
  await seriesCount(4);
  for (const id of ["half-none", "flood-none", "one-at-a-time-none", "flood-ethernet"]) await box(id).uncheck();
  await page.waitForSelector("#overlay", { state: "hidden" });
  assert.match(await page.locator("#overlay-hint").innerText(), /Choose experiments/);
});

test("profiles fall from all frames to the worst case", async () => {
  await open(THREE);
  await seriesCount(3);
  const [line, end] = await overlay((plot) => plot.data.filter(({ legendgroup }) => legendgroup === "flood-ethernet")
    .map(({ x, y, hovertext, line }) => ({ x, y, hovertext, shape: line?.shape })));
  const result = JSON.parse(fs.readFileSync(path.join(dir, "results/flood-ethernet.json")));
  assert.equal(line.shape, "vh");
  assert.equal(line.y[0], result.counts.received);
  assert.equal(line.x.at(-1) * 1000, result.metrics.gateway_latency.max_ns);
  assert.deepEqual([end.x, end.y], [[line.x.at(-1)], [line.y.at(-1)]]);
  assert.match(line.hovertext[0], /^<b>7,9\d\d frames<\/b> took at least <b>3\d\.\d\d.µs<\/b>/);
});

test("the axis, the view and the metric are switched", async () => {
  await open(THREE);
  await seriesCount(3);
  const axes = () => overlay((plot) => [plot.layout.xaxis.type, plot.layout.yaxis.type, plot.layout.xaxis.title.text]);
  assert.deepEqual(await axes(), ["log", "log", "Gateway latency (µs)"]);
  await page.locator("label", { hasText: "Linear" }).click();
  await page.waitForFunction(() => document.getElementById("overlay").layout.xaxis.type === "linear");
  assert.deepEqual(await axes(), ["linear", "log", "Gateway latency (µs)"]);
  await page.locator("label", { hasText: "Histogram" }).click();
  await page.waitForFunction(() => document.getElementById("overlay").layout.yaxis.type !== "log");
  const sums = await overlay((plot) => plot.data.map(({ y }) => y.reduce((a, b) => a + b)));
  assert.deepEqual(sums.slice(0, 2), [3000, 3000]);
  await page.selectOption("#metric", "bus_wait");
  await page.waitForFunction(() => document.getElementById("overlay").layout.xaxis.title.text.startsWith("Wait for the target bus"));
  assert.equal(await page.locator("#formula").innerText(), "bus_wait = target_start - loaded");
});

test("exports are the profiles on show", async () => {
  await open(THREE);
  await seriesCount(3);
  const [csv] = await Promise.all([page.waitForEvent("download"), page.click("#export-csv")]);
  assert.equal(csv.suggestedFilename(), "gateway_latency-profiles.csv");
  const lines = fs.readFileSync(await csv.path(), "utf8").trimEnd().split("\n");
  assert.equal(lines[0], "experiment,metric,latency_ns,frames_at_least");
  const last = lines.filter((line) => line.startsWith("half-ethernet,")).at(-1);
  const { max_ns } = JSON.parse(fs.readFileSync(path.join(dir, "results/half-ethernet.json"))).metrics.gateway_latency;
  assert.equal(last, `half-ethernet,gateway_latency,${max_ns},1`);
  const [svg] = await Promise.all([page.waitForEvent("download"), page.click("#export-svg")]);
  assert.equal(svg.suggestedFilename(), "gateway_latency-profile.svg");
  assert.match(fs.readFileSync(await svg.path(), "utf8"), /^<svg .*Flood, Ethernet load/s);
});

test("time charts appear when they come into view", async () => {
  await open(THREE);
  await seriesCount(3);
  const panel = page.locator('.detail[data-experiment="flood-ethernet"]');
  assert.equal(await panel.locator(".main-svg").count(), 0, "not drawn before it is seen");
  await panel.scrollIntoViewIfNeeded();
  await panel.locator(".main-svg").first().waitFor();
  const traces = await panel.locator(".chart").evaluate((plot) => plot.data.map(({ x, yaxis }) => [x.length, yaxis ?? "y"]));
  assert.equal(traces.length, 3, "latencies and two causes");
  assert.ok(traces[0][0] > 1_000 && traces[0][0] <= 4_000, `${traces[0][0]} points`);
  assert.deepEqual(traces.slice(1).map(([, axis]) => axis), ["y2", "y2"]);
  assert.match(await panel.locator(".thinned").innerText(), /Of every 8 frames/);
});

test("a panel tells what was refused, the loads and how to repeat it", async () => {
  await open("#show=flood-ethernet");
  const panel = page.locator(".detail");
  const text = await panel.innerText();
  for (const part of [/egress_full\s+gateway · all/, /in\s+500\s+10,000\s+0\s+0\s+97\.4.%/, /all\s+out\s+7,9\d\d/, /candor lab run campaigns\/simple\.toml --only flood-ethernet --seed 1/]) {
    assert.match(text, part);
  }
  assert.match(text, /10,000 frames sent: 7,9\d\d received, 2,0\d\d lost/);
  await panel.locator("button", { hasText: "Copy" }).click();
  await panel.locator("button", { hasText: "Copied" }).waitFor();
  const config = panel.locator("pre.config");
  assert.ok(!(await config.isVisible()));
  await panel.locator("summary").press("Enter");
  assert.match(await config.innerText(), /\[traffic\]\nkind = "flood"/);
});

test("an address brings a view back", async () => {
  await open();
  await page.selectOption("#metric", "total_latency");
  await page.locator("label", { hasText: "Linear" }).click();
  await page.fill("#search", "flood");
  await page.locator("#columns button", { hasText: "p99.9" }).click();
  await box("flood-none").uncheck();
  await seriesCount(2);
  const hash = new URL(page.url()).hash;
  await page.context().close();
  await open(hash);
  await seriesCount(2);
  assert.equal(await page.inputValue("#metric"), "total_latency");
  assert.equal(await page.inputValue("#search"), "flood");
  assert.ok(await page.isChecked('input[value="linear"]'));
  assert.ok(!(await box("flood-none").isChecked()));
  assert.equal(await page.locator("[aria-sort]").getAttribute("data-key"), "p999");
  await page.evaluate(() => (location.hash = "#show=half-none"));
  await seriesCount(1);
});

test("texts from data never become markup", async () => {
  await open("#show=zz hostile %26 100%25&show=half-none".replaceAll(" ", "%20"));
  await seriesCount(2);
  const panel = page.locator(".detail").first();
  await panel.scrollIntoViewIfNeeded();
  await panel.getByText("There is no file with one line per frame").waitFor();
  assert.equal(await page.evaluate(() => globalThis.attacked), undefined);
  assert.equal(await page.locator("img").count(), 0);
  assert.ok((await names()).includes(fixture.HOSTILE));
  assert.equal(await panel.locator("h2").innerText(), fixture.HOSTILE);
  assert.match(await page.locator("#overlay .legendtext").first().textContent(), /^<script>globalThis/);
});

test("a chart file that is gone is named", async () => {
  const file = path.join(dir, "report/charts/half-none.js");
  const bytes = fs.readFileSync(file);
  fs.rmSync(file);
  try {
    await open("#show=half-none&show=flood-none");
    await seriesCount(1);
    assert.match(await page.locator("#overlay-hint").innerText(), /charts\/half-none\.js is missing; run `candor lab report`/);
  } finally {
    fs.writeFileSync(file, bytes);
  }
  assert.match(trouble.splice(0).join("\n"), /^error: Failed to load resource: net::ERR_FILE_NOT_FOUND$/);
});

for (const [width, height] of [[1400, 1000], [390, 844]]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`fits ${width} x ${height}, ${colorScheme}`, async () => {
      await open(THREE, { viewport: { width, height }, colorScheme });
      await seriesCount(3);
      for (const panel of await page.locator(".detail").all()) {
        await panel.scrollIntoViewIfNeeded();
        await panel.locator(".main-svg").first().waitFor();
      }
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page scrolls sideways");
      const [paper, panel] = await page.evaluate(() => [
        document.getElementById("overlay").layout.paper_bgcolor,
        getComputedStyle(document.documentElement).getPropertyValue("--panel").trim(),
      ]);
      assert.equal(paper, panel, "the chart has the colours of the page");
      if (process.env.SCREENSHOTS) {
        await page.screenshot({ path: path.join(process.env.SCREENSHOTS, `report-${width}-${colorScheme}.png`), fullPage: true });
      }
    });
  }
}
