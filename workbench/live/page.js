// The live view's page: its style, and the elements of the chart. One grid holds all parts of a
// dashboard: a bar of buttons that stays in sight, the controls on the left, the chart with the
// inside below it on the right, and the table last. There are two sizes of letters, and one style
// of controls.

const choice = (name, title, choices) => `<label title="${title}"><select class="${name}"
  aria-label="${title}">${Object.keys(choices).map((each) => `<option>${each}</option>`).join("")}
  </select></label>`;
const BUTTONS = {
  run: ["play", "Start, or resume; a run that has ended starts again"],
  pause: ["pause", "Pause when the round in progress ends"],
  step: ["step-forward", "Play one round of each solver, then pause"],
  back: ["step-backward", "Go back by one round, then pause"],
  stop: ["stop", "End these runs; their curves stay"],
  reset: ["refresh", "End these runs and remove all curves"],
};
const button = ([name, [icon, title]]) => `<button class="${name}" title="${title}"><i
  class="fa fa-${icon}" aria-hidden="true"></i> ${name}</button>`;
const SAVED = {
  svg: "picture, svg", png: "picture, png", csv: "points, csv",
  traces: "traces, for workbench replay", code: "code of these runs, to the clipboard",
};
const saved = ([what, title]) => `<button class="${what}">${title}</button>`;

