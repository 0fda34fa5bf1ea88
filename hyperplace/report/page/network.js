// The layers of the network: rows and columns come from Python (layout.py), here they are only added up and drawn.

const CELL = { width: 176, gap: 44, height: 66, box: 42, bar: 16, title: 30 };
const MANY_LAYERS = 60; // above which blocks are folded at first

function drawNetwork(root, data) {
  const { network, colors, inks } = data;
  const state = {
    open: new Set(network.layers.length > MANY_LAYERS ? [] : network.items.keys()),
    followed: null,
    current: null,
  };
  const picture = root.querySelector("svg");
  const panel = root.querySelector(".detail");
  const readers = network.layers.map(() => []);
  const sources = network.layers.map(() => []);
  for (const edge of network.edges) {
    readers[edge[0]].push(edge);
    sources[edge[1]].push(edge);
  }
  const mostBytes = Math.max(1, ...network.edges.map((edge) => edge[2]));

  function nodes() {
    const rows = [];
    for (const [number, item] of network.items.entries()) (rows[item.row] ??= []).push([item, number]);
    const found = [];
    let top = 0;
    for (const row of rows) {
      row.sort((a, b) => a[0].column - b[0].column);
      const boxes = row.map(([item, number]) => box(item, state.open.has(number)));
      const width = boxes.reduce((sum, one) => sum + one.width, 0);
      let left = -width / 2;
      row.forEach(([item, number], place) => {
        found.push(...placed(item, number, left, top, boxes[place]));
        left += boxes[place].width;
      });
      top += Math.max(...boxes.map((one) => one.height));
    }
    return found;
  }

  function box(item, isOpen) {
    if (!item.isBlock || !isOpen) return { width: CELL.width + CELL.gap, height: CELL.height };
    const columns = 1 + Math.max(...item.layers.map((one) => one[2]));
    const rows = 1 + Math.max(...item.layers.map((one) => one[1]));
    return { width: columns * (CELL.width + CELL.gap), height: rows * CELL.height + CELL.title };
  }

  function placed(item, number, left, top, size) {
    if (!item.isBlock || !state.open.has(number)) {
      const layers = item.layers.map((one) => one[0]);
      const words = item.isBlock ? `${item.name} · ${layers.length} layers` : item.name;
      return [{ key: item.name, words, layers, number, isBlock: item.isBlock, x: left + CELL.gap / 2, y: top }];
    }
    const inside = item.layers.map(([layer, row, column]) => {
      const across = item.layers.filter((one) => one[1] === row).length;
      const x = left + (size.width - across * (CELL.width + CELL.gap)) / 2 + column * (CELL.width + CELL.gap);
      const name = network.layers[layer].name;
      return { key: name, words: name, layers: [layer], number, x: x + CELL.gap / 2, y: top + CELL.title + row * CELL.height };
    });
    return [{ key: `${item.name} unfolded`, words: item.name, frame: size, number, layers: [], x: left, y: top }, ...inside];
  }

  function draw() {
    const all = nodes();
    const placeOf = new Map(all.flatMap((node) => node.layers.map((layer) => [layer, node])));
    const left = Math.min(...all.map((node) => node.x)) - 40;
    const right = Math.max(...all.map((node) => node.x + (node.frame ? node.frame.width : CELL.width))) + 60;
    const height = Math.max(...all.map((node) => node.y + (node.frame ? node.frame.height : CELL.height))) + 10;
    picture.setAttribute("viewBox", `${left} -6 ${right - left} ${height + 6}`);
    picture.setAttribute("width", right - left);
    picture.setAttribute("height", height + 6);
    picture.replaceChildren(hatches());
    const reached = state.followed === null ? null : reach(state.followed);
    for (const node of all.filter((one) => one.frame)) picture.append(frame(node));
    for (const one of joined(placeOf).values()) picture.append(edge(one, reached));
    for (const node of all.filter((one) => !one.frame)) picture.append(drawnNode(node, reached));
    keepFocus();
  }

  function joined(placeOf) {
    const found = new Map();
    for (const [source, target, crossed, whole] of network.edges) {
      const from = placeOf.get(source), to = placeOf.get(target);
      if (from === to) continue;
      const key = `${from.key}\n${to.key}`;
      const one = found.get(key) ?? { from, to, crossed: 0, whole: 0, layers: [] };
      one.crossed += crossed;
      one.whole += whole;
      one.layers.push([source, target]);
      found.set(key, one);
    }
    return found;
  }

  function edge({ from, to, crossed, whole, layers }, reached) {
    const x1 = from.x + CELL.width / 2, y1 = from.y + CELL.box, x2 = to.x + CELL.width / 2, y2 = to.y;
    // What passes other rows goes round them on the right.
    const isFar = y2 - y1 > 1.5 * CELL.height;
    const aside = isFar ? Math.max(x1, x2) + CELL.width / 2 + 26 : 0;
    const path = isFar
      ? `M${x1} ${y1}C${aside} ${y1 + 30} ${aside} ${y1 + 30} ${aside} ${(y1 + y2) / 2}S${aside} ${y2 - 30} ${x2} ${y2}`
      : `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
    const isOn = reached && layers.some(([a, b]) => reached.has(a) && reached.has(b));
    const words = `${from.words} to ${to.words}: ${crossed ? bytes(crossed) : "nothing"} crosses between parts, of ${bytes(whole)} read`;
    return svg("path", {
      d: path,
      class: `edge${crossed ? " crosses" : ""}${reached ? (isOn ? " on" : " dim") : ""}`,
      "stroke-width": crossed ? 1.5 + 12 * Math.min(1, crossed / mostBytes) : 1,
      "data-bytes": crossed,
    }, svg("title", {}, words));
  }

  function frame(node) {
    const fold = () => { state.open.delete(node.number); state.current = node.words; draw(); };
    const made = svg("g", { class: "frame", role: "button", tabindex: -1, "data-key": node.key, "aria-expanded": "true",
      "aria-label": `${node.words}, unfolded; fold it`, transform: `translate(${node.x} ${node.y})` },
    svg("rect", { class: "outline", x: 6, y: 3, width: node.frame.width - 12, height: node.frame.height - 8, rx: 8 }),
    svg("text", { x: 16, y: 18 }, `▾ ${node.words}`));
    return listening(made, node, fold);
  }

  function drawnNode(node, reached) {
    const isDim = reached && !node.layers.some((layer) => reached.has(layer));
    const made = svg("g", { class: `node${isDim ? " dim" : ""}${node.isBlock ? " block" : ""}`, role: "button", tabindex: -1,
      "data-key": node.key, "aria-label": spoken(node), transform: `translate(${node.x} ${node.y})` });
    made.setAttribute(...(node.isBlock ? ["aria-expanded", "false"] : ["aria-pressed", String(state.followed === node.layers[0])]));
    made.append(svg("rect", { class: "outline", x: -4, y: 0, width: CELL.width + 8, height: CELL.box, rx: 6 }));
    made.append(svg("text", { x: 0, y: 13 }, node.isBlock ? `▸ ${short(node.words)}` : short(node.words)));
    const isTwo = network.layers[node.layers[0]].other.length > 0;
    const height = isTwo ? 9 : CELL.bar;
    made.append(node.isBlock ? shares(node, 18, CELL.bar) : plane(network.layers[node.layers[0]], "owners", 18, height));
    if (isTwo && !node.isBlock) made.append(plane(network.layers[node.layers[0]], "other", 29, height));
    const act = node.isBlock
      ? () => { state.open.add(node.number); state.current = network.layers[node.layers[0]].name; draw(); }
      : () => { state.followed = state.followed === node.layers[0] ? null : node.layers[0]; draw(); };
    return listening(made, node, act);
  }

  const short = (text) => (text.length > 26 ? `${text.slice(0, 12)}…${text.slice(-13)}` : text);

  // A layer's filters from left to right, or its rows, hatched; where both are cut, rows go from top to bottom.
  function plane(layer, whose, y, height) {
    const made = svg("g", { class: `plane ${whose}` });
    const isByRows = layer[whose].every(([, filters]) => filters.length === 1 && filters[0][1] - filters[0][0] === layer.filters);
    for (const [part, filters, rows] of layer[whose]) {
      const [low, high] = rows.map((row) => row / network.batch);
      for (const span of filters) {
        const [start, stop] = isByRows ? [low, high] : span.map((filter) => filter / layer.filters);
        const place = { x: start * CELL.width, width: (stop - start) * CELL.width,
          y: isByRows ? y : y + low * height, height: isByRows ? height : (high - low) * height };
        made.append(svg("rect", { ...place, fill: colors[part], "data-part": part }));
        if (high - low < 1) made.append(svg("rect", { ...place, fill: "url(#rows)", class: "hatch" }));
        if (place.width > 14 && place.height > 11) made.append(numbered(place, part));
      }
    }
    return made;
  }

  // A number on its own patch of colour, so that hatches do not run through it.
  function numbered({ x, y, width, height }, part) {
    const middle = x + width / 2, half = 3 + 3.5 * String(part).length;
    return svg("g", {}, svg("rect", { x: middle - half, y: y + 1, width: 2 * half, height: height - 2, fill: colors[part] }),
      svg("text", { x: middle, y: y + height / 2 + 4, class: "number", fill: inks[part] }, part));
  }

  function workOf(node) {
    const work = new Map();
    for (const layer of node.layers) {
      for (const [part, amount] of network.layers[layer].work) work.set(part, (work.get(part) ?? 0) + amount);
    }
    return [...work].filter((one) => one[1] > 0).sort((a, b) => a[0] - b[0]);
  }

  function shares(node, y, height) {
    const work = workOf(node), total = work.reduce((sum, one) => sum + one[1], 0) || 1;
    const made = svg("g", { class: "plane" });
    let x = 0;
    for (const [part, amount] of work) {
      const width = amount / total * CELL.width;
      made.append(svg("rect", { x, y, width, height, fill: colors[part], "data-part": part }));
      if (width > 14) made.append(numbered({ x, y, width, height }, part));
      x += width;
    }
    return made;
  }

  function hatches() {
    const lines = svg("path", { d: "M0 6L6 0", class: "stripe" });
    return svg("defs", {}, svg("pattern", { id: "rows", width: 6, height: 6, patternUnits: "userSpaceOnUse" }, lines));
  }

  function reach(layer) {
    const found = new Set([layer]);
    for (const [lists, end] of [[readers, 1], [sources, 0]]) {
      const todo = [layer];
      while (todo.length) {
        for (const one of lists[todo.pop()]) {
          if (!found.has(one[end])) { found.add(one[end]); todo.push(one[end]); }
        }
      }
    }
    return found;
  }

  function spoken(node) {
    if (!node.isBlock) return `${node.words}: ${network.layers[node.layers[0]].why}`;
    return `${node.words} on parts ${workOf(node).map((one) => one[0]).join(", ")}; unfold it`;
  }

  function facts(node) {
    if (node.layers.length !== 1) {
      const total = workOf(node).reduce((sum, one) => sum + one[1], 0) || 1;
      return workOf(node).map(([part, amount]) => [`part ${part}`, `${(100 * amount / total).toFixed(1)} % of its work`]);
    }
    const [number] = node.layers;
    const said = ([from, to, crossed, whole], end) => [end ? "read by" : "reads",
      `${network.layers[end ? to : from].name}: ${crossed ? bytes(crossed) : "nothing"} crosses, of ${bytes(whole)}`];
    return [["why", network.layers[number].why], ...network.layers[number].facts,
      ...sources[number].map((one) => said(one, 0)), ...readers[number].map((one) => said(one, 1))];
  }

  function tell(node) {
    const list = html("dl", {});
    for (const [term, text] of node.frame ? [] : facts(node)) list.append(html("dt", {}, term), html("dd", {}, text));
    panel.replaceChildren(html("h3", {}, node.words), list);
  }

  function listening(made, node, act) {
    made.addEventListener("click", () => { state.current = node.key; act(); });
    made.addEventListener("mouseenter", () => tell(node));
    made.addEventListener("focus", () => { state.current = node.key; tell(node); mark(); });
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); }
      if (event.key === "Escape") { state.followed = null; draw(); }
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (step) { event.preventDefault(); move(made, step); }
    });
    return made;
  }

  const stops = () => [...picture.querySelectorAll("[data-key]")].sort((a, b) => top(a) - top(b));
  const top = (made) => made.getBoundingClientRect().top;

  function move(made, step) {
    const all = stops();
    const next = all[all.indexOf(made) + step];
    if (next) next.focus();
  }

  // Of all layers one can be reached with the tab key, and the arrows lead from there: a page has other things too.
  function mark() {
    const all = [...picture.querySelectorAll("[data-key]")];
    const current = all.find((one) => one.dataset.key === state.current) ?? all.find((one) => one.matches(".node"));
    all.forEach((one) => one.setAttribute("tabindex", one === current ? 0 : -1));
    return current;
  }

  function keepFocus() {
    const current = mark();
    if (state.current !== null && current && current.dataset.key === state.current) current.focus({ preventScroll: true });
  }

  const on = (name, act) => root.querySelector(`[data-act="${name}"]`).addEventListener("click", act);
  on("fold", () => { state.open.clear(); draw(); });
  on("unfold", () => { network.items.forEach((_, number) => state.open.add(number)); draw(); });
  on("clear", () => { state.followed = null; draw(); });
  on("svg", () => save("network.svg", "image/svg+xml", standalone(picture)));
  root.querySelectorAll("[data-part-color]").forEach((swatch) => { swatch.style.background = colors[swatch.dataset.partColor]; });
  draw();
}

// A picture by itself has no style sheet: what ours say is written into every element.
function standalone(picture) {
  const copy = picture.cloneNode(true);
  const originals = picture.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((one, number) => {
    const style = getComputedStyle(originals[number]);
    for (const name of ["fill", "stroke", "stroke-width", "opacity", "font-size", "font-family", "text-anchor"]) {
      if (!one.closest("defs") || name === "stroke") one.setAttribute(name, style.getPropertyValue(name));
    }
  });
  copy.setAttribute("xmlns", SVG);
  return new XMLSerializer().serializeToString(copy);
}

