// The picture of the entity graph. While it moves, what was drawn last is moved as a bitmap; once it
// rests it is drawn anew, a few milliseconds in every frame, so that no frame waits for 40,000 lines.
"use strict";
(() => {
  const root = document.querySelector("[data-picture]");
  if (!root) return;
  const part = (name) => root.querySelector(`[data-graph-${name}]`);
  const area = part("view"), back = part("picture"), front = part("front"), side = part("side");
  const input = root.querySelector("#graph-find"), found = root.querySelector("#graph-found");

  const MARGIN = 0.25; // of the width and height, drawn around what is seen
  const SLICE_MS = 6, REST_MS = 90, NEAR_PX = 12, LABELS = 70;
  const { read, matches, find, groupOf, cell, GROUPS, CELLS } = window.EntityGraph;
  const OTHER = GROUPS, TEXT = GROUPS + 1, GROUND = GROUPS + 2; // places in `colours`

  let graph = null, colours = [], dpr = 1, width = 0, height = 0;
  const at = { x: 0, y: 0, k: 1 }; // what lies in the middle, and pixels for one of its units
  let least = 1, drawn = null, painting = null, restsAt = 0, asked = 0;
  let chosen = -1, hovered = -1, labels = [];

  const neighbours = (node) => graph.others.subarray(graph.firstOf[node], graph.firstOf[node + 1]);

  // Where things are on the screen

  const toX = (x) => (x - at.x) * at.k + width / 2, toY = (y) => (y - at.y) * at.k + height / 2;
  const radius = (node, k = at.k) => 
    Math.min(22, (0.9 + 0.32 * Math.sqrt(graph.mentions[node])) * graph.room * Math.min(2.4, Math.sqrt(k / least)));
  const nearest = (px, py) => {
    const x = (px - width / 2) / at.k + at.x, y = (py - height / 2) / at.k + at.y, reach = NEAR_PX / at.k;
    let best = -1, bestGap = Infinity;
    for (let row = cell(y - reach); row <= cell(y + reach); row++) {
      for (let column = cell(x - reach); column <= cell(x + reach); column++) {
        const here = row * CELLS + column;
        for (let i = graph.cellStarts[here]; i < graph.cellStarts[here + 1]; i++) {
          const node = graph.nodesByCell[i];
          const gap = Math.hypot(graph.x[node] - x, graph.y[node] - y) * at.k - radius(node);
          if (gap < bestGap && gap < NEAR_PX / 2) [best, bestGap] = [node, gap];
        }
      }
    }
    return best;
  };

  // Drawing: all of it once it rests, and what is quick in every frame

  function* paint(context, seen, w, h) {
    const left = -seen.x * seen.k + w / 2, top = -seen.y * seen.k + h / 2;
    const { x, y, source, target } = graph;
    context.lineWidth = 1;
    for (const group of [OTHER, ...Array(GROUPS).keys()]) {
      context.strokeStyle = colours[group];
      context.globalAlpha = Math.min(0.5, (group === OTHER ? 0.1 : 0.2) * Math.sqrt(seen.k / least) * Math.max(1, Math.sqrt(8000 / graph.m)));
      let count = 0;
      context.beginPath();
      for (let i = graph.lineStarts[group]; i < graph.lineStarts[group + 1]; i++) {
        const line = graph.linesByGroup[i], a = source[line], b = target[line];
        const ax = x[a] * seen.k + left, ay = y[a] * seen.k + top, bx = x[b] * seen.k + left, by = y[b] * seen.k + top;
        if ((ax < 0 && bx < 0) || (ay < 0 && by < 0) || (ax > w && bx > w) || (ay > h && by > h)) continue;
        context.moveTo(ax, ay);
        context.lineTo(bx, by);
        if (++count % 200 === 0) { context.stroke(); yield; context.beginPath(); }
      }
      context.stroke();
    }
    context.globalAlpha = 0.9;
    for (let i = graph.n - 1; i >= 0; i--) {
      const node = graph.order[i], px = x[node] * seen.k + left, py = y[node] * seen.k + top;
      if (px < -30 || py < -30 || px > w + 30 || py > h + 30) continue;
      dot(context, node, px, py, radius(node, seen.k));
      if (i % 250 === 0) yield;
    }
  }
  const dot = (context, node, px, py, r) => {
    context.fillStyle = colours[groupOf(graph.community[node])];
    if (r < 1.5) return context.fillRect(px - r, py - r, 2 * r, 2 * r);
    context.beginPath();
    context.arc(px, py, r, 0, 2 * Math.PI);
    context.fill();
  };

  const begin = () => {
    const w = width * (1 + 2 * MARGIN), h = height * (1 + 2 * MARGIN);
    const canvas = new OffscreenCanvas(Math.ceil(w * dpr), Math.ceil(h * dpr));
    const context = canvas.getContext("2d");
    context.scale(dpr, dpr);
    const seen = { ...at };
    painting = { canvas, seen, w, h, steps: paint(context, seen, w, h) };
  };
  const goOn = () => { // for a slice; what is half drawn is shown by nobody
    const end = performance.now() + SLICE_MS;
    while (performance.now() < end) {
      if (painting.steps.next().done) {
        drawn = painting;
        painting = null;
        labels = labelled();
        return;
      }
    }
  };

  const frame = (now) => {
    asked = 0;
    if (!graph || !width) return;
    if (restsAt && now >= restsAt) { restsAt = 0; begin(); }
    const wasPainting = Boolean(painting);
    if (painting) goOn();
    if (!wasPainting || !painting) present();
    if (painting || restsAt) ask();
  };
  const ask = () => { asked ||= requestAnimationFrame(frame); };
  const changed = () => { // the view is another: the bitmap moves at once, drawing waits for rest
    painting = null;
    restsAt = performance.now() + REST_MS;
    ask();
  };

  const present = () => {
    const active = hovered >= 0 ? hovered : chosen;
    const context = back.getContext("2d");
    context.setTransform(dpr, 0, 0, dpr, 0, 0);
    context.clearRect(0, 0, width, height);
    if (drawn) {
      const grown = at.k / drawn.seen.k;
      context.globalAlpha = active >= 0 ? 0.35 : 1;
      context.drawImage(drawn.canvas,
        (drawn.seen.x - at.x) * at.k + width / 2 - drawn.w * grown / 2,
        (drawn.seen.y - at.y) * at.k + height / 2 - drawn.h * grown / 2, drawn.w * grown, drawn.h * grown);
      context.globalAlpha = 1;
    }
    over(front.getContext("2d"), active);
  };
  const over = (context, active) => {
    context.setTransform(dpr, 0, 0, dpr, 0, 0);
    context.clearRect(0, 0, width, height);
    if (active < 0) {
      for (const node of labels) write(context, node, 1);
      return;
    }
    const around = [...neighbours(active)];
    context.strokeStyle = colours[groupOf(graph.community[active])];
    context.globalAlpha = 0.6;
    context.beginPath();
    for (const node of around) {
      context.moveTo(toX(graph.x[active]), toY(graph.y[active]));
      context.lineTo(toX(graph.x[node]), toY(graph.y[node]));
    }
    context.stroke();
    context.globalAlpha = 1;
    for (const node of [...around, active]) dot(context, node, toX(graph.x[node]), toY(graph.y[node]), Math.max(2, radius(node)));
    around.sort((a, b) => graph.mentions[b] - graph.mentions[a]);
    for (const node of fitting([active, ...around], 24)) write(context, node, node === active ? 1.1 : 1);
    context.strokeStyle = colours[TEXT];
    context.lineWidth = 2;
    context.beginPath();
    context.arc(toX(graph.x[active]), toY(graph.y[active]), Math.max(2, radius(active)) + 3, 0, 2 * Math.PI);
    context.stroke();
    context.lineWidth = 1;
  };

  const shown = (node) => (graph.texts[node].length > 34 ? "…" + graph.texts[node].slice(-33) : graph.texts[node]);
  const write = (context, node, grown) => {
    context.font = `${grown > 1 ? "600 " : ""}${12 * grown}px ${getComputedStyle(root).fontFamily}`;
    context.textAlign = "center";
    context.lineJoin = "round";
    const px = toX(graph.x[node]), py = toY(graph.y[node]) - Math.max(2, radius(node)) - 4;
    context.strokeStyle = colours[GROUND];
    context.lineWidth = 3;
    context.strokeText(shown(node), px, py);
    context.lineWidth = 1;
    context.fillStyle = colours[TEXT];
    context.fillText(shown(node), px, py);
  };
  const fitting = (nodes, most) => { // the first that do not lie on one another
    const taken = [], kept = [];
    for (const node of nodes) {
      if (kept.length >= most) break;
      const px = toX(graph.x[node]), py = toY(graph.y[node]) - radius(node) - 4, half = shown(node).length * 3.3 + 4;
      if (px < half || py < 14 || px > width - half || py > height) continue;
      if (taken.some(([x, y, w]) => Math.abs(x - px) < w + half && Math.abs(y - py) < 17)) continue;
      taken.push([px, py, half]);
      kept.push(node);
    }
    return kept;
  };
  const labelled = () => fitting(graph.order.subarray(0, 4000), LABELS);

  // Moving

  const fit = () => {
    least = Math.max(40, Math.min(width, height) / 2.1);
    Object.assign(at, { x: 0, y: 0, k: least });
  };
  const zoom = (by, px = width / 2, py = height / 2) => {
    const k = Math.min(least * 60, Math.max(least * 0.5, at.k * by));
    at.x += (px - width / 2) * (1 / at.k - 1 / k);
    at.y += (py - height / 2) * (1 / at.k - 1 / k);
    at.k = k;
    changed();
  };
  const pan = (dx, dy) => {
    at.x = Math.min(1.2, Math.max(-1.2, at.x - dx / at.k));
    at.y = Math.min(1.2, Math.max(-1.2, at.y - dy / at.k));
    changed();
  };
  const resize = () => {
    const was = width;
    [width, height, dpr] = [area.clientWidth, area.clientHeight, Math.min(2, devicePixelRatio || 1)];
    for (const canvas of [back, front]) [canvas.width, canvas.height] = [Math.round(width * dpr), Math.round(height * dpr)];
    if (was) least = Math.max(40, Math.min(width, height) / 2.1); else fit();
    changed();
  };

  const fingers = new Map();
  let moved = 0;
  const place = (event) => {
    const box = front.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  front.addEventListener("pointerdown", (event) => {
    front.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, place(event));
    if (fingers.size === 1) moved = 0;
    area.classList.add("moves");
  });
  front.addEventListener("pointermove", (event) => {
    const [x, y] = place(event), before = fingers.get(event.pointerId);
    if (!before) return graph && hover(nearest(x, y));
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    moved += Math.hypot(x - before[0], y - before[1]);
    if (other) {
      const gap = ([px, py]) => Math.max(8, Math.hypot(px - other[0], py - other[1]));
      zoom(gap([x, y]) / gap(before), (x + other[0]) / 2, (y + other[1]) / 2);
      pan((x - before[0]) / 2, (y - before[1]) / 2);
    } else if (moved > 3) {
      pan(x - before[0], y - before[1]);
    }
    fingers.set(event.pointerId, [x, y]);
  });
  const lift = (event) => {
    const was = fingers.delete(event.pointerId);
    if (fingers.size) return;
    area.classList.remove("moves");
    if (was && event.type === "pointerup" && moved <= 3 && graph) choose(nearest(...place(event)));
  };
  front.addEventListener("pointerup", lift);
  front.addEventListener("pointercancel", lift);
  front.addEventListener("pointerleave", () => hover(-1));
  front.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0016)), ...place(event));
  }, { passive: false });

  const doing = { in: () => zoom(1.5), out: () => zoom(1 / 1.5), all: () => { fit(); changed(); } };
  const keys = {
    "+": doing.in, "=": doing.in, "-": doing.out, "0": doing.all, Escape: () => choose(-1),
    ArrowLeft: () => pan(60, 0), ArrowRight: () => pan(-60, 0), ArrowUp: () => pan(0, 60), ArrowDown: () => pan(0, -60),
  };
  front.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
    event.stopPropagation();
  });
  for (const button of root.querySelectorAll("[data-graph]")) button.addEventListener("click", doing[button.dataset.graph]);

  // One entity: under the pointer, or chosen and told of at the side

  const hover = (node) => {
    if (node === hovered) return;
    hovered = node;
    area.classList.toggle("points", node >= 0);
    ask();
  };
  const choose = (node) => {
    chosen = node;
    side.hidden = node < 0;
    if (node >= 0) tell(node);
    ask();
  };
  const tell = async (node) => {
    const query = new URLSearchParams({ kind: graph.kinds[graph.kind[node]], name: graph.names[node], part: 1 });
    const answer = await fetch(`${root.dataset.entity}?${query}`);
    const told = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (chosen !== node) return;
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
    close.addEventListener("click", () => { choose(-1); front.focus(); });
    const said = told.querySelector(".entity") || Object.assign(document.createElement("p"), { textContent: "It could not be read." });
    side.replaceChildren(said, close);
    side.scrollTop = 0;
  };
  const go = (node) => {
    Object.assign(at, { x: graph.x[node], y: graph.y[node], k: Math.max(at.k, least * 3) });
    choose(node);
    changed();
  };
  side.addEventListener("click", (event) => {
    const link = event.target.closest(".edge a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const asks = new URL(link.href).searchParams, node = find(graph, asks.get("kind"), asks.get("name"));
    if (node < 0) return;
    event.preventDefault();
    go(node);
  });

  const matchesNow = () => (graph ? matches(graph, input.value) : []);
  input.addEventListener("input", () => {
    found.replaceChildren(...matchesNow().map((node) => Object.assign(document.createElement("option"), { value: graph.texts[node] })));
  });
  part("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const some = matchesNow(), same = some.find((node) => graph.texts[node] === input.value);
    input.setCustomValidity(some.length ? "" : "No entity of the picture is called so; the table below may know it.");
    if (some.length) go(same ?? some[0]); else input.reportValidity();
  });
  input.addEventListener("input", () => input.setCustomValidity(""));

  // Colours are those of the page, in either theme

  const dress = () => {
    colours = [...part("colours").children].map((one) => getComputedStyle(one).color);
    if (graph) { legend(); begin(); ask(); }
  };
  const legend = () => {
    const heads = [];
    for (const node of graph.order) if (graph.community[node] < GROUPS) heads[graph.community[node]] ??= node;
    part("legend").replaceChildren(...heads.flatMap((node, group) => {
      const item = document.createElement("li"), mark = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const circle = document.createElementNS(mark.namespaceURI, "circle");
      for (const [name, value] of [["width", 10], ["height", 10], ["aria-hidden", "true"]]) mark.setAttribute(name, value);
      for (const [name, value] of [["cx", 5], ["cy", 5], ["r", 5], ["fill", colours[group]]]) circle.setAttribute(name, value);
      mark.append(circle);
      item.append(mark, `around ${shown(node)}`);
      return [item];
    }));
  };
  new MutationObserver(dress).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);

  const start = async () => {
    const wait = part("wait");
    try {
      const answer = await fetch(root.dataset.picture);
      if (!answer.ok) throw new Error(`${answer.status}`);
      graph = read(await answer.arrayBuffer());
    } catch (error) {
      wait.textContent = `The picture could not be read (${error.message}); the table below holds the entities.`;
      return;
    }
    wait.hidden = true;
    dress();
    new ResizeObserver(resize).observe(area);
    const asks = new URLSearchParams(location.search), node = asks.has("show") ? find(graph, asks.get("of"), asks.get("show")) : -1;
    if (node >= 0) { resize(); go(node); }
  };
  start();
})();
