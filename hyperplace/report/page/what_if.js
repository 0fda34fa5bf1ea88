// Sliders for network and devices: the least a mini-batch would take, and what binds it.

const MOST_BARS = 24; // of which the rest binds less

function drawWhatIf(root, data) {
  const sliders = Object.fromEntries([...root.querySelectorAll("input")].map((one) => [one.name, one]));
  const told = root.querySelector(".told");
  const chart = root.querySelector("svg");

  function change() {
    return {
      bandwidth: 2 ** Number(sliders.bandwidth.value),
      latency_s: Number(sliders.latency.value) / 1e3,
      speed: 2 ** Number(sliders.speed.value),
      in_flight: Number(sliders.in_flight?.value ?? 1),
      micro_batches: Number(sliders.micro_batches?.value ?? 1),
    };
  }

  function draw() {
    const wanted = change();
    const words = {
      bandwidth: `${Number(wanted.bandwidth.toPrecision(3))} x`,
      latency: `+${Number(sliders.latency.value)} ms`,
      speed: `${Number(wanted.speed.toPrecision(3))} x`,
      in_flight: String(wanted.in_flight),
      micro_batches: String(wanted.micro_batches),
    };
    for (const [name, slider] of Object.entries(sliders)) {
      slider.setAttribute("aria-valuetext", words[name]);
      root.querySelector(`output[for="${slider.id}"]`).textContent = words[name];
    }
    const found = (sliders.micro_batches ? syncBound : bound)(data.pace, wanted);
    told.textContent = `A mini-batch takes ${duration(found.seconds)} at least, ${Number((data.batch / found.seconds).toPrecision(4)).toLocaleString("en")} rows a second. What binds: ${found.binds}.`;
    Object.assign(told.dataset, { seconds: found.seconds, binds: found.binds });
    bars(found);
  }

  function bars(found) {
    const height = 20, most = Math.max(found.seconds, 1e-12);
    const largest = [...found.candidates].sort((a, b) => b[1] - a[1]).slice(0, MOST_BARS);
    const shown = found.candidates.filter((one) => largest.includes(one));
    chart.setAttribute("viewBox", `0 0 700 ${shown.length * height}`);
    chart.replaceChildren(...shown.flatMap(([name, seconds], place) => [
      svg("text", { x: 206, y: place * height + 14, class: "end" }, name.length > 28 ? `${name.slice(0, 27)}…` : name),
      svg("rect", { x: 214, y: place * height + 4, width: 380 * seconds / most, height: height - 8, class: name === found.binds ? "binds" : "free" }),
      svg("text", { x: 220 + 380 * seconds / most, y: place * height + 14 }, duration(seconds)),
    ]));
  }

  for (const slider of Object.values(sliders)) slider.addEventListener("input", draw);
  root.querySelector('[data-act="reset"]').addEventListener("click", () => {
    for (const slider of Object.values(sliders)) slider.value = slider.defaultValue;
    draw();
  });
  draw();
}

