// Names and texts out of files stay text, whatever is in them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, browser, forecast, open, report, write } from "./scene.js";

const EVIL = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "\"><svg onload=alert(3)>", "<!--", "]]>", "';alert(4)//", "\u2028\u202e{{x}}", "&lt;b&gt;", "javascript:alert(5)", "\u0000\ud83d\ude00"];

let instance;
before(async () => { instance = await browser(); });
after(() => instance && instance.close());

function lines() {
  const line = (text, index) => ({
    index, record: text, eps: 0.1, verdict: "unknown", reason: text, reason_code: text, mae: 0.4, limit: 0.5, certified_mae: 0.6, attacked_mae: null,
    vertices: 4, edges: 3, seconds: 0.1, stages: [{ name: text, seconds: 0.1 }], witness: null, looseness: text,
    method: EVIL[0], arithmetic: EVIL[1], question: EVIL[2], data: EVIL[3], split: EVIL[4], model: EVIL[5], version: EVIL[6], features: EVIL, feature_eps: { [EVIL[0]]: 1 },
  });
  return EVIL.map(line).map((l) => JSON.stringify(l)).join("\n") + "\n";
}

function graph() {
  const drawn = { method: EVIL[0], eps: 0.1, margin: 1, end: { mean_width: 1 }, vertices: [{ time: 0, step: 1, error: [0, 2], mean_width: 1 }], edges: [{ from: 0, to: null, action: "keep" }] };
  return JSON.stringify({ ...drawn, model: EVIL[1], sample: 0, record: EVIL[2], end_time: 1, increase_below: 0.03, trajectory: [{ time: 0, step: 1, error: 0.5, action: EVIL[3] }],
    graphs: [drawn, { ...drawn, method: EVIL[1] }, { method: EVIL[2], eps: 0.2, failure: EVIL[0] }] });
}

test("nothing in a file becomes markup or script", async () => {
  const name = "<b onclick=alert(6)>.jsonl";
  write(name, lines());
  write("second'&.jsonl", lines());
  write("evil-graph.json", graph());
  write("evil-forecast.json", JSON.stringify({ ...forecast(EVIL[0]), record: EVIL[1], question: EVIL[2], verdict: EVIL[0], model: EVIL[5] }));
  const url = report("hostile.html", [name, "second'&.jsonl", "evil-graph.json", "evil-forecast.json"]);
  const { page, context, troubles } = await open(instance, url);
  assert.equal(await page.locator("script:not([type])").count(), 1);
  assert.equal(await page.locator("main img, main b, main [onclick], main [onerror], main [onload]").count(), 0);
  const shown = await page.$$eval("#lines button.open", (all) => all.map((b) => b.textContent));
  for (const text of EVIL.slice(0, 6)) assert.ok(shown.includes(text), text);
  for (const button of await page.locator("#lines button.open").all()) {
    await button.click();
    assert.equal(await page.locator("dialog img, dialog b, dialog script, dialog [onload]").count(), 0);
    await page.keyboard.press("Escape");
  }
  for (const radio of await page.locator(".explorer input[type=radio]").all()) await radio.check();
  await page.locator(".explorer .vertex").first().hover();
  assert.deepEqual(await axe(page), []);
  assert.deepEqual(troubles, []);
  await context.close();
});
