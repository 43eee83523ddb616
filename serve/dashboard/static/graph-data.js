// The entity graph as the server tells it: columns after a head in JSON, and what is looked up in
// them, each made once: who is joined to whom, which lines have one colour, what lies where.
"use strict";
window.EntityGraph = (() => {
  const GROUPS = 6; // communities that have a colour; the others share one
  const CELLS = 96; // a side of the grid over the plane
  const MATCHES = 20;
  const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;

  const read = (buffer) => {
    const bytes = new DataView(buffer), length = bytes.getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    let offset = 4 + length;
    const column = (Kind, count) => {
      const values = new Kind(buffer, offset, count);
      offset += 4 * count;
      return values;
    };
    const [n, m] = [head.nodes, head.lines];
    const made = {
      n, m, kinds: head.kinds, names: head.names, texts: head.names.map((name) => name.replace(HIDDEN, "")),
      x: column(Float32Array, n), y: column(Float32Array, n), mentions: column(Uint32Array, n),
      community: column(Uint32Array, n), kind: column(Uint32Array, n),
      source: column(Uint32Array, m), target: column(Uint32Array, m),
    };
    made.order = Uint32Array.from({ length: n }, (_, i) => i).sort((a, b) => made.mentions[b] - made.mentions[a] || a - b);
    made.folded = made.texts.map((text) => text.toLowerCase());
    made.room = Math.min(1.8, Math.max(0.6, Math.sqrt(1200 / n))); // dots are larger where they are few
    return Object.assign(made, joined(made), grouped(made), gridded(made));
  };

  const buckets = (count, keys) => { // a counting sort: starts, and the numbers by key
    const starts = new Uint32Array(count + 1), items = new Uint32Array(keys.length);
    for (const key of keys) starts[key + 1]++;
    for (let i = 0; i < count; i++) starts[i + 1] += starts[i];
    const next = starts.slice();
    keys.forEach((key, i) => { items[next[key]++] = i; });
    return [starts, items];
  };
  const joined = ({ n, m, source, target }) => {
    const ends = new Uint32Array(2 * m);
    ends.set(source); ends.set(target, m);
    const [firstOf, ways] = buckets(n, ends);
    return { firstOf, others: ways.map((way) => (way < m ? target[way] : source[way - m])) };
  };
  const groupOf = (community) => Math.min(community, GROUPS);
  const grouped = ({ m, source, target, community }) => {
    const of = new Uint32Array(m).map((_, i) =>
      community[source[i]] === community[target[i]] ? groupOf(community[source[i]]) : GROUPS);
    const [starts, lines] = buckets(GROUPS + 1, of);
    return { lineStarts: starts, linesByGroup: lines };
  };
  const cell = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor((value + 1) * CELLS / 2)));
  const gridded = ({ n, x, y }) => {
    const [starts, nodes] = buckets(CELLS * CELLS, new Uint32Array(n).map((_, i) => cell(y[i]) * CELLS + cell(x[i])));
    return { cellStarts: starts, nodesByCell: nodes };
  };

  const matches = (graph, text) => {
    const wanted = text.trim().toLowerCase(), first = [], later = [];
    if (!wanted) return [];
    for (const node of graph.order) {
      const where = graph.folded[node].indexOf(wanted);
      if (where === 0) first.push(node); else if (where > 0) later.push(node);
      if (first.length >= MATCHES) break;
    }
    return [...first, ...later].slice(0, MATCHES);
  };
  const find = (graph, kind, name) => graph.names.findIndex((one, i) => one === name && (kind === null || graph.kinds[graph.kind[i]] === kind));

  return { read, matches, find, groupOf, cell, GROUPS, CELLS };
})();
