// A run under way: asks its server once a second for what is new, and draws it.

const COLORS = JSON.parse(document.getElementById("data").textContent).colors;
const ASK_MS = 1000;
const MOST_POINTS = 2000; // beyond which every second one goes
const MOST_FAULTS = 3; // in a row, after which nobody is taken to be there
const CHART = { width: 640, height: 190, left: 58, right: 10, top: 8, bottom: 24 };

const run = { points: [], last: 0, faults: 0 };

// What each chart shows: a number or one per part, of a reading and the one before.
const VALUES = {
  loss: (now) => now.loss,
  images_per_s: (now) => now.images_per_s,
  busy: (now) => now.busy.map((share) => (share === null ? null : 100 * share)),
  staleness: (now) => now.staleness,
  mib_per_batch: (now) => now.mib_per_batch,
  test_accuracy: (now) => (now.test_accuracy === null ? null : 100 * now.test_accuracy),
};
const ZERO_BASED = ["images_per_s", "busy", "staleness", "mib_per_batch"];

function add(readings) {
  for (const one of readings) {
    const before = run.before ?? { num_batches: 0, moved_bytes: 0 };
    const batches = one.num_batches - before.num_batches;
    // Where a host was lost bytes are counted from nothing; and before the first reading more may have been known.
    const isWhole = run.before !== undefined && batches > 0 && one.moved_bytes >= before.moved_bytes;
    one.mib_per_batch = isWhole ? (one.moved_bytes - before.moved_bytes) / batches / 2 ** 20 : null;
    run.before = one;
    run.points.push(one);
  }
  while (run.points.length > MOST_POINTS) run.points = run.points.filter((_, place) => place % 2 === 0);
}

const shown = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });

function draw() {
  for (const picture of document.querySelectorAll("[data-chart]")) chart(picture, picture.dataset.chart);
  const now = run.points.at(-1);
  if (!now) return;
  document.getElementById("now").textContent =
    `Epoch ${now.epoch}, mini-batch ${now.num_batches.toLocaleString("en")}, ${duration(now.seconds)} since this run began, ${bytes(now.moved_bytes)} moved between parts.`;
  for (const [name, factor] of [["busy", 100], ["staleness", 1]]) {
    now[name].forEach((value, part) => {
      const cell = document.querySelector(`[data-${name}="${part}"]`);
      if (cell) cell.textContent = value === null ? "-" : (factor * value).toFixed(1);
    });
  }
}

function chart(picture, name) {
  const lines = linesOf(name);
  const values = lines.flatMap((line) => line.points.map((point) => point[1]));
  picture.setAttribute("viewBox", `0 0 ${CHART.width} ${CHART.height}`);
  if (!values.length) return picture.replaceChildren();
  const low = ZERO_BASED.includes(name) ? 0 : Math.min(...values);
  const high = Math.max(...values, low + 0.02 * Math.max(1e-6, Math.abs(low))); // a flat line is no noise
  const first = run.points[0].num_batches, last = Math.max(run.points.at(-1).num_batches, first + 1);
  const x = (count) => CHART.left + (count - first) / (last - first) * (CHART.width - CHART.left - CHART.right);
  const y = (value) => CHART.height - CHART.bottom - (value - low) / (high - low) * (CHART.height - CHART.top - CHART.bottom);
  picture.replaceChildren(
    ...ticks(low, high).flatMap((value) => [
      svg("line", { class: "grid", x1: CHART.left, x2: CHART.width - CHART.right, y1: y(value), y2: y(value) }),
      svg("text", { x: CHART.left - 6, y: y(value) + 4, class: "end" }, shown(value)),
    ]),
    ...ticks(first, last).filter(Number.isInteger).map((count) =>
      svg("text", { x: x(count), y: CHART.height - 7, class: "middle" }, count.toLocaleString("en"))),
    ...lines.map((line) => svg("polyline", { class: "curve", stroke: line.color, points: line.points.map(([count, value]) => `${x(count)},${y(value)}`).join(" ") })),
    ...lines.filter((line) => line.points.length === 1 || name === "test_accuracy").flatMap((line) =>
      line.points.map(([count, value]) => svg("circle", { cx: x(count), cy: y(value), r: 3, fill: line.color }))),
  );
  const latest = lines.map((line) => `${line.title}${shown(line.points.at(-1)[1])}`).join(", ");
  picture.setAttribute("aria-label", `${picture.previousElementSibling.textContent}: now ${latest}`);
}

function linesOf(name) {
  const found = new Map();
  for (const one of run.points) {
    const value = VALUES[name](one);
    (Array.isArray(value) ? value : [value]).forEach((single, place) => {
      if (single === null) return;
      const isPart = Array.isArray(value);
      if (!found.has(place)) {
        found.set(place, { points: [], color: isPart ? COLORS[place % COLORS.length] : "var(--accent)", title: isPart ? `part ${place} ` : "" });
      }
      found.get(place).points.push([one.num_batches, single]);
    });
  }
  return [...found.values()];
}

function ticks(low, high) {
  const rough = (high - low) / 4, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * size).find((one) => one >= rough);
  const found = [];
  for (let count = Math.ceil(low / step); count * step <= high * (1 + 1e-12); count++) found.push(Number((count * step).toPrecision(12)));
  return found;
}

function say(words) {
  const state = document.getElementById("state");
  if (state.textContent !== words) state.textContent = words;
}

async function ask() {
  try {
    const answer = await fetch(`readings?since=${run.last}`, { cache: "no-store", signal: AbortSignal.timeout(10 * ASK_MS) });
    if (!answer.ok) throw new Error(answer.statusText);
    const { readings, last, end } = await answer.json();
    run.faults = 0;
    run.last = last;
    add(readings);
    if (readings.length) draw();
    if (end) return say(end);
    if (run.points.length) say("Training.");
  } catch {
    run.faults += 1;
    if (run.faults >= MOST_FAULTS) return say("The run has ended, or cannot be reached; this is the last that came.");
  }
  setTimeout(ask, ASK_MS);
}

document.documentElement.classList.add("drawn");
for (const swatch of document.querySelectorAll("[data-part-color]")) swatch.style.background = COLORS[swatch.dataset.partColor];
ask();
