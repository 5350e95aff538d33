// Every dashboard as a person uses it: run, pause, step, back, go on, change a parameter, stop.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { Lab } from "./lab.mjs";

// How it is used, a slider that the solver may change in mid-run, how far it is moved, and data if
// not the first. The controls are the same on all dashboards, so each is used in one way.
const LIVE = {
  mrc: ["by mouse", "n_max", -3, "digits | 30 % test"],
  weston_watkins: ["by keyboard", "C", 1],
  least_squares: ["by mouse", "alpha", 1],
  sampled_cuts: ["by keyboard", "r", -1],
  memoir: ["by mouse", "eta0", 1],
};

let lab;
before(async () => (lab = await Lab.open()));
after(() => lab?.close());

for (const [name, [how, slider, steps, data]] of Object.entries(LIVE)) {
  test(`${name}, ${how}: run, pause, step, back, a parameter on the fly, stop`, async () => {
    const dashboard = await lab.dashboard(name);
    dashboard.keys = how === "by keyboard";
    const { page } = dashboard;
    await dashboard.until("ready");
    if (data) await dashboard.choose("data", data); // on which it does not end at once
    assert.equal(await dashboard.slide("rounds/s", -1), "10");

    await dashboard.press("run");
    await dashboard.waitForRound((round) => round >= 3, "three rounds");
    await dashboard.press("pause");
    await dashboard.until("paused");
    await page.waitForTimeout(300); // the page is told within a tenth of a second
    const [paused, still] = [await dashboard.numbers(), await dashboard.pixels()];
    await page.waitForTimeout(700);
    assert.deepEqual(await dashboard.numbers(), paused, "the curve stands still");
    assert.equal(await dashboard.pixels(), still, "the curve stands still");

    const { round } = paused.at(-1);
    for (const expected of [round + 1, round + 2]) {
      await dashboard.press("step");
      await dashboard.waitForRound((now) => now !== expected - 1, "a step");
      await dashboard.until("paused");
      assert.equal(await dashboard.round(), expected, "exactly one iterate");
    }
    await dashboard.press("back");
    assert.equal(await dashboard.waitForRound((now) => now !== round + 2, "back"), round + 1);
    await page.locator(".inside canvas").first().waitFor();
    await dashboard.slide(slider, steps);
    await dashboard.view.locator(".pending", { hasText: new RegExp(`pressed: ${slider}`) }).waitFor();
    await dashboard.slide(slider, -steps);
    await dashboard.view.locator(".pending").waitFor({ state: "hidden" });

    await dashboard.press("run");
    await dashboard.waitForRound((now) => now > round + 2, "going on");
    await dashboard.slide(slider, steps);
    await dashboard.press("run");
    await dashboard.runs(2);
    assert.match((await dashboard.labels())[1], /from round \d+/);
    const branched = await dashboard.round();
    await dashboard.waitForRound((now) => now > branched, "the branch going on");
    await dashboard.press("stop");
    await dashboard.until("stopped");
    await page.waitForTimeout(300);
    const both = await dashboard.pixels();
    await dashboard.act(dashboard.view.locator("tbody .hide").first());
    await dashboard.act(dashboard.view.locator("tbody.hidden .hide", { hasText: "show" }));
    await page.mouse.move(5, 5);
    await page.waitForTimeout(300);
    assert.equal(await dashboard.pixels(), both, "hidden and shown again");
    await dashboard.act(dashboard.view.locator("tbody .remove").first());
    await dashboard.runs(1);
    const undo = dashboard.view.locator(".undo");
    await dashboard.act(undo);
    await dashboard.runs(2);
    await undo.waitFor({ state: "hidden" });

    await dashboard.press("reset");
    await dashboard.until("stopped");
    await dashboard.runs(0);
    await dashboard.act(undo);
    await dashboard.runs(2);
    await lab.leave(page);
  });
}

