"use strict";
// What the report page gains where scripts run. The page is whole without it, it asks the network
// for nothing, and every number it shows was written into the page by the report itself.
(() => {
  const data = JSON.parse(document.getElementById("fedcord-data").textContent);
  const names = new Map(data.methods.map((method) => [method.number, method.name]));
  const hidden = new Set();
  let metric = Object.keys(data.budget)[0];

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  function make(tag, attributes = {}, text = "", kin = null) {
    // an element of the same kind (HTML or SVG) as `kin`
    const space = (kin ?? document.body).namespaceURI;
    const element = document.createElementNS(space, tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text;
    return element;
  }

  const status = make("div", { role: "status", class: "unseen" });
  const tip = make("div", { class: "tip", "aria-hidden": "true" });
  document.querySelector("main").append(status, tip);

  // ---- methods: hide and show everywhere ------------------------------------------------------

  const bar = make("div", { class: "bar", role: "group", "aria-label": "What is shown" });
  const everything = make("button", { type: "button", class: "plain" }, "show all");

  function toggle(number) {
    if (!hidden.delete(number)) hidden.add(number);
    showMethods();
    status.textContent = `${names.get(number)} is ${hidden.has(number) ? "hidden" : "shown"}`;
  }

  function showMethods(root = document) {
    for (const element of all("[data-method]", root)) {
      const isHidden = hidden.has(Number(element.dataset.method));
      element.classList.toggle(element.dataset.part === "legend" ? "dim" : "off", isHidden);
    }
    for (const chip of all("button.chip", bar)) {
      chip.setAttribute("aria-pressed", String(!hidden.has(Number(chip.dataset.number))));
    }
    everything.hidden = hidden.size === 0;
    showBudget();
  }

  function addBar() {
    if (data.methods.length < 2) return;
    for (const method of data.methods) {
      const chip = make("button", { type: "button", class: "chip", "data-number": method.number });
      chip.append(make("span", { class: "swatch" }), method.name);
      chip.firstChild.style.borderColor = method.colour;
      // colours repeat after six methods, filled first and hollow then
      if (method.turn === 0) chip.firstChild.style.background = method.colour;
      chip.addEventListener("click", () => toggle(method.number));
      bar.append(chip);
    }
    everything.addEventListener("click", () => {
      hidden.clear();
      showMethods();
    });
    bar.append(everything);
    document.querySelector("header").after(bar);
    for (const part of all('svg [data-part="legend"]')) {
      part.addEventListener("click", () => toggle(Number(part.dataset.method)));
    }
  }

  // ---- choices: metric, split, method of the confusion matrix ----------------------------------

  function addChoices() {
    for (const key of new Set(all("[data-choice]").map((region) => region.dataset.choice))) {
      const regions = all(`[data-choice="${key}"]`);
      const views = regions.map(viewsOf);
      const options = [...views[0].keys()];
      if (options.length < 2) continue;
      const label = make("label", { class: "choice" }, `${regions[0].dataset.label} `);
      const select = make("select");
      select.append(...options.map((option) => make("option", {}, option)));
      let shown = options[0];
      select.addEventListener("change", () => {
        regions.forEach((region, place) => {
          views[place].set(shown, [...region.childNodes]);
          region.replaceChildren(...views[place].get(select.value));
          enhance(region);
        });
        shown = select.value;
        if (key === "metric") chooseMetric(shown);
      });
      label.append(select);
      if (key === "metric" && bar.isConnected) bar.prepend(label);
      else regions.at(-1).before(label);
    }
  }

  function viewsOf(region) {
    const views = new Map([[region.dataset.name, [...region.childNodes]]]);
    let next = region.nextElementSibling;
    while (next?.localName === "template" && next.dataset.of === region.dataset.choice) {
      views.set(next.dataset.name, [...next.content.childNodes]);
      next = next.nextElementSibling;
    }
    return views;
  }

  function chooseMetric(words) {
    metric = Object.keys(data.budget).find((key) => data.budget[key].words === words);
    showBudget();
  }

  // ---- tables: sort and copy --------------------------------------------------------------------

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
    linkClients(root);
    showMethods(root);
  }

  // ---- a budget of bytes --------------------------------------------------------------------------

  let slider = null;
  let answer = null;
  let mark = null;

  function size(bytes) {
    let [rest, unit] = [bytes, 0];
    while (rest >= 999.5 && unit < 4) [rest, unit] = [rest / 1000, unit + 1];
    const digits = unit === 0 ? String(Math.round(rest)) : String(Number(rest.toPrecision(3)));
    return `${digits} ${["B", "kB", "MB", "GB", "TB"][unit]}`;
  }

  function range() {
    const sizes = data.budget[metric].rows.map((row) => row.bytes).filter((bytes) => bytes > 0);
    return [Math.min(...sizes) * 0.9, Math.max(...sizes)];
  }

  function addBudget() {
    const place = document.getElementById("budget");
    if (!place || !data.budget[metric].rows.length) return;
    const box = make("div", { class: "budget" });
    const label = make("label", {}, "Bytes that a run may cost ");
    slider = make("input", { type: "range", min: 0, max: 400, step: 1, value: 400 });
    answer = make("output");
    label.append(slider);
    box.append(label, answer);
    place.after(box);
    slider.addEventListener("input", showBudget);
    showBudget();
  }

  function showBudget() {
    if (!slider) return;
    const { sign, words } = data.budget[metric];
    const rows = data.budget[metric].rows.filter((row) => !hidden.has(row.method));
    const [low, high] = range();
    const budget = low * (high / low) ** (slider.value / slider.max);
    const fitting = rows.filter((row) => row.bytes <= budget * 1.000001);
    slider.setAttribute("aria-valuetext", size(budget));
    drawBudget(budget, low, high);
    if (!fitting.length) {
      answer.textContent = `Within ${size(budget)}: no method that is shown fits.`;
      return;
    }
    const best = fitting.reduce((one, other) =>
      sign * other.mean > sign * one.mean ||
      (other.mean === one.mean && other.bytes < one.bytes) ? other : one);
    const overlapping = fitting.filter((row) =>
      row !== best && row.ends[0] <= best.ends[1] && best.ends[0] <= row.ends[1]);
    const doubt = overlapping.map((row) => row.name).join(", ");
    answer.textContent =
      `Within ${size(budget)}: ${best.name} has the best ${words}, ${best.said}, for ` +
      `${best.size}. ${fitting.length} of ${rows.length} methods fit` +
      (hidden.size ? ", hidden ones not counted." : ".") +
      (doubt ? ` Intervals overlap with ${doubt}, so the order there is not settled.` : "");
  }

  function drawBudget(budget, low, high) {
    const svg = document.querySelector('svg[data-figure="pareto"]');
    const places = new Map((data.figures.pareto?.points ?? []).map((point) => [point[0], point]));
    const rows = data.budget[metric].rows.filter((row) => row.bytes > 0 && places.has(row.method));
    if (!svg || rows.length < 2) return;
    const [one, other] = [rows[0], rows.at(-1)];
    const x = (bytes) => Math.log(bytes);
    const slope = (places.get(other.method)[1] - places.get(one.method)[1]) /
      (x(other.bytes) - x(one.bytes));
    if (!Number.isFinite(slope)) return;
    if (!mark) svg.append(mark = make("line", { class: "limit" }, "", svg));
    const across = places.get(one.method)[1] + slope * (x(budget) - x(one.bytes));
    const { height } = svg.viewBox.baseVal;
    const ends = { x1: across, x2: across, y1: 0.03 * height, y2: 0.87 * height };
    for (const [key, value] of Object.entries(ends)) mark.setAttribute(key, value.toFixed(1));
  }

  // ---- figures: the value under the pointer, or by arrow keys ------------------------------------

  function addValues(svg) {
    const values = data.figures[svg.dataset.figure];
    if (!values || (!values.box && !values.points?.length)) return;
    const isClients = svg.dataset.figure === "clients";
    const teller = isClients ? clientMap : values.box ? cellsOf(svg, values) : pointsOf(svg, values);
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    svg.setAttribute("aria-label", `${svg.getAttribute("aria-label")} Arrow keys read its values.`);
    svg.addEventListener("pointermove", (event) => {
      const place = new DOMPoint(event.clientX, event.clientY);
      show(svg, teller, teller.near(place.matrixTransform(svg.getScreenCTM().inverse())));
    });
    svg.addEventListener("pointerleave", () => show(svg, teller, null));
    svg.addEventListener("blur", () => show(svg, teller, null));
    svg.addEventListener("click", (event) => {
      if (!event.target.closest('[data-part="legend"]')) teller.open?.();
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (event.key === "Escape") show(svg, teller, null);
      else if (event.key === "Enter") teller.open?.();
      else if (step[event.key]) {
        event.preventDefault();
        show(svg, teller, teller.next(...step[event.key]));
        status.textContent = tip.textContent;
      }
    });
  }

  function show(svg, teller, found) {
    teller.mark(found);
    tip.classList.toggle("on", Boolean(found));
    if (!found) return;
    tip.textContent = found.words;
    const place = new DOMPoint(found.x, found.y).matrixTransform(svg.getScreenCTM());
    const left = Math.min(place.x + 12, document.documentElement.clientWidth - tip.offsetWidth - 8);
    const above = place.y - tip.offsetHeight - 12;
    tip.style.left = `${Math.max(8, left) + scrollX}px`;
    tip.style.top = `${(above > 4 ? above : place.y + 16) + scrollY}px`;
  }

  function pointsOf(svg, { points }) {
    const ring = make("circle", { class: "ring", r: 6 }, "", svg);
    svg.append(ring);
    const order = [...points].sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    let now = -1;
    const told = (place) => {
      now = place;
      const [method, x, y, words] = order[place];
      return { x, y, words: `${names.get(method)}, ${words}` };
    };
    const shown = (place) => !hidden.has(order[place][0]);
    const nearest = (places, distance) => {
      let [best, least] = [-1, Infinity];
      for (const place of places) {
        const own = distance(order[place]);
        if (own < least) [best, least] = [place, own];
      }
      return [best, least];
    };
    const seen = () => [...order.keys()].filter(shown);
    return {
      near(at) {
        const [place, far] = nearest(seen(), (own) => Math.hypot(own[1] - at.x, own[2] - at.y));
        return far < 16 ? told(place) : ((now = -1), null);
      },
      next(across, down) {
        const places = seen();
        if (!places.length) return null;
        if (!places.includes(now)) return told(places[0]);
        if (across) {
          const there = places.indexOf(now) + across;
          return told(places[Math.max(0, Math.min(places.length - 1, there))]);
        }
        const methods = [...new Set(places.map((place) => order[place][0]))];
        const there = methods.indexOf(order[now][0]) + down;
        const method = methods[Math.max(0, Math.min(methods.length - 1, there))];
        const own = places.filter((place) => order[place][0] === method);
        return told(nearest(own, (point) => Math.abs(point[1] - order[now][1]))[0]);
      },
      mark(found) {
        ring.classList.toggle("on", Boolean(found));
        if (found) {
          ring.setAttribute("cx", found.x);
          ring.setAttribute("cy", found.y);
        }
      },
      open() {
        if (now < 0) return;
        const [method, , , words] = order[now];
        const seed = /(?:^|, )seed (\d+)/.exec(words);
        location.hash = seed ? `run-${method}-${seed[1]}` : `runs-of-${method}`;
      },
    };
  }

  function cellsOf(svg, { box, rows, columns, kinds, counts }) {
    const frame = make("rect", { class: "frame" }, "", svg);
    svg.append(frame);
    const [left, top, right, bottom] = box;
    const [wide, high] = [(right - left) / columns.length, (bottom - top) / rows.length];
    const isClients = svg.dataset.figure === "clients";
    let now = null;
    const within = (value, most) => Math.max(0, Math.min(most - 1, value));
    const told = (row, column) => {
      now = [row, column];
      const count = counts[row][column].toLocaleString("en");
      const words = `${kinds[0]} ${rows[row]}, ${kinds[1]} ${columns[column]}: ${count} ${kinds[2]}`;
      return { x: left + (column + 0.5) * wide, y: top + (row + 0.5) * high, words, row, column };
    };
    return {
      near(at) {
        const [row, column] = [Math.floor((at.y - top) / high), Math.floor((at.x - left) / wide)];
        const isInside = row >= 0 && row < rows.length && column >= 0 && column < columns.length;
        return isInside ? told(row, column) : ((now = null), null);
      },
      next(across, down) {
        if (!now) return told(0, 0);
        return told(within(now[0] + down, rows.length), within(now[1] + across, columns.length));
      },
      mark(found) {
        frame.classList.toggle("on", Boolean(found));
        const own = { x: left + (found?.column ?? 0) * wide, y: top + (found?.row ?? 0) * high };
        const size = { ...own, width: wide, height: high };
        for (const [key, value] of Object.entries(size)) frame.setAttribute(key, value.toFixed(1));
        if (!isClients) return;
        for (const line of all("tr[data-client]")) {
          line.classList.toggle("linked", Number(line.dataset.client) === found?.row);
        }
      },
      markRow(row) {
        const size = { x: left, y: top + row * high, width: right - left, height: high };
        for (const [key, value] of Object.entries(size)) frame.setAttribute(key, value.toFixed(1));
        frame.classList.add("on");
      },
      clear: () => frame.classList.remove("on"),
      open() {
        const line = isClients && now && document.querySelector(`tr[data-client="${now[0]}"]`);
        if (!line) return;
        unfold(line);
        line.scrollIntoView({ block: "center" });
        line.tabIndex = -1;
        line.focus();
      },
    };
  }

  // ---- clients: the table and the heat map know each other ----------------------------------------

  const clientSvg = document.querySelector('svg[data-figure="clients"]');
  const clientMap = clientSvg && cellsOf(clientSvg, data.figures.clients);

  function linkClients(root) {
    if (!clientMap) return;
    for (const line of all("tr[data-client]:not([data-linked])", root)) {
      line.dataset.linked = "yes";
      line.addEventListener("pointerenter", () => clientMap.markRow(Number(line.dataset.client)));
      line.addEventListener("pointerleave", clientMap.clear);
      line.addEventListener("focus", () => clientMap.markRow(Number(line.dataset.client)));
      line.addEventListener("blur", clientMap.clear);
    }
  }

  // ---- links into folded parts ---------------------------------------------------------------------

  function unfold(element) {
    for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) {
      fold.open = true;
    }
  }

  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    if (!target) return;
    unfold(target);
    target.scrollIntoView({ block: "center" });
  }

  document.documentElement.classList.add("live");
  addBar();
  addChoices();
  enhance(document);
  addBudget();
  all("svg[data-figure]").forEach(addValues);
  addEventListener("hashchange", reveal);
  reveal();
})();
