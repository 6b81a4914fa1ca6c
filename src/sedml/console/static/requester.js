// The requester's screens: jobs, and what can be done with each.
import { ask, follow, send, watch } from "./api.js";
import { button, card, clear, counted, el, facts, gathered, moment, titled } from "./dom.js";
import { labelsCard } from "./labels.js";
import { budgets, checks, forAuditors, jobList, name, phase, progressBar, serversOf, terms } from "./shared.js";
import { newJob } from "./planner.js";

const UNDER_WAY = ["closed", "running"];

async function jobs(screen, signal) {
  const ends = ["voting ends", (job) => moment(job.deadline)];
  await jobList(screen, signal, "Your jobs", [ends], "You have no jobs yet.", el("a", { class: "button primary corner", href: "#new" }, "New job"));
}

async function one(screen, signal, job) {
  const state = el("div", {}), labels = el("div", {}), bar = progressBar(), actions = el("div", { class: "actions" });
  screen.replaceChildren(el("p", {}, el("a", { href: "#jobs" }, "← All jobs")), state, card("What to do", actions, bar.box), labels);
  let shown = "", running = false, known = null;

  const show = (found) => labels.replaceChildren(labelsCard(known, found));
  const run = async () => {
    clear();
    running = true;
    offer();
    try {
      show(await follow(`/api/jobs/${job}/run`, null, bar.show));
    } finally {
      running = false;
      bar.hide();
      offer();
    }
    await look();
  };
  const remove = async () => {
    if (!window.confirm("Delete everything that both servers hold of this job? It cannot be undone.")) return;
    await send("DELETE", `/api/jobs/${job}`);
    window.location.hash = "#jobs";
  };
  const offer = () => {
    const busy = running || UNDER_WAY.includes(known.state);
    const start = button(known.state === "open" ? "End the vote and run" : "Run to the end", run, "primary"), discard = button("Delete", remove, "danger");
    [start.disabled, discard.disabled] = [running, busy];
    discard.title = busy ? "It can be deleted once it has ended." : "";
    actions.replaceChildren(...[
      !known.over && start,
      known.done && !known.deleted && button("Show the labels", async () => show(await ask(`/api/jobs/${job}/labels`)), "primary"),
      !known.deleted && discard,
      known.deleted && el("p", { class: "quiet" }, "Nothing of it is left but this record."),
    ].filter(Boolean));
  };

  const look = async () => {
    known = await ask(`/api/jobs/${job}`, { signal });
    if (shown === (shown = JSON.stringify(known))) return;
    offer();
    const done = known.state === "running" && [gathered(known.samples_done, known.samples, "samples done"), ` ${known.samples_done} of ${counted(known.samples, "sample")} done`];
    state.replaceChildren(card(titled(name(known), phase(known)), done && el("p", {}, done),
      facts([...terms(known), ["the servers say", known.waiting_for]]), serversOf(known), forAuditors(known)));
  };
  await watch(signal, 1, look);
}

export const screens = { jobs: ["Jobs", jobs], new: ["New job", newJob], budgets: ["Budgets", budgets], servers: ["Servers", checks] };
export const details = { job: one };
