// Figures that tell the value under the pointer or by arrow keys, and clients in map and table.

function addValues(svg) {
  const values = data.figures[svg.dataset.key];
  svg.dataset.ready = "yes";
  for (const part of all('[data-part="legend"]', svg)) {
    part.addEventListener("click", () => toggle(Number(part.dataset.method)));
  }
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

// The table of clients and the heat map know each other.

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
