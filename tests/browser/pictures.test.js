// The pictures of README.md can be made again.
//
// CANDOR is the program, CHROMIUM the browser.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const test = require("node:test");
const { FOLDER, PICTURES, WIDTH, make } = require("./pictures.js");

/** The width and height in the first chunk of each picture of a folder (PNG specification, 11.2.1 IHDR). */
const sizes = (folder) => Object.fromEntries(fs.readdirSync(folder).sort().map((name) => {
  const bytes = fs.readFileSync(path.join(folder, name));
  return [name, [bytes.readUInt32BE(16), bytes.readUInt32BE(20)]];
}));

test("the pictures are those that the script makes, in their sizes", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "candor-images-"));
  try {
    await make(folder);
    const wanted = Object.entries(PICTURES).map(([name, { height }]) => [`${name}.png`, [WIDTH, height]]);
    assert.deepEqual(sizes(folder), Object.fromEntries(wanted));
    assert.deepEqual(sizes(FOLDER), sizes(folder), "make them again: node tests/browser/pictures.js");
  } finally {
    fs.rmSync(folder, { recursive: true });
  }
});
