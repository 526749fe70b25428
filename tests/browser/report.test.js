// The page of real results: it opens, sorts, filters, explores, prints, and can be used without eyes or a mouse.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, browser, file, open, realResults, report } from "./scene.js";

let instance, url;

before(async () => {
  url = report("report.html", realResults());
  instance = await browser();
}, { timeout: 1_200_000 });

after(() => instance && instance.close());

async function on(run, options) {
  const { page, context, troubles } = await open(instance, url, options);
  await run(page);
  assert.deepEqual(troubles, []);
  await context.close();
}

const column = (page, n) => page.$$eval(`#lines tbody tr:not([hidden]) > :nth-child(${n})`, (cells) => cells.map((c) => c.textContent));
const place = (page, key) => page.$eval(`#lines th[data-key=${key}]`, (th) => th.cellIndex + 1);

test("opens with all sections, pictures and no error", () => on(async (page) => {
  const titles = await page.$$eval("h2", (all) => all.map((h) => h.textContent));
  assert.deepEqual(titles, ["Overview", "Networks", "Samples", "Comparison", "Trajectories", "Forecasts", "Training"]);
  assert.equal(await page.locator("#lines tbody tr").count(), 84);
  assert.ok((await page.locator("#lines .thumb").count()) === 84);
  assert.ok((await page.$eval("#lines .thumb", (t) => getComputedStyle(t).backgroundImage)).startsWith('url("data:image/png'));
  assert.ok((await page.locator("svg.diagram .ode").count()) >= 1);
  assert.match(await page.locator("pre.command").first().textContent(), /^gains certify --model fashion-mnist --data fashion-mnist --split test --samples 0\.\.14 --eps 0\.05,0\.1,0\.3/);
}));

test("sorts both ways by number, by mouse and by key", () => on(async (page) => {
  const at = await place(page, "seconds");
  const seconds = (text) => parseFloat(text) * { µs: 1e-6, ms: 1e-3, s: 1 }[text.split(" ")[1]];
  const sorted = async (way) => {
    const all = (await column(page, at)).map(seconds);
    assert.ok(all.every((v, i) => i === 0 || way * (v - all[i - 1]) >= 0), String(all));
  };
  await page.click("#lines th[data-key=seconds] button");
  await sorted(1);
  assert.equal(await page.getAttribute("#lines th[data-key=seconds]", "aria-sort"), "ascending");
  await page.focus("#lines th[data-key=seconds] button");
  await page.keyboard.press("Enter");
  await sorted(-1);
}));

test("filters by words, comparisons and chips, and says what it does not understand", () => on(async (page) => {
  const verdict = await place(page, "verdict");
  await page.fill("#query", "unknown, margin > -0.5, eps = 0.05");
  const left = await page.locator("#lines tbody tr:not([hidden])").count();
  assert.ok(left > 0 && left < 84);
  assert.ok((await column(page, verdict)).every((word) => word === "unknown"));
  const margin = await place(page, "margin");
  assert.ok((await column(page, margin)).every((text) => parseFloat(text) > -0.5));
  await page.fill("#query", "margin >> 3");
  assert.match(await page.textContent("#count"), /not understood: margin >> 3/);
  await page.fill("#query", "");
  await page.click("#filter [data-term=falsified]");
  assert.ok((await column(page, verdict)).every((word) => word === "falsified"));
  await page.click("#filter [data-term=verified]");
  assert.ok((await column(page, verdict)).every((word) => word === "verified"));
  await page.click("#filter [data-term=verified]");
  assert.equal(await page.locator("#lines tbody tr:not([hidden])").count(), 84);
}));

test("opens a sample with its witness, walks to the next, and gives the focus back", () => on(async (page) => {
  await page.click("#filter [data-term=falsified]");
  await page.focus("#lines tbody tr:not([hidden]) button.open");
  await page.keyboard.press("Enter");
  const dialog = page.locator("dialog#sample");
  await dialog.waitFor();
  assert.match(await dialog.locator("h2").textContent(), /^Sample \d+ at ε .* falsified$/);
  const images = dialog.locator(".images img");
  assert.equal(await images.count(), 2);
  for (const alt of await images.evaluateAll((all) => all.map((i) => i.alt))) assert.match(alt, /sample \d+/);
  assert.ok(await images.first().evaluate((i) => i.naturalWidth === 28));
  assert.match(await dialog.textContent(), /Stages, in order/);
  await page.screenshot({ path: file("sample.png") });
  const title = await dialog.locator("h2").textContent();
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await dialog.locator("h2").textContent(), title);
  assert.deepEqual(await axe(page), []);
  await page.keyboard.press("Escape");
  assert.equal(await dialog.isVisible(), false);
  assert.ok(await page.evaluate(() => document.activeElement.matches("button.open")));
}));

