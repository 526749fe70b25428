// The trajectory explorer: the graph over time and step size, with the solver's own trajectory on top.
const VIEW = { width: 960, height: 440, left: 60, right: 30, top: 20, bottom: 40 };

class Explorer {
  constructor(card, data) {
    this.data = data;
    this.stage = card.querySelector(".stage");
    this.methods = [...new Set(data.graphs.map((graph) => graph.method))];
    this.radii = [...new Set(data.graphs.map((graph) => graph.eps))].sort((a, b) => a - b);
    this.method = this.methods[0];
    this.radius = this.radii.length - 1;
    this.chosen = null;
    this.id = card.id;
    this.build();
    this.show();
  }

  graph() {
    const eps = this.radii[this.radius];
    return this.data.graphs.find((graph) => graph.method === this.method && graph.eps === eps) || null;
  }

  build() {
    this.svg = draw("svg", { viewBox: `0 0 ${VIEW.width} ${VIEW.height}`, tabindex: 0, role: "application",
      "aria-label": "Trajectory graph. Arrow keys walk along it, plus and minus zoom, 0 shows all, page up and page down change the radius, m changes the method.",
      onwheel: (e) => this.wheel(e), onkeydown: (e) => this.key(e), onpointerdown: (e) => this.grab(e),
      onpointermove: (e) => this.hover(e), onpointerup: () => { this.held = null; }, onpointerleave: () => { this.held = null; } });
    this.told = make("div", { class: "told", role: "status" });
    this.widths = make("div", {});
    this.outputs = make("div", {});
    this.output = make("output", { for: `${this.id}-eps` });
    this.slider = make("input", { type: "range", id: `${this.id}-eps`, min: 0, max: this.radii.length - 1, step: 1, value: this.radius,
      oninput: () => { this.radius = Number(this.slider.value); this.show(); } });
    this.choices = this.methods.map((method, i) => make("input", { type: "radio", name: `${this.id}-method`, value: i, checked: i === 0,
      onchange: () => { this.method = method; this.show(); } }));
    const button = (text, label, act) => make("button", { type: "button", "aria-label": label, onclick: act }, text);
    this.stage.replaceChildren(
      make("div", { class: "tools" },
        make("fieldset", {}, make("legend", {}, "Method"), this.methods.map((method, i) => make("label", {}, this.choices[i], method))),
        this.radii.length > 1 ? make("label", {}, "Radius ε", this.slider, this.output) : make("span", {}, "ε ", this.output),
        make("span", {}, button("+", "Zoom in", () => this.zoom(0.7)), " ", button("−", "Zoom out", () => this.zoom(1 / 0.7)), " ", button("All", "Show all", () => this.reset()))),
      this.svg,
      make("p", { class: "legend" }, [["own", "the solver's own trajectory"], ["keep", "keep"], ["increase", "increase"], ["reject", "reject"]].map(([c, t]) => make("span", {}, make("i", { class: `swatch ${c}` }), t)),
        make("span", {}, make("i", { class: "swatch area reject" }), "several decisions open"), make("span", {}, make("i", { class: "swatch area keep" }), "one decision")),
      this.told, this.widths, this.outputs);
  }

  // The place of a vertex: time, and the logarithm of the step; places that are no longer checked sit a little lower.
  place(vertex) {
    return [vertex[0], Math.log2(vertex[1]) - (vertex[4] & 2 ? 0.18 : 0)];
  }

  // Range of the picture in time and step size; the same for all graphs, so that they can be compared.
  extent() {
    const steps = this.data.graphs.flatMap((graph) => graph.vertices.map((v) => Math.log2(v[1])));
    const all = [...steps, ...this.data.concrete.map((v) => Math.log2(v[1]))];
    return [-0.03 * this.data.end, 1.05 * this.data.end, Math.min(...all) - 0.5, Math.max(...all) + 0.5];
  }