test("the race runs solvers side by side for the same time, and then others", async () => {
  const dashboard = await lab.dashboard("race", { height: 1800 });
  await dashboard.slide("seconds", -2);
  await dashboard.press("run");
  await dashboard.until("finished");
  const numbers = await dashboard.numbers();
  assert.equal(numbers.length, 4);
  for (const { seconds } of numbers) assert.ok(seconds < 10, `${seconds} s of 2`);
  await dashboard.view.locator("canvas").focus();
  await dashboard.page.keyboard.press("ArrowLeft");
  for (let i = 0; i < 4; i += 1) await dashboard.page.keyboard.press("ArrowUp");
  for (const { round } of numbers) { // the last point of each curve, and one before it
    await dashboard.page.keyboard.press("End");
    assert.equal((await dashboard.readout()).round, round);
    await dashboard.page.keyboard.press("ArrowLeft");
    assert.ok((await dashboard.readout()).round < round);
    await dashboard.page.keyboard.press("ArrowDown");
  }

  await dashboard.choose("data", "wine | 30 % test");
  await dashboard.choose("solvers", ["MEMOIR-ℓ1", "Cosine centroids"]);
  await dashboard.slide("rounds/s", -1);
  await dashboard.press("run");
  await dashboard.waitForRound((round) => round >= 1, "the others");
  await dashboard.press("stop");
  await dashboard.until("stopped");
  assert.deepEqual((await dashboard.numbers()).slice(0, 4), numbers, "no run is lost");
  const labels = await dashboard.labels();
  assert.ok(/digits/.test(labels[0]) && /wine/.test(labels[4]), labels.join());
  await lab.leave(dashboard.page);
});

test("a dashboard outlives errors, and a kernel restart", async () => {
  const dashboard = await lab.dashboard("memoir");
  const { page } = dashboard;
  await dashboard.slide("lam", 8);
  await dashboard.slide("eta0", 3); // a step so long that it erases W
  await dashboard.press("run");
  await dashboard.until("failed");
  assert.match(await dashboard.view.locator(".error").textContent(), /must be below 1/);
  await dashboard.slide("eta0", -3);
  await dashboard.press("step");
  await dashboard.until("paused");
  await dashboard.view.locator(".error").waitFor({ state: "hidden" }); // as it is where empty

  await dashboard.command("kernelmenu:restart");
  await page.locator(".jp-Dialog .jp-mod-accept").click();
  await page.locator(".jp-Dialog").waitFor({ state: "detached" });
  await dashboard.until("the kernel has stopped or restarted: run this cell again");
  assert.equal(await page.locator(":is(.bar, .live-controls):not([inert])").count(), 0,
    "nothing to press");
  const marked = (marks) => marks.filter((el) => getComputedStyle(el, "::before").content !== "none");
  const marks = page.locator(".jupyter-widgets-disconnected");
  assert.equal((await marks.evaluateAll(marked)).length, 0, "no broken icons");
  await dashboard.runAll();
  await dashboard.until("ready");
  await dashboard.press("step");
  await dashboard.until("paused");
  assert.equal(await dashboard.round(), 0, "a new run");
  await dashboard.command("apputils:change-theme", { theme: "JupyterLab Dark" }); // all are redrawn
  await page.locator("body[data-jp-theme-light=false]").waitFor({ state: "attached" });
  await dashboard.command("apputils:change-theme", { theme: "JupyterLab Light" });
  await lab.leave(page);
});

test("all of it by keyboard, on a dark page, at 200 %", async () => {
  const dashboard = await lab.dashboard("weston_watkins", { width: 1600, height: 1400 });
  const { page } = dashboard;
  await dashboard.command("apputils:change-theme", { theme: "JupyterLab Dark" });
  await page.locator("body[data-jp-theme-light=false]").waitFor({ state: "attached" });
  await dashboard.button("step").focus();
  await page.keyboard.press("Space");
  await dashboard.until("paused");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "back");
  await dashboard.button("run").focus();
  await page.keyboard.press("Enter");
  await dashboard.until("running|finished");
  await dashboard.waitForRound((round) => round > 20, "twenty rounds");
  await dashboard.button("pause").focus();
  await page.keyboard.press("Space");
  await dashboard.until("paused|finished");

  await dashboard.view.locator("canvas").focus();
  for (let i = 0; i < 3; i += 1) await page.keyboard.press("ArrowLeft");
  const told = dashboard.view.locator(".readout", { hasText: /Walrus[^]*round \d+[^]*gap/ });
  await told.waitFor();
  assert.equal(await page.locator(".jp-Cell.jp-mod-active .live").count(), 1, "in the same cell");

  await page.evaluate(() => (document.querySelector(".jp-OutputArea:has(.live)").style.zoom = 2));
  await page.waitForTimeout(500);
  const chart = dashboard.view.locator(".chart");
  const box = await chart.boundingBox();
  const inner = await chart.evaluate((el) => [el.scrollWidth, el.clientWidth]);
  assert.ok(box.width > 300 && inner[0] <= inner[1] + 1, "nothing is cut off at 200 %");
  await dashboard.command("apputils:change-theme", { theme: "JupyterLab Light" });
  await lab.leave(page);
});

