// Tables that are sorted and copied.

function addSorting(table) {
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const words = heading.textContent.trim();
    const button = make("button", { type: "button", class: "sort" });
    if (heading.querySelector("a")) {
      button.textContent = "↕";
      button.setAttribute("aria-label", `sort by ${words}`);
      heading.append(button);
    } else {
      button.append(...heading.childNodes);
      heading.append(button);
    }
    button.addEventListener("click", () => sort(table, column));
  });
}

function sort(table, column) {
  const heading = table.tHead.rows[0].cells[column];
  const rows = [...table.tBodies[0].rows];
  const isNumeric = rows.some((row) => row.cells[column].dataset.value !== undefined);
  const before = heading.getAttribute("aria-sort");
  const isUp = before ? before === "descending" : !isNumeric;
  const value = (row) => {
    const cell = row.cells[column];
    if (!isNumeric) return cell.textContent.trim();
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  rows.sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return (a === null) - (b === null); // no number: last
    return (isUp ? 1 : -1) * (isNumeric ? a - b : a.localeCompare(b));
  });
  table.tBodies[0].append(...rows);
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", isUp ? "ascending" : "descending");
}

function addCopying(table) {
  const line = make("p", { class: "copy" }, "Copy as ");
  for (const [kind, write] of Object.entries({ Markdown: markdown, LaTeX: latex, CSV: csv })) {
    const button = make("button", { type: "button", class: "plain" }, kind);
    const label = table.parentElement.getAttribute("aria-label");
    button.setAttribute("aria-label", `Copy ${label} as ${kind}`);
    button.addEventListener("click", async () => {
      const isCopied = await copy(write(table));
      status.textContent = isCopied ? `${label} copied as ${kind}` : "The browser did not copy";
      button.textContent = isCopied ? "copied" : "not copied";
      setTimeout(() => (button.textContent = kind), 1500);
    });
    line.append(button, " ");
  }
  table.parentElement.after(line);
}

function cells(table, isExact) {
  // rows of texts as they are seen, or with exact numbers
  const seen = (cell) => !cell.classList.contains("off");
  return [...table.rows].filter(seen).map((row) =>
    [...row.cells].filter(seen).map((cell) => {
      if (isExact && cell.dataset.value !== undefined) return cell.dataset.value;
      const twin = cell.cloneNode(true);
      for (const button of all("button[aria-label]", twin)) button.remove();
      for (const fold of all("details", twin)) fold.replaceWith(fold.lastChild.textContent);
      for (const part of all(".range, .mark", twin)) part.prepend(" ");
      return twin.textContent.replace(/\s+/g, " ").trim();
    }),
  );
}

function markdown(table) {
  const [head, ...body] = cells(table);
  const line = (row) =>
    `| ${row.map((cell) => cell.replace(/\\/g, "\\\\").replace(/\|/g, "\\|")).join(" | ")} |`;
  const rule = head.map((_, column) => (column ? "---:" : "---"));
  return `${[line(head), `| ${rule.join(" | ")} |`, ...body.map(line)].join("\n")}\n`;
}

const LATEX = {
  "\\": "\\textbackslash{}", "{": "\\{", "}": "\\}", "^": "\\textasciicircum{}",
  "~": "\\textasciitilde{}", "−": "$-$", "–": "--", "<": "$<$", ">": "$>$", "λ": "$\\lambda$",
  "$": "\\$", "&": "\\&", "#": "\\#", "_": "\\_", "%": "\\%",
};

function latex(table) {
  const [head, ...body] = cells(table);
  const safe = (cell) => cell.replace(/[\\{}^~−–<>λ$&#_%]/g, (found) => LATEX[found]);
  const line = (row) => `${row.map(safe).join(" & ")} \\\\`;
  return [
    `\\begin{tabular}{l${"r".repeat(head.length - 1)}}`, "\\toprule", line(head), "\\midrule",
    ...body.map(line), "\\bottomrule", "\\end{tabular}", "",
  ].join("\n");
}

function csv(table) {
  const quoted = (cell) => (/[",\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell);
  return `${cells(table, true).map((row) => row.map(quoted).join(",")).join("\n")}\n`;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const isCopied = document.execCommand("copy"); // where there is no clipboard of its own
    area.remove();
    return isCopied;
  }
}

function enhance(root) {
  for (const table of all("table", root)) {
    if (table.dataset.ready) continue;
    table.dataset.ready = "yes";
    if (table.classList.contains("sortable")) addSorting(table);
    addCopying(table);
  }
  all("svg[data-figure]:not([data-ready])", root).forEach(addValues);
  linkClients(root);
  showMethods(root);
}