  show() {
    if (!this.whole) { this.whole = this.extent(); this.view = [...this.whole]; }
    this.choices.forEach((choice, i) => { choice.checked = this.methods[i] === this.method; });
    this.slider.value = this.radius;
    this.output.textContent = short(this.radii[this.radius]);
    this.chosen = null;
    const graph = this.graph();
    const parts = [draw("g", { class: "axes" })];
    this.edges = [];
    this.vertices = [];
    if (graph) {
      this.leaving = graph.vertices.map(() => []);
      this.entering = graph.vertices.map(() => []);
      graph.edges.forEach((edge, i) => { this.leaving[edge[0]].push(i); if (edge[1] !== null) this.entering[edge[1]].push(i); });
      this.edges = graph.edges.map((edge) => draw("path", { class: `edge ${edge[2]}` }));
      this.vertices = graph.vertices.map((vertex, i) => {
        const kind = vertex[4] & 2 ? " settled" : this.leaving[i].length > 1 ? " open" : "";
        return draw("circle", { class: `vertex${kind}`, r: graph.vertices.length > 300 ? 3 : 5.5, "data-vertex": i });
      });
      parts.push(draw("g", {}, this.edges));
    }
    this.own = draw("path", { class: "own" });
    this.end = draw("path", { class: "goal" }, draw("title", {}, "end time"));
    parts.push(this.own, draw("g", {}, this.vertices), this.end);
    this.svg.replaceChildren(...parts);
    this.lay();
    this.tell();
    this.drawWidths(graph);
    this.outputs.replaceChildren(...[graph && outputsView(graph.bounds, this.data.classes, this.data.label)].filter(Boolean));
  }

  toScreen([t, h]) {
    const [t0, t1, h0, h1] = this.view;
    return [VIEW.left + ((t - t0) / (t1 - t0)) * (VIEW.width - VIEW.left - VIEW.right),
      VIEW.height - VIEW.bottom - ((h - h0) / (h1 - h0)) * (VIEW.height - VIEW.top - VIEW.bottom)];
  }

  // Puts everything where the present view has it.
  lay() {
    const graph = this.graph();
    const at = (i) => this.toScreen(this.place(graph.vertices[i]));
    // At the end no further step has a size: trajectories run out at the size of their last one.
    const ending = (i) => this.toScreen([this.data.end, this.place(graph.vertices[i])[1]]);
    const point = (p) => p.map((c) => c.toFixed(1)).join(" ");
    this.edges.forEach((node, i) => {
      const [start, next] = graph.edges[i];
      const [from, to] = [at(start), next === null ? ending(start) : at(next)];
      const bend = graph.edges[i][2] === "reject" ? 14 : 0;
      node.setAttribute("d", `M${point(from)}Q${point([(from[0] + to[0]) / 2 + bend, (from[1] + to[1]) / 2])} ${point(to)}`);
    });
    this.vertices.forEach((node, i) => { const [x, y] = at(i); node.setAttribute("cx", x.toFixed(1)); node.setAttribute("cy", y.toFixed(1)); });
    const path = this.data.concrete.map((v) => this.toScreen([v[0], Math.log2(v[1])]));
    const last = this.data.concrete.at(-1);
    if (last) path.push(this.toScreen([this.data.end, Math.log2(last[1])]));
    this.own.setAttribute("d", path.map((p, i) => (i ? "L" : "M") + point(p)).join(""));
    const x = this.toScreen([this.data.end, 0])[0].toFixed(1);
    this.end.setAttribute("d", `M${x} ${VIEW.top}V${VIEW.height - VIEW.bottom}`);
    this.axes();
  }

