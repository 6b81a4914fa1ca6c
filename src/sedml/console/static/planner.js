// A new job: what it may cost on one side, what that buys on the other, while one moves the sliders.
import { ask, follow, send } from "./api.js";
import { curve } from "./chart.js";
import { button, card, clear, el, facts, field, number, percent, short } from "./dom.js";
import { dropZone, named } from "./files.js";
import { ORGANISATION, progressBar } from "./shared.js";

const PAUSE = 150; // milliseconds without a change before a plan is asked for

const numeric = (value, more = {}) => el("input", { type: "number", value, step: "any", required: true, ...more });

export async function newJob(screen, signal, who) {
  const samples = numeric(1000, { min: 1, step: 1 }), teachers = numeric(250, { min: 1, step: 1 }), classes = numeric(10, { min: 2, step: 1 });
  const epsilon = numeric(2, { min: 0.05 }), slider = el("input", { type: "range", min: -1.3, max: 1.5, step: 0.01, value: Math.log10(2), "aria-label": "Epsilon" });
  const delta = numeric("1e-5"), title = el("input", { type: "text", maxlength: 200 }), deadline = el("input", { type: "text", value: "7d", required: true });
  const votes = numeric(1, { min: 1, max: 64, step: 1 }), spread = numeric(1, { min: 1, max: 64, step: 1 });
  const cohort = el("select", {}), protects = (name, unit) => el("option", { value: name, "data-unit": unit }, `each ${unit} (cohort ${name})`);
  const agreement = numeric(0.75, { min: 0.01, max: 0.99 }), asked = numeric("", { min: 1, step: 1 }), threshold = el("input", { type: "text", required: true }), sigma = numeric("");
  const following = el("input", { type: "checkbox", id: "following", checked: true }), own = [asked, threshold, sigma];

  const chart = el("div", { class: "plot" }), outcome = el("div", { "aria-live": "polite" }), bar = progressBar();
  let file = null, pending = new AbortController(), timer = 0, make = null;
  signal.addEventListener("abort", () => { clearTimeout(timer); pending.abort(); });

  const ready = (yes) => { outcome.classList.toggle("stale", !yes); make.disabled = !yes && following.checked; };
  const unit = () => cohort.selectedOptions[0].dataset.unit;
  const spreads = field("", spread, "1 where parts have nobody in common");
  const plan = async () => {
    spreads.hidden = unit() === ORGANISATION;
    spreads.firstChild.textContent = `Parts, of all organisations, that one ${unit()} may be in`;
    if (spreads.hidden) spread.value = 1;
    pending.abort();
    pending = new AbortController();
    const question = { epsilon: epsilon.value, delta: delta.value, samples: samples.value, teachers: teachers.value, classes: classes.value, agreement: agreement.value, unit: unit(), votes: votes.value, spread: spread.value };
    ready(false);
    try {
      show(await ask(`/api/plan?${new URLSearchParams(question)}`, { signal: pending.signal }));
    } catch (problem) {
      if (problem.name === "AbortError" || pending.signal.aborted) return;
      chart.replaceChildren();
      outcome.replaceChildren(el("p", { class: "bad" }, el("strong", {}, problem.what), " ", problem.do));
      outcome.classList.remove("stale");
    }
  };
  const show = ({ chosen, curve: points, epsilon_apart: apart, organisation, source }) => {
    ready(true);
    curve(chart, points, chosen);
    outcome.replaceChildren(
      el("p", { class: "headline" }, `About ${number(chosen.answered)} labels, ${number(chosen.right)} of them right (${percent(chosen.accuracy)})`),
      el("p", { class: "legend" }, el("span", { class: "key answered" }), "labels ", el("span", { class: "key right" }), "right ones"),
      facts([
        ["ask about", `${number(chosen.asked)} of ${number(samples.value)} samples`],
        ["threshold", `${number(chosen.threshold)} of ${number(teachers.value * votes.value)} votes${votes.value > 1 ? `; one organisation has ${votes.value}` : ""}`],
        ["noise", `sigma ${short(chosen.sigma)}`],
        ["epsilon", `${short(chosen.epsilon)} for each ${unit()}; if neither operator works with you, ${short(apart)}`],
        ["an organisation", organisation && `epsilon ${organisation}`],
        ["assumed", source],
      ]));
    if (!following.checked) return;
    [asked.value, threshold.value, sigma.value] = [chosen.asked, chosen.threshold, chosen.sigma];
  };
  const changed = () => {
    ready(false); // a job that follows the plan waits for the plan of exactly what the form says
    timer = (clearTimeout(timer), setTimeout(plan, PAUSE));
  };
  slider.addEventListener("input", () => { epsilon.value = short(10 ** slider.value); changed(); });
  epsilon.addEventListener("input", () => { slider.value = Math.log10(epsilon.value); });
  for (const input of [epsilon, samples, teachers, classes, delta, agreement, cohort, votes, spread]) input.addEventListener("input", changed);
  const lock = () => own.forEach((input) => { input.readOnly = following.checked; });
  following.addEventListener("change", () => { lock(); make.disabled = false; if (following.checked) plan(); });
  lock();

  // A budget protects whom it protects: a job of another unit would be refused.
  const offer = ({ budgets }) => {
    const units = new Map(budgets.map((line) => [line.cohort, line.unit]));
    if (units.size) cohort.replaceChildren(...Array.from(units, ([name, whom]) => protects(name, whom)));
    if (units.has("teachers")) cohort.value = "teachers";
    if (unit() !== ORGANISATION) plan();
  };
  const take = async (chosen) => {
    const found = await send("PUT", named("/api/samples", chosen), chosen);
    clear();
    file = found;
    samples.value = found.samples;
    if (!following.checked) asked.value = found.samples;
    plan();
    return `${found.name}: ${number(found.samples)} samples`;
  };
  const create = async () => {
    clear();
    if (!form.reportValidity()) return;
    if (!file) throw { what: "No file of samples was chosen yet.", do: "Choose one first: .npz or .npy." };
    const value = (input) => (input.value === "" ? null : Number(input.value));
    const job = {
      classes: Number(classes.value), threshold: threshold.value, epsilon: Number(epsilon.value), delta: Number(delta.value),
      min_teachers: Number(teachers.value), deadline: deadline.value, sigma: value(sigma), title: title.value, cohort: cohort.value,
      unit: unit(), votes: Number(votes.value), spread: Number(spread.value),
    };
    try {
      const created = await follow("/api/jobs", JSON.stringify({ asked: Number(asked.value), follows_plan: following.checked, job }), bar.show);
      window.location.hash = `#job/${created.id}`;
    } finally {
      bar.hide();
    }
  };

  const form = el("form", { onsubmit: (event) => event.preventDefault() },
    card("What it may cost, and what that buys", el("div", { class: "columns" },
      el("div", {},
        dropZone("The samples to be labelled", ".npz,.npy", who.most_bytes.samples, take),
        el("div", { class: "row" }, field("Samples at hand", samples), field("Classes", classes)),
        el("div", { class: "row" }, field("Organisations you expect", teachers, "if fewer vote, the job is refused"), field("Votes of each", votes, "one for each part of its data")),
        field("Who is protected", cohort, "by the budget of the cohort, to which the job is charged"), spreads,
        el("div", { class: "row" }, field("Epsilon", epsilon, "the most it may cost one of them"), field("Delta", delta)),
        slider),
      el("div", {}, chart, outcome))),
    card("The job",
      el("div", { class: "row" }, field("Title, for teachers to see", title), field("Voting ends", deadline, "45m, 12h, 7d, or 2030-01-31T12:00")),
      el("details", {}, el("summary", {}, "Threshold and noise"),
        el("p", { class: "check" }, following, el("label", { for: "following" }, "Follow the plan")),
        el("div", { class: "row" }, field("Ask about the first", asked, "samples of the file"), field("Threshold", threshold, "votes, or a fraction")),
        el("div", { class: "row" }, field("sigma", sigma, "noise on every count"), field("How often a teacher is right", agreement, "assumed by the plan"))),
      el("div", { class: "actions" }, make = button("Create the job", create, "primary")), bar.box));
  sigma.required = false;
  screen.replaceChildren(form);
  cohort.append(protects("teachers", ORGANISATION));
  await Promise.all([plan(), ask("/api/budgets", { signal }).then(offer)]);
}
