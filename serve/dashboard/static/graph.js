// The entity graph, drawn by Cytoscape.js on a canvas: some eighty entities by community, moved by a
// hand or by keys; one that is chosen shows what it is mentioned with, in the picture and beside it.
"use strict";
(() => {
  const root = document.querySelector(".graph");
  if (!root || !window.cytoscape) return;
  const part = (name) => root.querySelector(`[data-graph-${name}]`);
  const [area, side, input] = [part("view"), part("side"), root.querySelector("#graph-find")];
  const GROUPS = 6, GREY = 6, TEXT = 7, GROUND = 8; // places among the colours
  const PAN = 60, ZOOM = 1.4, MARGIN = 24;
  const scale = Math.min(1, Math.max(0.55, area.clientWidth / 1000)); // of the dots
  let colours = [];

  const idOf = (kind, name) => `${kind}:${name}`;
  const size = (memories) => Math.min(26, 5 + 3 * Math.log2(1 + memories)) * scale;
  const nodeOf = (one) => ({
    group: "nodes",
    data: { ...one, id: idOf(one.kind, one.name), size: size(one.memories), colour: one.group ?? GREY },
  });
  const elements = ({ nodes, edges }) => {
    const heaviest = Math.max(...edges.map((edge) => edge[2]), 1e-9);
    const lines = edges.map(([a, b, weight]) => {
      const [source, target] = [idOf(nodes[a].kind, nodes[a].name), idOf(nodes[b].kind, nodes[b].name)];
      const same = nodes[a].group !== null && nodes[a].group === nodes[b].group;
      return {
        group: "edges",
        data: { id: `${source} ${target}`, source, target, width: 1 + 4 * Math.sqrt(weight / heaviest), same, colour: same ? nodes[a].group : GREY },
      };
    });
    return [...nodes.map(nodeOf), ...lines];
  };

  const style = () => [
    { selector: "node", style: {
      width: "data(size)", height: "data(size)", label: "data(label)", "background-color": (node) => colours[node.data("colour")],
      "border-width": 1.5, "border-color": colours[GROUND], color: colours[TEXT], "font-family": getComputedStyle(root).fontFamily,
      "text-valign": "bottom", "text-margin-y": 3, "text-outline-color": colours[GROUND], "text-outline-opacity": 0.9,
      "font-size": 12, "text-outline-width": 2.5, "text-events": "yes",
    } },
    { selector: ".unlabelled", style: { "text-opacity": 0 } },
    { selector: "edge", style: {
      width: "data(width)", "line-color": (edge) => colours[edge.data("colour")], "line-opacity": (edge) => (edge.data("same") ? 0.5 : 0.25), "curve-style": "haystack", events: "no",
    } },
    { selector: ".far", style: { opacity: 0.14 } },
    { selector: ".near", style: { "z-index": 9, "line-opacity": 0.75 } },
    { selector: ".under", style: { "text-opacity": 1, "z-index": 11 } },
    { selector: ".chosen", style: { "border-width": 3, "border-color": colours[TEXT], "font-weight": 600, "z-index": 10 } },
  ];

  // Each community starts around a place of its own, so that the forces end where the eye finds them
  // again: the same picture from the same data.
  const start = (nodes) => {
    const sizes = new Map(), seen = new Map(), places = new Map();
    for (const one of nodes) sizes.set(one.group, 1 + (sizes.get(one.group) || 0));
    [...sizes.keys()].sort((a, b) => (a ?? 99) - (b ?? 99)).forEach((group, at, all) => {
      const turn = (2 * Math.PI * at) / all.length;
      places.set(group, [420 * Math.cos(turn), 260 * Math.sin(turn)]);
    });
    return Object.fromEntries(nodes.map((one) => {
      const rank = seen.get(one.group) || 0, [x, y] = places.get(one.group), turn = 2.4 * rank;
      seen.set(one.group, rank + 1);
      return [idOf(one.kind, one.name), { x: x + 34 * Math.sqrt(rank) * Math.cos(turn), y: y + 34 * Math.sqrt(rank) * Math.sin(turn) }];
    }));
  };

  const dress = () => { colours = [...part("colours").children].map((one) => getComputedStyle(one).color); };
  const data = JSON.parse(root.dataset.picture);
  dress();
  const cy = window.cytoscape({
    container: area, style: style(), elements: elements(data), boxSelectionEnabled: false, autounselectify: true, minZoom: 0.2, maxZoom: 4,
    layout: { name: "preset", positions: start(data.nodes), fit: false },
  });
  cy.layout({
    name: "cose", randomize: false, animate: false, fit: false, nodeDimensionsIncludeLabels: true, componentSpacing: 60, numIter: 1500,
    nodeRepulsion: () => 9000, nodeOverlap: 14, gravity: 0.6,
    idealEdgeLength: (edge) => (edge.data("same") ? 46 : 130), edgeElasticity: (edge) => (edge.data("same") ? 60 : 300),
  }).run();

  // What the forces found is stretched to the area, so that labels have the size of text there
  const fill = () => {
    const box = cy.nodes().not(".guest").boundingBox({ includeLabels: false, includeEdges: false });
    const share = Math.min(1, 0.25 + cy.nodes().length / 50); // of the area: a few nodes need less
    const [wide, high] = [(cy.width() - 2 * MARGIN - 60) * share, (cy.height() - 3 * MARGIN) * share];
    const [left, top] = [(cy.width() - wide) / 2, (cy.height() - MARGIN - high) / 2];
    cy.nodes().positions((node) => ({
      x: left + ((node.position("x") - box.x1) * wide) / Math.max(box.w, 1), y: top + ((node.position("y") - box.y1) * high) / Math.max(box.h, 1),
    }));
    cy.viewport({ zoom: 1, pan: { x: 0, y: 0 } });
  };

  // A label is left out where it would lie on that of what is mentioned more; a pointer shows it
  const label = () => {
    const kept = [], first = (node) => (node.hasClass("chosen") ? 2 : node.hasClass("near") ? 1 : 0);
    const order = cy.nodes().sort((a, b) => first(b) - first(a) || b.data("memories") - a.data("memories"));
    cy.batch(() => order.forEach((node) => {
      const box = node.boundingBox({ includeNodes: false, includeEdges: false, includeOverlays: false });
      const lies = node.hasClass("far") || kept.some((one) => box.x1 < one.x2 && box.x2 > one.x1 && box.y1 < one.y2 && box.y2 > one.y1);
      node.toggleClass("unlabelled", lies);
      if (!lies) kept.push(box);
    }));
  };
  fill();
  label();
  area.classList.add("drawn");

  // Moving

  const zoom = (by) => cy.zoom({ level: cy.zoom() * by, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  const doing = { in: () => zoom(ZOOM), out: () => zoom(1 / ZOOM), all: () => cy.viewport({ zoom: 1, pan: { x: 0, y: 0 } }) };
  const pan = (x, y) => cy.panBy({ x, y });
  const keys = {
    "+": doing.in, "=": doing.in, "-": doing.out, "0": doing.all, Escape: () => choose(null),
    ArrowLeft: () => pan(PAN, 0), ArrowRight: () => pan(-PAN, 0), ArrowUp: () => pan(0, PAN), ArrowDown: () => pan(0, -PAN),
  };
  area.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
    event.stopPropagation();
  });
  for (const button of root.querySelectorAll("[data-graph]")) button.addEventListener("click", doing[button.dataset.graph]);
  let width = area.clientWidth;
  new ResizeObserver(() => {
    cy.resize();
    if (area.clientWidth === width) return;
    width = area.clientWidth;
    fill();
    label();
  }).observe(area);

  // One entity: what the picture lacks of its neighbourhood is drawn around it until another is chosen

  let asked = 0;
  const choose = async (node) => {
    const turn = ++asked;
    cy.remove(".guest");
    cy.elements().removeClass("far near chosen");
    side.hidden = !node;
    if (!node) return label();
    mark(node);
    const [kind, name] = [node.data("kind"), node.data("name")];
    await Promise.all([tell(kind, name, turn), invite(node, kind, name, turn)]);
  };
  const mark = (node) => {
    const near = node.closedNeighborhood();
    cy.elements().removeClass("far near chosen");
    cy.elements().difference(near).addClass("far");
    near.addClass("near");
    node.addClass("chosen");
    label();
  };
  const address = (url, query) => `${url}${url.includes("?") ? "&" : "?"}${new URLSearchParams(query)}`;
  const within = (value, least, most) => Math.min(most, Math.max(least, value));
  const invite = async (node, kind, name, turn) => {
    const answer = await fetch(address(root.dataset.around, { of: kind, name }));
    if (!answer.ok) return;
    const found = elements(await answer.json());
    if (turn !== asked) return;
    const known = (one) => cy.getElementById(one.data.id).nonempty();
    const nodes = found.filter((one) => one.group === "nodes" && !known(one));
    const near = node.position();
    nodes.forEach((one, at) => {
      const turned = (2 * Math.PI * at) / nodes.length, far = 110 + 34 * (at % 2);
      one.position = {
        x: within(near.x + far * Math.cos(turned), 50, cy.width() - 50), y: within(near.y + far * Math.sin(turned), 20, cy.height() - 30),
      };
      one.data.colour = GREY;
      one.classes = "guest";
    });
    cy.add(nodes);
    const lines = found.filter((one) => one.group === "edges" && !known(one) && [one.data.source, one.data.target].includes(node.id()));
    cy.add(lines.map((one) => ({ ...one, classes: "guest" })));
    mark(node);
  };
  const tell = async (kind, name, turn) => {
    const answer = await fetch(address(root.dataset.entity, { kind, name, part: 1 }));
    const read = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (turn !== asked) return;
    const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
    close.addEventListener("click", () => { choose(null); area.focus(); });
    const said = read.querySelector(".entity") || Object.assign(document.createElement("p"), { textContent: "It could not be read." });
    side.replaceChildren(close, said);
    side.scrollTop = 0;
  };
  cy.on("tap", (event) => choose(event.target === cy ? null : event.target.isNode() ? event.target : null));
  cy.on("mouseover", "node", (event) => { area.classList.add("points"); event.target.addClass("under"); });
  cy.on("mouseout", "node", (event) => { area.classList.remove("points"); event.target.removeClass("under"); });
  const shown = (kind, name) => cy.getElementById(idOf(kind, name));
  side.addEventListener("click", (event) => {
    const link = event.target.closest(".edge a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const query = new URL(link.href).searchParams, node = shown(query.get("kind"), query.get("name"));
    if (node.empty()) return;
    event.preventDefault();
    if (node.hasClass("guest")) node.removeClass("guest"); // it stays, now that it is looked at
    choose(node);
  });

  part("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const wanted = input.value.trim().toLowerCase();
    const named = cy.nodes().filter((node) => node.data("label").toLowerCase() === wanted);
    const node = named.nonempty() ? named : cy.nodes().filter((one) => one.data("name").toLowerCase().includes(wanted));
    input.setCustomValidity(wanted && node.nonempty() ? "" : "No entity of the picture is called so; the table below may know it.");
    if (wanted && node.nonempty()) choose(node.first()); else input.reportValidity();
  });
  input.addEventListener("input", () => input.setCustomValidity(""));

  const redress = () => { dress(); cy.style(style()); label(); };
  new MutationObserver(redress).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redress);

  const query = new URLSearchParams(location.search);
  if (query.has("show")) choose(shown(query.get("of"), query.get("show")).first());
})();
