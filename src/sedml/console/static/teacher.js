// The teacher's screens: jobs that are open, what a vote costs, voting by a file, receipts.
import { ask, save, send, watch } from "./api.js";
import { bars } from "./chart.js";
import { badge, button, card, clear, counted, el, facts, field, listing, mark, meter, moment, number, percent, short, table, titled } from "./dom.js";
import { dropZone, named } from "./files.js";
import { ORGANISATION, SHARES, budgets, checks, className, forAuditors, name, phase, terms } from "./shared.js";

const ID = 32; // digits
const KINDS = ".csv,.tsv,.parquet,.npy,.npz";

async function open(screen, signal, who) {
  const list = el("div", {});
  screen.replaceChildren(list);
  let ballots = null;
  await watch(signal, 2, async () => {
    const found = (await ask("/api/jobs", { signal })).jobs;
    // A form must not be pulled away under somebody's hands: of jobs that are shown, only the figures are renewed.
    if (ballots && found.map((job) => job.id).join() === [...ballots.keys()].join()) {
      for (const job of found) ballots.get(job.id).renew(job);
      return;
    }
    const receipts = await receiptsOf(found, signal);
    ballots = new Map(found.map((job, at) => [job.id, ballots?.get(job.id) ?? ballot(job, receipts[at], who)]));
    const nothing = card("Open jobs", el("p", { class: "quiet" }, "No job is open for votes. New jobs appear here by themselves."));
    list.replaceChildren(...(found.length ? Array.from(ballots.values(), ({ box }) => box) : [nothing]));
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
  const said = el("div", { "aria-live": "polite" }), figures = el("div", {}), seen = el("div", { "aria-live": "polite" });
  const renew = (now) => figures.replaceChildren(facts(terms(now)));
  // A vote is final: a file is looked at first, and the bytes that were looked at are those that are sent.
  const look = async (file) => {
    seen.replaceChildren(); // nobody casts the file before, should this one be refused
    const content = await file.arrayBuffer(), found = await send("POST", named(`/api/jobs/${job.id}/preview`, file), content);
    const cast = async () => {
      clear();
      settle(await send("POST", named(`/api/jobs/${job.id}/vote`, file), content));
      seen.replaceChildren();
      renew((await ask("/api/jobs")).jobs.find((one) => one.id === job.id) ?? job);
    };
    seen.replaceChildren(preview(job, file, found, cast, () => seen.replaceChildren()));
    seen.scrollIntoView({ block: "nearest" });
    return `${file.name} has not been sent yet. You can still choose another file.`;
  };
  const by = job.class_names.length ? "a class by its name or its number" : "a class";
  const how = job.votes > 1
    ? `One row for each of your votes, up to ${job.votes}: ${by} per sample (negative to abstain), or in .npy and .npz files a row of scores per sample, in the order of the samples.`
    : `For each sample ${by} (negative to abstain), or a row of scores: in the order of the samples, or after each sample's id.`;
  const zone = el("div", {}, dropZone("A file of your predictions", KINDS, who.most_bytes.predictions, look),
    el("p", { class: "quiet" }, how, " You see your votes before anything is sent. The file is read on this machine; each server gets half of a ballot, which by itself reveals nothing."));
  const settle = (receipt) => {
    said.replaceChildren(...(begun(receipt) ? [receiptOf(receipt)] : []));
    zone.hidden = receipt.complete;
  };
  renew(job);
  settle(known);
  const box = card(titled(name(job), phase(job)),
    el("p", { class: "promise" }, job.cost.promise),
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Terms"), figures),
      el("div", {}, el("h3", {}, "What your vote costs"), ...cost(job))),
    said,
    el("div", { class: "actions" }, button("Download the samples", () => save(`/api/jobs/${job.id}/samples`))), zone, seen);
  return { box, renew };
}

function cost(job) {
  const { budget } = job.cost, share = budget && budget.after_share - budget.before_share;
  return [
    facts([
      ["this job alone", `epsilon ${short(job.cost.epsilon)} for each ${job.unit}; if neither operator works with the requester, ${short(job.cost.epsilon_apart)}`],
      budget && ["of your cohort's budget", `${percent(share)} of epsilon ${short(budget.promised)}`],
      budget && ["used, with this job", el("span", { class: "metered" }, meter(budget.after_share, "used"), percent(budget.after_share))],
    ].filter(Boolean)),
    el("p", { class: "quiet" }, `Epsilon bounds what the requester and one operator together can learn about ${job.unit === ORGANISATION ? "your votes" : `any one ${job.unit}`}; the smaller, the more private. `, SHARES),
  ];
}

function preview(job, file, found, cast, dismiss) {
  const chart = el("div", {}), rows = found.votes[0].map((_, sample) => ({ sample: found.ids?.[sample] ?? number(sample), votes: found.votes.map((row) => row[sample]) }));
  const spoken = (vote) => (vote < 0 ? "abstains" : className(job, vote));
  bars(chart, found.counts, "Your votes by class", job.class_names);
  return el("section", { class: "preview" },
    el("h3", {}, `${file.name}: check it before you vote`),
    el("div", { class: "columns" },
      el("div", {}, chart, el("p", { class: "quiet" }, `${counted(found.counts.reduce((sum, count) => sum + count, 0), "vote")}, ${counted(found.abstained, "abstention")}.`)),
      el("div", {}, table("First votes", [["sample", (row) => row.sample, !found.ids && "number"], ["your vote", (row) => row.votes.slice(0, 8).map(spoken).join(", ") + (row.votes.length > 8 ? ", …" : "")]], rows, ""),
        job.samples > rows.length && el("p", { class: "quiet" }, `and ${counted(job.samples - rows.length, "more sample")}.`))),
    el("p", {}, el("strong", {}, "A vote is final: "), `it can be neither changed nor taken back. It costs up to epsilon ${short(job.cost.epsilon)} for each ${job.unit}.`),
    el("div", { class: "actions" }, button("Cast this vote", cast, "primary"), button("Do not vote", dismiss)));
}

function receiptOf(receipt) {
  const halves = Object.entries(receipt.received).map(([server, at]) => [server.toUpperCase(), at ? `on disk since ${moment(at)}` : "has no vote of yours"]);
  return el("div", { class: "receipt" }, el("p", {}, verdict(receipt)), facts([...halves, ["your parts", receipt.parts && el("code", { class: "long" }, receipt.parts)]]), forAuditors({ id: receipt.job }));
}

function verdict(receipt) {
  if (receipt.complete) return badge("your vote counts", "good");
  return begun(receipt) ? badge("half a vote: vote again with the same file", "bad") : badge("no vote yet", "");
}

async function receipts(screen, signal) {
  const list = listing("Votes", [
    ["job", name],
    ["id", (one) => el("code", { class: "long" }, one.id)],
    ["your vote", (one) => verdict(one.receipt)],
    ["voting ends", (one) => moment(one.deadline)],
  ], "No job is open for votes, and this kit has no receipts.", { words: (one) => `${name(one)} ${one.id}` });
  const found = el("div", { "aria-live": "polite" }), job = el("input", { type: "text", spellcheck: "false" });
  let known = [];
  const look = async () => {
    clear();
    found.replaceChildren();
    const text = job.value.trim().toLowerCase(), meant = text.length < ID ? known.filter((one) => one.id.startsWith(text)) : [{ id: text }];
    if (meant.length === 1) found.replaceChildren(receiptOf(await ask(`/api/jobs/${encodeURIComponent(meant[0].id)}/receipt`)));
    else mark(job, meant.length ? `${counted(meant.length, "id")} begin like this. Give more digits.` : "No id in this list begins like this. Give the whole id.");
  };
  screen.replaceChildren(card("Your votes, and open jobs", list.box), card("Receipt of any job", field("Job", job, "its id, or the first digits of it"), el("div", { class: "actions" }, button("Look it up", look)), found));
  const [{ jobs }, { receipts: kept }] = await Promise.all([ask("/api/jobs", { signal }), ask("/api/receipts", { signal })]);
  const asked = await receiptsOf(jobs, signal), over = kept.filter((one) => !jobs.some((other) => other.id === one.id));
  known = [...jobs.map((one, at) => ({ ...one, receipt: asked[at] })), ...over.map((one) => ({ ...one, receipt: { complete: true } }))];
  list.show(known);
}

export const screens = { jobs: ["Open jobs", open], receipts: ["Receipts", receipts], budgets: ["Budget", budgets], servers: ["Servers", checks] };
export const details = {};
