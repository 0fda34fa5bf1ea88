// What the page has, it draws.

const DATA = JSON.parse(document.getElementById("data").textContent);
const DRAWN = { network: drawNetwork, timelines: drawTimelines, "what-if": drawWhatIf };
document.documentElement.classList.add("drawn");
prepareTables();
for (const [id, draw] of Object.entries(DRAWN)) {
  const root = document.getElementById(id);
  if (root) draw(root, DATA);
}
