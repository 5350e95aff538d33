// Five things that people come for, each done with what the page offers, and timed.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { Lab } from "./lab.mjs";

let lab;
before(async () => (lab = await Lab.open()));
after(() => lab?.close());

// Walks back along the marked curve, from where it is, to the first point of which `holds` is true
// no longer, and returns the values of the last one of which it is.
async function walk(dashboard, holds) {
  let found;
  for (let steps = 0; steps < 2000; steps += 1) {
    const here = await dashboard.readout();
    if (!holds(here)) return found;
    if (found && here.round === found.round) return found; // the first point
    found = here;
    await dashboard.page.keyboard.press("ArrowLeft");
  }
  throw new Error("the curve has no end");
}

test("find the round at which the bound of MRC-CCG falls below 0.3", async () => {
  const dashboard = await lab.dashboard("mrc");
  await dashboard.press("run");
  await dashboard.until("finished");
  await dashboard.view.locator("canvas").focus();
  await dashboard.page.keyboard.press("End");
  const { round, upper } = await walk(dashboard, (at) => at.upper < 0.3);
  assert.ok(round > 5 && upper < 0.3, `round ${round}: ${upper}`);
  await dashboard.picture("task-1");
  await lab.leave(dashboard.page);
});

test("branch at another lambda0 and compare, then change the data without losing a run", async () => {
  const dashboard = await lab.dashboard("mrc");
  await dashboard.slide("rounds", -1);
  await dashboard.press("run");
  await dashboard.waitForRound((round) => round >= 5, "five rounds");
  await dashboard.slide("lambda0", 2);
  await dashboard.press("run");
  await dashboard.slide("rounds", 3);
  await dashboard.until("finished");
  assert.match((await dashboard.labels())[1], /^2 · MRC-CCG, lambda0 = 0.05, from round \d+$/);
  const [first, second] = await dashboard.numbers();
  assert.ok(second.lower > first.lower, "a larger lambda0 has a larger minimax risk");
  await dashboard.picture("task-2");

  await dashboard.choose("data", "wine | 30 % test");
  await dashboard.press("run");
  await dashboard.page.waitForFunction(() => document.querySelectorAll(".live tbody").length === 3);
  await dashboard.until("finished");
  const [kept, branch, third] = await dashboard.labels();
  assert.match(kept, /^1 · MRC-CCG, digits/);
  assert.match(branch, /digits.*, lambda0 = 0.05/);
  assert.match(third, /wine.*, lambda0 = 0.05/);
  assert.deepEqual((await dashboard.numbers()).slice(0, 2), [first, second]);
  await dashboard.picture("task-3");
  await lab.leave(dashboard.page);
});

test("race three solvers and read which is the first to have a test error of 5 %", async () => {
  const dashboard = await lab.dashboard("race", { height: 1500 });
  const names = ["Walrus fast (ours)", "Stagewise least squares", "Logistic regression (L-BFGS)"];
  await dashboard.choose("solvers", names);
  await dashboard.slide("seconds", -2);
  await dashboard.press("run");
  await dashboard.until("finished");
  await dashboard.view.locator("canvas").focus();
  await dashboard.page.keyboard.press("ArrowLeft");
  for (let i = 0; i < 3; i += 1) await dashboard.page.keyboard.press("ArrowUp");
  const times = [];
  for (let i = 0; i < 3; i += 1) {
    await dashboard.page.keyboard.press("End");
    times.push((await walk(dashboard, (at) => at["test error"] <= 0.05)).seconds);
    await dashboard.page.keyboard.press("ArrowDown");
  }
  assert.equal(new Set(times).size, 3, times.join());
  await dashboard.picture("task-4");
  await lab.leave(dashboard.page);
});

test("find why Table VI says something else than ours on dry_bean", async () => {
  const page = join(lab.folder, "report.html");
  await promisify(execFile)(".venv/bin/workbench", ["report", "--out", page], { cwd: lab.folder });
  const report = await lab.page({ width: 1400, height: 1000 });
  await report.goto(`file://${page}`);
  const table = report.locator("section", { hasText: "Table VI." }).last();
  const lines = table.locator("tr", { hasText: "dry_bean" }).filter({ hasText: "MRC-CCG" });
  const line = lines.filter({ hasText: "classification error" }).first();
  await line.scrollIntoViewIfNeeded();
  assert.match(await line.innerText(), /standardised features/);
  await lab.leave(report);
});
