// What was proved of single outputs, where bounds lose, seals, radii and studies: made-up files, so that all of it is there.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, browser, file, open, report, write } from "./scene.js";

let instance;
before(async () => { instance = await browser(); });
after(() => instance && instance.close());

const output = [0.5, 2.0, -1.0];
const bounds = (margin) => ({
  output, low: output.map((x) => x - 0.3), high: [0.9, null, -0.5], margins: [margin, null, 2.75],
  losses: margin > 0 ? null : { truth: 0.6, layers: [0.05, 0.1], steps: [[0, 0.2], [0.25, 0.15]], rest: 0.1 - margin },
});

function line(index) {
  const verified = index % 2 === 0;
  const margin = verified ? 0.123456 : -0.05 - index / 100;
  return {
    index, label: 1, prediction: 1, eps: 0.1, verdict: verified ? "verified" : "unknown", reason: verified ? null : "bounds too loose",
    reason_code: verified ? null : "loose", margin, seconds: 0.1, vertices: 4, edges: 5, stages: [{ name: "tight", seconds: 0.1 }], witness: null,
    bounds: bounds(margin), certificate: verified ? `proof <${index}>.cert` : null, checked: !verified ? null : index === 2 ? false : index % 4 === 0 ? true : null, model: "0011223344556677", method: "auto",
  };
}

const lines = (all) => all.map((l) => JSON.stringify(l)).join("\n") + "\n";

function radius(index) {
  const wrong = index % 7 === 3;
  return { index, label: 1, prediction: wrong ? 2 : 1, eps: 1, verdict: wrong ? "misclassified" : "falsified", margin: null, seconds: 0.5 + index, stages: [],
    witness: wrong ? null : [1], certified_radius: wrong ? 0 : 0.05 + index / 200, attacked_radius: wrong ? null : 0.1 + index / 100, gap: 0.05, bisect: "log" };
}

const study = (n, way) => ({ study: "lcap", setting: "quick", case: `n=${n} way=${way}`, figures: { volume: n / 10, error: 1 / n }, seconds: 1 });

async function on(run, options) {
  write("details.jsonl", lines([...Array(12).keys()].map(line)));
  write("radii.jsonl", lines([...Array(30).keys()].map(radius)));
  write("study.jsonl", lines([1, 2, 3, 4].flatMap((n) => [study(n, "box"), study(n, "tight")])));
  const url = report("details.html", ["details.jsonl", "radii.jsonl", "study.jsonl"]);
  const { page, context, troubles } = await open(instance, url, options);
  await run(page);
  assert.deepEqual(troubles, []);
  await context.close();
}

const shown = (page) => page.locator("#lines tbody tr:not([hidden])").count();

test("checked proofs have a seal, are counted and can be filtered", () => on(async (page) => {
  assert.match(await page.locator("#overview").textContent(), /✓ 3 proofs checked of 6 verdicts; 6 have a certificate, 2 of these were not checked.*1 certificates were refused/s);
  await page.click("#filter [data-term=checked]");
  assert.equal(await shown(page), 3);
  await page.fill("#query", "certificate");
  assert.equal(await shown(page), 6);
  await page.fill("#query", "checked, margin > 0");
  await page.click("#lines tbody tr:not([hidden]) button.open");
  const dialog = page.locator("dialog#sample");
  assert.match(await dialog.locator("h2").textContent(), /✓ proof checked/);
  assert.match(await dialog.textContent(), /proof <0>\.cert/);
}));

test("one sample: logits with intervals, margins by class, and where the bound loses", () => on(async (page) => {
  await page.fill("#query", "unknown, margin > −0.1");
  assert.equal(await shown(page), 2, "a minus sign as it is printed is one, too");
  await page.click("#lines tbody tr:not([hidden]) button.open");
  const dialog = page.locator("dialog#sample");
  const rows = await dialog.locator(".outputs tbody tr").allTextContents();
  assert.equal(rows.length, 3);
  assert.match(rows[0], /^0.*\[0\.2, 0\.9\].*-0\.06/);
  assert.match(rows[1], /\[1\.7, –\]label$/);
  const bars = dialog.locator(".waterfall rect");
  assert.equal(await bars.count(), 2 + 2 + 2 + 1, "from the true value by layers, steps and rest to the bound");
  assert.match(await dialog.locator(".waterfall").getAttribute("aria-label"), /step at t = 0\.25 0\.15/);
  const right = await bars.evaluateAll((all) => all.map((r) => r.getBBox()).map((b) => b.x + b.width));
  assert.ok(right[2] < right[1] && right[3] < right[2] && right[4] < right[3], "every loss begins where the one before ends");
  assert.deepEqual(await axe(page), []);
  await dialog.screenshot({ path: file("waterfall.png") });
}));

test("the overview says where bounds lose by layer and step", () => on(async (page) => {
  const table = page.locator("#overview table", { hasText: "encoder layer 2" });
  const parts = await table.locator("tbody th").allTextContents();
  assert.deepEqual(parts, ["encoder layer 1", "encoder layer 2", "steps at t = 0", "steps at t = 0.25", "rest"]);
}));

test("radii and studies are charts", () => on(async (page) => {
  const titles = await page.locator("#overview h4").allTextContents();
  for (const title of ["Share of samples certified at each radius", "Certified and attacked radius of each sample", "Certified radii"]) assert.ok(titles.includes(title), title);
  const dots = page.locator("svg[aria-label='Certified against attacked radius of each sample'] circle");
  assert.equal(await dots.count(), 26, "samples that are wrong by themselves have no radius");
  assert.match(await page.locator("#overview").textContent(), /30 samples, 4 of them wrong without any change/);
  assert.equal(await page.locator("#comparison").count(), 0, "radii are not compared with verdicts");
  assert.equal(await page.locator("#studies svg.chart").count(), 2);
  assert.equal(await page.locator("#studies .curve").count(), 4);
  assert.deepEqual(await axe(page), []);
  await page.locator("#overview .card").nth(1).screenshot({ path: file("radii.png") });
  await page.locator("#studies").screenshot({ path: file("studies.png") });
}));

test("dark, all of it passes axe", () => on(async (page) => { assert.deepEqual(await axe(page), []); }, { colorScheme: "dark" }));