test("the explorer reacts to hover, slider, method and keys", () => on(async (page) => {
  const card = page.locator(".explorer");
  await card.scrollIntoViewIfNeeded();
  const svg = card.locator("svg[role=application]");
  const count = () => svg.locator(".vertex").count();
  const told = () => card.locator(".told").textContent();
  const large = await count();
  assert.ok(large > 3);
  await svg.locator(".vertex").first().hover();
  assert.match(await told(), /Vertex 1 of \d+: time 0.*δ in \[.*\]/s);
  assert.equal(await card.locator(".delta").count(), 1);
  assert.ok((await svg.locator(".edge.lit").count()) >= 1);
  await page.screenshot({ path: file("explorer.png") });
  await card.locator("input[type=range]").fill("0");
  assert.equal(await card.locator("output").textContent(), "0.02");
  assert.ok((await count()) <= large);
  await card.locator("input[type=radio]").nth(1).check();
  await card.locator("input[type=range]").fill("2");
  assert.ok((await count()) > large, "the paper's steps make a larger graph");
  await svg.focus();
  await page.keyboard.press("m");
  assert.equal(await count(), large);
  await page.keyboard.press("ArrowRight");
  assert.match(await told(), /Vertex 1 of/);
  await page.keyboard.press("ArrowRight");
  assert.match(await told(), /Vertex (?!1 )\d+ of/);
  const before = await svg.locator(".vertex").nth(1).getAttribute("cx");
  await page.keyboard.press("+");
  assert.notEqual(await svg.locator(".vertex").nth(1).getAttribute("cx"), before);
  await page.keyboard.press("0");
  assert.equal(await svg.locator(".vertex").nth(1).getAttribute("cx"), before);
  await svg.evaluate((picture) => picture.scrollIntoView({ block: "center" }));
  const box = await svg.boundingBox();
  const middle = [box.x + box.width / 2, box.y + 12];
  await page.mouse.move(...middle);
  await page.mouse.wheel(0, -120);
  await page.waitForFunction((was) => document.querySelectorAll(".explorer .vertex")[1].getAttribute("cx") !== was, before);
  const zoomed = Number(await svg.locator(".vertex").nth(1).getAttribute("cx"));
  await page.mouse.down();
  await page.mouse.move(middle[0] + 60, middle[1], { steps: 3 });
  await page.mouse.up();
  assert.ok(Number(await svg.locator(".vertex").nth(1).getAttribute("cx")) > zoomed + 20, "dragging moves the picture");
  await page.keyboard.press("0");
  assert.equal(await card.locator(".outputs tbody tr").count(), 10, "logits of this graph");
  await page.keyboard.press("PageDown");
  assert.equal(await card.locator("output").textContent(), "0.05");
}));

for (const scheme of ["light", "dark"]) {
  test(`axe finds nothing to complain about, ${scheme}`, () => on(async (page) => {
    await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
    assert.deepEqual(await axe(page), []);
  }, { colorScheme: scheme }));
}

test("dark and light differ, and the button goes from one to the other", () => on(async (page) => {
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await back();
  await page.click("#theme");
  assert.notEqual(await back(), dark);
  await page.click("#theme");
  assert.equal(await back(), dark);
}, { colorScheme: "dark" }));

test("tables are there without JavaScript", () => on(async (page) => {
  assert.equal(await page.locator("#lines tbody tr").count(), 84);
  assert.ok(await page.locator("#lines tbody tr").first().isVisible());
  assert.equal(await page.locator("#filter").isVisible(), false);
  assert.match(await page.locator(".explorer table").textContent(), /auto/);
}, { javaScriptEnabled: false }));

test("fits a narrow screen", () => on(async (page) => {
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
}, { viewport: { width: 400, height: 800 } }));

test("prints to PDF", () => on(async (page) => {
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)", "paper is light");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "nothing is cut off");
  const pdf = await page.pdf({ format: "A4", path: file("report.pdf") });
  assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
  assert.ok(pdf.length > 20_000);
}, { colorScheme: "dark", viewport: { width: 760, height: 1000 } }));

test("screenshots", () => on(async (page) => {
  for (const part of ["overview", "samples", "comparison", "trajectories", "forecasts", "training", "models"]) {
    await page.locator(`section#${part}`).screenshot({ path: file(`${part}.png`) });
  }
}));
