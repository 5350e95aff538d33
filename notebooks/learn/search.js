// Finds words in the sections of all pages, and shows where; the sections hold no formulas.
const sections = JSON.parse(document.querySelector("#sections").textContent);
const box = document.querySelector("input[type=search]");
const list = document.querySelector("#found");
const SHOWN = 40; // sections at most
const AROUND = 90; // characters before and after the first word found

function find() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = !words.length ? [] : sections.filter(([, title, text]) => {
    const all = `${title} ${text}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
  list.replaceChildren(...hits.slice(0, SHOWN).map(([link, title, text]) => {
    const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - AROUND);
    const item = document.createElement("li"), place = document.createElement("a");
    const snippet = document.createElement("div");
    [place.href, place.textContent, snippet.className] = [link, title, "question"];
    snippet.textContent = `${at ? "… " : ""}${text.slice(at, at + 2 * AROUND)} …`;
    item.append(place, snippet);
    return item;
  }));
  document.querySelector("#count").textContent =
    words.length ? `${hits.length} ${hits.length === 1 ? "section" : "sections"} found` : "";
}

box.value = new URLSearchParams(location.search).get("q") ?? "";
box.addEventListener("input", find);
find();
