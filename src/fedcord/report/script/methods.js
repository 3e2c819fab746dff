// What every part uses; methods that are hidden and shown everywhere; views to choose from.

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
}

// Choices: the metric, the split, the method of the confusion matrix.

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
      if (key === "metric") metric = metricOf(select.value);
      regions.forEach((region, place) => {
        views[place].set(shown, [...region.childNodes]);
        region.replaceChildren(...views[place].get(select.value));
        enhance(region);
      });
      shown = select.value;
      tip.classList.remove("on");
      status.textContent = `${label.firstChild.data.trim()}: ${shown}`;
    });
    label.append(select);
    if (key === "metric") addToBar(label);
    else regions[0].before(label);
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

function addToBar(label) {
  bar.prepend(label);
  if (!bar.isConnected) document.querySelector("header").after(bar);
}

function metricOf(words) {
  return Object.keys(data.budget).find((key) => data.budget[key].words === words);
}
