// Which screen is shown: it is named by what follows # in the address.
import { ask } from "./api.js";
import { clear, el, notice } from "./dom.js";
import * as operator from "./operator.js";
import * as requester from "./requester.js";
import * as teacher from "./teacher.js";

const ROLES = { operator, requester, teacher };
const screen = document.querySelector("#screen"), tabs = document.querySelector("#tabs");
let current = new AbortController();

async function show(who) {
  current.abort();
  current = new AbortController();
  const { signal } = current, { screens, details } = ROLES[who.role];
  const [name, argument] = window.location.hash.slice(1).split("/");
  const shown = screens[name] ? name : details[name] ? "jobs" : Object.keys(screens)[0];
  for (const tab of tabs.children) {
    tab.setAttribute("aria-current", tab.dataset.screen === shown ? "page" : "false");
    if (tab.dataset.screen === shown) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  clear();
  screen.replaceChildren(el("p", { class: "quiet", role: "status" }, "Loading …"));
  const draw = details[name] ?? screens[shown][1];
  try {
    await draw(screen, signal, argument && details[name] ? argument : who);
  } catch (problem) {
    if (!signal.aborted) notice(problem);
  }
}

try {
  const who = await ask("/api/who");
  const places = Object.keys(who.servers).map((server) => server.toUpperCase()).join(" and ");
  document.querySelector("#who").textContent = `${who.name}, ${who.role} at ${places}`;
  document.title = `${who.name} · SEDML console`;
  tabs.replaceChildren(...Object.entries(ROLES[who.role].screens).map(([name, [label]]) => el("a", { href: `#${name}`, "data-screen": name }, label)));
  window.addEventListener("hashchange", () => show(who));
  await show(who);
} catch (problem) {
  notice(problem);
}
