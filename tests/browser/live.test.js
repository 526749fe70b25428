// A page that is served: it follows its files, keeps what the reader has typed, and answers nobody else.
import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { request } from "node:http";
import { test } from "node:test";
import { PATIENCE, browser, file, open, serve, write } from "./scene.js";

const line = (index) => JSON.stringify({ index, label: 1, prediction: 1, eps: 0.1, verdict: "verified", margin: 0.5, seconds: 0.1, stages: [] }) + "\n";

function ask(url, options) {
  return new Promise((resolve, reject) => {
    const sent = request(url, options, (answer) => { answer.resume(); answer.on("end", () => resolve(answer.statusCode)); });
    sent.on("error", reject);
    sent.end();
  });
}

test("follows a file that grows", async () => {
  write("growing.jsonl", line(0) + line(1) + '{"index":2,"lab');
  const server = await serve(["growing.jsonl"]);
  const instance = await browser();
  try {
    const { page, troubles } = await open(instance, server.url);
    assert.equal(await page.locator("#lines tbody tr").count(), 2);
    assert.match(await page.textContent("main"), /Partial: the file ends in the middle of a line/);
    await page.fill("#query", "verified");
    write("growing.jsonl", line(0) + line(1));
    appendFileSync(file("growing.jsonl"), line(2) + line(3));
    await page.waitForFunction(() => document.querySelectorAll("#lines tbody tr").length === 4, null, { timeout: PATIENCE });
    assert.equal(await page.inputValue("#query"), "verified");
    assert.equal(await page.textContent("#live"), "live");
    assert.equal(await page.locator("#lines tbody tr button.open").count(), 4);
    assert.deepEqual(troubles, []);
  } finally {
    await instance.close();
    server.stop();
  }
});

test("answers only who knows the token, on this machine, and writes nothing", async () => {
  write("growing.jsonl", line(0));
  const server = await serve(["growing.jsonl"]);
  const { origin, pathname, hostname } = new URL(server.url);
  assert.equal(hostname, "127.0.0.1");
  assert.match(pathname, /^\/[0-9a-f]{32}\/$/);
  try {
    assert.equal(await ask(server.url, {}), 200);
    assert.equal(await ask(server.url + "state", {}), 200);
    for (const path of ["/", "/state", "/" + "0".repeat(32) + "/", pathname + "growing.jsonl", pathname + "../growing.jsonl", pathname + "%2e%2e/etc/passwd", pathname.slice(0, -1)]) {
      assert.equal(await ask(origin, { path }), 404, path);
    }
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) assert.equal(await ask(server.url, { method }), 405, method);
    assert.equal(await ask(server.url, { headers: { Host: "evil.example" } }), 421);
  } finally {
    server.stop();
  }
});