test("a drag zooms in on the chart, the zoom outlives new rounds, a double click returns", async () => {
  const dashboard = await lab.dashboard("weston_watkins");
  const { page } = dashboard;
  await dashboard.slide("rounds/s", -1);
  await dashboard.press("run");
  await dashboard.waitForRound((round) => round >= 8, "eight rounds");
  await dashboard.press("pause");
  await dashboard.until("paused|finished");
  await page.waitForTimeout(300);
  const canvas = dashboard.view.locator("canvas");
  await canvas.evaluate((el) => el.scrollIntoView({ block: "center" })); // not under the bar
  await page.waitForTimeout(1000); // the picture of the last round may still be drawn
  const whole = await dashboard.pixels();
  const box = await canvas.boundingBox();
  const at = (x, y) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(0.3, 0.15));
  await page.mouse.down();
  await page.mouse.move(...at(0.6, 0.4), { steps: 5 });
  await page.mouse.up();
  await page.mouse.move(...at(0.5, -0.1));
  await page.waitForTimeout(1000);
  const near = await dashboard.pixels();
  assert.notEqual(near, whole, "zoomed");
  await dashboard.press("step");
  await dashboard.until("paused|finished");
  await page.mouse.dblclick(...at(0.5, 0.3));
  await page.mouse.move(...at(0.5, -0.1));
  await dashboard.press("back");
  await dashboard.until("paused|finished");
  await page.waitForTimeout(300);
  assert.equal(await dashboard.pixels(), whole, "as before");

  await dashboard.view.locator("canvas").focus();
  for (const key of ["ArrowLeft", "ArrowLeft", "+", "+"]) await page.keyboard.press(key);
  await page.waitForTimeout(300);
  assert.notEqual(await dashboard.pixels(), whole);
  await page.keyboard.press("Escape");
  await dashboard.view.locator(".status").click();
  await page.waitForTimeout(300);
  assert.equal(await dashboard.pixels(), whole);

  const at2 = async (act) => { // the picture after an act, with the pointer away
    await dashboard.point(0.5, 0.3);
    await act();
    await dashboard.point(0.5, -0.1);
    await page.waitForTimeout(300);
    return dashboard.pixels();
  };
  assert.equal(await at2(() => page.mouse.wheel(0, -200)), whole, "the page scrolls");
  await page.keyboard.down("Control");
  const wheeled = await at2(() => page.mouse.wheel(0, -200));
  await page.keyboard.up("Control");
  assert.notEqual(wheeled, whole, "zoomed by the wheel");
  await page.keyboard.down("Shift");
  const moved = await at2(async () => {
    await page.mouse.down();
    await dashboard.point(0.4, 0.3);
    await page.mouse.up();
  });
  await page.keyboard.up("Shift");
  assert.ok(![wheeled, whole].includes(moved), "moved");
  await dashboard.view.locator("canvas").dblclick();
  assert.equal(await at2(() => dashboard.view.locator(".status").click()), whole, "all of it again");
  await lab.leave(page);
});

test("no key reaches the notebook, and every control says what it is and its value", async () => {
  const dashboard = await lab.dashboard("sampled_cuts");
  const { page } = dashboard;
  const cells = await page.locator(".jp-Cell").count();
  const keys = { "input[type=checkbox]": ["x", "d", "d"], "select.over": ["b", "a"],
    ".widget-select-multiple select": ["Shift+ArrowDown", "x"], "[type=range]": ["m", "x", "b"],
    ".knob [type=text]": ["m", "Escape"], ".bar button": ["x", "y"], ".live canvas": ["x"] };
  for (const [selector, presses] of Object.entries(keys)) {
    await page.locator(`.live-page ${selector}`).locator("visible=true").first().focus();
    for (const key of presses) await page.keyboard.press(key);
  }
  assert.equal(await page.locator(".jp-Cell").count(), cells);
  assert.equal(await page.locator(".jp-Cell.jp-mod-selected").count(), 1);
  assert.equal(await page.locator(".jp-MarkdownCell:has-text('def ')").count(), 0);

  assert.equal(await page.locator(".live-page [title=null]").count(), 0);
  const shown = await dashboard.slide("r", 1);
  const nameless = await page.locator(".live-page").evaluate((el) => {
    const named = (part) => part.ariaLabel || part.textContent.trim() || part.labels?.[0]?.textContent;
    return [...el.querySelectorAll("button, select, input, summary, canvas[tabindex]")]
      .filter((part) => !named(part)).map((part) => part.outerHTML.slice(0, 80));
  });
  assert.deepEqual(nameless, []);
  assert.equal(await page.locator("[aria-label=r]").getAttribute("aria-valuetext"), shown);
  assert.ok(await page.getByText("rows (or sequences) in a cut").isVisible(), "help of the docstring");
  await dashboard.choose("data", "digits | 30 % test");
  await page.locator("[aria-label=gamma][aria-valuetext='0.01']").waitFor(); // which suits digits
  await lab.leave(page);
});

