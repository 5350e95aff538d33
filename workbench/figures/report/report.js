// Search, filters, and their state in the address. Without scripts the page shows everything.

const find = (selector, from = document) => from.querySelector(selector);
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const form = find("#filters");
const items = all(".item").map((element) => ({
  element,
  data: element.dataset,
  words: element.textContent.toLowerCase(),
}));

const target = (link) => decodeURIComponent(link.hash.slice(1));
// The filters that are set, as the address has them: a filtered view can be linked.
const chosen = () => new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim()));

function filter() {
  const state = chosen();
  const words = (state.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const among = (name, own = "") =>
    !state.has(name) || state.getAll(name).some((value) => own.split(" ").includes(value));
  let count = 0;
  for (const { element, data, words: text } of items) {
    const shown = ["paper", "sets", "methods", "ran"].every((name) => among(name, data[name]))
      && words.every((word) => text.includes(word));
    element.hidden = !shown;
    count += shown;
  }
  for (const group of all(".group, .paper")) group.hidden = !find(".item:not([hidden])", group);
  for (const link of all("nav a")) {
    link.parentElement.hidden = document.getElementById(target(link))?.closest("[hidden]") != null;
  }
  for (const box of all(".box")) {
    find(".chosen", box).textContent = all(":checked", box).length || "";
  }
  find(".nothing").hidden = count > 0;
  find("#count").textContent = `${count < items.length ? `${count} of ` : ""}${items.length} entries`;
}

function write(at = "") {
  const state = chosen();
  if (at) state.set("at", at);
  const hash = state.size ? `#${state}` : location.pathname;
  if (hash !== location.hash) history[at ? "pushState" : "replaceState"](null, "", hash);
}

function read() {
  const hash = location.hash.slice(1);
  const state = new URLSearchParams(hash.includes("=") ? hash : { at: decodeURIComponent(hash) });
  for (const field of form.elements) {
    if (field.type === "checkbox") field.checked = state.getAll(field.name).includes(field.value);
    else if (field.name) field.value = state.get(field.name) ?? "";
  }
  filter();
  document.getElementById(state.get("at"))?.scrollIntoView();
}

function changed() {
  filter();
  write();
}

form.hidden = false;
form.addEventListener("input", changed);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(changed));
document.addEventListener("click", (event) => {
  for (const box of all(".box[open]")) if (!box.contains(event.target)) box.open = false;
  const link = event.target.closest('a[href^="#"]');
  const to = link && document.getElementById(target(link));
  if (!to) return;
  event.preventDefault(); // the plain anchor would replace the filters in the address
  if (to.closest("[hidden]")) {
    history.pushState(null, "", `#${encodeURIComponent(to.id)}`);
    read(); // which clears the filters
  } else {
    write(to.id);
    to.scrollIntoView();
  }
  to.focus({ preventScroll: true });
});
addEventListener("popstate", read);
// A folded table would be lost on paper; how a figure was made stays folded.
addEventListener("beforeprint", () => {
  for (const folded of all("td details")) folded.open = true;
});
read();
