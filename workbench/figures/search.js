// The search of the course's first page: the sections that contain all words, those of a title first.
const sections = JSON.parse(document.getElementById("sections").textContent);
const [box, list] = ["search", "found"].map((id) => document.getElementById(id));

function entry([place, lesson, title, text], words) {
  const line = document.createElement("li");
  const link = line.appendChild(document.createElement("a"));
  [link.href, link.textContent] = [place, title === lesson ? lesson : `${lesson}: ${title}`];
  const at = Math.max(0, text.toLowerCase().indexOf(words[0]) - 60);
  line.append(` ${at ? "…" : ""}${text.slice(at, at + 160)}…`);
  return line;
}

box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const titled = (section) => words.every((word) => section[2].toLowerCase().includes(word));
  const found = sections.filter((section) =>
    words.every((word) => section.some((part) => part.toLowerCase().includes(word))));
  found.sort((a, b) => titled(b) - titled(a));
  const shown = words.length ? found.slice(0, 30) : [];
  list.replaceChildren(...shown.map((section) => entry(section, words)));
  list.hidden = !words.length;
  if (words.length && !found.length) list.append("Nothing in the course has all of these words.");
});
document.querySelector(".search").hidden = false; // of no use without scripts
