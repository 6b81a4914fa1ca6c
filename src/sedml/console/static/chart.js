// Two charts: a curve with a point on it, and bars. Each is drawn again when its place changes its width.
import { number, short, svg } from "./dom.js";

const HEIGHT = 230, LEFT = 52, RIGHT = 12, TOP = 14, BOTTOM = 40;

const observers = new WeakMap();
function drawn(host, draw) {
  observers.get(host)?.disconnect();
  let width = 0;
  const observer = new ResizeObserver(() => { if (host.clientWidth !== width) { width = host.clientWidth; draw(); } });
  observer.observe(host); // which calls it, too
  observers.set(host, observer);
}

function frame(host, title, description, height = HEIGHT) {
  const width = Math.max(260, host.clientWidth || 560);
  const label = { class: "chart", role: "img", width, height, viewBox: `0 0 ${width} ${height}`, "aria-label": description };
  const image = svg("svg", label, svg("title", {}, title));
  host.replaceChildren(image);
  return { image, width: width - LEFT - RIGHT, height: height - TOP - BOTTOM };
}

function text(x, y, anchor, content) {
  return svg("text", { x, y, "text-anchor": anchor }, content);
}

function ticks(most, count, least = 0) {
  const rough = Math.max(least, most / count), unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
}

function upright(image, size, most) {
  for (const value of ticks(most, 5, 1)) {
    const y = TOP + size.height * (1 - value / most);
    image.append(svg("line", { class: "grid", x1: LEFT, x2: LEFT + size.width, y1: y, y2: y }), text(LEFT - 6, y + 4, "end", number(value)));
  }
}

// Points are {epsilon, answered, right}; `chosen` is one of them.
export const curve = (host, points, chosen) => drawn(host, () => drawCurve(host, points, chosen));
function drawCurve(host, points, chosen) {
  const all = [...points, chosen];
  const widest = Math.max(...all.map((point) => point.epsilon)), most = 1.08 * Math.max(1, ...all.map((point) => point.answered));
  const size = frame(host, "Labels by epsilon", `Labels to expect by epsilon; at ${short(chosen.epsilon)}, ${number(chosen.answered)}`);
  const x = (point) => LEFT + size.width * (point.epsilon / widest), y = (value) => TOP + size.height * (1 - value / most);
  upright(size.image, size, most);
  for (const value of ticks(widest, 5)) size.image.append(text(x({ epsilon: value }), HEIGHT - 22, "middle", short(value)));
  size.image.append(text(LEFT + size.width / 2, HEIGHT - 5, "middle", "epsilon"));
  for (const name of ["answered", "right"]) {
    const line = points.map((point) => `${x(point).toFixed(1)},${y(point[name]).toFixed(1)}`).join(" ");
    size.image.append(svg("polyline", { class: `line ${name}`, points: line }));
    size.image.append(svg("circle", { class: `dot ${name}`, cx: x(chosen), cy: y(chosen[name]), r: 5 }));
  }
}

// How often there is each class: upright by their numbers, or if they have names, one below the other.
export const bars = (host, counts, title, names = []) => drawn(host, () => (names.length ? drawRows : drawBars)(host, counts, title, names));
function drawBars(host, counts, title) {
  const most = 1.08 * Math.max(1, ...counts);
  const size = frame(host, title, told(title, counts, (at) => at));
  const step = size.width / counts.length, every = Math.ceil(24 / step);
  upright(size.image, size, most);
  counts.forEach((count, at) => {
    const height = (size.height * count) / most, x = LEFT + at * step;
    size.image.append(svg("rect", { class: "bar", x: x + step * 0.12, y: TOP + size.height - height, width: step * 0.76, height }, svg("title", {}, `class ${at}: ${count}`)));
    if (at % every === 0) size.image.append(text(x + step / 2, HEIGHT - 22, "middle", String(at)));
  });
  size.image.append(text(LEFT + size.width / 2, HEIGHT - 5, "middle", "class"));
}

const ROW = 26, MOST_ROWS = 20, LONGEST = 18, LETTER = 7.2; // pixels, classes, letters, pixels
function drawRows(host, counts, title, names) {
  const shown = counts.map((count, at) => ({ count, at })).sort((one, other) => (counts.length > MOST_ROWS ? other.count - one.count : 0)).slice(0, MOST_ROWS);
  const brief = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name), rest = counts.length - shown.length;
  const left = 8 + LETTER * Math.max(...shown.map(({ at }) => brief(names[at]).length)), most = Math.max(1, ...counts);
  const size = frame(host, title, told(title, counts, (at) => names[at]), ROW * (shown.length + (rest ? 1 : 0)));
  const room = size.width + LEFT + RIGHT - left - LETTER * (number(most).length + 2);
  shown.forEach(({ count, at }, row) => {
    const y = row * ROW, width = (room * count) / most;
    size.image.append(text(left - 8, y + 17, "end", brief(names[at])), text(left + width + 6, y + 17, "start", number(count)),
      svg("rect", { class: "bar", x: left, y: y + 3, width, height: ROW - 6 }, svg("title", {}, `${names[at]}: ${count}`)));
  });
  if (rest) size.image.append(text(left, shown.length * ROW + 17, "start", `and ${number(rest)} ${rest === 1 ? "class" : "classes"} with no more than ${number(shown.at(-1).count)} each`));
}

const told = (title, counts, name) => `${title}: ${counts.map((count, at) => `${name(at)}: ${count}`).slice(0, 50).join(", ")}`;
