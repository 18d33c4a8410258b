// The report in a real browser: opened from disk, with the network off.
//
// CANDOR is the program that runs the experiments and writes the report, CHROMIUM the browser.
// SCREENSHOTS, if set, is a folder for pictures of the page, wide and narrow, light and dark.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { pathToFileURL } = require("node:url");
const test = require("node:test");
const { chromium } = require("playwright-core");
const fixture = require("./fixture.js");

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const THREE = "#metric=gateway_latency&show=one-at-a-time-none&show=half-ethernet&show=flood-ethernet";

let dir, many, browser, page, trouble;

test.before(async () => {
  dir = fs.mkdtempSync(path.join(os.tmpdir(), "candor-report-"));
  fixture.write(dir);
  // Chromium's sandbox does not work for root, as in most containers.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  browser = await chromium.launch({ executablePath: CHROMIUM, args });
});

test.after(async () => {
  await browser?.close();
  for (const folder of [dir, many]) if (folder) fs.rmSync(folder, { recursive: true });
});

test.afterEach(async () => {
  await page?.context().close();
  assert.deepEqual(trouble, [], "the console stays silent and nothing is loaded from elsewhere");
});

/** Opens the report; everything it complains about or loads from elsewhere is noted. */
async function open(hash = "", options = {}, folder = dir) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, offline: true, acceptDownloads: true, ...options });
  page = await context.newPage();
  trouble = [];
  page.on("console", (message) => trouble.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(String(error)));
  page.on("request", (request) => {
    if (!/^(file|data|blob):/.test(request.url())) trouble.push(`loads ${request.url()}`);
  });
  await page.goto(pathToFileURL(path.join(folder, "index.html")).href + hash);
  await page.waitForSelector("body[data-ready]");
}

/** Waits until the overlay shows so many series. */
const seriesCount = (count) => page.waitForFunction((count) =>
  (document.getElementById("overlay").data ?? []).filter(({ mode }) => mode === "lines").length === count, count);
const overlay = (read) => page.evaluate(`(${read})(document.getElementById("overlay"))`);
const names = () => page.locator("#rows input").evaluateAll((boxes) => boxes.map((box) => box.getAttribute("aria-label")));
const box = (id) => page.locator(`#rows input[data-experiment="${id}"]`);

const result = (id, folder = dir) => fixture.result(folder, id);
/** A number as the page writes it. */
const shown = (number) => number.toLocaleString("en-US");

test("opens on what ran last, with its figures and its world", async () => {
  await open();
  await seriesCount(6);
  const all = await names();
  assert.equal(all.length, 8);
  assert.deepEqual(all.slice(0, 2), ["load none · traffic one-at-a-time", "load ethernet · traffic one-at-a-time"].map((name) => `A gateway under test: ${name}`));
  assert.equal(new Set(all).size, 8, "every name is another");
  const head = await page.locator("#conditions").innerText();
  assert.match(head, /model/);
  assert.match(await page.locator("footer").innerText(), /not measurements/);
  assert.equal(await page.locator("#formula").innerText(), "gateway_latency = target_end - source_end - transmission");
});

test("every frame that was sent is in one column of the table", async () => {
  await open();
  for (const id of ["endings", "flood-ethernet", "half-none"]) {
    const { counts } = result(id);
    assert.equal(counts.sent, counts.received + counts.not_routed + counts.refused + counts.lost);
    const cells = await page.locator("#rows tr", { has: page.locator(`input[data-experiment="${id}"]`) }).locator("td").allInnerTexts();
    // Behind two axes and four latencies.
    const numbers = cells.slice(6, 11).map((text) => text.replace(/ \(.*\)/, ""));
    assert.deepEqual(numbers, ["sent", "received", "not_routed", "refused", "lost"].map((key) => shown(counts[key])));
  }
  const { counts } = result("endings");
  assert.ok(Math.min(...Object.values(counts).slice(0, 5)) > 0, "all four endings are there");
});

