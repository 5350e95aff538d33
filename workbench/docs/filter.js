// Search as you type: what holds every word stays, with its first line.
"use strict";
const search = document.getElementById("search");
const found = document.getElementById("found");
const rooms = [...document.querySelectorAll("section.room")];
const text = new Map();
for (const item of document.querySelectorAll(".module, .names li")) {
  const own = item.matches(".module") ? item.querySelector("p") : item;
  text.set(item, own.textContent.toLowerCase());
}

function show() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const holds = (item) => words.every((word) => text.get(item).includes(word));
  let count = 0;
  for (const room of rooms) {
    let any = false;
    for (const module of room.querySelectorAll(".module")) {
      const names = [...module.querySelectorAll(".names li")];
      for (const name of names) name.hidden = !holds(name);
      const kept = names.filter((name) => !name.hidden).length;
      const own = holds(module);
      module.hidden = !own && !kept;
      any ||= !module.hidden;
      count += kept + own;
    }
    room.hidden = !any;
  }
  document.body.classList.toggle("searching", words.length > 0);
  found.textContent = words.length ? `${count} found` : "";
}

search.addEventListener("input", show);
document.getElementById("filter").addEventListener("submit", (event) => event.preventDefault());
document.getElementById("filter").hidden = false;
show(); // a browser may have kept the words
