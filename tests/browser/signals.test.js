// The page of the signal service in a real browser, with a service that the test plays.
//
// CHROMIUM is the browser.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const test = require("node:test");
const { chromium } = require("playwright-core");
const app = require("../../crates/signal-service/page/app.js");

const PAGE = path.join(__dirname, "../../crates/signal-service/page");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const ORIGIN = "http://candor.test";
const HOSTILE = `<script>globalThis.attacked = 1</script><img src=x onerror="globalThis.attacked = 2">%{x}`;
/** What the service allows its page. */
const POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";
/** In place of the plotting library: remembers what was drawn. */
const PLOTLY = "globalThis.Plotly = { react(node, traces, layout) { node.drawn = { traces, layout }; } };";
const FILES = {
  "/": ["text/html", () => fs.readFileSync(path.join(PAGE, "index.html"))],
  "/app.js": ["text/javascript", () => fs.readFileSync(path.join(PAGE, "app.js"))],
  "/style.css": ["text/css", () => fs.readFileSync(path.join(PAGE, "style.css"))],
  "/plotly.min.js": ["text/javascript", () => PLOTLY],
};
const SIGNALS = [
  { name: "Engine.Speed", bus: "can0", unit: "rpm", id: 0x100 },
  { name: "Engine.Mode", bus: "can0", unit: "", id: 0x100, values: { 0: "off", 1: "on" } },
  { name: HOSTILE, bus: HOSTILE, unit: HOSTILE, id: 0x18feef00 },
  ...[1, 2, 3, 4, 5].map((number) => ({ name: `Wheel.Speed${number}`, bus: "can0", unit: "km/h", id: 0x200 })),
];

let browser, page, trouble;
/** The service: what it lists, whether it lets anybody in, and its open sockets. */
let service;

test.before(async () => {
  // Chromium's sandbox does not work for root, as in most containers.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  browser = await chromium.launch({ executablePath: CHROMIUM, args });
});
test.after(() => browser?.close());
test.afterEach(async () => {
  await page?.context().close();
  page = undefined;
  assert.deepEqual(trouble ?? [], [], "the console stays silent");
});

const reply = (response) => ({ jtype: "afb-reply", request: { status: "success" }, response });

/** Answers the calls of the page. */
function answer([, id, call, args]) {
  service.calls.push([call, args]);
  const verb = call.split("/")[1];
  if (service.refuses === verb) return [4, id, { jtype: "afb-reply", request: { status: "failed", info: HOSTILE } }];
  if (verb === "list") return [3, id, reply({ signals: service.signals, frames: service.frames })];
  if (verb === "get") return [3, id, reply([{ name: "Engine.Mode", value: 1, timestamp: 1 }])];
  if (verb === "stats") return [3, id, reply(service.stats)];
  return [3, id, reply({ topics: 1 })];
}

async function open(options = {}, given = {}) {
  service = {
    signals: SIGNALS, frames: [], calls: [], sockets: [], isDown: false, refuses: "",
    stats: {
      buses: [{ name: "can0", frames: 9, frames_per_s: 1234.4, lost: 3, trouble: HOSTILE }],
      subscribers: [{ id: 1, format: "afb", topics: 8, delivered: 100, missed: 7, waiting: 0 }], uptime_ns: 61e9, changes: 0,
    },
    ...given,
  };
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  page = await context.newPage();
  trouble = [];
  page.on("console", (message) => trouble.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => trouble.push(String(error)));
  await page.route("**/*", (route) => {
    const file = FILES[new URL(route.request().url()).pathname];
    if (file === undefined || !route.request().url().startsWith(ORIGIN)) {
      trouble.push(`loads ${route.request().url()}`);
      return route.abort();
    }
    return route.fulfill({ contentType: file[0], body: file[1](), headers: { "content-security-policy": POLICY } });
  });
  await page.routeWebSocket(`${ORIGIN.replace("http", "ws")}/api`, (socket) => {
    if (service.isDown) return socket.close();
    service.sockets.push(socket);
    socket.onMessage((text) => socket.send(JSON.stringify(answer(JSON.parse(text)))));
  });
  await page.goto(`${ORIGIN}/`);
}

