// The signal service as clients of AGL see it: one that was written from the description of the protocol, in a real
// browser. The messages of that description come first, so that client and service do not agree on something else.
//
// CANDOR is the program, CHROMIUM the browser.
"use strict";

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const path = require("node:path");
const test = require("node:test");
const { chromium } = require("playwright-core");
const { AfbClient } = require("./afb.js");

const ROOT = path.join(__dirname, "../..");
const CANDOR = process.env.CANDOR ?? path.join(ROOT, "target/debug/candor");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** A socket whose other end is the test. */
class Played {
  sent = [];
  send(text) {
    this.sent.push(text);
  }
  play(text) {
    this.onmessage({ data: text });
  }
}

test("the exchange of the document", async () => {
  const socket = new Played();
  const client = new AfbClient(socket);
  client.last = 155;
  const reply = client.call("hello/ping", null);
  assert.deepEqual(socket.sent, [`[2,"156","hello/ping",null]`]);
  socket.play(
    `[3,"156",{"response":"Some String","jtype":"afb-reply","request":{"status":"success","info":"Ping Binder Daemon tag=pingSample count=1 query=\\"null\\""}}]`,
  );
  assert.equal(await reply, "Some String");
});

test("errors, tokens, events, and a server that hangs up", async () => {
  const socket = new Played();
  const client = new AfbClient(socket);
  const failed = client.call("hello/fail", { a: 1 }, "HELLO");
  assert.deepEqual(JSON.parse(socket.sent[0]), [2, "1", "hello/fail", { a: 1 }, "HELLO"]);
  socket.play(`[4,"1",{"jtype":"afb-reply","request":{"status":"failed","info":"no"}}]`);
  await assert.rejects(failed, { status: "failed", info: "no" });
  const heard = [];
  client.on("hello/tick", ({ data }) => heard.push(["name", data]));
  client.on("hello/*", ({ data }) => heard.push(["api", data]));
  client.on("*", ({ event }, name) => heard.push([event, name]));
  socket.play(`[5,"hello/tick",{"jtype":"afb-event","event":"hello/tick","data":{"a":1}}]`);
  // The first event of the report of 2016, with its escaped slash.
  socket.play(
    String.raw`[5,"udpcan\/1305",{"event":"udpcan\/1305","data":{"id":1304,"data":[48,59,230,95,28,245,255,255]},"jtype":"afb-event"}]`,
  );
  assert.deepEqual(heard, [
    ["name", { a: 1 }],
    ["api", { a: 1 }],
    ["hello/tick", "hello/tick"],
    ["udpcan/1305", "udpcan/1305"],
  ]);
  const open = client.call("hello/ping");
  socket.onclose({ code: 1008, reason: "invalid-frame" });
  await assert.rejects(open, { status: "disconnected", info: "invalid-frame" });
});

/** The service with a recording that begins again when it ends, and where it is. */
function serve() {
  const args = ["signals", "serve", "--port", "car=file:examples/recordings/drive.log?loop=true"];
  args.push("--dbc", "car=examples/small-car.dbc", "--listen", "127.0.0.1:0");
  const service = spawn(CANDOR, args, { cwd: ROOT, stdio: ["ignore", "pipe", "pipe"] });
  const place = new Promise((resolve, reject) => {
    let said = "";
    const look = (bytes) => {
      said += bytes;
      const found = said.match(/http:\/\/127\.0\.0\.1:(\d+)/);
      if (found) resolve(`127.0.0.1:${found[1]}`);
    };
    service.stdout.on("data", look);
    service.stderr.on("data", look);
    service.on("exit", (code) => reject(new Error(`the service ended with ${code}: ${said}`)));
  });
  return { service, place };
}

test("the signal service, by a client of AGL in a browser", { timeout: 120_000 }, async (context) => {
  const { service, place } = serve();
  context.after(() => service.kill());
  const address = await place;
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args });
  context.after(() => browser.close());
  // The script is none of the service.
  const page = await browser.newPage({ bypassCSP: true });
  await page.goto(`http://${address}/`);
  await page.addScriptTag({ path: path.join(__dirname, "afb.js") });
  const seen = await page.evaluate(async () => {
    // As AGL's own client does: a token and a session in the address, and the token in calls.
    const socket = new WebSocket(`ws://${location.host}/api?x-afb-token=HELLO&x-afb-uuid=1`, ["x-afb-ws-json1"]);
    await new Promise((resolve, reject) => Object.assign(socket, { onopen: resolve, onerror: reject }));
    const client = new AfbClient(socket);
    const next = (name, count) =>
      new Promise((resolve) => {
        const events = [];
        client.on(name, (event, full) => events.push([full, event]) === count && resolve(events));
      });
    const failure = (call) => call.then(() => "succeeded", ({ status, info }) => `${status}: ${info}`);
    const seen = { protocol: socket.protocol };
    seen.names = (await client.call("low-can/list", null, "HELLO")).signals.map(({ name }) => name);
    const old = next("low-can/VehicleSpeed.Speed", 5);
    await client.call("low-can/subscribe", { event: "VehicleSpeed.Speed" });
    seen.old = await old;
    const young = next("canbus/*", 5);
    await client.call("canbus/subscribe", { event: ["Engine*"], filter: { frequency: 10 } });
    seen.young = await young;
    await client.call("canbus/unsubscribe", { event: ["Engine*"] });
    const id = (await client.call("low-can/list")).frames[0].id;
    const raw = next(`car/${id}`, 2);
    await client.call("low-can/subscribe", { id });
    seen.id = id;
    seen.raw = await raw;
    seen.unknown = await failure(client.call("low-can/subscribe", { event: "no.such" }));
    seen.api = await failure(client.call("hello/ping"));
    const closed = new Promise((resolve) => socket.addEventListener("close", resolve));
    const open = failure(client.call("low-can/get"));
    await open;
    socket.send("no JSON");
    const { code, reason } = await closed;
    seen.closed = [code, reason];
    return seen;
  });
  assert.equal(seen.protocol, "x-afb-ws-json1");
  assert.ok(seen.names.includes("VehicleSpeed.Speed"), seen.names);
  for (const [name, event] of [...seen.old, ...seen.young]) {
    assert.equal(event.jtype, "afb-event");
    assert.equal(event.event, name);
    const { data } = event;
    // Clients of either age: name and value, or the value under its name.
    assert.equal(`${name.split("/")[0]}/${data.name}`, name);
    assert.equal(typeof data.value, "number");
    assert.equal(data[data.name], data.value);
    assert.ok(data.timestamp > 1_000_000_000_000_000, "us since 1970");
  }
  assert.ok(seen.young.every(([name]) => name.startsWith("canbus/Engine")));
  for (const [name, event] of seen.raw) {
    assert.equal(name, `car/${seen.id}`);
    assert.deepEqual(Object.keys(event.data), ["id", "data"]);
    assert.equal(event.data.id, seen.id);
    assert.ok(event.data.data.every((byte) => Number.isInteger(byte) && byte >= 0 && byte < 256));
  }
  assert.match(seen.unknown, /^failed: no signal is called `no.such`/);
  assert.match(seen.api, /^failed: `hello` is no api/);
  assert.deepEqual(seen.closed, [1008, "invalid-frame"]);
});
