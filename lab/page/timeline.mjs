// When each instruction ran: a lane for each stage.
//
// In:   events of a run, names of stages, a width in pixels.
// Out:  an SVG; a bar that is chosen calls back with its event.
// Next: look.mjs.
// SPDX-License-Identifier: Apache-2.0
import { svg } from "./dom.mjs";

const LEFT = 62, LANE = 30, GAP = 8, TOP = 18;
const NICE = [1, 2, 5];

// A step of a scale whose marks are some sixty pixels apart.
function stepOf(span, width) {
  for (let power = 1; ; power *= 10) for (const nice of NICE) if (span / (nice * power) <= width / 60) return nice * power;
}

export function timeline(events, stages, width, now, choose) {
  const begin = Math.min(...events.map(({ enter }) => enter)), end = Math.max(...events.map((event) => event.end), begin + 1);
  const x = (cycle) => LEFT + ((cycle - begin) / (end - begin)) * (width - LEFT - 6);
  const y = (stage) => TOP + stage * (LANE + GAP);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${y(stages.length)}`, role: "img", "aria-label": "Timeline of the stages" });
  const step = stepOf(end - begin, width);
  for (let cycle = Math.ceil(begin / step) * step; cycle <= end; cycle += step)
    drawing.append(svg("text", { x: x(cycle), y: 12, "text-anchor": "middle" }, String(cycle)));
  stages.forEach((stage, k) => drawing.append(svg("text", { x: 4, y: y(k) + LANE / 2 + 4 }, stage)));
  for (const event of events) {
    const bar = (from, to, kind) => svg("rect", {
      x: x(from), width: Math.max(x(to) - x(from), 1), y: y(event.stage), height: LANE,
      class: `bar ${stages[event.stage]} ${kind}`, onclick: () => choose(event),
    });
    if (event.start > event.ready) drawing.append(bar(event.ready, event.start, "wait"));
    drawing.append(bar(event.start, event.end, event.insn === now ? "now" : ""));
  }
  return drawing;
}