const STYLE = `
  .live-page { container-type: inline-size; }
  :is(.live, .live-page) { --page-line: color-mix(in srgb, currentColor 30%, transparent);
    --page-paper: var(--jp-layout-color1, Canvas); --page-small: 0.85em; ${TEXT} padding: 0; }
  .live-page, .live-page :is(.live-body, .widget-vbox),
  :is(.jp-OutputArea, .jp-OutputArea-child, .jp-OutputArea-output):has(.live-page) {
    overflow: visible; }
  .live-page .live-body { display: grid; gap: 0 1.2em; align-items: start;
    grid-template: var(--bar, 3em) / clamp(16em, 26cqw, 20em) minmax(0, 1fr); }
  .live-body > .live { display: contents; }
  .live-body .bar { grid-area: 1 / 1 / 7 / -1; } /* which sticks within its area */
  .live-body .told { grid-area: 2 / 1 / 3 / -1; }
  .live-body .chart { grid-area: 3 / 2; }
  .live-body .inside { grid-area: 4 / 2; min-height: 17em; padding: 0; }
  .live-body .live-controls { grid-area: 3 / 1 / 5 / 2; display: flex; gap: 0.35em;
    height: 0; min-height: 100%; overflow: hidden auto; scrollbar-width: thin; margin: 0;
    padding: 0 0.2em; box-sizing: border-box; }
  .live-body .runs { grid-area: 5 / 1 / 6 / -1; }
  .live-body .help { grid-area: 6 / 1 / 7 / -1; margin-top: 0.6em; }
  @container (max-width: 40em) {
    .live-page .live-body { grid-template-columns: minmax(0, 1fr); }
    .live-body .chart { grid-area: 3 / 1; }
    .live-body .inside { grid-area: 4 / 1; min-height: 0; }
    .live-body .live-controls { grid-area: 5 / 1; height: auto; }
    .live-body .runs { grid-row: 6; font-size: var(--page-small); }
    .live-body .help { grid-row: 7; }
    .live .runs :is(th, td) { padding: 0.15em 0.2em; }
    .live-body .bar { grid-row-end: 8; }
    .live-body .state { flex: 1 0 100%; height: 1.9em; }
  }

  .live-page :is(button, select, input):where(:not([type=checkbox], [type=range])),
  .live :is(button, select), .live .menu summary { font: inherit; color: inherit;
    border-radius: 0.25em; background-color: var(--page-paper); border: 1px solid var(--page-line); min-height: 1.9em;
    padding: 0 0.5em; box-sizing: border-box; box-shadow: none; line-height: 1.3;
    field-sizing: content; }
  .live-page select:not([multiple]) option { color: inherit; background: var(--page-paper); }
  .live-page select[multiple] { padding: 0; field-sizing: content; max-height: 10em; }
  .live :is(button, summary) { cursor: pointer; white-space: nowrap; }
  .live :is(button:hover, .menu summary:hover) { border-color: currentColor; }
  .live [aria-disabled=true] { opacity: 0.4; cursor: default; }
  .live-page input[type=checkbox] { accent-color: currentColor; }
  .live-page input[type=range] { appearance: none; height: 1.4em; background:
    linear-gradient(var(--page-line), var(--page-line)) center / 100% 0.2em no-repeat; }
  .live-page input[type=range]::-webkit-slider-thumb { appearance: none; width: 0.95em;
    height: 0.95em; border-radius: 50%; border: 0.13em solid; background: var(--page-paper); }
  .live-page input[type=range]::-moz-range-thumb { width: 0.7em; height: 0.7em;
    border-radius: 50%; border: 0.13em solid; background: var(--page-paper); }
  :is(.live, .live-page) :is(button, select, input, summary, canvas, tbody):focus-visible {
    outline: 0.15em solid; outline-offset: 0.1em; }

  .live .bar { position: sticky; top: 0; z-index: 4; display: flex; flex-wrap: wrap; gap: 0.35em;
    align-items: center; padding: 0.4em 0; min-height: 3em; box-sizing: border-box;
    background: var(--page-paper);
    border-bottom: 1px solid var(--page-line); }
  .live .bar .fa { font-size: var(--page-small); display: inline-block; width: 1em; height: 1em;
    overflow: hidden; line-height: 1; vertical-align: -0.1em; }
  .live .state { flex: 1 1 8em; display: flex; gap: 0.2em 0.8em; align-items: center; margin: 0;
    min-width: 0; max-height: 2.3em; padding-left: 0.6em; line-height: 1.15; overflow: hidden; }
  .live .doing { flex: 1 1 0; font-size: var(--page-small); }
  .live progress { width: 6em; flex: 0 1 6em; margin-left: auto; }
  .live p { margin: 0; overflow-wrap: anywhere; }
  .live :is(p:empty, [hidden], .help), .live:not(.live-body *) .bar { display: none; }
  .live-body .live .help { display: block; }
  .live .told { height: 1.6em; z-index: 3; }
  .live .told p { background: var(--page-paper); padding: 0.1em 0; }
  .live .error { color: var(--jp-error-color1, #d32f2f); white-space: pre-wrap; font-weight: 600; }
  .live :is(.note, .hint) { opacity: 0.75; }

  .live .stage { position: relative; --height: clamp(18em, 100vh - 42em, 32em); }
  .live canvas { display: block; width: 100%; height: var(--height); touch-action: pan-y; }
  .live .stage label { position: absolute; left: 0; z-index: 1; }
  .live .stage select { border-color: transparent; font-weight: 600; padding: 0 0.2em;
    min-height: 1.6em; background: transparent; }
  .live .stage select:hover { border-color: var(--page-line); }
  .live .readout { position: absolute; width: max-content; z-index: 2; box-sizing: border-box;
    max-width: 40%; line-height: 1.35; font-size: var(--page-small); white-space: pre-line; overflow-wrap: anywhere;
    pointer-events: none; background: color-mix(in srgb, var(--page-paper) 88%, transparent); }
  .live .readout:not(:empty) { padding: 0.3em 0.6em; border: 1px solid var(--page-line);
    border-radius: 0.25em; }
  .live .choices { display: flex; flex-wrap: wrap; gap: 0.35em 0.6em; align-items: center;
    padding-top: 0.2em; }
  .live .choices > :nth-child(2) { margin-right: auto; }
  .live .menu { position: relative; }
  .live .menu summary { list-style: none; display: flex; align-items: center; }
  .live .menu summary::after { content: "▾"; margin-left: 0.4em; }
  .live .menu > div { position: absolute; right: 0; bottom: 100%; z-index: 5; display: grid;
    background: var(--page-paper); border: 1px solid var(--page-line); border-radius: 0.25em; }
  .live .menu button { border: 0; text-align: left; min-height: 2.1em; }
  .live .menu button:hover { background: color-mix(in srgb, currentColor 12%, transparent); }

  .live-page .knob { display: grid; grid-template-columns: 6em minmax(2em, 1fr) 4.4em;
    gap: 0 0.5em; align-items: center; margin: 0; overflow: visible; flex: none; }
  .live-page .knob input { width: 100%; min-width: 0; margin: 0; min-height: 1.7em; }
  .live-page .knob input[type=text] { text-align: right; padding: 0 0.3em; }
  .live-page .knob small { grid-column: 1 / -1; overflow: hidden;
    font-size: var(--page-small); line-height: 1.25; opacity: 0.75; text-overflow: ellipsis;
    white-space: nowrap; }
  .live-page .knob .wrong { color: var(--jp-error-color1, #d32f2f); opacity: 1;
    white-space: normal; }
  .live-page .knob [aria-invalid=true] { border-color: var(--jp-error-color1, #d32f2f); }
  .live-page .live-controls .widget-inline-hbox { width: auto; margin: 0; height: auto;
    flex: none; align-items: baseline; overflow: visible; }
  .live-page .live-controls .widget-label { width: 6em; min-width: 6em; text-align: left;
    color: inherit; font-size: inherit; margin: 0 0.5em 0 0; }
  .live-page .live-controls .widget-checkbox .widget-label-basic { font-size: inherit; }
  .live-page .live-controls select { min-width: 0; width: 100%; text-overflow: ellipsis; }
  .live-page .live-controls select:not([multiple]) { padding-right: 1.7em; appearance: none; background:
    linear-gradient(45deg, transparent 50%, currentColor 50%) calc(100% - 0.92em) 55% / 0.42em 0.4em no-repeat,
    linear-gradient(135deg, currentColor 50%, transparent 50%) calc(100% - 0.55em) 55% / 0.42em 0.4em
    no-repeat, var(--page-paper); }
  .live-page .live-body :is(.widget-html, .widget-html-content) { height: auto; min-height: 0;
    margin: 0; line-height: 1.3; flex: none; font-size: inherit; white-space: normal; }
  .live-page .live-body .widget-html-content { flex: 1 1 0; min-width: 0; }
  .live-page .live-controls :is(.widget-select-multiple, .widget-dropdown:last-child):has(
    option:only-child), .live-page .widget-vbox:not(:has(> :is(.knob, .widget-inline-hbox):not(
    .widget-html, [style*="display: none"]))) { display: none; }
  .live-page .live-controls .widget-vbox { flex: none; display: grid; gap: 0.35em; margin: 0; }
  .live-page .widget-select-multiple { flex-wrap: wrap; }
  .live-page .widget-select-multiple > select { flex: 1 1 0; }
  .live-page .widget-select-multiple::after { content: "hold Ctrl or Shift to choose several";
    font-size: var(--page-small); opacity: 0.75; flex: 0 0 100%; }

  .live .runs { overflow-x: auto; cursor: default; margin-top: 0.6em; }
  .live table { width: 100%; border-collapse: collapse; font: inherit;
    font-variant-numeric: tabular-nums; }
  .live :is(th, td) { padding: 0.15em 0.4em; text-align: right; vertical-align: top;
    font-weight: normal; white-space: nowrap; background: none; }
  .live thead th { border-bottom: 1px solid var(--page-line); }
  .live thead button { border: 0; padding: 0; font-weight: 600; background: none; text-align: inherit;
    white-space: normal; }
  .live [aria-sort=ascending] button::after { content: " ▴"; }
  .live [aria-sort=descending] button::after { content: " ▾"; }
  .live :is(.title, .more, caption) { text-align: left; white-space: normal; }
  .live .title { min-width: 6em; }
  .live .swatch { width: 3em; height: 1em; vertical-align: middle; }
  .live .more { padding: 0 0.5em 0.3em 3.6em; font-size: var(--page-small); opacity: 0.85; }
  .live tbody.hidden :is(.swatch, .name, td:not(.more), .rest) { opacity: 0.35; }
  .live td button { border: 0; padding: 0 0.3em; min-height: 0; background: none;
    text-decoration: underline; }
  .live-page.jupyter-widgets-disconnected::before,
  .live-page .jupyter-widgets-disconnected::before { content: none; }
  .live-controls[inert] { opacity: 0.4; }
  /* Pictures beside a dashboard have white paper: in the dark it becomes the notebook's. */
  [data-jp-theme-light=false] .jp-RenderedMarkdown img { background: #fff;
    filter: invert(0.93) hue-rotate(180deg); }`;

