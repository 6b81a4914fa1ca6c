// Calls of the console's own server. What it refuses is thrown as {what, do}.
import { notice } from "./dom.js";

class Problem extends Error {
  constructor(document) {
    super(document.title);
    this.what = document.title;
    this.do = document.detail;
    this.field = document.field;
  }
}

async function answer(path, options) {
  const response = await fetch(path, { ...options, credentials: "same-origin", cache: "no-store" });
  if (!response.ok) throw new Problem(await response.json());
  return response;
}

export async function ask(path, options = {}) {
  return (await answer(path, options)).json();
}

export function send(method, path, body) {
  return ask(path, { method, body });
}

// Work that takes a while: `progress` gets each line on the way, and the last one is what came of it.
export async function follow(path, body, progress, signal) {
  const reader = (await answer(path, { method: "POST", body, signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = lines.pop();
    for (const line of lines.map((text) => JSON.parse(text))) {
      if (line.problem) throw new Problem(line.problem);
      if (line.result) return line.result;
      progress(line);
    }
    if (done) throw new Problem({ title: "The console stopped in the middle of this.", detail: "Do it again: it continues from there." });
  }
}

export async function save(path) {
  const response = await answer(path);
  const named = /filename="([^"]+)"/.exec(response.headers.get("Content-Disposition"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = named ? named[1] : "download";
  link.click();
  URL.revokeObjectURL(link.href);
}

// Look again every so often, as long as the screen is shown and somebody looks at it; a server may be away for a while.
export async function watch(signal, seconds, look) {
  let box = null;
  while (!signal.aborted) {
    if (!document.hidden) {
      try {
        await look();
        box?.remove();
      } catch (problem) {
        if (!signal.aborted) box = notice(problem);
      }
    }
    await new Promise((resume) => {
      const timer = setTimeout(resume, 1000 * seconds);
      signal.addEventListener("abort", () => { clearTimeout(timer); resume(); }, { once: true });
    });
  }
}
