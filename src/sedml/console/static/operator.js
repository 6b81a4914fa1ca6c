// The operator's screens: how the server is, its jobs and their history, accounts, the log, figures.
import { ask, send, watch } from "./api.js";
import { badge, button, card, counted, el, facts, id, lasting, listing, moment, number, table, titled } from "./dom.js";
import { dropZone } from "./files.js";
import { load } from "./load.js";
import { budgets, checks, checkTable, jobList, name, phase, serversOf, terms } from "./shared.js";

const MOST_ENROLMENT = 1 << 16;

async function overview(screen, signal) {
  const tiles = el("div", { class: "tiles" }), health = el("div", {}), recent = el("div", {});
  screen.replaceChildren(tiles, card("Needs attention", health), card("Newest in the log", recent));
  const tile = (label, value, kind = "") => el("div", { class: `tile ${kind}` }, el("strong", {}, value), el("span", {}, label));
  await watch(signal, 10, async () => {
    const [found, { figures }, lines] = await Promise.all([ask("/api/checks", { signal }), ask("/api/figures", { signal }), ask("/api/log", { signal })]);
    const figure = (wanted, state) => Number(figures.find((one) => one.name === wanted && one.labels.state === state)?.value ?? 0);
    const wrong = found.checks.filter((check) => check.verdict !== "PASS");
    tiles.replaceChildren(
      tile("checks passed", `${found.checks.length - wrong.length} of ${found.checks.length}`, wrong.length ? "busy" : "good"),
      ...["open", "running", "done"].map((state) => tile(`jobs ${state}`, number(figure("jobs", state)))),
      tile("ballots held", number(figure("ballots_total"))),
      tile("alarms", number(figure("alarms_total")), figure("alarms_total") ? "bad" : "good"),
      tile("since the other server was last heard from", figure("peer_seen_seconds") < 0 ? "never" : lasting(figure("peer_seen_seconds"))));
    health.replaceChildren(wrong.length ? checkTable(wrong) : el("p", {}, badge("PASS", "good"), " Every check passes."));
    recent.replaceChildren(table("Log", LINES, lines.entries.slice(0, 6), "The log is empty."));
  });
}

async function jobs(screen, signal) {
  const more = [["requester", (job) => job.requester], ["created", (job) => moment(job.created)]];
  await jobList(screen, signal, "Jobs on this server", more, "There are no jobs.");
}

async function one(screen, signal, job) {
  const [found, lines] = await Promise.all([ask("/api/jobs", { signal }), ask("/api/log", { signal })]);
  const known = found.jobs.find((other) => other.id === job);
  const history = listing("History", LINES, "The lines that were read say nothing about it.");
  history.show(lines.entries.filter((entry) => entry.subject.includes(job)));
  screen.replaceChildren(el("p", {}, el("a", { href: "#jobs" }, "← All jobs")),
    known ? card(titled(name(known), phase(known)), facts(terms(known)), serversOf(known)) : card("Job", el("p", {}, "This server does not list it.")),
    card("History", history.box,
      el("p", { class: "quiet" }, `From the newest ${counted(lines.entries.length, "line")} of the log.`)));
}

async function accounts(screen, signal) {
  const list = listing("Accounts", [
    ["name", (account) => account.name],
    ["organisation", (account) => account.organisation],
    ["role", (account) => account.role],
    ["since", (account) => moment(account.created_at)],
    ["access", (account) => (account.revoked_at ? badge(`revoked ${moment(account.revoked_at)}`, "bad") : badge("allowed", "good"))],
    ["", (account) => !account.revoked_at && account.role !== "operator" && button("Revoke", () => revoke(account.name), "danger")],
  ], "There are no accounts.", { words: ({ name: called, organisation, role, revoked_at: revoked }) => `${called} ${organisation} ${role} ${revoked ? "revoked" : "allowed"}` });
  const refresh = async () => list.show((await ask("/api/accounts", { signal })).accounts);
  const revoke = async (account) => {
    if (!window.confirm(`Revoke the access of ${account} to this server, at once? Tell the other operator too.`)) return;
    await send("DELETE", `/api/accounts/${encodeURIComponent(account)}`);
    await refresh();
  };
  const add = async (file) => {
    const made = await send("PUT", "/api/accounts", await file.text());
    await refresh();
    return `${made.role} ${made.name} may call this server`;
  };
  screen.replaceChildren(
    card("Add an account",
      el("p", {}, "Teachers and requesters make their own kit with ", el("code", {}, "sedml enrol"), " and give you its enrolment.json. It holds hashes only: no token passes through your hands. The other operator adds the same file."),
      dropZone("The enrolment.json of a teacher or requester", ".json", MOST_ENROLMENT, add)),
    card("Accounts", list.box));
  await refresh();
}

async function log(screen, signal) {
  const said = el("div", {}), lines = listing("Log", LINES, "The log is empty.", { words: (entry) => Object.values(entry).join(" ") });
  const read = async (path) => {
    const found = await ask(path, { signal });
    said.replaceChildren(verdict(found));
    lines.show(found.entries);
  };
  screen.replaceChildren(card("Log", el("div", { class: "actions" }, button("Check every entry", () => read("/api/log?whole"))), said, lines.box));
  await read("/api/log");
}

function verdict(found) {
  const checked = found.said.startsWith("All");
  const mark = found.complaint ? badge("FAIL", "bad") : checked ? badge("PASS", "good") : "";
  return el("p", { "aria-live": "polite" }, mark, ` ${found.complaint ?? found.said}`);
}

const brief = (text) => (/^[0-9a-f]{32,}$/.test(text) ? id(text) : text); // ids and digests
const LINES = [
  ["line", (entry) => number(entry.number), "number"],
  ["at", (entry) => moment(entry.at)],
  ["who", (entry) => entry.actor],
  ["did", (entry) => entry.action],
  ["to", (entry) => brief(entry.subject)],
  ["outcome", (entry) => brief(entry.outcome)],
];

export const screens = {
  overview: ["Overview", overview], jobs: ["Jobs", jobs], accounts: ["Accounts", accounts], budgets: ["Budgets", budgets],
  log: ["Log", log], servers: ["Health", checks], load: ["Load", load],
};
export const details = { job: one };
