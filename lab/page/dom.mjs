// Elements, in few words.
//
// In:   a name, properties, children.
// Out:  `element`, `svg`, `byId`, `paragraph`.
// Next: all that shows something.
// SPDX-License-Identifier: Apache-2.0
export const byId = (id) => document.getElementById(id);

function filled(made, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export const element = (name, properties = {}, ...children) => filled(document.createElement(name), properties, children);
export const svg = (name, properties = {}, ...children) => filled(document.createElementNS("http://www.w3.org/2000/svg", name), properties, children);

// Text in which code stands between backquotes.
export const paragraph = (text) =>
  element("p", {}, ...text.split("`").map((part, k) => (k % 2 === 0 ? part : element("code", {}, part))));
