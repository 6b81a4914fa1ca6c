// Two charts: a curve with a point on it, and bars.
import { number, short, svg } from "./dom.js";

const HEIGHT = 230, LEFT = 52, RIGHT = 12, TOP = 14, BOTTOM = 40;

function frame(host, title, description) {
  const width = Math.max(260, host.clientWidth || 560);
  const label = { class: "chart", role: "img", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, "aria-label": description };
  const image = svg("svg", label, svg("title", {}, title));
  host.replaceChildren(image);
  return { image, width: width - LEFT - RIGHT, height: HEIGHT - TOP - BOTTOM };
}

function text(x, y, anchor, content) {
  return svg("text", { x, y, "text-anchor": anchor }, content);
}

function ticks(most, count) {
  const rough = most / count, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
}

function upright(image, size, most) {
  for (const value of ticks(most, 5)) {
    const y = TOP + size.height * (1 - value / most);
    image.append(svg("line", { class: "grid", x1: LEFT, x2: LEFT + size.width, y1: y, y2: y }), text(LEFT - 6, y + 4, "end", number(value)));
  }
}

// Points are {epsilon, answered, right}; `chosen` is one of them.
export function curve(host, points, chosen) {
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

// How many samples got each label, most classes in one row.
export function bars(host, counts) {
  const most = 1.08 * Math.max(1, ...counts);
  const size = frame(host, "Labels by class", `Labels by class: ${counts.map((count, at) => `${at}: ${count}`).slice(0, 50).join(", ")}`);
  const step = size.width / counts.length, every = Math.ceil(24 / step);
  upright(size.image, size, most);
  counts.forEach((count, at) => {
    const height = (size.height * count) / most, x = LEFT + at * step;
    size.image.append(svg("rect", { class: "bar", x: x + step * 0.12, y: TOP + size.height - height, width: step * 0.76, height }, svg("title", {}, `class ${at}: ${count}`)));
    if (at % every === 0) size.image.append(text(x + step / 2, HEIGHT - 22, "middle", String(at)));
  });
  size.image.append(text(LEFT + size.width / 2, HEIGHT - 5, "middle", "class"));
}
