// What was proved of each output, and where a bound loses on its way down from the true value.

// A value's place between the ends of a picture; `room` is what is left free on both sides.
function across(values, left, width) {
  const there = values.filter((v) => typeof v === "number");
  const [low, high] = [Math.min(...there), Math.max(...there)];
  const spread = high - low || Math.abs(high) || 1;
  return (v) => left + (width * (v - low + 0.03 * spread)) / (1.06 * spread);
}

// Outputs with their certified intervals, and the lead of the label over each class. `names` may be missing.
function outputsView(bounds, names, label) {
  if (!bounds || bounds.omitted) return null;
  const classes = bounds.margins.length > 0;
  const x = across([...bounds.output, ...bounds.low, ...bounds.high], 0, 240);
  const name = (i) => (names && names[i] !== undefined && names[i] !== String(i) ? `${i} ${names[i]}` : String(i));
  const row = (output, i) => {
    const [low, high, margin] = [bounds.low[i], bounds.high[i], bounds.margins[i]];
    const text = `[${short(low, Math.floor)}, ${short(high, Math.ceil)}]`;
    const lead = typeof margin !== "number" ? "–" : make("span", { class: `badge ${margin > 0 ? "verified" : "unknown"}` }, short(margin, Math.floor));
    return make("tr", { class: i === label ? "own-class" : null }, make("th", { scope: "row" }, name(i)), make("td", {}, short(output)),
      make("td", {}, draw("svg", { class: "interval", viewBox: "0 0 240 14", "aria-hidden": "true" },
        draw("line", { class: "grid", x1: 0, x2: 240, y1: 7, y2: 7 }),
        typeof low === "number" && typeof high === "number" ? draw("rect", { class: "bar soft", x: x(low), width: Math.max(x(high) - x(low), 1), y: 3, height: 8 }) : null,
        draw("circle", { class: "dot s0", cx: x(output), cy: 7, r: 3 }))),
      make("td", {}, text), classes ? make("td", {}, i === label ? "label" : lead) : null);
  };
  const head = [classes ? "class" : "output", classes ? "logit" : "value", "", "certified interval", ...(classes ? ["certified lead"] : [])];
  return make("div", { class: "wide" }, make("h3", {}, classes ? "Logits, certified intervals and margins" : "Outputs and certified intervals"),
    make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Outputs" }, make("table", { class: "outputs" },
      make("thead", {}, make("tr", {}, head.map((text) => (text ? make("th", { scope: "col" }, text) : make("td", {}))))), make("tbody", {}, bounds.output.map(row)))));
}

// The parts of a bound's losses, in the order in which a sample passes them.
function lossParts(losses) {
  return [...losses.layers.map((loss, i) => [`encoder layer ${i + 1}`, loss]),
    ...losses.steps.map(([time, loss]) => [`step at t = ${short(time)}`, loss]), ["rest", losses.rest]];
}

// From the true value where the bound is attained down to the bound, loss by loss.
function waterfall(losses) {
  if (!losses) return null;
  const parts = lossParts(losses);
  const bound = parts.reduce((at, [, loss]) => at - loss, losses.truth);
  const x = across([losses.truth, bound, 0], 190, 330);
  const line = (y, from, to, kind, name, text) => [
    draw("text", { x: 184, y: y + 11, class: "end" }, name),
    draw("rect", { class: `bar ${kind}`, x: Math.min(x(from), x(to)), width: Math.max(Math.abs(x(from) - x(to)), 1), y, height: 14 }, draw("title", {}, `${name}: ${text}`)),
    draw("text", { x: 600, y: y + 11, class: "end" }, text)];
  const rows = [line(2, 0, losses.truth, "plain", "true value there", short(losses.truth))];
  let at = losses.truth;
  parts.forEach(([name, loss], i) => { rows.push(line(22 + 20 * i, at, at - loss, "unknown", name, `−${short(loss)}`)); at -= loss; });
  const last = 22 + 20 * parts.length;
  rows.push(line(last, 0, bound, bound > 0 ? "verified" : "falsified", "bound", short(bound, Math.floor)));
  return make("div", { class: "wide" }, make("h3", {}, "Where the bound loses, by layer and solver step"),
    draw("svg", { class: "chart waterfall", viewBox: `0 0 604 ${last + 24}`, role: "img",
      "aria-label": `From ${short(losses.truth)}, the true value where the bound is attained, down to the bound ${short(bound, Math.floor)}: ${parts.map(([name, loss]) => `${name} ${short(loss)}`).join(", ")}` },
      draw("line", { class: "axis", x1: x(0), x2: x(0), y1: 0, y2: last + 18 }), rows),
    make("p", { class: "quiet" }, "Of the worst row, before the region was divided. The rest: merged trajectories, everything behind the first ODE block, and the difference between its relaxed and its true trajectory."));
}
