// Pages of others in a real browser: what they embed does not reach the service, and a link to its page opens it.
//
// CHROMIUM is the browser, CANDOR the program.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const path = require("node:path");
const test = require("node:test");
const { chromium } = require("playwright-core");
const { serve } = require("./service");

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

test("a page of another site neither embeds nor frames what the service has, and may link to it", { timeout: 120_000 }, async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "candor-site-"));
  fs.writeFileSync(path.join(folder, "a.log"), "(1.000000) can0 123#01\n(1.100000) can0 123#02\n");
  let html = "";
  const strange = http.createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end(html));
  let service, browser;
  try {
    const served = await serve(folder, "--port", "car=file:a.log?loop=true");
    service = served.service;
    const { address } = served;
    await new Promise((resolve) => strange.listen(0, "127.0.0.1", resolve));
    html = `<img src="${address}events?name=*"><img src="${address}values"><script src="${address}app.js"></script>
      <iframe src="${address}"></iframe><a href="${address}">open</a><a href="${address}values">read</a>`;
    browser = await chromium.launch({ executablePath: CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
    const { port } = strange.address();
    // `localhost` is another site than 127.0.0.1; another port of it is another origin of the same site.
    for (const [host, site] of [["localhost", "cross-site"], ["127.0.0.1", "same-site"]]) {
      const page = await browser.newPage();
      const network = await page.context().newCDPSession(page);
      // What Chromium keeps from the page has an answer of the service, too. Either half of it may be told first.
      const asked = {};
      const came = {};
      const statuses = () => Object.fromEntries(Object.keys(asked).filter((id) => came[id]).map((id) => [asked[id], came[id]]));
      const embedded = new Promise((resolve) => {
        const look = () => { if (Object.keys(statuses()).length === 3) resolve(); };
        network.on("Network.requestWillBeSent", ({ requestId, type, request }) => {
          if (type === "Document" || !request.url.startsWith(address)) return;
          asked[requestId] = `${type} ${request.url.slice(address.length)}`;
          look();
        });
        network.on("Network.responseReceivedExtraInfo", ({ requestId, statusCode }) => {
          came[requestId] = statusCode;
          look();
        });
      });
      await network.send("Network.enable");
      const framed = page.waitForResponse(address);
      await page.goto(`http://${host}:${port}/`, { waitUntil: "load" });
      assert.equal((await framed).status(), 403, site);
      await embedded;
      assert.deepEqual(statuses(), { "Image events?name=*": 403, "Image values": 403, "Script app.js": 403 }, site);
      const [read] = await Promise.all([page.waitForResponse(`${address}values`), page.click("text=read")]);
      assert.equal(read.status(), 403, site);
      await page.goto(`http://${host}:${port}/`, { waitUntil: "load" });
      await page.click("text=open");
      await page.waitForSelector("#state.open", { timeout: 60_000 });
      await page.close();
    }
    // Somebody types an address.
    const page = await browser.newPage();
    const typed = await page.goto(`${address}values`);
    assert.equal(typed.status(), 200);
  } finally {
    await browser?.close();
    service?.kill();
    strange.close();
    fs.rmSync(folder, { recursive: true });
  }
});
