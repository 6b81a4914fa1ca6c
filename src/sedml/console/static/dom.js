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
  return el("section", { class: "card" }, el("h2", {}, title), children);
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
    el("table", { class: columns.length < 4 && "slim" }, el("caption", { class: "unseen" }, caption), el("thead", {}, head), el("tbody", {}, body)));
}

const PLACES = ".actions, .drop, td"; // below which a problem is told
const PAGE = 20, NARROW_PAGE = 8;

// A table in pages. `filters` are inputs above it, `keeps` says which rows they leave; without any, there is a search
// once the rows are more than a page, by the text that `words` makes of a row. All of it stays when the rows change.
export function listing(caption, columns, none, { filters = [], keeps, words } = {}) {
  const search = el("input", { type: "search", "aria-label": `Search: ${caption}`, placeholder: "Search" });
  const above = el("div", { class: "filters" }, filters, words && search), body = el("div", { "aria-live": "polite" });
  const turn = (by) => () => { page += by; draw(); };
  const back = el("button", { type: "button", onclick: turn(-1) }, "Previous"), on = el("button", { type: "button", onclick: turn(1) }, "Next"), where = el("span", {});
  const below = el("div", { class: "pager" }, back, where, on);
  let rows = [], page = 0;
  const kept = (row) => (keeps?.(row) ?? true) && (!words || words(row).toLowerCase().includes(search.value.trim().toLowerCase()));
  const draw = () => {
    const size = window.innerWidth < 640 ? NARROW_PAGE : PAGE, found = rows.filter(kept), last = Math.max(0, Math.ceil(found.length / size) - 1);
    page = Math.max(0, Math.min(page, last));
    search.hidden = !search.value && rows.length <= size;
    above.hidden = !filters.length && search.hidden;
    below.hidden = !last;
    [back.disabled, on.disabled] = [page === 0, page === last];
    where.textContent = `${number(page * size + 1)} to ${number(Math.min(found.length, (page + 1) * size))} of ${number(found.length)}`;
    body.replaceChildren(table(caption, columns, found.slice(page * size, (page + 1) * size), rows.length ? "Nothing matches." : none));
  };
  above.addEventListener("input", () => { page = 0; draw(); });
  return { box: el("div", {}, above, body, below), show: (fresh) => { rows = fresh; draw(); } };
}

export function button(label, action, kind = "") {
  const made = el("button", { type: "button", class: kind }, label);
  made.addEventListener("click", async () => {
    const place = made.closest(PLACES); // the button itself may be gone by then
    made.disabled = true;
    try {
      await action();
    } catch (problem) {
      notice(problem, place);
    } finally {
      made.disabled = false;
    }
  });
  return made;
}

let fields = 0;
export function field(label, input, hint) {
  input.id ||= `field-${(fields += 1)}`;
  const wrong = el("small", { id: `${input.id}-wrong`, class: "wrong", role: "alert" }), note = hint && el("small", { id: `${input.id}-hint` }, hint);
  input.setAttribute("aria-describedby", `${wrong.id}${note ? ` ${note.id}` : ""}`);
  input.addEventListener("input", () => mark(input, ""));
  return el("div", { class: "field" }, el("label", { for: input.id }, label), input, wrong, note);
}

// Say at a field what is wrong with it; nothing, if nothing is.
export function mark(input, text) {
  input.setAttribute("aria-invalid", String(Boolean(text)));
  document.getElementById(`${input.id}-wrong`)?.replaceChildren(text);
}

// Mark those fields that cannot be used as they are; whether there are none.
export function checked(inputs) {
  const wrong = inputs.filter((input) => input.willValidate && !input.validity.valid);
  for (const input of wrong) mark(input, input.validationMessage);
  return !wrong.length;
}

// Bring somebody to a field that is wrong, wherever it is.
export function lead(input) {
  const folded = input.closest("details");
  if (folded) folded.open = true;
  input.focus();
}

export function meter(share, label) {
  const known = Math.min(1, Math.max(0, share));
  return el("meter", { min: 0, max: 1, high: 0.8, optimum: 0, value: known, "aria-label": label }, percent(known));
}

// How far something has come that is not used up, but gathered.
export function gathered(have, wanted, label) {
  return el("progress", { max: Math.max(1, wanted), value: Math.min(have, wanted), "aria-label": label });
}

export function badge(text, kind) {
  return el("span", { class: `badge ${kind}` }, text);
}

// What went wrong and what to do about it, until it is dismissed: below what was used, or on top if nothing was.
export function notice(problem, near) {
  if (problem?.name === "AbortError") return null;
  const box = el("div", { class: "notice", role: "alert" },
    el("strong", {}, problem.what ?? "The console does not answer."), " ",
    problem.do ?? "See whether `sedml console` still runs.",
    el("button", { type: "button", class: "close", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  const place = near?.isConnected && near.closest(PLACES);
  if (place?.matches("td")) place.append(box);
  else if (place) place.after(box);
  else document.querySelector("#notices").replaceChildren(box);
  return box;
}

export const clear = () => document.querySelectorAll(".notice").forEach((box) => box.remove());
export const number = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 0 });
export const short = (value) => (value == null ? "unbounded" : tiny(Number(value)) ?? String(Number(Number(value).toPrecision(3))));
const tiny = (value) => (value && Math.abs(value) < 1e-3 ? value.toExponential() : null);
export const counted = (value, thing) => `${number(value)} ${thing}${number(value) === "1" ? "" : "s"}`;
export const percent = (share) => `${(100 * share).toFixed(1)}%`;
export const moment = (text) => (text ? `${new Date(text).toISOString().slice(0, 16).replace("T", " ")} UTC` : "");
export const id = (text) => el("code", { title: text }, text.slice(0, 8));

// As people say how long and how much.
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
export function lasting(seconds) {
  if (seconds < 1) return `${short(1000 * seconds)} ms`;
  const [name, size] = UNITS.find(([, size]) => seconds >= size);
  return seconds < 10 && size === 1 ? `${short(seconds)} s` : counted(Math.floor(seconds / size), name);
}
export function volume(bytes) {
  const power = Math.min(4, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${short(bytes / 1000 ** power)} ${["bytes", "kB", "MB", "GB", "TB"][power]}`;
}
