// The requester's screens: jobs, and what can be done with each.
import { ask, follow, save, send, watch } from "./api.js";
import { bars } from "./chart.js";
import { button, card, clear, el, facts, moment, number, percent, titled } from "./dom.js";
import { budgets, checks, jobList, name, phase, progressBar, serversOf, terms } from "./shared.js";
import { newJob } from "./planner.js";

async function jobs(screen, signal) {
  const ends = ["voting ends", (job) => moment(job.deadline)];
  await jobList(screen, signal, "Your jobs", [ends], "You have no jobs yet. Create one under “New job”.");
}

async function one(screen, signal, job) {
  const state = el("div", {}), labels = el("div", {}), bar = progressBar(), actions = el("div", { class: "actions" });
  screen.replaceChildren(el("p", {}, el("a", { href: "#jobs" }, "← All jobs")), state, card("What to do", actions, bar.box), labels);
  let shown = "", running = false;

  const result = (found) => {
    const chart = el("div", {});
    labels.replaceChildren(card("Labels",
      el("p", { id: "consensus" }, `${number(found.answered)} of ${number(found.samples)} samples have a consensus (${percent(found.answered / found.samples)}).`),
      chart));
    bars(chart, found.counts);
  };
  const run = async () => {
    clear();
    running = true;
    try {
      result(await follow(`/api/jobs/${job}/run`, null, bar.show));
    } finally {
      running = false;
      shown = "";
      bar.hide();
    }
  };
  const remove = async () => {
    if (!window.confirm("Delete everything that both servers hold of this job? It cannot be undone.")) return;
    await send("DELETE", `/api/jobs/${job}`);
    window.location.hash = "#jobs";
  };
  const offered = (found) => [
    !found.over && button(found.state === "open" ? "End the vote and run" : "Run to the end", run, "primary"),
    has(found) && button("Show the labels", async () => result(await ask(`/api/jobs/${job}/balance`))),
    has(found) && button("Download .npy", () => save(`/api/jobs/${job}/labels/npy`)),
    has(found) && button("Download .csv", () => save(`/api/jobs/${job}/labels/csv`)),
    button("Delete", remove, "danger"),
  ].filter(Boolean);
  const has = (found) => found.done && !found.deleted;

  await watch(signal, 1, async () => {
    const found = await ask(`/api/jobs/${job}`, { signal });
    if (shown === (shown = JSON.stringify(found))) return;
    state.replaceChildren(card(titled(name(found), phase(found)),
      facts([...terms(found), ["the servers say", found.waiting_for]]), serversOf(found)));
    if (!running) actions.replaceChildren(...offered(found));
  });
}

export const screens = { jobs: ["Jobs", jobs], new: ["New job", newJob], budgets: ["Budgets", budgets], servers: ["Servers", checks] };
export const details = { job: one };
