
// Shows one slide at a time; arrows, space and the buttons turn the pages, and N shows the notes.
const slides = [...document.querySelectorAll("main > section")];
const place = document.querySelector("nav output");
const KEYS = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1, Home: -Infinity, End: Infinity };

// The address of a slide is its number: #3.
function turn() {
  const at = Math.min(Math.max(parseInt(location.hash.slice(1)) || 1, 1), slides.length);
  slides.forEach((slide, i) => {
    slide.classList.toggle("now", i === at - 1);
    slide.inert = i !== at - 1;
  });
  place.value = `${at} / ${slides.length}`;
  return at;
}

function move(by) {
  location.hash = Math.min(Math.max(turn() + by, 1), slides.length);
}

document.addEventListener("keydown", (event) => {
  if (event.key === "n") document.body.classList.toggle("noted");
  const typed = event.target.closest("input, select, button, summary, [tabindex]");
  const by = KEYS[event.key];
  if (!by || typed || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  move(by);
});
for (const button of document.querySelectorAll("nav button")) {
  button.addEventListener("click", () => {
    move(Number(button.value));
    button.blur(); // the arrows go on
  });
}
addEventListener("hashchange", turn);
document.body.classList.add("turned");
turn();
