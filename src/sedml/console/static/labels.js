// The labels of a finished job: how they are spread over the classes, and each of them.
import { save } from "./api.js";
import { bars } from "./chart.js";
import { button, card, counted, el, field, listing, number, percent } from "./dom.js";
import { className } from "./shared.js";

const NONE = -1;

export function labelsCard(job, { labels, ids }) {
  const rows = labels.map((label, sample) => ({ sample, id: ids?.[sample] ?? number(sample), label })), answered = labels.filter((label) => label !== NONE).length;
  const counts = Array(job.classes).fill(0);
  for (const label of labels) if (label !== NONE) counts[label] += 1;
  const spoken = (label) => (label === NONE ? "no consensus" : className(job, label));
  const option = (value, text) => el("option", { value }, text);
  const only = el("select", {}, option("", "all samples"), option("any", "samples with a label"), option(NONE, `no consensus (${number(labels.length - answered)})`),
    counts.map((count, label) => option(label, `${spoken(label)} (${number(count)})`)));
  const sample = ids ? el("input", { type: "search" }) : el("input", { type: "number", min: 0, max: labels.length - 1 });
  const wanted = ({ label }) => only.value === "" || (only.value === "any" ? label !== NONE : label === Number(only.value));
  const meant = (row) => (ids ? row.id.toLowerCase().includes(sample.value.trim().toLowerCase()) : sample.value === "" || row.sample === Number(sample.value));
  const list = listing("Labels", [
    ["sample", (row) => row.id, !ids && "number"],
    ["label", (row) => (row.label === NONE ? el("span", { class: "quiet" }, spoken(NONE)) : spoken(row.label))],
  ], "", { filters: [field("Show", only), field(ids ? "Find a sample" : "Sample", sample)], keeps: (row) => wanted(row) && meant(row) });
  list.show(rows);
  const chart = el("div", {});
  bars(chart, counts, "Labels by class", job.class_names);
  return card("Labels",
    el("p", { id: "consensus" }, `${number(answered)} of ${counted(labels.length, "sample")} ${answered === 1 ? "has" : "have"} a consensus (${percent(answered / labels.length)}).`),
    el("div", { class: "actions" }, ["csv", "npy"].map((kind) => button(`Download .${kind}`, () => save(`/api/jobs/${job.id}/labels/${kind}`)))),
    el("div", { class: "columns" }, chart, list.box));
}
