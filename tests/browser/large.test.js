// A thousand samples at three radii: small enough, built and opened fast enough.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { ROOT, SLACK, browser, file, open } from "./scene.js";


// scripts/browser_tests.sh builds it.
const THOUSAND = join(ROOT, "target", "debug", "examples", "thousand");

test("a thousand samples", async () => {
  const built = [];
  for (let i = 0; i < 3; i++) {
    const made = spawnSync(THOUSAND, { maxBuffer: 1 << 26 });
    built.push(Number(/bytes in (\d+) ms/.exec(made.stderr.toString())[1]));
    writeFileSync(file("thousand.html"), made.stdout);
  }
  // As below, the best of three counts; the example is built without the last optimisations.
  assert.ok(Math.min(...built) <= 2000 * SLACK, `built in ${built} ms`);
  const size = statSync(file("thousand.html")).size;
  assert.ok(size <= 5e6, `${size} bytes`);
  const instance = await browser();
  const times = [];
  for (let i = 0; i < 3; i++) {
    const { page, context, troubles } = await open(instance, pathToFileURL(join(file("thousand.html"))).href);
    assert.equal(await page.locator("#lines tbody tr").count(), 3000);
    times.push(await page.evaluate(() => performance.getEntriesByType("navigation")[0].loadEventEnd));
    const visible = () => page.locator("#lines tbody tr:visible").count();
    assert.equal(await visible(), 400);
    const started = Date.now();
    await page.fill("#query", "unknown, margin > -0.1");
    await page.click("#lines th[data-key=margin] button");
    assert.ok(Date.now() - started < 3000 * SLACK, "filtering and sorting take too long");
    await page.fill("#query", "");
    await page.click("#all");
    assert.equal(await visible(), 3000);
    assert.deepEqual(troubles, []);
    await context.close();
  }
  await instance.close();
  console.log(`${size} bytes, opened in ${times.map(Math.round).join(", ")} ms`);
  // The machine that runs the tests may be busy, so the best of three counts.
  assert.ok(Math.min(...times) <= 1000 * SLACK, `opened in ${times} ms`);
});
