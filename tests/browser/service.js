// A signal service that runs while a test needs it.
"use strict";

const { spawn } = require("node:child_process");
const path = require("node:path");

const CANDOR = process.env.CANDOR ?? path.join(__dirname, "../../target/debug/candor");

/** Starts `candor signals serve` in a folder, at any port; its process, and the address of its page. */
async function serve(folder, ...options) {
  const service = spawn(CANDOR, ["signals", "serve", ...options, "--listen", "127.0.0.1:0"], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const address = await new Promise((resolve, reject) => {
    let said = "";
    const hear = (bytes) => {
      said += bytes;
      const found = /http:\/\/[0-9.:]+\//.exec(said);
      if (found) resolve(found[0]);
    };
    service.stdout.on("data", hear);
    service.stderr.on("data", hear);
    service.on("exit", () => reject(new Error(said)));
  });
  return { service, address };
}

module.exports = { serve };
