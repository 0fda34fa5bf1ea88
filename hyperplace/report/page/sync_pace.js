// The least from one iteration of the synchronous schedule to the next: the same formula as hyperplace/values/sync_pace.py.

function syncBound(pace, change) {
  const many = change.micro_batches, updates = new Set(pace.updates);
  const work = pace.work_s.map((seconds, action) =>
    (updates.has(action) ? seconds : Math.max(seconds / many, pace.least_s[pace.parts[action]])) / change.speed);
  const busy = [...pace.network_s];
  pace.parts.forEach((part, action) => { busy[part] += work[action] * (updates.has(action) ? 1 : many); });
  const candidates = [
    ...busy.map((seconds, part) => [`part ${part}'s work`, seconds]),
    ...pace.cards.map((card) => [card.name, card.seconds / change.bandwidth]),
    ["the longest chain", longestChain(pace, change, work, updates)],
  ];
  const [binds, seconds] = candidates.reduce((most, one) => (one[1] > most[1] ? one : most));
  return { seconds, binds, candidates };
}

function longestChain(pace, change, work, updates) {
  const many = change.micro_batches;
  const late = (link) => {
    const share = updates.has(link[0]) || updates.has(link[1]) ? 1 : 1 / many;
    const early = (many === 1 ? link[4] * work[link[0]] : 0) + link[5] * work[link[1]];
    return underWay(pace, link, change, share) - early;
  };
  const coming = pace.parts.map(() => []);
  for (const link of pace.links) coming[link[1]].push([link[0], late(link)]);
  const todo = pace.orders.map((_, part) => todoOf(pace, part, many));
  let longest = 0;
  todo.forEach((some, part) => {
    if (!some.length) return;
    const ends = endsAfter(pace, todo, coming, work, many, part);
    const [final, piece] = some[some.length - 1];
    const back = pace.returns.filter((link) => link[1] === some[0][0]);
    longest = Math.max(longest, ends[final * many + piece], ...back.map((link) => ends[link[0] * many + many - 1] + late(link)));
  });
  return longest;
}

// How long after one part has begun every action ends at least; of what does not wait for it, nothing.
function endsAfter(pace, todo, coming, work, many, first) {
  const ends = new Float64Array(pace.parts.length * many).fill(NaN);
  const free = todo.map(() => -Infinity), place = todo.map(() => 0);
  free[first] = 0;
  // Whether all that an action waits for is known; then it is done as soon as its part is free.
  const advance = (part) => {
    const [action, piece] = todo[part][place[part]];
    let begin = free[part];
    for (const [maker, lag] of coming[action]) {
      const end = ends[maker * many + piece];
      if (Number.isNaN(end)) return false;
      begin = Math.max(begin, end + lag);
    }
    free[part] = ends[action * many + piece] = begin + work[action];
    place[part] += 1;
    return true;
  };
  for (let hasMoved = true; hasMoved;) {
    hasMoved = false;
    todo.forEach((some, part) => { while (place[part] < some.length && advance(part)) hasMoved = true; });
  }
  return ends;
}

function todoOf(pace, part, many) {
  const depth = Math.max(0, ...pace.orders.flat().map((one) => one[1]));
  const found = [];
  for (let tick = 0; tick < many + depth; tick++) {
    for (const [action, behind] of pace.orders[part]) {
      if (tick >= behind && tick - behind < many) found.push([action, tick - behind]);
    }
  }
  for (const action of pace.updates) if (pace.parts[action] === part) found.push([action, many - 1]);
  return found;
}
