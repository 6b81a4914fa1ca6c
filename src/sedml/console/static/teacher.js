// The teacher's screens: jobs that are open, what a vote costs, voting by a file, receipts.
import { ask, save, send, watch } from "./api.js";
import { badge, button, card, clear, el, facts, field, moment, percent, short, table, titled } from "./dom.js";
import { dropZone, named } from "./files.js";
import { ORGANISATION, budgets, checks, name, phase, terms } from "./shared.js";

const KINDS = ".npy,.npz,.csv,.parquet";

async function open(screen, signal, who) {
  const list = el("div", {});
  screen.replaceChildren(list);
  let shown = "";
  await watch(signal, 2, async () => {
    const found = (await ask("/api/jobs", { signal })).jobs;
    // The number of votes changes all the time, and a form must not be pulled away under somebody's hands.
    if (shown === (shown = JSON.stringify(found.map((job) => job.id)))) return;
    const receipts = await receiptsOf(found, signal);
    list.replaceChildren(...(found.length ? found.map((job, at) => ballot(job, receipts[at], who)) : [card("Open jobs", el("p", { class: "quiet" }, "No job is open for votes."))]));
  });
}

// One after the other: a server answers an account only so many questions at once.
async function receiptsOf(jobs, signal) {
  const found = [];
  for (const job of jobs) found.push(await ask(`/api/jobs/${job.id}/receipt`, { signal }));
  return found;
}

const begun = (receipt) => Object.values(receipt.received).some(Boolean);

function ballot(job, known, who) {
  const said = el("div", { "aria-live": "polite" }, begun(known) && receiptOf(known));
  const vote = async (file) => {
    clear();
    const receipt = await send("POST", named(`/api/jobs/${job.id}/vote`, file), file);
    said.replaceChildren(receiptOf(receipt));
    return `Voted with ${file.name}`;
  };
  const budget = job.cost.budget;
  return card(titled(name(job), phase(job)),
    el("p", { class: "promise" }, job.cost.promise),
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Terms"), facts(terms(job))),
      el("div", {}, el("h3", {}, "What your vote costs"),
        facts([
          ["this job", `epsilon ${short(job.cost.epsilon)}; if neither operator works with the requester, ${short(job.cost.epsilon_apart)}`],
          budget && ["all jobs so far", `${percent(budget.before_share)} of your cohort's budget, epsilon ${short(budget.promised)}`],
          budget && ["with this one", percent(budget.after_share)],
        ].filter(Boolean)),
        el("p", { class: "quiet" }, `Epsilon bounds what the requester and one operator together can learn about ${job.unit === ORGANISATION ? "your votes" : `any one ${job.unit}`}; the smaller, the more private.`))),
    said,
    el("div", { class: "actions" }, button("Download the samples", () => save(`/api/jobs/${job.id}/samples`))),
    dropZone("Vote with a file of your predictions", KINDS, who.most_bytes.predictions, vote),
    el("p", { class: "quiet" }, job.votes > 1
      ? `One row for each of your votes, up to ${job.votes}: a class per sample (negative to abstain), or in .npy and .npz files a row of scores per sample, in the order of the samples.`
      : "One class per sample (negative to abstain), or one row of scores per sample, in the order of the samples.", " The file is read on this machine; each server gets half a ballot, which reveals nothing."));
}

function receiptOf(receipt) {
  const halves = Object.entries(receipt.received).map(([server, at]) => [server.toUpperCase(), at ? `on disk since ${moment(at)}` : "has no vote of yours"]);
  return el("div", { class: "receipt" }, el("p", {}, verdict(receipt)), facts([...halves, ["your parts", receipt.parts && el("code", { class: "long" }, receipt.parts)]]));
}

function verdict(receipt) {
  if (receipt.complete) return badge("your vote counts", "good");
  return begun(receipt) ? badge("half a vote: vote again with the same file", "bad") : badge("no vote yet", "");
}

async function receipts(screen, signal) {
  const list = el("div", {}), found = el("div", { "aria-live": "polite" }), job = el("input", { type: "text", minlength: 32, maxlength: 32, pattern: "[0-9a-f]{32}", spellcheck: "false", required: true });
  const look = async () => {
    clear();
    if (job.reportValidity()) found.replaceChildren(receiptOf(await ask(`/api/jobs/${job.value}/receipt`)));
  };
  screen.replaceChildren(card("Votes on open jobs", list), card("Receipt of any job", field("Job", job, "all 32 digits of its id"), el("div", { class: "actions" }, button("Look it up", look)), found));
  const jobs = (await ask("/api/jobs", { signal })).jobs, known = await receiptsOf(jobs, signal);
  list.append(table("Votes", [
    ["job", name],
    ["id", (one) => el("code", { class: "long" }, one.id)],
    ["your vote", (one) => verdict(known[jobs.indexOf(one)])],
    ["voting ends", (one) => moment(one.deadline)],
  ], jobs, "No job is open for votes."));
}

export const screens = { jobs: ["Open jobs", open], receipts: ["Receipts", receipts], budgets: ["Budget", budgets], servers: ["Servers", checks] };
export const details = {};
