"use strict";
// Small helpers. Texts only ever become text nodes, so nothing from a file can become markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(9)) if (child !== null && child !== undefined) node.append(child);
  return node;
}

function make(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function draw(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function dataOf(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

// About four digits; `towards` is Math.floor for lower bounds and Math.ceil for upper ones.
function short(value, towards = Math.round) {
  if (value === null || value === undefined) return "–";
  if (!Number.isFinite(value) || value === 0 || Number.isInteger(value)) return String(value);
  const digits = 3 - Math.floor(Math.log10(Math.abs(value)));
  if (digits > 9 || digits < 0) {
    const power = Math.floor(Math.log10(Math.abs(value)));
    return `${towards((value / 10 ** power) * 1000) / 1000}e${power}`;
  }
  return String(Number((towards(value * 10 ** digits) / 10 ** digits).toFixed(digits)));
}

function duration(seconds) {
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${short(Math.round(seconds * 1e4) / 10)} ms`;
  return `${short(Math.round(seconds * 100) / 100)} s`;
}

function badge(word) {
  return make("span", { class: `badge ${word}` }, word);
}

const themeButton = document.getElementById("theme");
function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
function showTheme() {
  themeButton.textContent = currentTheme() === "dark" ? "Light" : "Dark";
}
themeButton.hidden = false;
themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = currentTheme() === "dark" ? "light" : "dark";
  showTheme();
});
showTheme();
