// The page: loads the module, and shows what the visitor chooses.
//
// In:   lab.wasm, exercises.json, devices.json beside it; `#NAME` of an exercise in the address.
// Out:  tabs.
// Next: exercises.mjs, network.mjs.
// SPDX-License-Identifier: Apache-2.0
import { byId, element } from "./dom.mjs";
import { Exercises } from "./exercises.mjs";
import { connect } from "./look.mjs";
import { openModule } from "./module.mjs";
import { Network } from "./network.mjs";

async function get(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`);
  return answer;
}

async function begin() {
  const module = await openModule(await (await get("lab.wasm")).arrayBuffer());
  const exercises = new Exercises(module, await (await get("exercises.json")).json());
  const network = new Network(module, await (await get("devices.json")).json());
  const tabs = new Map();
  const solved = (name) => tabs.get(name).button.classList.add("solved");
  const add = (name, title, open) => {
    const button = element("button", { onclick: () => { location.hash = name; } }, title);
    tabs.set(name, { button, open });
    byId("tabs").append(button);
  };
  exercises.all.forEach((exercise, k) => add(exercise.name, `${k + 1}. ${exercise.title}`, () => exercises.open(exercise, solved)));
  add("artifact", "Your artifact", () => network.open());
  const choose = () => {
    const name = tabs.has(location.hash.slice(1)) ? location.hash.slice(1) : exercises.all[0].name;
    for (const [each, { button }] of tabs) button.toggleAttribute("aria-current", each === name);
    tabs.get(name).open();
    document.body.dataset.tab = name;
  };
  connect();
  addEventListener("hashchange", choose);
  choose();
  byId("notice").remove();
  document.querySelector("main").hidden = false;
  document.body.dataset.ready = "true";
}

begin().catch((error) => { byId("notice").textContent = `The lab cannot begin: ${error.message}. It needs a browser with WebAssembly's exceptions and vectors, of 2022 or newer.`; });
