// The view of one sample: everything its line says, its picture, its witness, and the same sample elsewhere.
let openLine = null;

function facts(pairs) {
  const there = pairs.filter(([, value]) => value !== undefined && value !== null);
  return make("dl", {}, there.map(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}

function bars(title, entries, unit) {
  if (!entries || entries.length === 0) return null;
  const most = Math.max(...entries.map(([, value]) => value), Number.MIN_VALUE);
  const row = ([name, value]) => make("tr", {},
    make("th", { scope: "row" }, name),
    make("td", {}, draw("svg", { class: "meter", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
      draw("rect", { class: "bar plain", width: (100 * Math.max(value, 0)) / most, height: 8 }))),
    make("td", {}, unit(value)));
  return make("div", {}, make("h3", {}, title), make("table", { class: "bars" }, make("tbody", {}, entries.map(row))));
}

function picture(caption, node) {
  return make("figure", {}, node, make("figcaption", {}, caption));
}

function pictures(line, input) {
  const witness = line.witness;
  const name = `sample ${line.index}`;
  if (input && input.image) {
    const shown = [picture("input", make("span", { class: `thumb ${input.image}`, role: "img", "aria-label": `image of ${name}` }))];
    if (witness && witness.image) {
      shown.push(picture("witness: breaks the property", make("img", { src: witness.image, alt: `witness for ${name}` })));
      const most = short(witness.change, Math.ceil);
      shown.push(picture(`difference, at most ${most}: red brighter, blue darker`, make("img", { src: witness.difference, alt: `difference between the witness and ${name}` })));
    }
    return make("div", { class: "images" }, shown);
  }
  if (input && input.series) return make("div", { class: "columns" }, input.series.map((feature, i) => course(feature, witness && witness.series ? witness.series[i] : null)));
  if (input && input.values) return features(input, witness);
  return null;
}

// A feature over time, and where its witness moved it.
function course(feature, witness) {
  const points = feature.points;
  const moved = witness ? witness.points : [];
  const values = [...points, ...moved].map((p) => p[1]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const last = Math.max(...points.map((p) => p[0]), 1e-9);
  const place = ([t, v]) => [40 + (270 * t) / last, 100 - (80 * (v - low)) / (high - low || 1)];
  const path = (list) => list.map((p, i) => (i ? "L" : "M") + place(p).map((c) => c.toFixed(1)).join(" ")).join("");
  const label = `${feature.name}, ${points.length} observations${witness ? ", with the witness" : ""}`;
  return make("figure", {}, draw("svg", { class: "chart", viewBox: "0 0 320 120", role: "img", "aria-label": label },
    draw("path", { class: "curve s0", d: path(points) }),
    moved.length ? draw("path", { class: "curve falsified", d: path(moved) }) : null,
    draw("text", { x: 2, y: 24 }, short(high)), draw("text", { x: 2, y: 104 }, short(low))),
  make("figcaption", { class: "quiet" }, feature.name, witness ? ": observed, and in red as the witness has it" : ""));
}

function features(input, witness) {
  const row = (name, i) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, short(input.values[i])),
    witness && witness.values ? make("td", {}, short(witness.values[i])) : null);
  const head = make("tr", {}, ["feature", "value", ...(witness && witness.values ? ["witness"] : [])].map((t) => make("th", { scope: "col" }, t)));
  return make("div", { class: "scroll", tabindex: 0 }, make("table", {}, make("thead", {}, head), make("tbody", {}, input.names.map(row))));
}

// A proof that was written down and gone through by the checker has a seal.
function seal(line) {
  if (!line.seal) return [];
  if (line.seal === "checked") return [" ", make("span", { class: "seal" }, "✓ proof checked")];
  return [" ", line.seal === "refused" ? make("span", { class: "badge falsified" }, "certificate refused") : make("span", { class: "quiet" }, "certificate, not checked")];
}

// The same sample at other radii and in other files.
function elsewhere(line) {
  const lines = table.data.lines;
  const same = lines.map((_, i) => i).filter((i) => lines[i].input === line.input && lines[i].index === line.index);
  if (same.length < 2) return null;
  const several = table.data.files.length > 1;
  const row = (i) => {
    const other = lines[i];
    const go = make("button", { type: "button", class: "open", onclick: () => openSample(i) }, `ε ${short(other.eps)}`);
    return make("tr", {}, make("th", { scope: "row" }, other === line ? `ε ${short(other.eps)}, this` : go),
      several ? make("td", {}, table.data.files[other.file]) : null,
      make("td", {}, badge(other.verdict)), make("td", {}, short(other.margin, Math.floor)), make("td", {}, duration(other.seconds)));
  };
  return make("div", {}, make("h3", {}, "The same sample elsewhere"), make("table", {}, make("tbody", {}, same.map(row))));
}

function openSample(i) {
  const dialog = document.getElementById("sample");
  const line = table.data.lines[i];
  openLine = i;
  const title = `${line.record ? `Record ${line.record}` : `Sample ${line.index}`} at ε ${short(line.eps)}`;
  const note = line.witness && line.witness.omitted ? make("p", { class: "quiet" }, "The picture of the witness was left out to keep the page small; the file has it.") : null;
  dialog.replaceChildren(
    make("div", { class: "top" }, make("h2", { id: "sample-title" }, title, " ", badge(line.verdict), seal(line)),
      make("button", { type: "button", id: "previous", onclick: () => step(-1), "aria-label": "Previous sample" }, "←"),
      make("button", { type: "button", id: "next", onclick: () => step(1), "aria-label": "Next sample" }, "→"),
      make("button", { type: "button", onclick: () => dialog.close() }, "Close")),
    ...[line.reason ? make("p", { class: "note" }, line.reason) : null, pictures(line, table.data.inputs[line.input]), note].filter(Boolean),
    make("div", { class: "columns" },
      make("div", {}, make("h3", {}, "What is known"), facts([
        ["file", table.data.files[line.file]], ["label", line.labelName ?? line.label], ["prediction", line.predictionName ?? line.prediction],
        [line.record ? "certified distance to the limit" : "certified margin", line.margin === undefined ? undefined : short(line.margin, Math.floor)],
        ["certified radius", line.certifiedRadius === undefined ? undefined : short(line.certifiedRadius, Math.floor)],
        ["attacked radius", line.attackedRadius === undefined ? undefined : short(line.attackedRadius, Math.ceil)], ["outputs", line.numbers],
        ["error of the prediction", line.mae && short(line.mae)], ["limit", line.limit && short(line.limit, Math.floor)],
        ["certified error", line.certified && short(line.certified, Math.ceil)], ["attacked error", line.attacked && short(line.attacked)],
        ["certificate", line.certificate], ["trajectory graph", line.vertices === undefined ? undefined : `${line.vertices} vertices, ${line.edges} edges`],
        ["time", duration(line.seconds)], ["reason", line.code], ["where the bound loses", line.losses ? undefined : line.looseness],
      ])),
      bars("Stages, in order", line.stages, duration) || "",
      outputsView(line.bounds, table.data.classes[line.file], line.label ?? line.prediction) || "",
      waterfall(line.losses) || "",
      elsewhere(line) || ""));
  if (!dialog.open) dialog.showModal();
}

function step(by) {
  const at = table.shown.indexOf(openLine) + by;
  if (at >= 0 && at < table.shown.length) openSample(table.shown[at]);
}

function startSample() {
  const dialog = document.getElementById("sample");
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft") step(-1);
    else if (event.key === "ArrowRight") step(1);
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("close", () => {
    const row = table.rows[openLine];
    if (row) row.querySelector(".open").focus();
  });
}
