// Who wins within a budget of bytes.

let slider = null;
let answer = null;

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
  place.append(box);
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
  if (!svg) return;
  const { points } = data.figures[svg.dataset.key];
  const places = new Map(points.map((point) => [point[0], point]));
  const rows = data.budget[metric].rows.filter((row) => row.bytes > 0 && places.has(row.method));
  if (rows.length < 2) return;
  const [one, other] = [rows[0], rows.at(-1)];
  const x = (bytes) => Math.log(bytes);
  const slope = (places.get(other.method)[1] - places.get(one.method)[1]) /
    (x(other.bytes) - x(one.bytes));
  if (!Number.isFinite(slope)) return;
  const mark = svg.querySelector(".limit") ?? make("line", { class: "limit" }, "", svg);
  if (!mark.isConnected) svg.append(mark);
  const across = places.get(one.method)[1] + slope * (x(budget) - x(one.bytes));
  const { height } = svg.viewBox.baseVal;
  const ends = { x1: across, x2: across, y1: 0.03 * height, y2: 0.87 * height };
  for (const [key, value] of Object.entries(ends)) mark.setAttribute(key, value.toFixed(1));
}