  axes() {
    const [t0, t1, h0, h1] = this.view;
    const step = 10 ** Math.floor(Math.log10((t1 - t0) / 3));
    const marks = [];
    for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step) marks.push(draw("text", { x: this.toScreen([t, h0])[0], y: VIEW.height - 20, class: "middle" }, short(Math.abs(t) < step / 9 ? 0 : t)));
    const many = Math.max(1, Math.round((h1 - h0) / 8));
    for (let h = Math.ceil(h0); h <= h1; h += many) {
      const y = this.toScreen([t0, h])[1];
      marks.push(draw("line", { class: "grid", x1: VIEW.left, x2: VIEW.width - VIEW.right, y1: y, y2: y }), draw("text", { x: VIEW.left - 6, y: y + 4, class: "end" }, short(2 ** h)));
    }
    marks.push(draw("text", { x: VIEW.width / 2, y: VIEW.height - 4, class: "middle" }, "time t"), draw("text", { x: 6, y: 14 }, "step size h"));
    this.svg.firstChild.replaceChildren(...marks);
  }

  choose(i) {
    if (i === this.chosen) return;
    this.chosen = i;
    this.vertices.forEach((node, j) => node.classList.toggle("lit", j === i));
    const near = i === null ? null : new Set([...this.leaving[i], ...this.entering[i]]);
    this.edges.forEach((node, j) => { node.classList.toggle("lit", near !== null && near.has(j)); node.classList.toggle("faded", near !== null && !near.has(j)); });
    this.tell();
  }

  tell() {
    const graph = this.graph();
    if (!graph) { this.told.replaceChildren(make("p", {}, "There is no graph for this method and radius.")); return; }
    if (this.chosen === null) {
      const parts = this.leaving.filter((edges) => edges.length > 1).length;
      this.told.replaceChildren(
        make("p", {}, `${graph.vertices.length} vertices, ${graph.edges.length} edges; at ${parts} vertices several decisions are open. Mean width of the state at the end: ${short(graph.width, Math.ceil)}.`),
        make("p", { class: "quiet" }, "Point at a vertex, or press an arrow key in the picture, to see the interval of its error estimate δ."));
      return;
    }
    const [time, step, error, width, flags] = graph.vertices[this.chosen];
    const open = [...new Set(this.leaving[this.chosen].map((i) => graph.edges[i][2]))];
    const clipped = flags & 1 ? ", cut at the end time" : "";
    const where = `Vertex ${this.chosen + 1} of ${graph.vertices.length}: time ${short(time)}, step ${short(step)}${clipped}, mean width of the state ${short(width, Math.ceil)}.`;
    const delta = error ? `δ in [${short(error[0], Math.floor)}, ${short(error[1], Math.ceil)}]; ` : flags & 2 ? "The step is at its minimum, the error is no longer looked at; " : "";
    const decisions = open.length > 1 ? `open: ${open.join(" or ")}.` : `decided: ${open.join("")}.`;
    this.told.replaceChildren(make("p", {}, where), make("p", {}, delta, decisions), ...(error ? [this.deltaBar(error)] : []));
  }

  // The interval of δ on a logarithmic axis, with the thresholds that decide.
  deltaBar([low, high]) {
    const threshold = this.data.threshold;
    const ends = [low, high, 1, threshold].filter((v) => v > 0);
    const [from, to] = [Math.log10(Math.min(...ends)) - 0.3, Math.log10(Math.max(...ends)) + 0.3];
    const x = (v) => (v > 0 ? 10 + (520 * (Math.log10(v) - from)) / (to - from) : 10);
    const mark = (v, text) => [draw("line", { class: "threshold", x1: x(v), x2: x(v), y1: 2, y2: 26 }), draw("text", { x: x(v), y: 40, class: "middle" }, text)];
    return draw("svg", { class: "delta", viewBox: "0 0 540 44", role: "img", "aria-label": "δ against its thresholds" },
      draw("line", { class: "axis", x1: 10, x2: 530, y1: 14, y2: 14 }),
      draw("rect", { class: "box", x: x(low), width: Math.max(x(high) - x(low), 2), y: 6, height: 16 }),
      threshold ? mark(threshold, `increase ≤ ${short(threshold)}`) : null, mark(1, "reject > 1"));
  }

  drawWidths(graph) {
    if (!graph || graph.vertices.length === 0) { this.widths.replaceChildren(); return; }
    const points = graph.vertices.map((v) => [v[0], v[3]]).concat([[this.data.end, graph.width]]).filter((p) => p[1] > 0);
    if (points.length === 0) { this.widths.replaceChildren(); return; }
    const all = this.data.graphs.flatMap((g) => [g.width, ...g.vertices.map((v) => v[3])]).filter((w) => w > 0).map(Math.log10);
    const [low, high] = [Math.min(...all), Math.max(...all) + 1e-9];
    const place = ([t, w]) => [90 + (t / this.data.end) * 810, 100 - (80 * (Math.log10(w) - low)) / (high - low)];
    const text = (y, value) => draw("text", { x: 78, y, class: "end" }, short(10 ** value));
    this.widths.replaceChildren(make("h4", {}, "Mean width of the state over time"), draw("svg", { viewBox: "0 0 960 130", role: "img",
      "aria-label": `Mean width of the state, from ${short(points[0][1])} to ${short(graph.width)}` },
      text(24, high), text(104, low), [0, 0.25, 0.5, 0.75, 1].map((share) => draw("text", { x: 90 + 810 * share, y: 124, class: "middle" }, short(share * this.data.end))),
      points.map((p) => { const [cx, cy] = place(p); return draw("circle", { class: "dot s0", cx, cy, r: 3 }); })));
  }

  hover(event) {
    if (this.held) {
      const box = this.svg.getBoundingClientRect();
      const [t0, t1, h0, h1] = this.held.view;
      const dt = ((event.clientX - this.held.x) / box.width) * (t1 - t0);
      const dh = ((event.clientY - this.held.y) / box.height) * (h1 - h0);
      this.view = [t0 - dt, t1 - dt, h0 + dh, h1 + dh];
      this.lay();
      return;
    }
    const at = event.target.dataset ? event.target.dataset.vertex : undefined;
    if (at !== undefined) this.choose(Number(at));
  }

  grab(event) {
    this.held = { x: event.clientX, y: event.clientY, view: [...this.view] };
  }

  wheel(event) {
    event.preventDefault();
    const box = this.svg.getBoundingClientRect();
    this.zoom(event.deltaY < 0 ? 0.85 : 1 / 0.85, (event.clientX - box.left) / box.width, 1 - (event.clientY - box.top) / box.height);
  }

  zoom(factor, x = 0.5, y = 0.5) {
    const [t0, t1, h0, h1] = this.view;
    const [t, h] = [t0 + x * (t1 - t0), h0 + y * (h1 - h0)];
    if (factor < 1 && t1 - t0 < 1e-4 * this.data.end) return;
    this.view = [t - (t - t0) * factor, t + (t1 - t) * factor, h - (h - h0) * factor, h + (h1 - h) * factor];
    this.lay();
  }

  reset() {
    this.view = [...this.whole];
    this.choose(null);
    this.lay();
  }

  walk(edges, end) {
    const graph = this.graph();
    if (this.chosen === null) { this.choose(0); return; }
    const next = edges[this.chosen].map((i) => graph.edges[i][end]).find((vertex) => vertex !== null);
    if (next !== undefined) this.choose(next);
  }

  key(event) {
    const count = this.vertices.length;
    const other = (by) => count && this.choose(this.chosen === null ? 0 : (this.chosen + by + count) % count);
    const radius = (by) => { this.radius = Math.min(Math.max(this.radius + by, 0), this.radii.length - 1); this.show(); };
    const act = {
      ArrowRight: () => count && this.walk(this.leaving, 1), ArrowLeft: () => count && this.walk(this.entering, 0),
      ArrowDown: () => other(1), ArrowUp: () => other(-1), "+": () => this.zoom(0.7), "-": () => this.zoom(1 / 0.7), 0: () => this.reset(),
      PageUp: () => radius(1), PageDown: () => radius(-1), Escape: () => this.choose(null),
      m: () => { this.method = this.methods[(this.methods.indexOf(this.method) + 1) % this.methods.length]; this.show(); },
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }
}

function startExplorers() {
  for (const card of document.querySelectorAll(".explorer")) {
    const data = dataOf(`${card.id}-data`);
    if (data && data.graphs.length > 0) new Explorer(card, data);
  }
}