test("columns sort both ways by click and by keyboard", async () => {
  await open();
  const lost = page.locator("#columns th", { hasText: "Lost" });
  const ids = () => page.locator("#rows input").evaluateAll((boxes) => boxes.map(({ dataset }) => dataset.experiment));
  const most = ["endings", "flood-ethernet", "flood-none"].sort((a, b) => result(b).counts.lost - result(a).counts.lost)[0];
  await lost.locator("button").click();
  assert.equal(await lost.getAttribute("aria-sort"), "descending");
  assert.ok([most, fixture.EDITED].includes((await ids())[0]));
  await lost.locator("button").press("Enter");
  assert.equal(await lost.getAttribute("aria-sort"), "ascending");
  assert.ok([most, fixture.EDITED].includes((await ids()).at(-1)));
  await page.locator("#columns button", { hasText: "Experiment" }).click();
  const sorted = (await names()).filter((name) => name.startsWith("A gateway"));
  assert.deepEqual(sorted, [...sorted].sort());
  await page.locator("#columns button", { hasText: "traffic" }).click();
  assert.equal((await ids())[0].replace(/-[a-z]+$/, ""), "flood", "by an axis, what has none last");
});

test("search and axis filters narrow the table", async () => {
  await open();
  await page.fill("#search", "ethernet half");
  assert.deepEqual(await names(), ["A gateway under test: load ethernet · traffic half"]);
  assert.match(await page.locator("#shown").innerText(), /^1 of 8 shown/);
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

test("all, none and shown are chosen by one click", async () => {
  await open("#show=half-none");
  await seriesCount(1);
  await page.click("#choose-all");
  await seriesCount(8);
  await page.fill("#search", "flood");
  assert.equal(await page.locator("#choose-shown").innerText(), "Shown (2)");
  await page.click("#choose-shown");
  await seriesCount(2);
  await page.click("#choose-none");
  await page.waitForSelector("#overlay", { state: "hidden" });
});

test("profiles fall from all frames to the worst case", async () => {
  await open(THREE);
  await seriesCount(3);
  const plot = await overlay((plot) => plot.data.map(({ x, y, line, legendgroup }) => ({ x, y, shape: line?.shape, legendgroup })));
  const line = plot.find(({ legendgroup }) => legendgroup === "flood-ethernet");
  const { counts, metrics } = result("flood-ethernet");
  assert.equal(line.shape, "vh");
  assert.equal(line.y[0], counts.received);
  assert.equal(Math.round(line.x.at(-1) * 1000), metrics.gateway_latency.max_ns);
  const marks = plot.at(-1);
  assert.ok(marks.x.includes(line.x.at(-1)) && marks.x.length === 3, "the worst case is marked");
});

test("pointing at the chart reads all curves at one latency", async () => {
  await open(THREE);
  await seriesCount(3);
  const area = await page.locator("#overlay .nsewdrag").first().boundingBox();
  await page.mouse.move(area.x + area.width * 0.4, area.y + area.height * 0.3);
  await page.locator("#readout").waitFor();
  const lines = await page.locator("#readout li").allInnerTexts();
  assert.equal(lines.length, 3);
  // The same from the results: how many frames took at least so long.
  const at = await overlay((plot) => plot._fullLayout.xaxis.p2d(0.4 * plot._fullLayout.xaxis._length) * 1000);
  for (const id of ["one-at-a-time-none", "half-ethernet", "flood-ethernet"]) {
    const number = result(id).metrics.gateway_latency.profile.find(([ns]) => ns >= at)?.[1] ?? 0;
    const line = lines.find((line) => line.includes(id.replace(/(.*)-(none|ethernet)$/, "load $2 · traffic $1")));
    assert.ok(line.includes(`\n${shown(number)} (`), `${line} ${number}`);
  }
  assert.equal(await page.locator("#readout .nearest").count(), 1);
  await page.mouse.move(area.x + area.width * 0.4, area.y + area.height + 300);
  await page.locator("#readout").waitFor({ state: "hidden" });
  await page.locator("#overlay-box").focus();
  await page.keyboard.press("ArrowRight");
  await page.locator("#readout").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#readout").waitFor({ state: "hidden" });
});

test("curves are coloured by an axis", async () => {
  await open();
  await seriesCount(6);
  await page.selectOption("#colour", { label: "load" });
  await page.waitForFunction(() => document.getElementById("overlay").data.some(({ name }) => name === "load ethernet"));
  const lines = await overlay((plot) => plot.data.filter(({ mode }) => mode === "lines").map(({ name, line, showlegend }) => [name, line.color, showlegend]));
  assert.deepEqual([...new Set(lines.map(([name]) => name))].sort(), ["load ethernet", "load none"]);
  assert.equal(new Set(lines.map(([, colour]) => colour)).size, 2);
  assert.equal(lines.filter(([, , isInLegend]) => isInLegend).length, 2);
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
  assert.deepEqual(sums, ["one-at-a-time-none", "half-ethernet", "flood-ethernet"].map((id) => result(id).counts.received));
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
  const [max_ns, worst] = result("half-ethernet").metrics.gateway_latency.profile.at(-1);
  assert.equal(last, `half-ethernet,gateway_latency,${max_ns},${worst}`);
  const [svg] = await Promise.all([page.waitForEvent("download"), page.click("#export-svg")]);
  assert.equal(svg.suggestedFilename(), "gateway_latency-profile.svg");
  assert.match(fs.readFileSync(await svg.path(), "utf8"), /^<svg .*load ethernet/s);
});

test("a link shows the profiles of a figure of the file over one another", async () => {
  await open();
  await seriesCount(6);
  const links = page.locator("#figures a");
  assert.deepEqual(await links.allInnerTexts(), ["load and flood"]);
  await links.click();
  await seriesCount(3);
  assert.equal(await page.locator("#metric").inputValue(), "total_latency");
  assert.ok(await page.locator("#past").isHidden(), "nothing ran on two kernels");
});

test("time charts appear when they come into view", async () => {
  await open("#metric=gateway_latency&show=one-at-a-time-none&show=half-ethernet&show=endings");
  await seriesCount(3);
  const panel = page.locator('.detail[data-experiment="endings"]');
  assert.equal(await panel.locator(".main-svg").count(), 0, "not drawn before it is seen");
  await panel.scrollIntoViewIfNeeded();
  await panel.locator(".main-svg").first().waitFor();
  const traces = await panel.locator(".chart").evaluate((plot) => plot.data.map(({ x, yaxis }) => [x.length, yaxis ?? "y"]));
  const causes = [...new Set(result("endings").stopped.map(({ cause }) => cause))];
  assert.equal(traces.length, 1 + causes.length, "latencies, and a row per cause");
  assert.ok(traces[0][0] > 100 && traces[0][0] <= 4_000, `${traces[0][0]} points`);
  assert.ok(traces.slice(1).every(([, axis]) => axis === "y2"));
  assert.deepEqual((await panel.locator(".chart").evaluate((plot) => plot.layout.yaxis2.ticktext)).sort(), causes.sort());
  assert.match(await panel.locator(".thinned").innerText(), /^$|Of every/);
});

test("a panel tells what became of the frames, the loads and how to repeat it", async () => {
  await open("#show=endings");
  const panel = page.locator(".detail");
  const text = await panel.innerText();
  const { counts, stopped, buses } = result("endings");
  const sum = `${shown(counts.sent)} sent = ${shown(counts.received)} received + ${shown(counts.not_routed)} not routed + `
    + `${shown(counts.refused)} refused + ${shown(counts.lost)} lost`;
  assert.ok(text.includes(sum), text);
  const endings = { not_routed: "Not routed", refused: "Refused", lost: "Lost" };
  const rows = await panel.locator("section", { hasText: "Frames that did not pass" }).locator("tbody tr").allInnerTexts();
  for (const { cause, ending, frames } of stopped) {
    assert.ok(rows.some((row) => row.startsWith(`${endings[ending]}\t${cause}\t`) && row.includes(`\t${shown(frames)}\t`)), rows.join("\n"));
  }
  assert.equal(rows.length, stopped.length);
  assert.match(await panel.locator(".cause", { hasText: "queue_full" }).first().getAttribute("title"), /queue of the destination was full/);
  assert.ok(text.includes(`${buses[1].load_percent.toFixed(1)}\u202f%`), "the load of the slow bus");
  assert.match(text, /candor lab run .*experiments\/endings\.toml --only endings --seed 1/);
  // The button says so for a moment only.
  const copied = panel.locator("button", { hasText: "Copied" }).waitFor();
  await Promise.all([copied, panel.locator("button", { hasText: "Copy" }).click()]);
  const config = panel.locator("pre.config");
  assert.ok(!(await config.isVisible()));
  await panel.locator("summary").press("Enter");
  assert.match(await config.innerText(), /kind = "periodic"/);
});

test("an address brings a view back", async () => {
  await open();
  await page.selectOption("#metric", "total_latency");
  await page.locator("label", { hasText: "Linear" }).click();
  await page.fill("#search", "flood");
  await page.locator("#columns button", { hasText: "p99.9" }).click();
  await box("flood-none").uncheck();
  await seriesCount(5);
  const hash = new URL(page.url()).hash;
  await page.context().close();
  await open(hash);
  await seriesCount(5);
  assert.equal(await page.inputValue("#metric"), "total_latency");
  assert.equal(await page.inputValue("#search"), "flood");
  assert.ok(await page.isChecked('input[value="linear"]'));
  assert.ok(!(await box("flood-none").isChecked()));
  assert.equal(await page.locator("[aria-sort]").getAttribute("data-key"), "p999");
  await page.evaluate(() => (location.hash = "#show=half-none"));
  await seriesCount(1);
});

test("after another run the page shows that run", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "candor-report-"));
  try {
    fixture.run(folder, "matrix.toml");
    await open("", {}, folder);
    await seriesCount(6);
    await box("flood-none").uncheck();
    await seriesCount(5);
    const { hash } = new URL(page.url());
    await page.context().close();
    await open(hash, {}, folder);
    await seriesCount(5);
    await page.context().close();
    fixture.run(folder, "endings.toml");
    for (const address of ["", hash]) {
      await open(address, {}, folder);
      await seriesCount(1);
      assert.equal((await names())[0], "Four endings");
      assert.ok(await box("endings").isChecked());
      await page.context().close();
    }
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test("texts from data never become markup", async () => {
  await open(`#show=${encodeURIComponent(fixture.EDITED)}&show=half-none`);
  await seriesCount(2);
  const panel = page.locator(".detail").first();
  await panel.scrollIntoViewIfNeeded();
  await panel.getByText("There is no time chart").waitFor();
  await page.locator("#overlay").scrollIntoViewIfNeeded();
  const area = await page.locator("#overlay .nsewdrag").first().boundingBox();
  await page.mouse.move(area.x + area.width / 2, area.y + area.height / 2);
  await page.locator("#readout").waitFor();
  assert.equal(await page.evaluate(() => globalThis.attacked), undefined);
  assert.equal(await page.locator("img").count(), 0);
  assert.ok((await names()).includes(fixture.HOSTILE));
  assert.equal(await panel.locator("h2").innerText(), fixture.HOSTILE);
  assert.match(await page.locator("#overlay .legendtext").first().textContent(), /^<script>globalThis/);
});

test("300 experiments stay readable", async () => {
  many = fs.mkdtempSync(path.join(os.tmpdir(), "candor-report-"));
  const printed = fixture.run(many, "many.toml");
  assert.match(printed, /no line per frame \(CSV\).*120,000 frames.*--set per_frame=true/);
  assert.deepEqual(fs.readdirSync(path.join(many, "results")).filter((name) => name.endsWith(".csv")), []);
  await open("", {}, many);
  await seriesCount(7);
  const all = await names();
  assert.equal(new Set(all).size, 300, "every name is another");
  assert.match(all[0], /^filters 0 · load none · traffic one-at-a-time · length 2$/);
  // The table has its own scroll area beside the chart, and its head stays.
  const scroll = page.locator("#table-scroll");
  const [table, chart] = [await scroll.boundingBox(), await page.locator("#overlay").boundingBox()];
  assert.ok(table.x + table.width <= chart.x, "beside one another");
  assert.ok(table.y + table.height <= 1000, `the table ends on the screen, not at ${table.y} + ${table.height}`);
  const top = () => page.locator("#columns th").first().evaluate((th) => th.getBoundingClientRect().top);
  const before = await top();
  await scroll.evaluate((element) => (element.scrollTop = 3_000));
  assert.equal(await top(), before, "the head stays");
  // One line per experiment, and the axes in columns of their own.
  const heights = await page.locator("#rows tr").evaluateAll((lines) => lines.map((line) => line.offsetHeight));
  assert.ok(Math.max(...heights) <= 32, `${Math.max(...heights)} px`);
  const heads = await page.locator("#columns th.axis").allInnerTexts();
  assert.deepEqual(heads.map((head) => head.trim()), ["filters", "load", "traffic", "length"]);
  const started = Date.now();
  await page.click("#choose-all");
  await seriesCount(300);
  const took = Date.now() - started;
  assert.ok(took < 20_000, `300 curves took ${took} ms`);
  assert.equal(await page.locator("#overlay .legend").count(), 0, "no legend of 300 names");
  assert.equal(await page.locator(".detail").count(), 6);
  await page.click("#more");
  assert.equal(await page.locator(".detail").count(), 12);
  await page.locator("#overlay").scrollIntoViewIfNeeded();
  const area = await page.locator("#overlay .nsewdrag").first().boundingBox();
  await page.mouse.move(area.x + area.width / 2, area.y + area.height / 2);
  await page.locator("#readout").waitFor();
  const lines = await page.locator("#readout li").count();
  const rest = (await page.locator("#readout .hint").allInnerTexts()).map((text) => Number(text.match(/\d+/)[0]));
  assert.equal(lines + rest.reduce((a, b) => a + b, 0), 300, "every curve is shown or counted");
  await page.selectOption("#colour", { label: "filters" });
  await page.waitForFunction(() => document.querySelectorAll("#overlay .legendtext").length === 10);
  if (process.env.SCREENSHOTS) await page.screenshot({ path: path.join(process.env.SCREENSHOTS, "report-many.png") });
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

test("the report of claims has their table, also when it is written again", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "candor-claims-"));
  try {
    fixture.claims(folder);
    for (const again of [false, true]) {
      if (again) fixture.report(folder);
      await open("", {}, folder);
      assert.match(await page.locator("#claims-hint").innerText(), /^1 of 2 claims agrees, 1 no, when they were last judged/);
      assert.deepEqual(await page.locator("#claims-table th").allInnerTexts(), ["Id", "Claim", "Published", "Found", "Agreement is", "Agrees", "Note"]);
      const rows = (await page.locator("#claims-table tbody tr").allInnerTexts()).map((row) => row.split("\t"));
      assert.deepEqual(rows.map(([id, , published, , bounds, agrees]) => [id, published, bounds, agrees]),
        [["G1", "35 us", "at least 30", "yes"], ["G2", "none", "at most 0.001", "no"]]);
      assert.equal(rows[0][1], "no frame is faster");
      assert.match(rows[1][1], /: total_latency min$/);
      const figures = result("flood-none", folder).metrics;
      assert.equal(Number(rows[1][3]), Number((figures.total_latency.min_ns / 1000).toFixed(1)));
      assert.equal(await page.locator("#claims-table .bad").innerText(), "no");
      if (process.env.SCREENSHOTS) await page.screenshot({ path: path.join(process.env.SCREENSHOTS, "claims.png"), fullPage: true });
      await page.context().close();
    }
    await open();
    assert.ok(await page.locator("#claims").isHidden(), "a run without claims has no table of them");
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});

test("latencies over kernels stand in the order of their versions", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "candor-versions-"));
  try {
    fixture.kernels(folder, ["6.9", "6.12", "6.18", "debian:6.12.90+deb13-amd64", "6.12-rt", "7.2"]);
    await open("", {}, folder);
    assert.equal(await page.locator("#sweep-title").innerText(), "Gateway latency over kernel");
    const labels = page.locator("#sweep-chart .xtick text");
    await labels.first().waitFor();
    const ordered = ["6.9", "6.12", "6.12-rt", "debian:6.12.90+deb13-amd64", "6.18", "7.2"];
    assert.deepEqual(await labels.allTextContents(), ordered);
    const line = await page.evaluate(() => document.getElementById("sweep-chart").data.find(({ mode }) => mode === "lines+markers").x);
    assert.deepEqual(line, ordered);
    const options = await page.locator('select[data-axis="vm.kernel"] option').allTextContents();
    assert.deepEqual(options, ["all", ...ordered]);
    await page.locator("#sweep").scrollIntoViewIfNeeded();
    if (process.env.SCREENSHOTS) await page.locator("#sweep").screenshot({ path: path.join(process.env.SCREENSHOTS, "versions.png") });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
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

test("the schedule of time-triggered frames is drawn", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "candor-schedule-"));
  try {
    fixture.run(folder, "../../../campaigns/tte-sync.toml", "--only", "synchronised", "--seed", "1");
    await open("", {}, folder);
    const rows = page.locator(".detail .track-row:has(.track)");
    assert.equal(await rows.count(), 4);
    assert.match(await rows.first().innerText(), /^\S+: \S+ → \S+/);
    const track = await page.locator(".track").first().boundingBox();
    const bars = await page.locator(".track").first().locator("i").evaluateAll((all) => all.map((it) => [it.title, it.offsetLeft, it.offsetWidth]));
    assert.ok(bars.length > 0 && bars.every(([title, left, width]) => / to /.test(title) && left >= 0 && width >= 2 && left + width <= track.width + 2), JSON.stringify(bars));
    const clocks = page.locator(".detail section:has(h3:text-is('Clocks')) tbody tr");
    const [apart, precision] = await clocks.allInnerTexts();
    assert.match(apart, /^largest difference\tmin \d+.ns, .*, max 6\d\d.ns$/);
    assert.match(precision, /^stated precision\t10\.00.µs$/);
    if (process.env.SCREENSHOTS) await page.screenshot({ path: path.join(process.env.SCREENSHOTS, "schedule.png"), fullPage: true });
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});
