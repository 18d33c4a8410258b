// The page beside the real service: 5,000 signals, 12,586 frames a second.
//
// CHROMIUM is the browser, CANDOR the program.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const test = require("node:test");
const { chromium } = require("playwright-core");
const { serve } = require("./service");

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const MESSAGES = 500;
const SIGNALS = 10;
const RATE = 12_586;
const FEED_MS = 20_000;
const MOST_ROWS = 200;

/** A DBC file, and one second of a full bus: each frame has another value. */
function write(folder) {
  let dbc = "BU_: A\n";
  for (let id = 0; id < MESSAGES; id += 1) {
    dbc += `\nBO_ ${256 + id} Message${id}: 8 A\n`;
    for (let signal = 0; signal < SIGNALS; signal += 1) dbc += ` SG_ Signal${signal} : 0|16@1+ (1,0) [0|0] "rpm" A\n`;
  }
  fs.writeFileSync(path.join(folder, "many.dbc"), dbc);
  const lines = Array.from({ length: RATE }, (_, index) => {
    const time = (index / RATE).toFixed(6);
    const data = Buffer.alloc(8);
    data.writeUInt16LE(index);
    return `(${time}) can0 ${(256 + index % MESSAGES).toString(16).toUpperCase()}#${data.toString("hex").toUpperCase()}\n`;
  });
  fs.writeFileSync(path.join(folder, "many.log"), lines.join(""));
}

test("5,000 signals of a full bus: the page stays, and shows what is scrolled to", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "candor-many-"));
  write(folder);
  let browser, service;
  try {
    const served = await serve(folder, "--port", "car=file:many.log?loop=true", "--dbc", "many.dbc");
    service = served.service;
    const { address } = served;
    browser = await chromium.launch({ executablePath: CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    const trouble = [];
    page.on("console", (message) => trouble.push(message.text()));
    page.on("pageerror", (error) => trouble.push(String(error)));
    let sockets = 0;
    let received = 0;
    page.on("websocket", (socket) => {
      sockets += 1;
      socket.on("framereceived", () => { received += 1; });
    });
    await page.goto(address);
    await page.waitForSelector("#state.open", { timeout: 60_000 });
    assert.equal(await page.textContent("#count"), "5,000 signals");
    const begin = performance.now();
    const row = (name) => page.locator("#rows tr").filter({ has: page.getByRole("checkbox", { name: `Plot ${name}`, exact: true }) });
    const rows = () => page.locator("#rows tr").count();
    /** A row shows one value, and then another one. */
    const lives = async (name) => {
      const value = await row(name).locator(".value").elementHandle();
      const age = await row(name).locator(".age").elementHandle();
      await page.waitForFunction((node) => node.textContent === "now", age, { timeout: 60_000 });
      const first = await value.textContent();
      await page.waitForFunction(([node, first]) => node.textContent !== first, [value, first], { timeout: 60_000 });
    };
    await lives("Message0.Signal0");
    const scroll = (share) => page.evaluate((share) => {
      const frame = document.getElementById("rows-frame");
      frame.scrollTop = share * (frame.scrollHeight - frame.clientHeight);
    }, share);
    await scroll(1);
    await row("Message499.Signal9").waitFor({ timeout: 60_000 });
    await lives("Message499.Signal9");
    assert.ok(await rows() < MOST_ROWS);
    assert.equal(await row("Message0.Signal0").count(), 0);
    await scroll(0.5);
    await row("Message250.Signal0").waitFor({ timeout: 60_000 });
    await lives("Message250.Signal0");
    // What is plotted goes on while it is not seen.
    await row("Message250.Signal0").getByRole("checkbox").check();
    await scroll(0);
    await lives("Message0.Signal0");
    const chip = await page.locator("#legend button").elementHandle();
    const before = await chip.textContent();
    await page.waitForFunction(([node, before]) => node.textContent !== before, [chip, before], { timeout: 60_000 });
    await page.getByLabel("Search").fill("Message321.Signal7");
    assert.equal(await page.textContent("#count"), "1 of 5,000 signals");
    await lives("Message321.Signal7");
    await page.getByLabel("Search").fill("");
    await lives("Message0.Signal0");
    while (performance.now() < begin + FEED_MS) await page.waitForTimeout(500);
    assert.equal(await page.textContent("#state"), "Connected");
    assert.equal(sockets, 1, "it never had to come back");
    assert.ok(await page.locator("#missed").isHidden());
    assert.ok(await rows() < MOST_ROWS);
    await lives("Message0.Signal0");
    if (process.env.PICTURE) await page.screenshot({ path: process.env.PICTURE });
    console.log(`${received} messages in ${Math.round((performance.now() - begin) / 1_000)} s, ${await rows()} rows`);
    assert.deepEqual(trouble, []);
  } finally {
    await browser?.close();
    service?.kill("SIGKILL");
    fs.rmSync(folder, { recursive: true });
  }
});
