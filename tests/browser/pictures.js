// Makes the pictures of README.md: what the program shows in a real browser.
//
//   node tests/browser/pictures.js [FOLDER]    into docs/images, if no folder is given
//
// CANDOR is the program, CHROMIUM the browser. It takes a minute, until the plot of the signals is full. On a busy
// machine, that plot has steps.
"use strict";

const { execFileSync, spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const readline = require("node:readline");
const { pathToFileURL } = require("node:url");
const { chromium } = require("playwright-core");

const ROOT = path.join(__dirname, "../..");
const CANDOR = process.env.CANDOR ?? path.join(ROOT, "target/debug/candor");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FOLDER = path.join(ROOT, "docs/images");
const WIDTH = 1200;
/** What the plot of the signals shows, in seconds. */
const WINDOW_S = 60;
const PLOTTED = ["VehicleSpeed.Speed", "EngineSpeed.Speed", "GearboxStatus.Gear"];

/** Runs a command of the program that writes a report, and opens that. */
async function report(page, scratch, args, hash = "") {
  execFileSync(CANDOR, [...args, "--out", scratch], { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"] });
  await page.goto(pathToFileURL(path.join(scratch, "index.html")).href + hash);
  await page.waitForSelector("body[data-ready]");
  await page.waitForSelector("#overlay .trace path.js-line");
}

/** Serves a recording until `use` has ended. */
async function serving(use) {
  const args = ["--port", "car=file:examples/recordings/drive.log?loop=true", "--dbc", "examples/small-car.dbc"];
  const service = spawn(CANDOR, ["signals", "serve", ...args, "--listen", "127.0.0.1:0"], { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(service, "exit");
  try {
    for await (const line of readline.createInterface({ input: service.stderr })) {
      const address = /http:\S+/.exec(line)?.[0];
      if (address) return await use(address);
    }
    throw new Error("candor signals serve ended before it served");
  } finally {
    service.kill("SIGINT");
    await ended;
  }
}

/** How each picture comes about, by the name of its file: it takes what `show` has on the page until it calls `shoot`. */
const PICTURES = {
  report: { height: 1075, async show(page, shoot, scratch) {
    await report(page, scratch, ["demo"]);
    await shoot();
  } },

  schedule: { height: 960, async show(page, shoot, scratch) {
    await report(page, scratch, ["tte", "run", "campaigns/tte-sync.toml", "--set", "count=100"], "#show=synchronised-rarely");
    const panel = page.locator(".detail");
    await panel.evaluate((node) => node.scrollIntoView());
    await panel.locator(".chart .trace path").first().waitFor();
    await panel.locator(".schedule .track i").first().waitFor();
    await shoot();
  } },

  signals: { height: 750, show: (page, shoot) => serving(async (address) => {
    await page.goto(address);
    await page.waitForSelector("#state.open");
    for (const name of PLOTTED) await page.getByRole("checkbox", { name: `Plot ${name}`, exact: true }).check();
    await page.mouse.move(0, 0);
    await page.locator("#rows-frame").evaluate((frame) => frame.scrollTo(0, 0));
    await page.waitForFunction(([count, start]) => {
      const lines = document.getElementById("plot").data ?? [];
      return lines.length === count && lines.every(({ x }) => x[0] <= start);
    }, [PLOTTED.length, -WINDOW_S], { timeout: 2_000 * WINDOW_S });
    await shoot();
  }) },
};

/** Makes all pictures. */
async function make(folder) {
  fs.mkdirSync(folder, { recursive: true });
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "candor-pictures-"));
  // Chromium's sandbox does not work for root, as in most containers.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args });
  const trouble = [];
  try {
    for (const [name, { height, show }] of Object.entries(PICTURES)) {
      const page = await browser.newPage({ viewport: { width: WIDTH, height }, colorScheme: "light", reducedMotion: "reduce" });
      page.on("console", (message) => trouble.push(`${name}: ${message.text()}`));
      page.on("pageerror", (error) => trouble.push(`${name}: ${error}`));
      await show(page, () => page.screenshot({ path: path.join(folder, `${name}.png`) }), path.join(scratch, name));
      await page.close();
    }
  } finally {
    await browser.close();
    fs.rmSync(scratch, { recursive: true });
  }
  if (trouble.length > 0) throw new Error(`a page complains: ${trouble.join("; ")}`);
}

module.exports = { FOLDER, PICTURES, WIDTH, make };
if (require.main === module) make(process.argv[2] ?? FOLDER);
