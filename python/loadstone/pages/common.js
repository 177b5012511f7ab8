// SPDX-License-Identifier: Apache-2.0
// What all our pages share: the data, elements, colours, the tip under the pointer, sortable tables.
"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);

// Text goes into the page as text: names come from model files.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else if (value !== undefined && value !== null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const number = (value, digits = 0) =>
  value === null || value === undefined ? "" : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const percent = (value) => (value === null || value === undefined ? "" : number(100 * value, 1) + " %");
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const dark = () => document.documentElement.dataset.theme === "dark";

// --- light and dark ----------------------------------------------------------------------------
const wanted = new URLSearchParams(location.hash.slice(1));
const systemDark = window.matchMedia && matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = wanted.get("theme") || (systemDark ? "dark" : "light");
const onTheme = [];
function themeButton() {
  return make("button", { id: "theme", title: "light or dark", onclick: () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    onTheme.forEach((redraw) => redraw());
  } }, "◐");
}

// --- colours: a hue for each kind or place, neighbours of one kind differ in lightness -----------
const HUES = [212, 28, 140, 340, 265, 185, 50, 0, 95, 305];
function palette(names) {
  const hue = new Map([...new Set(names)].map((name, k) => [name, HUES[k % HUES.length]]));
  const cache = new Map();
  return (name, odd = 0) => {
    const key = `${name} ${odd} ${dark()}`;
    if (!cache.has(key)) {
      const lightness = (dark() ? 56 : 52) + (odd ? 12 : 0);
      cache.set(key, hue.has(name) ? `hsl(${hue.get(name)} 62% ${lightness}%)` : "hsl(220 8% 60%)");
    }
    return cache.get(key);
  };
}

// --- the tip under the pointer -----------------------------------------------------------------------
const tip = make("div", { id: "tip" });
document.body.append(tip);
function showTip(text, event) {
  tip.textContent = text || "";
  tip.style.display = text ? "block" : "none";
  if (!text || !event) return;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, Math.min(event.clientY + 16, innerHeight - box.height - 8)) + "px";
}

// --- tables that sort -------------------------------------------------------------------------------
// columns: [{title, text: bool, value(row), cell(row)}]; rows: [{...}]; onrow(row, element)
function sortable(columns, rows, onrow) {
  const body = make("tbody");
  const elements = rows.map((row) => {
    const line = make("tr", {}, ...columns.map((column) => {
      const cell = column.cell(row);
      return make("td", { class: column.class || (column.text ? "text" : null), title: column.tip ? column.tip(row) : null }, ...[].concat(cell));
    }));
    onrow(row, line);
    return line;
  });
  let by = -1, up = true;
  const head = make("tr", {}, ...columns.map((column, k) => make("th", { class: column.text ? "text" : null, title: column.help || "sort", onclick: () => {
    up = by === k ? !up : Boolean(column.text);
    by = k;
    const order = rows.map((row, n) => n).sort((a, b) => {
      const x = column.value(rows[a]), y = column.value(rows[b]);
      const less = typeof x === "string" ? x.localeCompare(y) : (x ?? -1) - (y ?? -1);
      return (up ? less : -less) || a - b;
    });
    body.append(...order.map((n) => elements[n]));
  } }, column.title)));
  body.append(...elements);
  return { table: make("table", {}, make("thead", {}, head), body), elements };
}

// --- how long it took ---------------------------------------------------------------------------------
// From the start of the navigation until everything is drawn: uPlot draws in microtasks of its own, which these follow.
function opened() {
  queueMicrotask(() => queueMicrotask(() => { document.body.dataset.openedMs = Math.round(performance.now()); }));
}