test("a long round counts its seconds, also after stop is pressed", async () => {
  const dashboard = await lab.dashboard("sampled_cuts");
  const { page, view } = dashboard;
  await dashboard.choose("data", "checkers 100000 | 30 % test"); // a round takes many seconds
  await dashboard.choose("solvers", "Exact cuts");
  await dashboard.press("run");
  await view.locator(".doing", { hasText: /^round in progress, \d+ s$/ }).waitFor();
  await dashboard.press("stop");
  const seconds = [];
  for (let status; status !== "stopped"; await page.waitForTimeout(50)) {
    let doing;
    [status, doing] = await view.locator(".status, .doing").allTextContents();
    const passed = doing.match(/^round in progress, (\d+) s$/);
    if (status === "stopping" && passed) seconds.push(Number(passed[1]));
  }
  assert.ok(Math.max(...seconds) > seconds[0], `after stop it says ${seconds} s`);
  await lab.leave(page);
});

test("Tab reaches every control of a narrow notebook, and leaves the dashboard", async () => {
  const dashboard = await lab.dashboard("memoir", { width: 800 });
  const { page } = dashboard;
  await dashboard.press("step");
  await dashboard.until("paused");
  await page.locator(".inside canvas").first().waitFor();
  assert.deepEqual(await dashboard.outOfSight(), []);
  const controls = await page.locator(".live-page").evaluate((el) => {
    const all = el.querySelectorAll("button, select, input, textarea, summary, a[href], " +
      "[contenteditable=true], .live canvas, tbody");
    window.controls = [...all].filter((part) =>
      !part.disabled && part.checkVisibility({ visibilityProperty: true }));
    return window.controls.map((part) => part.outerHTML.slice(0, 80));
  });
  const at = () => page.evaluate(() => {
    const { activeElement: here } = document;
    if (!here.closest(".live-page")) return null;
    return window.controls.includes(here) ? window.controls.indexOf(here) : here.outerHTML;
  });
  await page.evaluate(() => window.controls[0].focus());
  const visited = [];
  for (let i = await at(); i !== null && visited.length <= controls.length; i = await at()) {
    visited.push(controls[i] ?? i);
    await page.keyboard.press("Tab");
  }
  assert.deepEqual(visited, controls);
  await lab.leave(page);
});

test("on one screen: buttons, parameters, chart, names and the inside; the bar stays in sight", async () => {
  for (const [width, height] of [[1440, 900], [1024, 768]]) {
    const dashboard = await lab.dashboard("mrc", { width, height });
    const { page, view } = dashboard;
    await dashboard.press("step");
    await dashboard.until("paused");
    await page.locator(".inside canvas").first().waitFor();
    await page.locator(".live-page").evaluate((el) => el.scrollIntoView({ block: "start" }));
    const frame = await page.locator(".jp-WindowedPanel-outer").last().boundingBox();
    const boxes = {};
    for (const part of [".bar", ".knob >> nth=0", ".knob >> nth=-1", ".live canvas", ".choices",
      ".inside canvas >> nth=0"]) {
      const box = boxes[part] = await page.locator(`.live-page ${part}`).boundingBox();
      const seen = box.y >= frame.y - 1 && box.y + box.height <= frame.y + frame.height + 1 &&
        box.x >= frame.x && box.x + box.width <= frame.x + frame.width + 1;
      assert.ok(seen, `${part} is out of sight at ${width}`);
    }
    const [knob, chart, inside] = [".knob >> nth=0", ".live canvas", ".inside canvas >> nth=0"].map(
      (part) => boxes[part]);
    assert.ok(knob.x + knob.width <= chart.x, "the parameters are to the left of the chart");
    assert.ok(inside.y >= chart.y + chart.height && inside.y < chart.y + chart.height + 150);
    assert.ok(chart.height > 200 && chart.width > 300);
    await page.mouse.move(chart.x + 50, chart.y + 50);
    await page.mouse.wheel(0, 200);
    await page.waitForTimeout(500);
    const bar = await view.locator(".bar").boundingBox();
    assert.ok(Math.abs(bar.y - frame.y) < 3, `the bar is ${bar.y - frame.y} pixels below the top`);
    await lab.leave(page);
  }
});

