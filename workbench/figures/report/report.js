// Filters, the state in the address, and the choice of what the profiles (profile.js) show. Without
// scripts the page shows everything, unfiltered, and the profiles as tables.

const find = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];

const plain = (name) => name.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
const targetOf = (link) => document.getElementById(decodeURIComponent(link.hash.slice(1)));

const scopes = JSON.parse(find("#scopes").textContent);
const items = all(".item").map((element) => ({
  element,
  paper: element.dataset.paper,
  sets: element.dataset.sets.split(" "),
  methods: element.dataset.methods.split(" "),
  ran: element.dataset.ran === "yes",
  words: element.textContent.toLowerCase(),
}));
// What is shown: the filters' values, and scope, tolerance and entries of the profile.
const blank = { paper: "", sets: [], methods: [], q: "", ran: false, scope: 0 };
let state = { ...blank };

function filter() {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const among = (chosen, own) => !chosen.length || chosen.some((value) => own.includes(value));
  let count = 0;
  for (const item of items) {
    const shown =
      (!state.paper || state.paper === item.paper) &&
      among(state.sets, item.sets) &&
      among(state.methods, item.methods) &&
      (item.ran || !state.ran) &&
      words.every((word) => item.words.includes(word));
    item.element.hidden = !shown;
    count += shown;
  }
  const empty = (element) => !find(".item:not([hidden])", element);
  for (const group of all(".group, .paper")) group.hidden = empty(group);
  for (const heading of all(".paper > h3")) {
    let next = heading.nextElementSibling;
    while (next && next.hidden) next = next.nextElementSibling;
    heading.hidden = !next || next.tagName === "H3";
  }
  for (const link of all("nav a")) {
    link.parentElement.hidden = targetOf(link)?.closest("[hidden]") != null;
  }
  for (const table of all(".times")) {
    let before; // a data set is named in full on the first of its lines that is shown
    for (const line of all("tbody:not([hidden])", table)) {
      const name = find("th", line).textContent;
      line.classList.toggle("again", name === before);
      before = name;
    }
  }
  find(".nothing").hidden = count > 0;
  const some = count < items.length ? `${count} of ` : "";
  find("#count").textContent = `${some}${items.length} entries`;
}

function showFilters() {
  find("#search").value = state.q;
  find("#paper").value = state.paper;
  find("#ran").checked = state.ran;
  for (const name of ["sets", "methods"]) {
    const boxes = all(`input[name="${name}"]`);
    for (const box of boxes) box.checked = state[name].includes(box.value);
    const chosen = state[name].length;
    find(".chosen", boxes[0]?.closest("details") ?? document).textContent = chosen || "";
  }
}

function readFilters() {
  const checked = (name) => all(`input[name="${name}"]:checked`).map((box) => box.value);
  state.q = find("#search").value.trim();
  state.paper = find("#paper").value;
  state.ran = find("#ran").checked;
  [state.sets, state.methods] = [checked("sets"), checked("methods")];
}

// The address holds only what differs from the blank page: a filtered view can be linked.
function write(at = "") {
  const said = new URLSearchParams();
  if (state.paper) said.set("paper", state.paper);
  for (const name of ["sets", "methods"]) {
    if (state[name].length) said.set(name, state[name].join("."));
  }
  if (state.q) said.set("q", state.q);
  if (state.ran) said.set("ran", "1");
  const scope = scopes[state.scope];
  if (scope) {
    const usual = scope.entries.every((entry, i) => entry.shown === state.shown[i]);
    if (state.scope) said.set("runs", state.scope);
    if (state.tolerance !== scope.tolerance) said.set("gap", state.tolerance);
    const shown = scope.entries.filter((entry, i) => state.shown[i]);
    if (!usual) said.set("show", shown.map((entry) => plain(entry.label)).join("."));
  }
  if (at) said.set("at", at);
  const text = said.toString();
  if (`#${text}` === location.hash || (!text && !location.hash)) return;
  history[at ? "pushState" : "replaceState"](null, "", `#${text}`);
}

