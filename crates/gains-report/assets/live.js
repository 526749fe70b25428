// A page from `gains report --serve` asks for news and takes them over without losing what the reader is looking at.
let kept = null;

// What the reader has typed and chosen; a page that has no table for a moment (its file is just being replaced) forgets nothing.
function readerState() {
  const query = document.getElementById("query");
  if (!query && kept) return kept;
  kept = { query: query ? query.value : "", key: table.key, down: table.down, x: scrollX, y: scrollY,
    open: [...document.querySelectorAll("main details")].map((details) => details.open) };
  return kept;
}

function start(state) {
  startTable();
  startExplorers();
  if (!state) return;
  const query = document.getElementById("query");
  if (query) query.value = state.query;
  if (table.data && state.key) sortBy(state.key, state.down);
  else if (table.data) applyFilter();
  [...document.querySelectorAll("main details")].forEach((details, i) => { details.open = state.open[i] || false; });
  scrollTo(state.x, state.y);
}

async function refresh() {
  const answer = await fetch("./", { cache: "no-store" });
  if (!answer.ok) throw new Error(answer.statusText);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const state = readerState();
  document.querySelector("style").textContent = page.querySelector("style").textContent;
  for (const part of ["main", "nav"]) document.querySelector(part).replaceWith(document.adoptNode(page.querySelector(part)));
  document.body.dataset.live = page.body.dataset.live;
  start(state);
}

async function follow() {
  const sign = document.getElementById("live");
  for (;;) {
    try {
      const answer = await fetch("state", { cache: "no-store" });
      const now = await answer.text();
      const busy = document.getElementById("sample").open || document.querySelector(".explorer:focus-within");
      if (answer.ok && now !== document.body.dataset.live && !busy) await refresh();
      sign.textContent = "live";
    } catch {
      sign.textContent = "not live: the server has stopped";
    }
    await new Promise((wake) => setTimeout(wake, 2000));
  }
}

startSample();
start(null);
if (document.body.dataset.live) follow();
