// Finds the sections that hold all words of a query, those with a word in their title first.
// PAGES has a row for each section: its title, its address, its kind, its text.
const MOST = 50; // results
const AROUND = 90; // characters of text before and after the first word found
const field = document.querySelector(".find");
const rows = PAGES.map(([title, place, kind, text]) => ({
  title, place, kind, text, name: title.toLowerCase(), all: `${title} ${text}`.toLowerCase(),
}));

function worth({ name, all }, words) {
  if (!words.every((word) => all.includes(word))) return 0;
  const of = (word) => (name === word ? 30 : name.startsWith(word) ? 15 : name.includes(word) ? 10 : 0);
  return words.reduce((sum, word) => sum + of(word) + Math.min(all.split(word).length - 1, 5), 0);
}

function excerpt(text, words) {
  const at = Math.max(0, text.toLowerCase().indexOf(words[0]));
  const from = Math.max(0, at - AROUND);
  const piece = text.slice(from, at + AROUND);
  const p = document.createElement("p");
  const hit = piece.toLowerCase().indexOf(words[0]);
  const mark = document.createElement("mark");
  mark.textContent = hit < 0 ? "" : piece.slice(hit, hit + words[0].length);
  p.append(`${from ? "… " : ""}${piece.slice(0, Math.max(hit, 0))}`, mark,
    piece.slice(Math.max(hit, 0) + mark.textContent.length));
  return p;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = (words.length ? rows : []).map((row) => ({ ...row, worth: worth(row, words) }))
    .filter((row) => row.worth).sort((a, b) => b.worth - a.worth);
  document.querySelector("[role=status]").textContent =
    words.length ? `${found.length} found${found.length > MOST ? `, the best ${MOST} are shown` : ""}` : "";
  document.querySelector(".found").replaceChildren(...found.slice(0, MOST).map((row) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    [link.textContent, link.href] = [row.title, row.place];
    const kind = document.createElement("span");
    [kind.className, kind.textContent] = ["quiet", ` ${row.kind}`];
    item.append(link, kind, excerpt(row.text, words));
    return item;
  }));
}

field.value = new URLSearchParams(location.search).get("q") ?? "";
field.addEventListener("input", show);
show();
if (!field.value) field.focus();
