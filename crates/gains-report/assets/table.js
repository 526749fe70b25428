// The table of samples: sorting, filtering, opening. Rows and data are in the same order when the page is loaded.
// A browser takes long to lay thousands of rows out, so at first only some are.
const AT_FIRST = 400;
const table = { data: null, most: AT_FIRST, rows: [], order: [], shown: [], key: null, down: false, texts: [] };

const FIELDS = {
  sample: "index", index: "index", eps: "eps", "ε": "eps", margin: "margin", seconds: "seconds", time: "seconds",
  vertices: "vertices", edges: "edges", label: "label", prediction: "prediction", error: "mae", mae: "mae", limit: "limit",
  certified: "certifiedRadius", attacked: "attackedRadius",
};
const COMPARE = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  "=": (a, b) => a === b, "!=": (a, b) => a !== b,
};
const VERDICTS = ["verified", "unknown", "falsified", "misclassified"];

// A term of the filter as a test of one line; nothing if it makes no sense.
function testOf(term) {
  const parts = /^([\p{L}]+)\s*(<=|>=|!=|<|>|=)\s*(\S.*)$/u.exec(term);
  if (!parts) {
    if (/[<>=]/.test(term)) return null;
    const word = term.toLowerCase();
    if (VERDICTS.includes(word)) return (line) => line.verdict === word;
    if (word === "checked") return (line) => line.seal === "checked";
    if (word === "certificate") return (line) => line.seal !== undefined;
    return (line, text) => text.includes(word);
  }
  const field = FIELDS[parts[1].toLowerCase()];
  const number = Number(parts[3].replace("−", "-"));
  if (!field || Number.isNaN(number)) return null;
  return (line) => typeof line[field] === "number" && COMPARE[parts[2]](line[field], number);
}

function terms() {
  return document.getElementById("query").value.split(",").map((term) => term.trim()).filter(Boolean);
}

function applyFilter() {
  const query = document.getElementById("query");
  const tests = [];
  let wrong = null;
  for (const term of terms()) {
    const test = testOf(term);
    if (test) tests.push(test);
    else wrong = term;
  }
  query.classList.toggle("wrong", wrong !== null);
  query.setAttribute("aria-invalid", wrong !== null);
  table.shown = table.order.filter((i) => {
    const pass = tests.every((test) => test(table.data.lines[i], table.texts[i]));
    table.rows[i].hidden = !pass;
    if (!pass) table.rows[i].classList.remove("later");
    return pass;
  });
  table.shown.forEach((i, place) => table.rows[i].classList.toggle("later", place >= table.most));
  const all = document.getElementById("all");
  all.hidden = table.shown.length <= table.most;
  all.textContent = `Show all ${table.shown.length} lines`;
  const count = `${table.shown.length} of ${table.rows.length} lines`;
  document.getElementById("count").textContent = wrong === null ? count : `${count}; not understood: ${wrong}`;
  const given = terms();
  for (const chip of document.querySelectorAll("#filter [data-term]")) {
    chip.setAttribute("aria-pressed", given.includes(chip.dataset.term));
  }
}

function rank(line, key) {
  const value = key === "index" && line.record ? line.record : line[key];
  if (key === "verdict") return VERDICTS.indexOf(value);
  return value;
}

// Lines without the value come last, whichever way it is sorted.
function sortBy(key, down) {
  table.key = key;
  table.down = down;
  const lines = table.data.lines;
  table.order.sort((a, b) => {
    const [x, y] = [rank(lines[a], key), rank(lines[b], key)];
    if (x === undefined || y === undefined) return (x === undefined) - (y === undefined) || a - b;
    const way = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
    return (down ? -way : way) || a - b;
  });
  const body = document.querySelector("#lines tbody");
  body.append(...table.order.map((i) => table.rows[i]));
  for (const head of document.querySelectorAll("#lines thead th")) {
    if (head.dataset.key === key) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  applyFilter();
}

function startTable() {
  table.data = dataOf("lines-data");
  if (!table.data) return;
  table.rows = [...document.querySelectorAll("#lines tbody tr")];
  table.texts = table.rows.map((row) => row.textContent.toLowerCase());
  table.order = table.rows.map((_, i) => i);
  table.rows.forEach((row, i) => {
    const name = row.cells[0];
    name.replaceChildren(make("button", { type: "button", class: "open", onclick: () => openSample(i) }, name.textContent));
  });
  for (const head of document.querySelectorAll("#lines th[data-key]")) {
    const key = head.dataset.key;
    const button = make("button", { type: "button", onclick: () => sortBy(key, table.key === key && !table.down) }, head.textContent);
    head.replaceChildren(button);
  }
  document.getElementById("all").addEventListener("click", () => { table.most = Infinity; applyFilter(); });
  const form = document.getElementById("filter");
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", applyFilter);
  form.addEventListener("click", (event) => {
    const term = event.target.dataset ? event.target.dataset.term : undefined;
    if (term === undefined) return;
    const others = terms().filter((given) => given !== term && !sameKind(given, term));
    const on = !terms().includes(term);
    document.getElementById("query").value = (on ? [...others, term] : others).join(", ");
    applyFilter();
  });
  applyFilter();
}

// Two verdicts, or two radii, exclude each other.
function sameKind(one, other) {
  const isRadius = (term) => /^(eps|ε)\s*=/.test(term);
  return (VERDICTS.includes(one) && VERDICTS.includes(other)) || (isRadius(one) && isRadius(other));
}
