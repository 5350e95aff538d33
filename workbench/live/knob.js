// A slider over some values, with a field to type any other number in. The value is the field's; the
// slider stands at the option next to it.

const shown = (v) => {
  if (typeof v !== "number") return String(v);
  const rounded = Number(v.toPrecision(6));
  return v && Math.abs(v) < 1e-3 ? rounded.toExponential() : String(rounded);
};

const SHORT = 44; // letters of a help that has a line of its own
const sentence = (words) => words && `${words[0].toUpperCase()}${words.slice(1).trim()}.`;

function render({ model, el }) {
  el.classList.add("knob");
  el.innerHTML = `<span class="name"></span><input type="range" min="0" step="1">
    <input type="text" autocomplete="off" spellcheck="false"><small></small>`;
  const [name, slider, field, help] = el.children;
  const get = (key) => model.get(key);
  const numbers = () => get("options").filter((v) => typeof v === "number");

  function send(value) {
    model.set("value", value);
    model.save_changes();
    show();
  }

  // What is wrong with a typed text, if anything is.
  function fault(text) {
    if (get("options").includes(text)) return "";
    const [v, all] = [Number(text), numbers()];
    const words = get("options").filter((each) => typeof each === "string").map((w) => ` or ${w}`);
    const kind = all.every(Number.isInteger) ? "a whole number" : "a number";
    const fits = text && Number.isFinite(v) && (v > 0 || all.includes(v)) &&
      (Number.isInteger(v) || kind === "a number");
    return fits ? "" : `must be ${kind} ${all.includes(0) ? "from 0 on" : "above 0"}${words}`;
  }

  function type() {
    const text = field.value.trim();
    const wrong = fault(text);
    field.ariaInvalid = String(Boolean(wrong));
    help.textContent = sentence(wrong);
    help.classList.toggle("wrong", Boolean(wrong));
    if (!wrong) send(get("options").includes(text) ? text : Number(text));
  }

  function show() {
    const [options, value] = [get("options"), get("value")];
    const far = (v) => (v === value ? -1 : Math.abs(Math.log(v / value)));
    const next = options.reduce((a, b) => (far(b) < far(a) || Number.isNaN(far(a)) ? b : a));
    name.textContent = slider.ariaLabel = get("description");
    field.ariaLabel = `${get("description")}, typed`;
    el.title = slider.ariaDescription = sentence(get("tooltip"));
    const words = get("tooltip").replace(/^the /, "");
    help.textContent = sentence(words.length < SHORT ? words : words.split(/[;:,]/)[0]);
    help.classList.remove("wrong");
    field.ariaInvalid = "false";
    slider.max = options.length - 1;
    slider.value = options.indexOf(next);
    field.value = slider.ariaValueText = shown(value);
  }

  slider.addEventListener("input", () => {
    field.value = slider.ariaValueText = shown(get("options")[slider.value]);
  });
  slider.addEventListener("change", () => send(get("options")[slider.value]));
  field.addEventListener("change", type);
  field.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") show();
  });
  for (const key of ["value", "options", "tooltip"]) model.on(`change:${key}`, show);
  show();
}

export default { render };
