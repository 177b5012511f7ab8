// Tiles of a memory as a picture, and as numbers.
//
// In:   the bytes of a memory and those of the step before; a width in pixels.
// Out:  a canvas with a cell for each tile; lines of numbers for tiles.
// Next: look.mjs.
// SPDX-License-Identifier: Apache-2.0
import { element } from "./dom.mjs";

const CELL = 14, MOST_LINES = 6, MOST_LANES = 64;

// The numbers of a tile: int32 in acc, three fields in uop, else int8.
export function numbers(module, memory, tile) {
  const name = module.memories[memory];
  if (name === "uop") { const [{ dst, src, wgt }] = module.microOps(tile); return [dst, src, wgt]; }
  const copy = tile.slice();
  return Array.from(name === "acc" ? new Int32Array(copy.buffer) : new Int8Array(copy.buffer));
}

const tilesOf = (bytes, size) => Array.from({ length: bytes.length / size }, (_, k) => bytes.subarray(k * size, (k + 1) * size));
export const same = (a, b) => a.every((byte, k) => byte === b[k]);

// A number's colour: blue below zero, orange above, stronger where it is larger.
function colour(value, scale) {
  const strength = Math.min(1, Math.log2(1 + Math.abs(value)) / scale);
  return value === 0 ? null : value < 0 ? `rgba(47,126,216,${0.15 + 0.85 * strength})` : `rgba(217,130,43,${0.15 + 0.85 * strength})`;
}

function picture(module, memory, tiles, changed, used, width) {
  const across = Math.max(1, Math.floor(width / CELL)), rows = Math.ceil(used / across);
  const canvas = element("canvas", { width: across * CELL, height: Math.max(rows, 1) * CELL });
  const ink = canvas.getContext("2d"), scale = module.memories[memory] === "acc" ? 20 : 7;
  for (let k = 0; k < used; ++k) {
    const left = (k % across) * CELL, top = Math.floor(k / across) * CELL, lanes = numbers(module, memory, tiles[k]).slice(0, MOST_LANES);
    lanes.forEach((value, lane) => {
      const paint = colour(value, scale);
      if (paint === null) return;
      ink.fillStyle = paint;
      ink.fillRect(left + (lane * (CELL - 2)) / lanes.length, top, Math.max((CELL - 2) / lanes.length, 0.5), CELL - 2);
    });
    ink.strokeStyle = changed.has(k) ? getComputedStyle(document.body).getPropertyValue("--frame") : "rgba(128,128,128,.25)";
    ink.strokeRect(left + 0.5, top + 0.5, CELL - 3, CELL - 3);
  }
  return canvas;
}

// One scratchpad: what it holds, and what changed. used: tiles that anything was ever written to.
export function scratchpad(module, memory, bytes, before, used, width) {
  const size = module.tileBytes(memory), tiles = tilesOf(bytes, size), old = tilesOf(before, size);
  const changed = new Set(tiles.flatMap((tile, k) => (same(tile, old[k]) ? [] : [k])));
  const lines = [...changed].slice(0, MOST_LINES).map((k) => `[${k}] ${numbers(module, memory, tiles[k]).slice(0, 16).join(" ")}`);
  const more = changed.size > MOST_LINES ? `  and ${changed.size - MOST_LINES} more` : "";
  return element("div", { class: "pad" },
    element("b", {}, module.memories[memory]), ` ${used} of ${tiles.length} tiles used`,
    element("small", {}, lines.length > 0 ? `; ${lines.join("; ")}${more}` : ""),
    picture(module, memory, tiles, changed, used, width));
}

// The last tile that is not zero in any of these states, and one more.
export function usedTiles(states, size) {
  let last = 0;
  for (const bytes of states) for (let k = bytes.length - 1; k >= last * size; --k) if (bytes[k] !== 0) { last = Math.floor(k / size) + 1; break; }
  return last;
}
