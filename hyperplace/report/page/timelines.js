// What parts did when, measured and predicted one above the other on one scale; a mini-batch can be followed.

const ROW = { height: 24, label: 64, width: 1000, axis: 22 };

function drawTimelines(root, data) {
  const { timelines, kinds } = data;
  const whole = Math.max(1, ...timelines.map((one) => one.span));
  const state = { start: 0, end: whole, batch: null };
  const said = root.querySelector(".said");
  const choice = root.querySelector("select");
  const batches = [...new Set(timelines.flatMap((one) => one.events.map((event) => event[3])))].sort((a, b) => a - b);
  for (const batch of batches) choice.append(html("option", { value: batch }, `${data.piece} ${batch}`));
  choice.addEventListener("change", () => follow(choice.value === "" ? null : Number(choice.value)));

  const scale = (time) => ROW.label + (time - state.start) / (state.end - state.start) * (ROW.width - ROW.label);

  function draw() {
    root.querySelectorAll("svg.events").forEach((picture, number) => drawOne(picture, timelines[number]));
  }

  function drawOne(picture, line) {
    const height = line.parts * ROW.height + ROW.axis;
    picture.setAttribute("viewBox", `0 0 ${ROW.width} ${height}`);
    picture.replaceChildren(axis(line));
    for (let part = 0; part < line.parts; part++) {
      picture.append(svg("text", { x: 4, y: part * ROW.height + 16 }, `part ${part}`));
    }
    const shown = line.events.filter(([, , , , start, length]) => start + length > state.start && start < state.end);
    for (const event of shown) picture.append(bar(line, event));
    if (state.batch !== null) picture.append(thread(line));
  }

  function bar(line, [part, kind, name, batch, start, length]) {
    const x = Math.max(ROW.label, scale(start));
    const width = Math.max(0.4, Math.min(ROW.width, scale(start + length)) - x);
    const isWait = kinds[kind].name === "wait";
    const isDim = state.batch !== null && state.batch !== batch;
    const made = svg("rect", { x, y: part * ROW.height + 3, width, height: ROW.height - 6, fill: isWait ? "none" : kinds[kind].color,
      class: `event${isDim ? " dim" : ""}${isWait ? " wait" : ""}${batch % 2 ? " odd" : ""}`, "data-batch": batch });
    made.addEventListener("mouseenter", () => {
      said.textContent = `part ${part}, ${kinds[kind].name} of ${line.names[name]}, ${data.piece} ${batch}: ${duration(length / 1e6)} from ${duration(start / 1e6)}`;
    });
    made.addEventListener("click", () => follow(state.batch === batch ? null : batch));
    return made;
  }

  // A frame around each pass of the mini-batch on each part, joined in the order in which they begin.
  function thread(line) {
    const passes = new Map();
    for (const [part, kind, , batch, start, length] of line.events) {
      if (batch !== state.batch || kinds[kind].name === "wait") continue;
      const one = passes.get(`${part} ${kind}`) ?? { part, start, end: start };
      one.start = Math.min(one.start, start);
      one.end = Math.max(one.end, start + length);
      passes.set(`${part} ${kind}`, one);
    }
    const order = [...passes.values()].sort((a, b) => a.start - b.start || a.part - b.part);
    const frames = order.map(({ part, start, end }) => svg("rect", { x: scale(start), y: part * ROW.height + 1.5,
      width: Math.max(1, scale(end) - scale(start)), height: ROW.height - 3 }));
    const points = order.map(({ part, start }) => `${scale(start)},${(part + 0.5) * ROW.height}`);
    return svg("g", { class: "thread" }, ...frames, svg("polyline", { points: points.join(" ") }));
  }

  function axis(line) {
    const made = svg("g", { class: "axis" });
    const rough = (state.end - state.start) / 8, size = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((times) => times * size).find((one) => one >= rough);
    const bottom = line.parts * ROW.height;
    for (let time = Math.ceil(state.start / step) * step; time < state.end; time += step) {
      made.append(svg("line", { x1: scale(time), x2: scale(time), y1: 0, y2: bottom + 4 }),
        svg("text", { x: scale(time), y: bottom + 17, class: "middle" }, duration(time / 1e6)));
    }
    return made;
  }

  function follow(batch) {
    state.batch = batch;
    choice.value = batch === null ? "" : String(batch);
    draw();
  }

  function zoom(factor, middle = (state.start + state.end) / 2) {
    const length = Math.min(whole, Math.max(whole / 1e4, (state.end - state.start) * factor));
    const share = (middle - state.start) / (state.end - state.start);
    look(middle - share * length, length);
  }

  function look(start, length) {
    state.start = Math.max(0, Math.min(whole - length, start));
    state.end = state.start + length;
    draw();
  }

  const shift = (share) => look(state.start + share * (state.end - state.start), state.end - state.start);
  const acts = { in: () => zoom(0.5), out: () => zoom(2), left: () => shift(-0.4), right: () => shift(0.4), all: () => look(0, whole) };
  for (const [name, act] of Object.entries(acts)) root.querySelector(`[data-act="${name}"]`).addEventListener("click", act);
  root.querySelectorAll("svg.events").forEach((picture) => {
    picture.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return; // the page itself scrolls
      event.preventDefault();
      const box = picture.getBoundingClientRect();
      const share = ((event.clientX - box.left) / box.width * ROW.width - ROW.label) / (ROW.width - ROW.label);
      zoom(event.deltaY > 0 ? 1.25 : 0.8, state.start + Math.max(0, share) * (state.end - state.start));
    }, { passive: false });
    picture.addEventListener("keydown", (event) => {
      const act = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" }[event.key];
      if (act) { event.preventDefault(); acts[act](); }
    });
  });
  root.querySelectorAll("[data-trace]").forEach((button) => {
    const line = timelines[button.dataset.trace];
    button.addEventListener("click", () => save(`${line.title}.json`, "application/json", JSON.stringify(trace(line, kinds))));
  });
  draw();
}

function trace(line, kinds) {
  const heads = [...Array(line.parts).keys()].map((part) => ({ ph: "M", name: "thread_name", pid: 0, tid: part, args: { name: `part ${part}` } }));
  const events = line.events.map(([part, kind, name, batch, ts, dur]) => ({ ph: "X", name: `${kinds[kind].name} ${line.names[name]}`,
    cat: kinds[kind].name, pid: 0, tid: part, ts, dur, args: { segment: line.names[name], batch } }));
  return { displayTimeUnit: "ms", traceEvents: [...heads, ...events] };
}

