// The operator's screens: how the server is, its jobs and their history, accounts, the audit log, figures.
import { ask, send, watch } from "./api.js";
import { badge, button, card, clear, el, facts, id, moment, number, table, titled } from "./dom.js";
import { dropZone } from "./files.js";
import { budgets, checks, checkTable, jobList, name, phase, serversOf, terms } from "./shared.js";

const MOST_ENROLMENT = 1 << 16;

async function overview(screen, signal) {
  const tiles = el("div", { class: "tiles" }), health = el("div", {}), recent = el("div", {});
  screen.replaceChildren(tiles, card("Needs attention", health), card("Newest in the audit log", recent));
  const tile = (label, value, kind = "") => el("div", { class: `tile ${kind}` }, el("strong", {}, value), el("span", {}, label));
  await watch(signal, 10, async () => {
    const [found, { figures }, audit] = await Promise.all([ask("/api/checks", { signal }), ask("/api/figures", { signal }), ask("/api/audit", { signal })]);
    const figure = (wanted, labels = "") => Number(figures.find((one) => one.name === wanted && one.labels.includes(labels))?.value ?? 0);
    const wrong = found.checks.filter((check) => check.verdict !== "PASS");
    tiles.replaceChildren(
      tile("checks passed", `${found.checks.length - wrong.length} of ${found.checks.length}`, wrong.length ? "busy" : "good"),
      ...["open", "running", "done"].map((state) => tile(`jobs ${state}`, number(figure("jobs", `"${state}"`)))),
      tile("ballots held", number(figure("ballots_total"))),
      tile("alarms", number(figure("alarms_total")), figure("alarms_total") ? "bad" : "good"),
      tile("since the other server was heard", figure("peer_seen_seconds") < 0 ? "never" : `${number(figure("peer_seen_seconds"))} s`));
    health.replaceChildren(wrong.length ? checkTable(wrong) : el("p", {}, badge("PASS", "good"), " Every check passes."));
    recent.replaceChildren(verdict(audit), auditTable(audit.entries.slice(0, 8)));
  });
}

async function jobs(screen, signal) {
  const more = [["requester", (job) => job.requester], ["created", (job) => moment(job.created)]];
  await jobList(screen, signal, "Jobs on this server", more, "There are no jobs.");
}

async function one(screen, signal, job) {
  const [found, audit] = await Promise.all([ask("/api/jobs", { signal }), ask("/api/audit", { signal })]);
  const known = found.jobs.find((other) => other.id === job);
  screen.replaceChildren(el("p", {}, el("a", { href: "#jobs" }, "← All jobs")),
    known ? card(titled(name(known), phase(known)), facts(terms(known)), serversOf(known)) : card("Job", el("p", {}, "This server does not list it.")),
    card("History", auditTable(audit.entries.filter((entry) => entry.subject.includes(job)))));
}

async function accounts(screen, signal) {
  const list = el("div", {});
  const load = async () => {
    const found = (await ask("/api/accounts", { signal })).accounts;
    list.replaceChildren(table("Accounts", [
      ["name", (account) => account.name],
      ["organisation", (account) => account.organisation],
      ["role", (account) => account.role],
      ["since", (account) => moment(account.created_at)],
      ["access", (account) => (account.revoked_at ? badge(`revoked ${moment(account.revoked_at)}`, "bad") : badge("allowed", "good"))],
      ["", (account) => !account.revoked_at && account.role !== "operator" && button("Revoke", () => revoke(account.name), "danger")],
    ], found, "There are no accounts."));
  };
  const revoke = async (account) => {
    if (!window.confirm(`Revoke the access of ${account} to this server, at once? Tell the other operator too.`)) return;
    await send("DELETE", `/api/accounts/${encodeURIComponent(account)}`);
    await load();
  };
  const add = async (file) => {
    clear();
    const made = await send("PUT", "/api/accounts", await file.text());
    await load();
    return `${made.role} ${made.name} may call this server`;
  };
  screen.replaceChildren(
    card("Add an account",
      el("p", {}, "Teachers and requesters make their own kit with ", el("code", {}, "sedml enrol"), " and give you its enrolment.json. It holds hashes only: no token passes through your hands. The other operator adds the same file."),
      dropZone("The enrolment.json of a teacher or requester", ".json", MOST_ENROLMENT, add)),
    card("Accounts", list));
  await load();
}

async function audit(screen, signal) {
  const lines = el("div", {});
  const load = async (path) => {
    const found = await ask(path, { signal });
    lines.replaceChildren(verdict(found), found.head ? el("p", { class: "quiet" }, "Head, to be noted: ", el("code", { class: "long" }, found.head)) : "", auditTable(found.entries));
  };
  screen.replaceChildren(card("Audit log", el("div", { class: "actions" }, button("Check every line from the first on", () => load("/api/audit?whole"))), lines));
  await load("/api/audit");
}

function verdict(found) {
  const text = found.complaint ?? `The ${number(found.read)} lines that were read fit each other.`;
  return el("p", { "aria-live": "polite" }, badge(found.complaint ? "FAIL" : "PASS", found.complaint ? "bad" : "good"), ` ${text}`);
}

function auditTable(entries) {
  return table("Audit log", [
    ["line", (entry) => number(entry.number), "number"],
    ["at", (entry) => moment(entry.at)],
    ["who", (entry) => entry.actor],
    ["did", (entry) => entry.action],
    ["to", (entry) => (/^[0-9a-f]{32}$/.test(entry.subject) ? id(entry.subject) : entry.subject)],
    ["outcome", (entry) => entry.outcome],
  ], entries, "The log has no such lines.");
}

async function load(screen, signal) {
  const work = el("div", {}), requests = el("div", {});
  screen.replaceChildren(el("p", { class: "quiet" }, "What the server counts, as monitoring sees it at /metrics."), card("Work", work), card("Requests", requests));
  const shown = (rows) => table("Figures", [
    ["figure", (one) => one.name.replaceAll("_", " ")],
    ["of", (one) => one.labels.replaceAll('"', "").replaceAll(",", ", ")],
    ["value", (one) => Number(one.value).toLocaleString("en"), "number"],
  ], rows, "The server gives no figures.");
  await watch(signal, 5, async () => {
    const { figures } = await ask("/api/figures", { signal }), web = (one) => one.name.startsWith("http_");
    work.replaceChildren(shown(figures.filter((one) => !web(one))));
    requests.replaceChildren(shown(figures.filter(web).sort((one, other) => other.value - one.value)));
  });
}

export const screens = {
  overview: ["Overview", overview], jobs: ["Jobs", jobs], accounts: ["Accounts", accounts], budgets: ["Budgets", budgets],
  audit: ["Audit log", audit], servers: ["Health", checks], load: ["Load", load],
};
export const details = { job: one };
