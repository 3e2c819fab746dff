"""The look of the report page: system fonts, one column, both colour schemes, phone and paper."""

from __future__ import annotations

CSS = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f6f8fa; --ink: #1b2530; --muted: #5c6773; --line: #dfe3e8;
  --accent: #0072b2; --mark: #e8f2f8; --blue: #0072b2; --warn: #b3450a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12171d; --panel: #1a2129; --ink: #e6eaee; --muted: #9ba7b3; --line: #2d3742;
    --accent: #56b4e9; --mark: #16303f; --blue: #3a97d4; --warn: #f0925c;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums;
}
main { max-width: 68rem; margin: 0 auto; padding: 3.5rem 1.5rem 5rem; }
header p.kicker { margin: 0; color: var(--muted); font-size: .9rem; }
h1 { margin: .1rem 0 1.6rem; font-size: 1.5rem; font-weight: 600; letter-spacing: -.01em; }
h2 { margin: 4rem 0 .9rem; font-size: 1.15rem; font-weight: 600; }
h3 { margin: 0 0 .4rem; font-size: .95rem; font-weight: 600; }
p { margin: 0 0 1rem; max-width: 46rem; }
a { color: var(--accent); }
.verdict {
  margin: 0; padding: 1.4rem 1.6rem; border-left: 4px solid var(--accent);
  background: var(--panel); border-radius: 0 8px 8px 0; max-width: none;
  font-size: 1.3rem; line-height: 1.45; letter-spacing: -.005em;
}
.small, .note, figcaption { color: var(--muted); font-size: .875rem; line-height: 1.55; }
h3.later { margin-top: 2rem; }
p.tight { margin-bottom: .3rem; }
.note { padding-left: .9rem; border-left: 3px solid #e69f00; }
.scroll { overflow-x: auto; margin: 0 0 1rem; }
.narrow { max-width: 36rem; }
/* rules belong to cells, so that a name that stays in sight keeps its own */
table { width: 100%; border-collapse: separate; border-spacing: 0; font-size: .92rem; }
th, td { padding: .6rem .9rem; text-align: right; white-space: nowrap; }
th:first-child, tbody th:first-child { text-align: left; padding-left: .6rem; }
thead th {
  color: var(--muted); font-weight: 500; font-size: .82rem; vertical-align: bottom;
  white-space: normal;
}
thead th { border-bottom: 1px solid var(--muted); }
tbody th, tbody td { border-bottom: 1px solid var(--line); }
tbody tr.best { background: var(--mark); }
tbody th { font-weight: 400; }
tbody tr.best th { font-weight: 600; }
td a, th a { color: inherit; text-decoration: underline dotted var(--muted) 1px; }
td a, th a { text-underline-offset: .2em; }
td .range { display: block; color: var(--muted); font-size: .8rem; line-height: 1.3; }
th .mark { display: block; color: var(--warn); font-size: .8rem; line-height: 1.3; }
.shaded td[style] {
  background: color-mix(in srgb, var(--blue) calc(var(--shade) * 55%), transparent);
}
.shaded { font-size: .85rem; }
.shaded th, .shaded td { padding: .3rem .45rem; }
.shaded thead th { font-size: .78rem; }
tr > th:first-child { position: sticky; left: 0; background: var(--page); }
tr.best > th:first-child, tr.linked > th:first-child, tr:target > th:first-child {
  background-color: var(--mark);
}
.runs pre { margin: .4rem 0 0; width: 22rem; text-align: left; }
.runs details { margin: 0; }
tr:target, tr:has(:target), tr.linked { background: var(--mark); }
[id] { scroll-margin-top: 6rem; }
.figures {
  display: grid; gap: 2.2rem; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr));
}
figure { margin: 0; min-width: 0; }
figure svg { display: block; width: 100%; max-width: var(--own); height: auto; }
figure svg text {
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif !important;
}
figcaption { margin-top: .5rem; }
[data-choice] + figure, template + figure { margin-top: 2.2rem; }
pre {
  margin: 0 0 1rem; padding: .9rem 1.1rem; white-space: pre-wrap; overflow-wrap: anywhere;
  background: var(--panel);
  border-radius: 8px; font: .84rem/1.55 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
}
dl {
  display: grid; grid-template-columns: minmax(8rem, max-content) 1fr;
  gap: .35rem 1.6rem; margin: 0 0 1.5rem;
}
dt { color: var(--muted); }
dd { margin: 0; overflow-wrap: anywhere; }
details { margin: 0 0 1rem; }
summary { cursor: pointer; color: var(--accent); }
details[open] summary { margin-bottom: .8rem; }
code, .hashes td {
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .85em;
}
.off { display: none; }
.dim { opacity: .35; }
.live svg [data-part="legend"] { cursor: pointer; }
.unseen {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap;
}
.bar {
  position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; gap: .4rem;
  align-items: center; margin: 1.4rem 0 0; padding: .6rem 0; background: var(--page);
  border-bottom: 1px solid var(--line); font-size: .85rem;
}
button, select { font: inherit; color: var(--ink); }
button { cursor: pointer; }
.choice { color: var(--muted); font-size: .85rem; white-space: nowrap; }
.bar .choice { margin-right: .6rem; }
section > .choice { display: block; margin: 0 0 .6rem; }
select {
  padding: .2rem .4rem; background: var(--page); border: 1px solid var(--muted); border-radius: 6px;
}
.chip {
  display: inline-flex; align-items: center; gap: .4rem; padding: .15rem .6rem; border-radius: 1rem;
  border: 1px solid var(--muted); background: var(--panel); white-space: nowrap;
}
.chip[aria-pressed="false"] { text-decoration: line-through; border-style: dashed; }
.swatch { width: .7rem; height: .7rem; border-radius: 50%; border: 2px solid; }
.chip[aria-pressed="false"] .swatch { opacity: .3; }
.plain, .sort { padding: 0; border: 0; background: none; }
.plain { color: var(--accent); text-decoration: underline; text-underline-offset: .2em; }
.sort { color: inherit; font-weight: inherit; text-align: inherit; white-space: inherit; }
a + .sort { margin-left: .1rem; }
.sort:hover { color: var(--accent); }
[aria-sort] .sort::after { content: " ↓"; }
[aria-sort="ascending"] .sort::after { content: " ↑"; }
.copy { margin: -.6rem 0 1rem; color: var(--muted); font-size: .8rem; }
.budget { margin: 0 0 1.4rem; padding: .9rem 1.1rem; background: var(--panel); border-radius: 8px; }
.budget label { display: block; color: var(--muted); font-size: .875rem; }
.budget input { display: block; width: 100%; accent-color: var(--accent); }
.budget output { display: block; min-height: 3.2em; }
.tip {
  position: absolute; z-index: 3; max-width: 20rem; padding: .25rem .6rem; border-radius: 6px;
  background: var(--ink); color: var(--page); font-size: .82rem; pointer-events: none;
  visibility: hidden;
}
.tip.on { visibility: visible; }
.ring, .frame, .limit { fill: none; stroke: var(--ink); stroke-width: 1.4; pointer-events: none; }
.ring, .frame { visibility: hidden; }
.ring.on, .frame.on { visibility: visible; }
.limit { stroke-dasharray: 2 3; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
@media (max-width: 40rem) {
  .bar { flex-wrap: nowrap; overflow-x: auto; }
  .bar select { max-width: 8rem; }
  main { padding: 1.8rem 1rem 3rem; }
  .verdict { font-size: 1.08rem; padding: 1rem 1.1rem; }
  h2 { margin-top: 2.8rem; }
  th, td { padding: .55rem .6rem; }
  .figures { grid-template-columns: 1fr; }
  figure.wide { overflow-x: auto; }
  figure.wide svg { min-width: min(36rem, var(--own)); }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .6rem; }
}
@media print {
  :root {
    --page: #ffffff; --panel: #ffffff; --ink: #000000; --muted: #444444; --line: #cccccc;
    --accent: #0072b2; --mark: #f2f2f2; --blue: #0072b2;
  }
  main { max-width: none; padding: 0; }
  body { font-size: 10.5pt; }
  figure, tr, .verdict { break-inside: avoid; }
  h2 { break-after: avoid; margin-top: 2rem; }
  .figures { grid-template-columns: 1fr 1fr; }
  .scroll { overflow: visible; }
  .bar, .copy, .choice, section > .choice, .budget, .tip, .unseen, .limit { display: none; }
  a + .sort { display: none; }
  table, .shaded { font-size: 7.5pt; }
  thead th, .shaded thead th, td .range, th .mark { font-size: 7pt; }
  th, td, .shaded th, .shaded td { padding: .2rem .3rem; white-space: normal; }
  td .range { white-space: nowrap; }
  td a, th a { text-decoration: none; }
  pre { border: 1px solid var(--line); }
}
"""
