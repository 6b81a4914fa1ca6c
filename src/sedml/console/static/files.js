// Choosing a file, or dropping one.
import { clear, el, notice } from "./dom.js";

export function dropZone(label, accept, most, take) {
  const input = el("input", { type: "file", accept, class: "unseen", "aria-label": label });
  const text = el("span", {}, label);
  const zone = el("label", { class: "drop" }, input, text, el("small", {}, `${accept.replaceAll(",", ", ")}; choose it or drop it here`));
  const chosen = async (file) => {
    if (!file) return;
    clear();
    zone.classList.add("busy");
    text.textContent = `Reading ${file.name}`;
    try {
      if (file.size > most) throw { what: `${file.name} is larger than the console takes.`, do: "Use the command line for it." };
      text.textContent = (await take(file)) ?? label;
    } catch (problem) {
      text.textContent = label;
      notice(problem, zone);
    } finally {
      zone.classList.remove("busy");
      input.value = "";
    }
  };
  input.addEventListener("change", () => chosen(input.files[0]));
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    zone.addEventListener(kind, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind === "drop") chosen(event.dataTransfer.files[0]);
    });
  }
  return zone;
}

export const named = (path, file) => `${path}?name=${encodeURIComponent(file.name)}`;
