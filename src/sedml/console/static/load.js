// What the server counts for its monitoring, as an operator would say it.
import { ask, watch } from "./api.js";
import { badge, card, el, facts, lasting, listing, moment, number, percent, volume } from "./dom.js";

const yes = (value) => (Number(value) ? "yes" : "no");
const until = (value) => `${moment(1000 * value)} (${lasting(value - Date.now() / 1000)} left)`;
// Figures without labels, by what they are called at /metrics.
const WORK = [
  ["ballots_total", "ballots on record", number],
  ["blocks_total", "blocks of samples finished", number],
  ["attempts_total", "attempts at them", number],
  ["protocol_seconds_total", "spent in the protocol", lasting],
  ["alarms_total", "alarms", (value) => (Number(value) ? badge(number(value), "bad") : "none")],
  ["log_entries_total", "entries in the log", number],
  ["clock_doubted", "clock in doubt", yes],
  ["leads", "jobs are driven by", (value) => (Number(value) ? "this process" : "another process of this server")],
];
const LINK = [
  ["peer_seen_seconds", "last heard from", (value) => (value < 0 ? "never" : `${lasting(value)} ago`)],
  ["link_delay_seconds", "delay", lasting],
  ["link_bytes_total", "traffic", volume],
  ["link_rounds_total", "rounds", number],
];
const CALLERS = [
  ["http_connections", "connected now", number],
  ["http_requests_in_flight", "requests being answered", number],
  ["http_received_bytes_total", "received", volume],
  ["http_connections_refused_total", "connections refused as too many", number],
];

export async function load(screen, signal) {
  const [work, link, callers, ends] = Array.from({ length: 4 }, () => el("div", {}));
  const refused = listing("Refusals", [["why", (one) => one.code.replaceAll("-", " ")], ["how often", (one) => number(one.times), "number"]], "No request was refused.");
  const requests = listing("Requests", [
    ["request", (one) => `${one.method} ${one.route}`],
    ["answered", (one) => number(one.times), "number"],
    ["refused or failed", (one) => (one.bad ? `${number(one.bad)} (${percent(one.bad / one.times)})` : "none"), "number"],
    ["on average", (one) => (one.seconds == null ? "" : lasting(one.seconds)), "number"],
  ], "No request was answered yet.", { words: (one) => `${one.method} ${one.route}` });
  screen.replaceChildren(
    el("div", { class: "columns" }, card("Work", work), el("div", {}, card("The other server", link), card("Callers", callers), card("Certificates", ends))),
    card("Requests since the server was started", requests.box), card("Refusals", refused.box),
    el("p", { class: "quiet" }, "Monitoring reads these figures, and more, at /metrics."));
  await watch(signal, 5, async () => {
    const { figures } = await ask("/api/figures", { signal }), of = (name) => figures.filter((one) => one.name === name);
    const spoken = (rows) => rows.map(([name, label, say]) => [label, of(name)[0] && say(of(name)[0].value)]);
    const states = of("jobs").filter((one) => Number(one.value)).map((one) => `${number(one.value)} ${one.labels.state}`);
    work.replaceChildren(facts([["jobs", states.join(", ") || "none"], ...spoken(WORK)]));
    link.replaceChildren(facts(spoken(LINK)));
    callers.replaceChildren(facts(spoken(CALLERS)));
    ends.replaceChildren(facts(of("certificate_expires_seconds").map((one) => [one.labels.certificate.replaceAll("_", " "), until(one.value)])));
    requests.show(byRoute(of("http_requests_total"), of("http_request_seconds_sum"), of("http_request_seconds_count")));
    refused.show(of("http_refused_total").map((one) => ({ code: one.labels.code, times: Number(one.value) })).sort((one, other) => other.times - one.times));
  });
}

function byRoute(answered, sums, counts) {
  const rows = new Map(), same = (one, other) => one.labels.route === other.labels.route && one.labels.method === other.labels.method;
  for (const one of answered) {
    const { route, method, status } = one.labels, key = `${method} ${route}`, times = Number(one.value), row = rows.get(key) ?? { route, method, times: 0, bad: 0 };
    const [sum, count] = [sums, counts].map((all) => Number(all.find((other) => same(one, other))?.value));
    rows.set(key, { ...row, times: row.times + times, bad: row.bad + (Number(status) >= 400 ? times : 0), seconds: count ? sum / count : null });
  }
  return [...rows.values()].sort((one, other) => other.times - one.times);
}
