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
p.tight { margin-bottom: .3rem; }
.note { padding-left: .9rem; border-left: 3px solid #e69f00; }
.scroll { overflow-x: auto; margin: 0 0 1rem; }
.narrow { max-width: 36rem; }
table { width: 100%; border-collapse: collapse; font-size: .92rem; }
th, td { padding: .6rem .9rem; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: .6rem; }
thead th { color: var(--muted); font-weight: 500; font-size: .82rem; vertical-align: bottom; }
thead tr { border-bottom: 1px solid var(--muted); }
tbody tr { border-bottom: 1px solid var(--line); }
tbody tr.best { background: var(--mark); }
tbody tr.best td:first-child { font-weight: 600; }
td .range { display: block; color: var(--muted); font-size: .8rem; line-height: 1.3; }
td .mark { display: block; color: var(--warn); font-size: .8rem; line-height: 1.3; }
.figures {
  display: grid; gap: 2.2rem; grid-template-columns: repeat(auto-fit, minmax(20rem, 1fr));
}
figure { margin: 0; min-width: 0; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text {
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif !important;
}
figcaption { margin-top: .5rem; }
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
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .85em; }
@media (max-width: 40rem) {
  main { padding: 1.8rem 1rem 3rem; }
  .verdict { font-size: 1.08rem; padding: 1rem 1.1rem; }
  h2 { margin-top: 2.8rem; }
  th, td { padding: .55rem .6rem; }
  .figures { grid-template-columns: 1fr; }
  figure.wide { overflow-x: auto; }
  figure.wide svg { min-width: 34rem; }
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
  pre { border: 1px solid var(--line); }
}
"""
