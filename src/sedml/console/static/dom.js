// Elements from plain values. Whatever comes from elsewhere becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, String(value));
  }
  node.append(...children.flat().filter((child) => child != null && child !== false));
  return node;
}

export function card(title, ...children) {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}

export function titled(title, mark) {
  return el("span", { class: "title" }, title, mark);
}

export function facts(pairs) {
  const rows = pairs.filter(([, value]) => value != null && value !== "");
  return el("dl", { class: "facts" }, rows.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]).flat());
}

// Columns are [heading, what is shown of a row, "number" if it is one].
export function table(caption, columns, rows, none) {
  if (!rows.length) return el("p", { class: "quiet" }, none);
  const head = el("tr", {}, columns.map(([name, , kind]) => el("th", { scope: "col", class: kind }, name)));
  const body = rows.map((row) =>
    el("tr", {}, columns.map(([name, show, kind]) => el("td", { class: kind, "data-name": name }, show(row) ?? ""))));
  return el("div", { class: "scroll" },
    el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, head), el("tbody", {}, body)));
}

export function button(label, action, kind = "") {
  const made = el("button", { type: "button", class: kind }, label);
  made.addEventListener("click", async () => {
    made.disabled = true;
    try {
      await action();
    } catch (problem) {
      notice(problem);
    } finally {
      made.disabled = false;
    }
  });
  return made;
}

let fields = 0;
export function field(label, input, hint) {
  input.id ||= `field-${(fields += 1)}`;
  const note = hint && el("small", { id: `${input.id}-hint` }, hint);
  if (note) input.setAttribute("aria-describedby", note.id);
  return el("div", { class: "field" }, el("label", { for: input.id }, label), input, note);
}

export function meter(share, label) {
  const known = Math.min(1, Math.max(0, share));
  return el("meter", { min: 0, max: 1, high: 0.8, optimum: 0, value: known, "aria-label": label }, percent(known));
}

export function badge(text, kind) {
  return el("span", { class: `badge ${kind}` }, text);
}

// What went wrong and what to do about it, until it is dismissed.
export function notice(problem) {
  if (problem?.name === "AbortError") return;
  const box = el("div", { class: "notice" },
    el("strong", {}, problem.what ?? "The console does not answer."), " ",
    problem.do ?? "See whether `sedml console` still runs.",
    el("button", { type: "button", class: "close", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  const shown = document.querySelector("#notices");
  if (shown.textContent !== box.textContent) shown.replaceChildren(box);
}

export const clear = () => document.querySelector("#notices").replaceChildren();
export const number = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 0 });
export const short = (value) => (value == null ? "unbounded" : tiny(Number(value)) ?? String(Number(Number(value).toPrecision(3))));
const tiny = (value) => (value && Math.abs(value) < 1e-3 ? value.toExponential() : null);
export const percent = (share) => `${(100 * share).toFixed(1)} %`;
export const moment = (text) => (text ? `${new Date(text).toISOString().slice(0, 16).replace("T", " ")} UTC` : "");
export const id = (text) => el("code", { title: text }, text.slice(0, 8));
