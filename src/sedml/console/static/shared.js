// What several roles see: the state of a job, budgets, the checks of the servers, progress.
import { ask, save, watch } from "./api.js";
import { badge, button, card, counted, el, gathered, listing, meter, moment, number, percent, short, table } from "./dom.js";

const KINDS = { open: "good", running: "busy", closed: "busy", done: "good", refused: "bad", failed: "bad", expired: "bad", created: "busy" };
export const ORGANISATION = "organisation";
export const SHARES = "Shares of a budget add up. Epsilons do not: two jobs together have a smaller one than the sum of the two.";
const VERDICTS = { PASS: "good", WARN: "busy", FAIL: "bad" };

export const phase = (job) => badge(job.phase, KINDS[job.state]);
export const name = (job) => job.title || `Job ${job.id.slice(0, 8)}`;
export const className = (job, label) => job.class_names[label] ?? `class ${label}`;
const SHOWN = 8; // names of classes
const classes = ({ classes: many, class_names: names }) => names.length ? `${names.slice(0, SHOWN).join(", ")}${many > SHOWN ? ` and ${number(many - SHOWN)} more` : ""}` : number(many);
const ballots = ({ ballots: { least, most } }, say = number) => `${least === most ? "" : `${number(least)} to `}${say(most)}`;
const votesIn = (job) => el("span", { class: "metered wraps" },
  gathered(job.ballots.least, job.min_teachers, "votes in"), `${ballots(job, (most) => counted(most, "organisation"))}${job.votes > 1 ? ` × ${job.votes} votes` : ""} (at least ${number(job.min_teachers)} needed)`);

const whom = ({ unit, votes, spread }) => (unit === ORGANISATION || votes === 1 ? unit : `${unit}, whose data is in at most ${spread} of an organisation's ${votes} parts`);

export function terms(job) {
  return [
    ["job", el("code", { class: "long" }, job.id)],
    ["requester", job.requester],
    ["samples", number(job.samples)],
    ["classes", classes(job)],
    ["votes in", votesIn(job)],
    ["voting ends", moment(job.deadline)],
    ["threshold, noise", `${number(job.consensus.votes)} of ${counted(job.consensus.of, "vote")}, sigma ${short(job.sigma)}`],
    ["costs at most", `epsilon ${short(job.epsilon)} at delta ${short(job.delta)} for each ${whom(job)}`],
    ["cohort", job.cohort],
  ];
}

export async function jobList(screen, signal, title, more, empty, action) {
  const list = listing("Jobs", [
    ["job", (job) => el("a", { href: `#job/${job.id}` }, name(job))],
    ["phase", phase],
    ["votes in", (job) => el("span", { class: "metered" }, gathered(job.ballots.least, job.min_teachers, "votes in"), `${ballots(job)} (at least ${number(job.min_teachers)})`)],
    ["samples", (job) => number(job.samples), "number"],
    ["epsilon", (job) => short(job.epsilon), "number"],
    ...more,
  ], empty, { words: (job) => `${name(job)} ${job.id} ${job.phase} ${job.requester}` });
  screen.replaceChildren(card(title, action, list.box));
  let shown = "";
  await watch(signal, 2, async () => {
    const found = (await ask("/api/jobs", { signal })).jobs;
    if (shown !== (shown = JSON.stringify(found))) list.show(found);
  });
}

export function serversOf(job) {
  const problems = Object.entries(job.problems).map(([server, what]) => el("p", { class: "bad" }, `${server.toUpperCase()}: ${what}`));
  const columns = [
    ["server", (row) => row.server.toUpperCase()],
    ["state", (row) => row.state],
    ["ballots", (row) => number(row.ballots), "number"],
    ["blocks done", (row) => (row.blocks ? `${row.blocks_done} of ${row.blocks}` : ""), "number"],
    ["vote ended", (row) => moment(row.closed)],
    ["finished", (row) => moment(row.finished)],
    ["says", (row) => row.problem],
  ].filter(([, shown]) => job.servers.some(shown));
  return el("div", {}, table("The job at each server", columns, job.servers, "No server knows this job."), problems);
}

export const forAuditors = (job) => el("div", { class: "actions" }, button("Evidence for an auditor", () => save(`/api/jobs/${job.id}/evidence`)));

export async function budgets(screen) {
  const found = await ask("/api/budgets");
  screen.replaceChildren(card("Privacy budgets",
    el("p", { class: "quiet" }, "Epsilon bounds what requesters and one operator together can learn about anyone whom a budget protects; the smaller, the more private. Each server keeps its own books, and a job must fit into both."),
    table("Budgets", [
      ["cohort", (row) => row.cohort],
      ["protects each", (row) => row.unit],
      ["server", (row) => row.server.toUpperCase()],
      ["used", (row) => el("span", { class: "metered" }, meter(row.used_share, "used"), percent(row.used_share))],
      ["promised", (row) => `epsilon ${short(row.epsilon)} at delta ${short(row.delta)}`, "number"],
    ], found.budgets, "The servers have no budgets.")), ...(found.own.length ? [ownAccount(found.own)] : []));
}

function ownAccount(own) {
  return card("Spent on your votes",
    el("p", { class: "quiet" }, "What the jobs that counted your votes have used of your cohort's budget. ", SHARES, " The epsilon in this table is that of all these jobs together, as it is on the books. They count every job at the one Rényi order of the budget, so the epsilon of a single job may be several times its own, and that of many is far below their sum. To set a limit of your own, use ", el("code", {}, "sedml budget --limit"), "."),
    table("Your account", [
      ["server", (row) => row.server.toUpperCase()],
      ["your cohort", (row) => row.cohort ?? "none yet"],
      ["used", (row) => el("span", { class: "metered" }, meter(row.used, "used"), percent(row.used))],
      ["of", (row) => row.epsilon && `epsilon ${short(row.epsilon)}`, "number"],
      ["all jobs together", (row) => `epsilon ${short(row.used_epsilon)}${row.unit ? ` for each ${row.unit}` : ""}`, "number"],
      ["your limit", (row) => (row.limit === null ? "none" : `epsilon ${short(row.limit)}`), "number"],
    ], own, ""));
}

export async function checks(screen) {
  screen.replaceChildren(card("Servers", el("p", { class: "quiet", "aria-live": "polite" }, "Looking at the kit and the servers …")));
  const found = (await ask("/api/checks")).checks;
  screen.replaceChildren(card("Servers", checkTable(found)));
}

export function checkTable(found) {
  return table("Checks", [
    ["", (row) => badge(row.verdict, VERDICTS[row.verdict] ?? "")],
    ["what", (row) => el("span", { class: "whole" }, row.what)],
    ["found", (row) => row.found],
    ["what to do", (row) => row.do],
  ].filter(([name, shown]) => !name || found.some(shown)), found, "Nothing was looked at.");
}

// A bar that says what is being done; screen readers hear it when that changes.
export function progressBar() {
  const bar = el("progress", { max: 1 }), label = el("span", {}), said = el("span", { class: "unseen", "aria-live": "polite" });
  const box = el("div", { class: "progress", hidden: true }, label, bar, said);
  const show = ({ doing, done, total }) => {
    box.hidden = false;
    if (said.textContent !== doing) said.textContent = doing;
    label.textContent = done ? `${doing}: ${percent(done / total)}` : doing;
    if (done) bar.value = done / total;
    else bar.removeAttribute("value");
  };
  return { box, show, hide: () => { box.hidden = true; } };
}