test("a number is typed, files are saved, the table sorts, focus and undo outlive removals", async () => {
  const dashboard = await lab.dashboard("weston_watkins");
  const { page, view } = dashboard;
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  const type = async (name, text) => {
    await dashboard.knob(name).locator("[type=text]").fill(text);
    await page.keyboard.press("Tab");
  };
  await type("C", "-3");
  await dashboard.knob("C").getByText("must be a number above 0").waitFor();
  await type("C", "3"); // which no stop of the slider is
  assert.equal(await dashboard.knob("C").locator("[type=range]").getAttribute("aria-valuetext"), "3");
  await type("rounds/s", "20");
  await dashboard.press("run");
  await dashboard.waitForRound((round) => round >= 5, "five rounds");
  await type("C", "5");
  await dashboard.press("run");
  await dashboard.runs(2);
  await dashboard.waitForRound((round) => round >= 12, "the branch");
  await dashboard.press("stop");
  await dashboard.until("stopped");
  assert.match((await dashboard.labels()).join(), /C = 3.*C = 5/);

  const saved = async (what) => {
    await view.locator(".menu summary").click();
    const [file] = await Promise.all([page.waitForEvent("download"),
      view.locator(`.menu .${what}`).click()]);
    return readFile(await file.path());
  };
  const svg = String(await saved("svg"));
  const marks = await page.evaluate((text) => {
    const picture = new DOMParser().parseFromString(text, "image/svg+xml");
    return [...picture.querySelectorAll("text, parsererror")].map((part) => part.textContent);
  }, svg);
  for (const words of ["objective", "certified gap", "solver time (s)"]) assert.ok(marks.includes(words));
  assert.ok(marks.some((words) => words.startsWith("2 C = 5")), marks.join());
  assert.equal((await saved("png")).toString("latin1", 1, 4), "PNG");
  const [head, ...lines] = String(await saved("csv")).trim().split("\n");
  assert.equal(head, "run,solver,settings,seconds,round,lower,upper,test_error");
  assert.ok(lines.some((line) => /^1,"Walrus","[^"]*C = 3",[\d.]+,0,/.test(line)), lines[0]);
  const { round } = (await dashboard.numbers())[1];
  assert.equal(Number(lines.at(-1).split(",").at(-4)), round);
  const trace = String(await saved("traces")).trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual([trace[0].solver, trace[0].parameters.C], ["ww_walrus", 3]);
  await view.locator(".menu summary").click();
  await view.locator(".menu .code").click();
  await page.waitForTimeout(1000);
  const code = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(code, /^from workbench import load\n[^]*run_1 = until\(Lane\('ww_walrus', problem, {'C': 3.0/);
  assert.match(code, /run_2 = until\(until\(.*\.branch\({'C': 5.0, .*\), \d+\)\n$/);

  const order = async () => {
    await page.waitForTimeout(300); // a press is drawn in the next frame
    return (await dashboard.labels()).map((label) => label[0]).join("");
  };
  await view.locator("thead button", { hasText: "gap" }).click();
  assert.equal(await order(), "21", "the smallest gap first");
  await view.locator("thead button", { hasText: "gap" }).click();
  assert.equal(await order(), "12");
  await view.locator("tbody .remove").first().focus();
  await page.keyboard.press("Enter");
  await dashboard.runs(1);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "TBODY");
  await page.keyboard.press("Enter"); // which removes no other run
  await view.locator("tbody .remove").focus();
  await page.keyboard.press("Enter");
  await dashboard.runs(0);
  await view.locator(".undo").click();
  await dashboard.runs(1);
  await view.locator(".undo").click();
  await dashboard.runs(2);
  await lab.leave(page);
});

test("the bar says how much of the budget is used", async () => {
  const dashboard = await lab.dashboard("memoir");
  const { view } = dashboard;
  await dashboard.choose("data", "text 20000x1000 | 30 % test");
  await dashboard.press("run");
  await dashboard.waitForRound((round) => round >= 2, "two rounds");
  const used = await view.locator("progress").evaluate(({ value }) => value);
  assert.ok(used > 0 && used < 1, `${used} of the budget`);
  await dashboard.press("stop");
  await dashboard.until("stopped");
  await lab.leave(dashboard.page);
});
