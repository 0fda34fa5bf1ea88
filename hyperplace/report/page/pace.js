// The least that a mini-batch takes: the same formula as hyperplace/values/pace.py, which a test holds it against.

function bound(pace, change) {
  const busy = pace.network_s.map(() => 0);
  pace.parts.forEach((part, action) => { busy[part] += pace.work_s[action] / change.speed; });
  const candidates = [
    ...pace.network_s.map((extra, part) => [`part ${part}'s work`, busy[part] + extra]),
    ...pace.cards.map((card) => [card.name, card.seconds / change.bandwidth]),
    ["parts wait for each other", longestLoop(pace, change) / change.in_flight],
  ];
  const [binds, seconds] = candidates.reduce((most, one) => (one[1] > most[1] ? one : most));
  return { seconds, binds, candidates };
}

function longestLoop(pace, change) {
  const numParts = pace.network_s.length;
  const entries = [...new Set(pace.returns.map((link) => link[1]))];
  const columnOf = new Map(entries.map((entry, number) => [entry, numParts + number]));
  const width = numParts + entries.length;
  const ends = new Float64Array(pace.parts.length * width).fill(-Infinity);
  const coming = pace.parts.map(() => []);
  for (const link of pace.links) coming[link[1]].push([link[0] * width, lag(pace, link, change)]);
  let longest = 0;
  pace.parts.forEach((part, action) => {
    const row = action * width;
    for (const [other, late] of coming[action]) {
      for (let column = 0; column < width; column++) {
        if (ends[other + column] + late > ends[row + column]) ends[row + column] = ends[other + column] + late;
      }
    }
    ends[row + part] = Math.max(ends[row + part], 0);
    if (columnOf.has(action)) ends[row + columnOf.get(action)] = 0;
    const work = pace.work_s[action] / change.speed;
    for (let column = 0; column < width; column++) ends[row + column] += work;
    longest = Math.max(longest, ends[row + part]);
  });
  for (const link of pace.returns) {
    longest = Math.max(longest, ends[link[0] * width + columnOf.get(link[1])] + lag(pace, link, change));
  }
  return longest;
}

function lag(pace, link, change) {
  const early = link[4] * pace.work_s[link[0]] + link[5] * pace.work_s[link[1]];
  return underWay(pace, link, change) - early / change.speed;
}

function underWay(pace, [, , route, numBytes], change, share = 1) {
  if (route < 0) return 0;
  const { latency_s: latency, s_per_byte: each, is_network: isNetwork } = pace.routes[route];
  if (!isNetwork) return latency + numBytes * share * each;
  return latency + change.latency_s + numBytes * share * each / change.bandwidth;
}

