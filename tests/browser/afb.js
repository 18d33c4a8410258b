// A client of AGL's WebSocket protocol, written from its description alone: protocol-x-afb-ws-json1.md of
// redpesk-core/afb-libafb, 5.7. It knows nothing of Candor; afb.test.js checks it against the messages of that document
// first, and the signal service against it then.
"use strict";

/** What a message is; its first item. */
const CALL = 2;
const REPLY = 3;
const ERROR = 4;
const EVENT = 5;

class AfbClient {
  /** `socket` is a WebSocket that speaks `x-afb-ws-json1`. */
  constructor(socket) {
    this.socket = socket;
    this.calls = new Map();
    this.last = 0;
    this.handlers = new Map();
    socket.onmessage = ({ data }) => this.take(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.end({ status: "disconnected", info: reason || `closed with ${code}` });
  }

  /** Calls `api/verb`: gives the response, or throws what the reply says instead. */
  call(procedure, argument, token) {
    this.last += 1;
    const id = String(this.last);
    const message = [CALL, id, procedure, argument ?? null];
    if (token !== undefined) message.push(token);
    const reply = new Promise((resolve, reject) => this.calls.set(id, { resolve, reject }));
    this.socket.send(JSON.stringify(message));
    return reply;
  }

  /** Hears events of a name, of an api (`api/*`), or all of them (`*`). */
  on(name, handler) {
    this.handlers.set(name, [...(this.handlers.get(name) ?? []), handler]);
  }

  take([kind, name, content]) {
    if (kind === EVENT) {
      const api = `${name.split("/")[0]}/*`;
      for (const key of [name, api, "*"]) for (const handler of this.handlers.get(key) ?? []) handler(content, name);
      return;
    }
    const call = this.calls.get(name);
    this.calls.delete(name);
    if (kind === REPLY) call?.resolve(content.response);
    if (kind === ERROR) call?.reject(content.request);
  }

  end(request) {
    for (const { reject } of this.calls.values()) reject(request);
    this.calls.clear();
  }
}

globalThis.AfbClient = AfbClient;
if (typeof module !== "undefined") module.exports = { AfbClient };