const connected = () => page.waitForSelector("#state.open");
const send = (name, data) => service.sockets.at(-1).send(JSON.stringify([5, name, { event: name, data, jtype: "afb-event" }]));
const value = (name, value, more = {}) => send(`low-can/${name}`, { name, value, timestamp: 1, ...more });
const row = (name) => page.locator("#rows tr").filter({ has: page.getByRole("checkbox", { name: `Plot ${name}`, exact: true }) });
const shows = (locator, text) => page.waitForFunction(([node, text]) => node.textContent === text, [locator, text]);
const cell = async (name, kind) => (await row(name).locator(`.${kind}`).elementHandle());
const drawn = () => page.evaluate(() => document.getElementById("plot").drawn);
const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test("texts", () => {
  assert.deepEqual([0, 0.1 + 0.2, 1e9, 1e-9, null, undefined].map(app.numberText), ["0", "0.3", "1000000000", "1e-9", "–", "–"]);
  assert.equal(app.valueText(1, "on"), "1 (on)");
  assert.equal(app.hex([0, 10, 255]), "00 0A FF");
  assert.deepEqual([[0x1b6], [0x18feef00], [1, true], [undefined]].map((id) => app.idText(...id)), ["0x1B6", "0x18FEEF00", "0x00000001", ""]);
  assert.deepEqual([null, 1_999, 2_000, 120_000, 7_200_000].map(app.ageText), ["–", "now", "2 s", "2 min", "2 h"]);
  assert.deepEqual([0, 1, 2, 3, 99].map(app.backOff), [1_000, 2_000, 4_000, 5_000, 5_000]);
  assert.deepEqual(["engine", "SPEED eng", "", "engine off"].map((search) => app.matches("Engine.Speed", search)), [true, true, true, false]);
});

test("messages that are none of the protocol are passed over", () => {
  for (const text of ["", "{}", "null", "[5]", "[5,\"a\",null]", "[5,\"a\",{\"data\":3}]", "[9,\"a\",{}]"]) assert.equal(app.read(text), null, text);
  assert.deepEqual(app.read("[4,\"7\",{\"request\":{\"info\":\"why\"}}]"), { reply: "7", error: "why" });
  assert.deepEqual(app.read("[3,\"7\",{}]"), { reply: "7", response: undefined });
});

test("of many rows some are there: those that are seen, and some around them", () => {
  for (const [at, rows, expected] of [[0, 0, [0, 0]], [119, 120, [0, 120]], [0, 5_000, [0, 120]], [59, 5_000, [0, 120]],
    [60, 5_000, [20, 140]], [79, 5_000, [20, 140]], [2_500, 5_000, [2_460, 2_580]], [4_999, 5_000, [4_880, 5_000]]]) {
    assert.deepEqual(app.span(at, rows), expected, `${at} of ${rows}`);
  }
});

test("a plot keeps its window, and one point before it", () => {
  const points = [[0, 1], [10_000, 2], [70_000, 3]];
  app.forget(points, 75_000);
  assert.deepEqual(points, [[10_000, 2], [70_000, 3]]);
  app.forget(points, 1_000_000);
  assert.deepEqual(points, [[70_000, 3]]);
});

test("signals are shown as they come, and grow old", async () => {
  await open();
  await connected();
  assert.deepEqual(service.calls.find(([call]) => call === "low-can/subscribe")[1], { event: SIGNALS.map(({ name }) => name), latest: true, filter: { frequency: 10 } });
  await shows(await cell("Engine.Mode", "value"), "1 (on)");
  assert.equal(await (await cell("Engine.Mode", "age")).textContent(), "–");
  // It is that for two seconds only.
  const isNew = shows(await cell("Engine.Speed", "age"), "now");
  value("Engine.Speed", 1234.5);
  value("Engine.Mode", 0, { text: "really off" });
  await isNew;
  await shows(await cell("Engine.Speed", "value"), "1234.5 rpm");
  await shows(await cell("Engine.Mode", "value"), "0 (really off)");
  await page.waitForFunction((tr) => tr.classList.contains("old"), await row("Engine.Speed").elementHandle());
  value("Engine.Speed", null);
  await shows(await cell("Engine.Speed", "value"), "– rpm");
});

test("buses and subscribers are in the header, and what the page missed", async () => {
  await open();
  await shows(await page.waitForSelector("#buses tr"), `can01,23430${HOSTILE}`);
  await shows(await page.$("#audience"), "1 subscriber, 7 missed events");
  await shows(await page.$("#uptime"), "up for 61 s");
  send("candor/missed", { missed: 2, total: 12 });
  await page.waitForSelector("#missed:not([hidden])");
  assert.match(await page.textContent("#missed"), /missed 12 events/);
});

test("a search narrows the table", async () => {
  await open();
  await connected();
  assert.equal(await page.textContent("#count"), "8 signals");
  await page.getByLabel("Search").fill("wheel km");
  assert.equal(await page.textContent("#count"), "5 of 8 signals");
  assert.equal(await page.locator("#rows tr:visible").count(), 5);
});