function read() {
  const hash = location.hash.slice(1);
  const said = new URLSearchParams(hash.includes("=") ? hash : "");
  const list = (name) => (said.get(name) ?? "").split(".").filter(Boolean);
  state = { ...blank, sets: list("sets"), methods: list("methods"), ran: said.has("ran") };
  const papers = all("#paper option").map((option) => option.value);
  state.paper = papers.includes(said.get("paper")) ? said.get("paper") : "";
  state.q = said.get("q") ?? "";
  const wanted = Number(said.get("runs"));
  state.scope = scopes[wanted] ? wanted : 0;
  const scope = scopes[state.scope];
  if (scope) {
    const gap = said.get("gap");
    state.tolerance = Object.hasOwn(scope.times, gap) ? gap : scope.tolerance;
    const show = list("show");
    state.shown = scope.entries.map((entry) =>
      said.has("show") ? show.includes(plain(entry.label)) : entry.shown,
    );
  }
  showFilters();
  filter();
  if (scope) buildProfile();
  const at = said.get("at") ?? (hash.includes("=") ? "" : hash);
  if (at) document.getElementById(at)?.scrollIntoView();
}

function enter(number) {
  state.scope = number;
  state.tolerance = scopes[number].tolerance;
  state.shown = scopes[number].entries.map((entry) => entry.shown);
}

function buildProfile() {
  const scope = scopes[state.scope];
  const choose = element("select", { id: "runs" });
  scopes.forEach((s, i) => choose.append(element("option", { value: i }, s.title)));
  choose.value = state.scope;
  choose.addEventListener("change", () => {
    enter(Number(choose.value));
    write();
    buildProfile();
    find("#runs").focus();
  });
  const gap = element("select", { id: "gap" });
  for (const tolerance of Object.keys(scope.times)) {
    gap.append(element("option", { value: tolerance }, `10⁻${POWERS[tolerance.at(-1)]}`));
  }
  gap.value = state.tolerance;
  gap.addEventListener("change", () => {
    state.tolerance = gap.value;
    write();
    drawProfile();
  });
  const boxes = element("fieldset", {}, element("legend", {}, "Solvers"));
  scope.entries.forEach((entry, i) => {
    const box = element("input", { type: "checkbox", name: "entry", value: plain(entry.label) });
    box.checked = state.shown[i];
    box.addEventListener("change", () => {
      state.shown[i] = box.checked;
      write();
      drawProfile();
    });
    boxes.append(element("label", {}, box, swatch(entry), entry.label));
  });
  const controls = element("div", { class: "controls" },
    element("label", {}, "Runs of ", choose), element("label", {}, "Gap at most ", gap), boxes);
  find("#profile").replaceChildren(controls, element("div", { id: "drawn" }));
  drawProfile();
}

function drawProfile() {
  const scope = scopes[state.scope];
  const found = profile(scope, state.tolerance, state.shown);
  const entries = scope.entries.filter((_, i) => state.shown[i]);
  const power = `10⁻${POWERS[state.tolerance.at(-1)]}`;
  const notes = [`${found.count} problems, gap at most ${power}`];
  if (found.left) notes.push(`${found.left} more on which not every solver shown ran`);
  notes.push(`${scope.timed} of ${scope.runs} runs measured in timing mode`);
  if (!entries.length) notes[0] = "No solver is shown";
  const note = element("p", { role: "status" }, `${notes.join("; ")}.`);
  find("#drawn").replaceChildren(note, curves(entries, found), table(entries, found));
}

function changed() {
  readFilters();
  showFilters();
  const own = scopes.findIndex((scope) => plain(scope.paper) === state.paper);
  if (own >= 0 && plain(scopes[state.scope].paper) !== state.paper) {
    enter(own);
    buildProfile();
  }
  filter();
  write();
}

const form = find("#filters");
form.hidden = false;
form.addEventListener("input", changed);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(changed));
document.addEventListener("click", (event) => {
  for (const box of all(".box[open]")) if (!box.contains(event.target)) box.open = false;
  const link = event.target.closest('a[href^="#"]');
  const target = link && targetOf(link);
  if (!target) return;
  event.preventDefault(); // the plain anchor would take the place of the filters in the address
  if (target.closest("[hidden]")) {
    state = { ...blank, scope: state.scope, tolerance: state.tolerance, shown: state.shown };
    showFilters();
    filter();
  }
  write(target.id);
  target.scrollIntoView();
  target.focus({ preventScroll: true });
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const box of all(".box[open]")) {
    box.open = false;
    find("summary", box).focus();
  }
});
// Where the contents stand above the page instead of beside it, they begin folded.
if (matchMedia("(max-width: 60rem)").matches) find("nav details").open = false;
addEventListener("hashchange", read);
addEventListener("popstate", read);
// A folded table would be lost on paper; how a figure was made stays folded.
addEventListener("beforeprint", () => {
  for (const folded of all("td details, .group > details")) folded.open = true;
});
read();