// The canvas is an application: of an img, screen readers keep the arrow keys to themselves.
const PAGE = `<style>${STYLE}</style>
  <div class="bar">${Object.entries(BUTTONS).map(button).join("")}
    <p class="state"><b class="status" role="status"></b> <span class="doing"></span>
    <progress aria-label="time used" max="1"></progress></p></div>
  <div class="told"><p class="error" role="alert"></p><p class="pending" role="status"></p>
    <p class="note"></p><p class="hint"></p></div>
  <div class="chart"><div class="stage">${choice("above", "upper chart", ABOVE)}
    ${choice("below", "lower chart", BELOW)}
    <canvas tabindex="0" role="application" data-lm-suppress-shortcuts="true" aria-label="Chart of
      bounds, and of gaps or errors. Left and right move a cursor along a curve, up and down
      choose the curve, plus and minus zoom at the cursor, page up and page down move along the
      horizontal axis, escape removes the cursor and the zoom. The latest values are listed
      below."></canvas>
    <div class="readout" aria-live="polite"></div>
  </div>
  <div class="choices">${choice("over", "horizontal axis", OVER)}
    <label><input type="checkbox"> logarithmic</label>
    <button class="undo" title="Bring back what reset or remove took last">undo</button>
    <details class="menu"><summary>save</summary>
      <div>${Object.entries(SAVED).map(saved).join("")}</div></details></div></div>
  <div class="runs"><table><caption></caption>
    <thead><tr><th class="title"><button>run, and its own settings</button></th>
    ${COLUMNS.map((title) => `<th><button>${title}</button></th>`).join("")}</tr></thead></table>
  </div>
  <details class="help"><summary>How to use this page</summary><ul>
    <li>Move a slider, or type a number, and press <b>run</b>: a branch of the curve starts from
      the same iterate if the solver can change that parameter in mid-run, else a new run starts.
      The old curve stays. After a change of data, old runs turn grey, as their bounds are not
      comparable.</li>
    <li>Only the solver is timed. At full speed only some rounds are evaluated; dots mark them, and
      nothing is known along a pale line between two of them.</li>
    <li>Drag on the chart to zoom, Shift and drag to move, use the wheel after a click or with
      Ctrl, double-click to reset. By keyboard, arrows walk along a curve, + and - zoom, Page Up
      and Page Down move, Escape resets.</li></ul></details>`;
