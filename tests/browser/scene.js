// What the tests look at: result files made by the program itself, made-up ones, and a browser.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
export const GAINS = process.env.GAINS || join(ROOT, "target", "debug", "gains");
export const FOLDER = join(ROOT, "target", "browser");
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Milliseconds to wait for what takes less than a second: the machine may be doing much else.
export const PATIENCE = 180_000;
// Times are promises where the machine is said to be quiet; elsewhere they only must not be absurd.
export const SLACK = process.env.GAINS_STRICT_TIMES ? 1 : 20;

mkdirSync(FOLDER, { recursive: true });

export const file = (name) => join(FOLDER, name);

export function gains(...args) {
  return execFileSync(GAINS, args, { cwd: FOLDER, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

export function write(name, text) {
  writeFileSync(file(name), text);
  return name;
}

// Results of the bundled network on bundled images: nothing has to be fetched.
export function realResults() {
  for (const name of ["auto.jsonl", "gains.jsonl"]) rmSync(file(name), { force: true });
  const common = ["-q", "--samples", "0..14", "--eps", "0.05,0.1,0.3", "--timeout", "600"];
  gains("certify", ...common, "--out", "auto.jsonl");
  gains("certify", ...common, "--method", "gains", "--out", "gains.jsonl");
  gains("trajectory", "-q", "--sample", "1", "--eps", "0.1,0.02,0.05", "--against", "gains", "--json", "graph.json");
  write("metrics.csv", metrics());
  write("forecast.json", JSON.stringify(forecast("HR")));
  return ["auto.jsonl", "gains.jsonl", "graph.json", "forecast.json", "metrics.csv"];
}

function metrics() {
  const rows = [...Array(12).keys()].map((i) => `main,${i + 1},${i * 0.01},${3 / (i + 1)},${2 / (i + 1)},,${0.5 + i / 40},${i > 3 ? 0.4 + i / 40 : ""},${i + 1}.5`);
  return ["phase,epoch,eps,loss,clean,robust,accuracy,robust_accuracy,seconds", ...rows].join("\n") + "\n";
}

export function forecast(name) {
  const feature = (i) => ({
    name: i ? `feature ${i}` : name, observed: 20, eps: 0.1, points: [...Array(20).keys()].map((t) => [t, 70 + 5 * Math.sin(t / 3 + i)]),
    prediction: 72 + i, low: 70 + i, high: 74 + i, attacked: 73.5 + i, truth: i % 2 ? null : 71 + i,
    normalised: { prediction: 0.2, low: 0.1, high: 0.3, attacked: 0.28, truth: i % 2 ? null : 0.15 },
  });
  return { model: "0011223344556677", record: "135698", eps: 0.1, question: "made up", time: 24, verdict: "verified", mae: 0.05, limit: 0.2,
    certified_mae: 0.15, attacked_mae: 0.13, method: "tight", features: [0, 1, 2, 3, 4].map(feature) };
}

export function report(out, results, ...more) {
  gains("report", "-q", ...results, "--out", out, ...more);
  return pathToFileURL(file(out)).href;
}

export async function browser() {
  const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
  const args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"];
  return chromium.launch({ executablePath, args, timeout: PATIENCE });
}

// A page that fails the test if anything is logged as an error, thrown, or asked for from elsewhere.
export async function open(instance, url, options = {}) {
  const context = await instance.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const troubles = [];
  page.on("console", (message) => { if (message.type() === "error" || message.type() === "warning") troubles.push(message.text()); });
  page.on("pageerror", (error) => troubles.push(String(error)));
  page.on("request", (request) => { if (!request.url().startsWith("data:") && !request.url().startsWith(new URL(".", url).href)) troubles.push(`asked for ${request.url()}`); });
  page.on("dialog", (dialog) => { troubles.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  await page.goto(url);
  return { page, context, troubles };
}

// What axe finds: the page's policy forbids foreign scripts, so it is run beside the page.
export async function axe(page) {
  await page.evaluate(AXE + "; 0");
  const found = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
  return found.violations.map((v) => `${v.id}: ${v.help} ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120) + " " + (n.any[0] ? n.any[0].message : "")).join(" | ")}`);
}

export function serve(results) {
  const child = spawn(GAINS, ["report", "-q", ...results, "--serve"], { cwd: FOLDER, stdio: ["ignore", "pipe", "pipe"] });
  return new Promise((resolve, reject) => {
    child.stdout.once("data", (text) => resolve({ url: String(text).trim(), stop: () => child.kill("SIGINT") }));
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
}