test("up to six signals are plotted, by the keyboard, too", async () => {
  await open();
  await connected();
  for (const { name } of SIGNALS) value(name, 1);
  await shows(await cell("Wheel.Speed5", "value"), "1 km/h");
  await page.getByRole("checkbox").first().focus();
  for (let index = 0; index < 6; index += 1) {
    await page.keyboard.press("Space");
    await page.keyboard.press("Tab");
  }
  await page.waitForFunction(() => document.getElementById("plot").drawn?.traces.length === 6);
  assert.equal(await page.locator("#rows input:disabled").count(), 2);
  assert.ok(!JSON.stringify(await drawn()).includes("<script"), "no name gets into the plot");
  value("Engine.Speed", 2);
  await page.waitForFunction(() => document.getElementById("plot").drawn.traces[0].y.includes(2));
  await page.getByRole("button", { name: "Remove Engine.Speed from the plot" }).press("Enter");
  await page.waitForFunction(() => document.getElementById("plot").drawn.traces.length === 5);
  assert.equal(await page.locator("#rows input:disabled").count(), 0);
});

test("names and texts are never read as HTML", async () => {
  await open();
  await connected();
  value(HOSTILE, 1, { text: HOSTILE });
  await shows(await cell(HOSTILE, "value"), `1 (${HOSTILE}) ${HOSTILE}`);
  await row(HOSTILE).getByRole("checkbox").check();
  await shows(await page.$("#legend button"), `${HOSTILE}: 1 (${HOSTILE}) ${HOSTILE} ×`);
  assert.equal(await page.locator("img, body script").count(), 0);
  assert.equal(await page.evaluate(() => globalThis.attacked), undefined);
});

test("it comes back after the service went away, with its plot", async () => {
  await open();
  await connected();
  await row("Engine.Speed").getByRole("checkbox").check();
  value("Engine.Speed", 5);
  await page.waitForFunction(() => document.getElementById("plot").drawn?.traces[0].y.includes(5));
  service.isDown = true;
  await service.sockets[0].close();
  await page.waitForSelector("#state.waiting");
  await page.waitForFunction(() => document.getElementById("state").textContent.endsWith("in 2 s"));
  service.isDown = false;
  service.signals = SIGNALS.slice(0, 2);
  await connected();
  assert.equal(await page.textContent("#count"), "2 signals");
  value("Engine.Speed", 6);
  await page.waitForFunction(() => document.getElementById("plot").drawn.traces[0].y.includes(6));
  const { y } = (await drawn()).traces[0];
  assert.deepEqual(y.slice(y.indexOf(5), y.indexOf(6) + 1).filter((at, index, all) => at !== all[index - 1]), [5, null, 6]);
});

test("buses that come while it runs are shown, and the plot stays", async () => {
  await open();
  await connected();
  await page.getByRole("checkbox", { name: "Plot Engine.Speed", exact: true }).check();
  service.signals = [...SIGNALS, { name: "body/Door.Open", bus: "body", unit: "", id: 0x300 }];
  service.stats.changes = 1;
  await row("body/Door.Open").waitFor();
  assert.ok(await page.getByRole("checkbox", { name: "Plot Engine.Speed", exact: true }).isChecked());
  value("body/Door.Open", 1);
  await shows(await cell("body/Door.Open", "value"), "1");
});

test("what the service refuses is said", async () => {
  await open({}, { refuses: "subscribe" });
  await shows(await page.$("#trouble"), `The service refused: ${HOSTILE}`);
  assert.equal(await page.locator("#trouble img").count(), 0);
});

test("without signals the frames are shown", async () => {
  await open({}, { signals: [], frames: [{ name: "can0/291", bus: "can0", id: 291, extended: false }] });
  await connected();
  assert.deepEqual(service.calls.find(([call]) => call === "low-can/subscribe")[1], { id: "*", latest: true, filter: { frequency: 10 } });
  send("can0/291", { id: 291, data: [1, 255] });
  send("can0/419360256", { id: 419360256, data: [] });
  await page.waitForFunction(() => document.getElementById("rows").textContent.includes("01 FF"));
  await shows(await page.$("#count"), "2 identifiers");
  assert.match(await page.locator("#rows tr").nth(1).innerText(), /0x18FEEE00/);
  assert.equal(await page.locator("#plots:visible, #rows input:visible").count(), 0);
});

for (const width of [390, 1280]) {
  test(`nothing is wider than ${width} pixels`, async () => {
    await open({ viewport: { width, height: 800 } });
    await connected();
    value(HOSTILE, 1, { text: HOSTILE.repeat(3) });
    await row(HOSTILE).getByRole("checkbox").check();
    await page.waitForSelector("#legend button");
    await page.waitForSelector("#buses tr");
    assert.equal(await overflow(), 0);
    const [table, plot] = await Promise.all(["#list", "#plots"].map((id) => page.locator(id).boundingBox()));
    assert.equal(plot.y > table.y, width < 900, "below each other on a phone, else side by side");
  });
}
