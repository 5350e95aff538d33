// Plays recorded runs on a page without a kernel: the panels of the dashboards, fed by a slider.
// A plot that was recorded for several values of a parameter has a slider over these values.

const bytes = (text) => Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));

// Seats a panel in `el` as Jupyter would, and returns what hands it a message.
function seat(widget, el, answer) {
  const heard = {};
  const model = { on: (event, act) => (heard[event] = act), send: answer };
  const { initialize, render } = widget();
  initialize({ model });
  render({ model, el });
  return heard["msg:custom"];
}

function scrub({ name, values, pictures, start }, el) {
  el.innerHTML = `<p class="bar"><label><span></span>
    <input type="range" min="0" max="${values.length - 1}" value="${start}"></label>
    <output></output></p><img>`;
  const [words, slider, output, image] =
    ["span", "input", "output", "img"].map((tag) => el.querySelector(tag));
  words.textContent = name;
  const show = () => {
    output.value = slider.ariaValueText = values[slider.value];
    image.src = `data:image/png;base64,${pictures[slider.value]}`;
    image.alt = `The plot for ${name} = ${output.value}.`;
  };
  slider.addEventListener("input", show);
  show();
}

function play({ runs }, el) {
  const points = new Map(runs.map((run) => [run.number, new Float64Array(bytes(run.points).buffer)]));
  const seconds = [...points.values()].flatMap((all) => [...all].filter((_, i) => i % 5 === 0));
  const times = [...new Set(seconds)].sort((a, b) => a - b);
  const pictured = runs.filter(({ frames }) => frames.length);
  let timer = 0;
  let before = 0; // when the last picture was shown, in ms
  let passed = 0; // of the moments, with a fraction
  el.innerHTML = `<p class="what"></p><p class="bar"><button>play</button> <label>solver time
    <input type="range" min="0" max="${times.length - 1}" value="${times.length - 1}"></label>
    <output></output> <select class="speed" aria-label="speed">${Object.keys(SPEEDS).map((name) =>
    `<option${SPEEDS[name] === 1 ? " selected" : ""}>${name}</option>`).join("")}</select></p>
    <div></div><p class="of"><label>inside of <select></select></label></p><div></div>`;
  const [button, slider, output, speed, choice] =
    ["button", "input", "output", ".speed", ".of select"].map((name) => el.querySelector(name));
  const solvers = [...new Set(runs.map(({ name }) => name))].join(", ");
  const data = [...new Set(runs.map(({ settings }) => settings[0]))].join(", ");
  el.querySelector(".what").textContent =
    `${runs.length > 1 ? `${runs.length} recorded runs` : "A recorded run"}: ${solvers} on ${data}`;
  const [chart, inside] = el.querySelectorAll("div");
  el.querySelector(".of").hidden = !pictured.length;
  for (const { number, name } of pictured) choice.add(new Option(`${number} · ${name}`, number));

  const tell = seat(CHART, chart, () => setTimeout(show)); // it asks while it is made, too
  const picture = pictured.length ? seat(INSIDE, inside, () => setTimeout(show)) : () => {};

  function show() {
    const now = times[slider.value];
    const curves = [], buffers = [];
    for (const { frames, points: _, ...run } of runs) {
      const all = points.get(run.number);
      let end = 0;
      while (end < all.length && all[end] <= now) end += 5;
      const over = end === all.length;
      const rest = over ? {} : { ended: "", numbers: {} }; // these are of the last row
      curves.push({ ...run, ...rest, live: false, at: 0, whole: all });
      buffers.push(all.subarray(0, end));
    }
    output.value = `${Number(now.toPrecision(3))} s`;
    tell({ status: "", error: "", pending: "", note: "", curves }, buffers);
    const frames = pictured.find(({ number }) => number === Number(choice.value))?.frames;
    const frame = frames?.findLast(({ seconds }) => seconds <= now) ?? frames?.[0];
    if (frame) picture(structuredClone(frame.words), frame.buffers.map(bytes));
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    button.textContent = "play";
  }

  function step() {
    const now = performance.now();
    passed += (SPEEDS[speed.value] * times.length * (now - before)) / PLAY;
    before = now;
    slider.value = Math.floor(passed);
    show();
    if (Number(slider.value) === times.length - 1) stop();
  }

  button.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === times.length - 1) slider.value = 0;
    passed = Number(slider.value);
    before = performance.now();
    button.textContent = "pause";
    timer = setInterval(step, 40);
  });
  slider.addEventListener("input", () => (passed = Number(slider.value)));
  for (const control of [slider, choice]) control.addEventListener("input", show);
}

const PLAY = 8000; // ms of a whole play
const SPEEDS = { "quarter speed": 0.25, "usual speed": 1, "four times as fast": 4 };
const unpacked = (text) => new Response(
  new Blob([bytes(text)]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
for (const data of document.querySelectorAll("script.recording")) {
  const el = document.createElement("section");
  el.className = "replay";
  data.after(el);
  unpacked(data.textContent).then((recorded) => (recorded.pictures ? scrub : play)(recorded, el));
}
if (window.frameElement) { // in a notebook's output: as high as what it shows
  new ResizeObserver(([{ target }]) => (frameElement.style.height = `${target.offsetHeight + 20}px`))
    .observe(document.body);
}
