// A new job: what it may cost on one side, what that buys on the other, while one moves the sliders.
import { ask, follow, send } from "./api.js";
import { curve } from "./chart.js";
import { card, checked, clear, counted, el, facts, field, lead, mark, notice, number, percent, short } from "./dom.js";
import { dropZone, named } from "./files.js";
import { ORGANISATION, progressBar } from "./shared.js";

const UNMADE = "Correct the marked fields to see the plan.";
const ENOUGH = 250; // votes of all organisations together, where they may have many
const PAUSE = 200; // milliseconds without a change before a plan is asked for

const numeric = (value, more = {}) => el("input", { type: "number", value, step: "any", required: true, ...more });

export async function newJob(screen, signal, who) {
  const samples = numeric(1000, { min: 1, step: 1 }), teachers = numeric(250, { min: 1, step: 1 }), classes = el("textarea", { rows: 1, required: true, spellcheck: "false" }, "10");
  const epsilon = numeric(2, { min: 0.05 }), slider = el("input", { type: "range", min: -1.3, max: 1.5, step: 0.01, value: Math.log10(2), "aria-label": "Epsilon" });
  const delta = numeric("1e-5", { min: "1e-12", max: 0.5 }), title = el("input", { type: "text", maxlength: 200 }), deadline = el("input", { type: "text", value: "7d", required: true });
  const ids = el("select", {}), idColumn = field("Column with the ids", ids, "teachers see these ids, and the labels carry them");
  const votes = numeric(1, { min: 1, max: 64, step: 1 }), spread = numeric(1, { min: 1, max: 64, step: 1 });
  const cohort = el("select", {}), protects = (name, unit) => el("option", { value: name, "data-unit": unit }, `each ${unit} (cohort ${name})`);
  const agreement = numeric(0.75, { min: 0.01, max: 0.99 }), asked = numeric(samples.value, { min: 1, step: 1 }), threshold = el("input", { type: "text", value: 0.6, required: true }), sigma = numeric("", { required: false });
  const following = el("input", { type: "checkbox", id: "following", checked: true }), own = [asked, threshold, sigma];
  const planned = { epsilon, samples, teachers, classes, delta, agreement, votes, spread }, inputs = { ...planned, title, deadline, cohort, asked, threshold, sigma, id_column: ids, min_teachers: teachers };
  const values = () => ({ ...Object.fromEntries(Object.entries(planned).map(([name, input]) => [name, Number(input.value)])), classes: classes.value.trim().split(/[,\n]+/).filter((name) => name.trim()).join() });

  const chart = el("div", { class: "plot" }), outcome = el("div", { "aria-live": "polite" }), planning = progressBar(), creating = progressBar();
  const make = el("button", { class: "primary" }, "Create the job");
  let file = null, pending = new AbortController(), timer = 0, followed = null, busy = false, votesGiven = false;
  signal.addEventListener("abort", () => { clearTimeout(timer); pending.abort(); });

  // A job that follows the plan waits for the plan of exactly what the form says.
  const settle = () => { make.disabled = busy || (following.checked && !followed); };
  const outdated = () => { followed = null; outcome.classList.add("stale"); chart.classList.add("stale"); settle(); };
  const whileBusy = async (work) => {
    busy = true;
    settle();
    try {
      return await work();
    } finally {
      busy = false;
      settle();
    }
  };
  const unit = () => cohort.selectedOptions[0].dataset.unit;
  const spreads = field("", spread, "1 if no two parts have anybody in common");
  const say = (...text) => { chart.hidden = true; outcome.replaceChildren(el("p", { class: "bad" }, ...text)); outcome.classList.remove("stale"); };
  const plan = async () => {
    spreads.hidden = unit() === ORGANISATION;
    spreads.firstChild.textContent = `Parts that one ${unit()} may be in, over all organisations`;
    if (spreads.hidden) spread.value = 1;
    if (!votesGiven) votes.value = spreads.hidden ? 1 : Math.max(1, Math.min(64, Math.floor(ENOUGH / teachers.value)));
    pending.abort();
    const mine = (pending = new AbortController());
    outdated();
    if (!checked(Object.values(planned))) {
      planning.hide();
      say(UNMADE);
      return;
    }
    const question = { unit: unit(), ...values() };
    chart.hidden = false;
    outcome.querySelector(".bad")?.remove();
    planning.show({ doing: "Making the plan" });
    try {
      const found = await follow("/api/plan", JSON.stringify(question), ({ done, total }) => planning.show({ doing: "Making the plan", done, total }), mine.signal);
      if (mine.signal.aborted) return;
      followed = question;
      show(found);
    } catch (problem) {
      if (mine.signal.aborted) return;
      if (inputs[problem.field]) mark(inputs[problem.field], `${problem.what} ${problem.do}`);
      say(...(inputs[problem.field] ? [UNMADE] : [el("strong", {}, problem.what), " ", problem.do]));
    }
    planning.hide();
    settle();
  };
  const show = ({ chosen, curve: points, epsilon_apart: apart, organisation, source }) => {
    chart.classList.remove("stale");
    outcome.classList.remove("stale");
    curve(chart, points, chosen);
    outcome.replaceChildren(
      el("p", { class: "headline" }, headline(chosen)),
      el("p", { class: "legend" }, el("span", { class: "key answered" }), "labels ", el("span", { class: "key right" }), "correct labels"),
      facts([
        ["ask about", `${number(chosen.asked)} of ${counted(samples.value, "sample")}`],
        ["threshold", `${number(chosen.threshold)} of ${counted(teachers.value * votes.value, "vote")}${votes.value > 1 ? `; one organisation has ${votes.value}` : ""}`],
        ["noise", `sigma ${short(chosen.sigma)}`],
        ["epsilon", `${short(chosen.epsilon)} for each ${unit()}; if neither operator works with you, ${short(apart)}`],
        ["an organisation", organisation && `epsilon ${organisation}`],
        ["assumed", source],
      ]));
    if (following.checked) [asked.value, threshold.value, sigma.value] = [chosen.asked, chosen.threshold, chosen.sigma];
  };
  const changed = () => { outdated(); timer = (clearTimeout(timer), setTimeout(plan, PAUSE)); };
  slider.addEventListener("input", () => { epsilon.value = short(10 ** slider.value); mark(epsilon, ""); changed(); });
  epsilon.addEventListener("input", () => { slider.value = Math.log10(epsilon.value); });
  const limit = () => {
    for (const input of [samples, asked]) input.setCustomValidity(file && Number(input.value) > file.samples ? `The file holds ${counted(file.samples, "sample")}. Ask about ${number(file.samples)} at most.` : "");
  };
  for (const input of [samples, asked]) input.addEventListener("input", limit);
  votes.addEventListener("input", () => { votesGiven = true; });
  for (const input of [...Object.values(planned), cohort]) input.addEventListener("input", changed);
  const lock = () => own.forEach((input) => { input.readOnly = following.checked; });
  following.addEventListener("change", () => { lock(); settle(); if (following.checked) plan(); });
  lock();

  // A budget protects whom it protects: a job of another unit would be refused.
  const offer = ({ budgets }) => {
    const units = new Map(budgets.map((line) => [line.cohort, line.unit]));
    if (units.size) cohort.replaceChildren(...Array.from(units, ([name, whom]) => protects(name, whom)));
    if (units.has("teachers")) cohort.value = "teachers";
  };
  const take = (chosen) => whileBusy(async () => {
    const found = await send("PUT", named("/api/samples", chosen), chosen);
    file = found;
    samples.value = asked.value = found.samples;
    idColumn.hidden = !found.columns;
    ids.replaceChildren(...(found.columns && !found.id_column ? [el("option", { value: "" }, "none: they are numbered")] : []), ...(found.columns ?? []).map((column) => el("option", {}, column)));
    if (found.id_column) ids.value = found.id_column;
    limit();
    mark(samples, "");
    plan();
    return `${found.name}: ${counted(found.samples, "sample")}`;
  });
  const create = async () => {
    for (const input of Object.values(inputs)) mark(input, "");
    const job = {
      classes: values().classes, threshold: threshold.value, epsilon: Number(epsilon.value), delta: Number(delta.value),
      min_teachers: Number(teachers.value), deadline: deadline.value, sigma: sigma.value === "" ? null : Number(sigma.value), title: title.value, cohort: cohort.value,
      unit: unit(), votes: Number(votes.value), spread: Number(spread.value), id_column: ids.value || null,
    };
    try {
      const wanted = { file: file.file, asked: Number(asked.value), plan: following.checked ? followed : null, job };
      window.location.hash = `#job/${(await follow("/api/jobs", JSON.stringify(wanted), creating.show)).id}`;
    } catch (problem) {
      const input = inputs[problem.field];
      if (!input) throw problem;
      mark(input, `${problem.what} ${problem.do}`);
      lead(input);
    } finally {
      creating.hide();
    }
  };
  const submit = (event) => {
    event.preventDefault();
    clear();
    if (!file) {
      notice({ what: "You have not chosen a file of samples yet.", do: "Choose a table or an array first." }, zone);
      zone.control.focus();
    } else if (checked([...form.elements])) {
      whileBusy(create).catch((problem) => notice(problem, make));
    } else {
      lead(form.querySelector("[aria-invalid=true]"));
    }
  };

  const zone = dropZone("The samples to be labelled", ".csv,.tsv,.parquet,.npz,.npy", who.most_bytes.samples, take), expected = el("span", {}, "if fewer vote, the job is refused");
  const form = el("form", { novalidate: true, onsubmit: submit },
    card("What it may cost, and what that buys", el("div", { class: "columns" },
      el("div", {},
        zone, idColumn,
        el("div", { class: "row" }, field("Samples at hand", samples), field("Classes", classes, "how many; or their names: benign, malignant")),
        el("div", { class: "row" }, field("Organisations you expect", teachers, expected), field("Votes of each", votes, "one for each part of its data")),
        field("Who is protected", cohort, "by the cohort's budget, to which the job is charged"), spreads,
        el("div", { class: "row" }, field("Epsilon", epsilon, "the most it may cost one of them"), field("Delta", delta, "the chance that this bound fails")),
        slider),
      el("div", { class: "plan" }, planning.box, chart, outcome))),
    card("The job",
      el("div", { class: "row" }, field("Title, for teachers to see", title), field("Voting ends", deadline, "45m, 12h, 7d, or 2030-01-31T12:00")),
      el("details", {}, el("summary", {}, "Threshold and noise"),
        el("p", { class: "check" }, following, el("label", { for: "following" }, "Follow the plan")),
        el("div", { class: "row" }, field("Ask about the first", asked, "samples of the file"), field("Threshold", threshold, "votes, or a fraction")),
        el("div", { class: "row" }, field("sigma", sigma, "noise on every count"), field("How often a teacher is right", agreement, "assumed by the plan"))),
      el("div", { class: "actions" }, make), creating.box));
  idColumn.hidden = true;
  screen.replaceChildren(form);
  cohort.append(protects("teachers", ORGANISATION));
  outdated();
  planning.show({ doing: "Asking the servers" });
  try {
    const [budgets, enrolled] = await Promise.all([ask("/api/budgets", { signal }), ask("/api/enrolled", { signal })]);
    offer(budgets);
    if (enrolled.teachers) {
      teachers.value = enrolled.teachers;
      expected.textContent = `${number(enrolled.teachers)} enrolled; if fewer vote than you expect, the job is refused`;
    }
  } finally {
    if (!signal.aborted) plan();
  }
}

function headline({ answered, right, accuracy }) {
  if (answered < 0.5) return "Fewer than one label";
  if (number(answered) === "1") return `About 1 label, correct with a chance of ${percent(accuracy)}`;
  return `About ${number(answered)} labels, ${number(right)} of them correct (${percent(accuracy)})`;
}
