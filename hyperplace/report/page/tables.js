// Tables that sort by a click on a heading, filter by words, and go out as CSV.

function prepareTables() {
  document.querySelectorAll("table[data-sorts]").forEach((table) => {
    table.querySelectorAll("th").forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => sortBy(table, head, column));
    });
    const name = table.caption ? table.caption.textContent : document.title;
    const tools = html("div", { class: "tools" });
    if (table.tBodies[0].rows.length > 5) tools.append(filterOf(table, name));
    const out = html("button", { type: "button", class: "csv" }, "CSV");
    out.setAttribute("aria-label", `${name} as CSV`);
    out.addEventListener("click", () => save(`${name}.csv`, "text/csv", csv(table)));
    tools.append(out);
    table.parentElement.before(tools);
  });
}

const cellValue = (cell) => cell.dataset.value ?? cell.textContent;

function sortBy(table, head, column) {
  const isDown = head.getAttribute("aria-sort") === "ascending";
  table.querySelectorAll("th").forEach((other) => other.setAttribute("aria-sort", "none"));
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const isNumber = head.classList.contains("number");
  const key = (row) => {
    const text = cellValue(row.cells[column]);
    const number = text === "" ? NaN : Number(text.replaceAll(",", ""));
    return isNumber ? (Number.isNaN(number) ? Infinity : number) : text; // what is not known, or "inf", comes last
  };
  const order = (a, b) => (isNumber ? (a === b ? 0 : a - b) : a.localeCompare(b, "en", { numeric: true }));
  const rows = [...table.tBodies[0].rows].sort((a, b) => order(key(a), key(b)) * (isDown ? -1 : 1));
  table.tBodies[0].append(...rows);
}

function filterOf(table, name) {
  const field = html("input", { type: "search", placeholder: "filter", "aria-label": `rows of ${name} with` });
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of table.tBodies[0].rows) {
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    }
  });
  return field;
}

function csv(table) {
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  // A spreadsheet would take a name that begins like a formula for one.
  const safe = (text) => (/^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text);
  const line = (cells) => [...cells].map((cell) => quoted(safe(cellValue(cell)))).join(",");
  return [...table.rows].map((row) => line(row.cells)).join("\n") + "\n";
}

