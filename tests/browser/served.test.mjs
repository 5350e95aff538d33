// What is served: the start page, the race as a page of its own, and connections that end.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { DASHBOARDS, kernels, Lab } from "./lab.mjs";

let lab;
before(async () => (lab = await Lab.open()));
after(() => lab?.close());

test("make lab opens the start page; pictures and links are found there and on dashboards", async () => {
  const page = await lab.page({ width: 1400, height: 1400 });
  await page.goto(lab.servers[0].url);
  await page.waitForURL("**/lab/tree/notebooks/00_start_here.ipynb*");
  for (const name of ["00_start_here", ...DASHBOARDS.map((name) => `explore/${name}`)]) {
    await page.goto(`${lab.servers[0].url}/lab/tree/notebooks/${name}.ipynb?reset`);
    await page.locator(".jp-RenderedMarkdown a[href*='files/']").first().waitFor();
    if (name !== "00_start_here") { // a static figure stands for a dashboard without a kernel
      await page.waitForFunction(
        () => document.querySelector(".jp-RenderedMarkdown img")?.naturalWidth > 100,
      );
    }
    const lost = await page.evaluate(async () => {
      const links = [...document.querySelectorAll(".jp-RenderedMarkdown a[href*='files/']")];
      const answers = await Promise.all(links.map(({ href }) => fetch(href, { method: "HEAD" })));
      return answers.filter(({ ok }) => !ok).map(({ url }) => url);
    });
    assert.deepEqual(lost, [], name);
  }
  assert.equal(await page.locator(".Toastify__toast").count(), 0, "nobody is asked about news");
  await lab.leave(page);
});

test("make race serves it as a page that asks no other host", async () => {
  const dashboard = await lab.race();
  const { page } = dashboard;
  await dashboard.button("run").waitFor();
  await dashboard.slide("seconds", -3);
  await dashboard.press("run");
  await dashboard.until("finished");
  assert.equal((await dashboard.numbers()).length, 4);
  assert.equal(await page.locator(".jp-CodeCell .jp-InputArea").count(), 0, "no code is shown");
  assert.equal(await page.locator(".jp-RenderedMarkdown a:not([href^='#'])").count(), 0);
  await page.waitForFunction(() => [...document.fonts].some(
    ({ family, status }) => /Font ?Awesome/.test(family) && status === "loaded")); // the icons
  await lab.leave(page);
});

test("nothing is out of sight or jumps at three widths, and all runs are shown", async () => {
  for (const [theme, ...widths] of [["light", 420, 1024, 1440], ["dark", 1440, 1024, 420]]) {
    const dashboard = await lab.race({ width: widths[0], height: 900, theme });
    const { page, view } = dashboard;
    const top = async (width) => {
      await page.setViewportSize({ width, height: 900 });
      await page.waitForTimeout(300);
      return view.locator("canvas").evaluate((el) => el.getBoundingClientRect().top -
        el.closest(".live-page").getBoundingClientRect().top); // focus may have scrolled the page
    };
    const before = {};
    for (const width of widths) before[width] = await top(width);
    await dashboard.slide("seconds", -3);
    await dashboard.press("run");
    await dashboard.until("finished");
    await dashboard.choose("data", "wine | 30 % test");
    await view.locator(".pending", { hasText: "until run or step is pressed: data" }).waitFor();
    for (const width of widths.toReversed()) {
      const where = `at ${width}, ${theme}`;
      assert.equal(await top(width), before[width], `the chart jumps ${where}`);
      assert.deepEqual(await dashboard.outOfSight(), [], where);
      const runs = view.locator(".runs");
      const [{ width: table }, { width: whole }] = await Promise.all(
        [runs, page.locator(".live-page")].map((part) => part.boundingBox()));
      assert.ok(table > 0.97 * whole, `the table takes ${table} of ${whole} pixels ${where}`);
      assert.ok(await runs.evaluate((el) => el.scrollHeight <= el.clientHeight + 1), "no run scrolls");
    }
    await lab.leave(page);
  }
});

test("the race shows test errors over log time; a run that has ended starts again", async () => {
  const dashboard = await lab.race();
  const { page, view } = dashboard;
  assert.equal(await view.locator(".above").inputValue(), "test error");
  assert.ok(await view.locator(".choices input").isChecked());
  await dashboard.slide("seconds", -3);
  await dashboard.press("run");
  await dashboard.until("finished");
  assert.equal(await view.locator("progress").evaluate(({ value }) => value), 1);
  await dashboard.act(view.locator("tbody .remove").first());
  await dashboard.runs(3);
  await dashboard.press("run");
  await dashboard.runs(7);
  await dashboard.press("stop");
  await dashboard.until("stopped");
  await lab.leave(page);
});

test("after F5 the runs are there; a cut connection is said, and made good", async () => {
  const wire = await lab.wire();
  const { url } = wire;
  const dashboard = await lab.dashboard("weston_watkins", { url });
  const { page, view } = dashboard;
  await dashboard.slide("C", 6);
  await dashboard.slide("seconds", 3);
  await dashboard.slide("rounds/s", -1);
  await dashboard.press("run");
  const shown = await dashboard.waitForRound((round) => round >= 3, "three rounds");
  await dashboard.command("docmanager:save");
  await page.waitForTimeout(2000);
  await page.reload();
  await dashboard.waitForRound((round) => round >= shown, "the run after F5");
  await dashboard.until("running");
  assert.equal(lab.changes(), "", "git sees what the run left in the notebook");

  wire.cut();
  const status = view.locator(".status", { hasText: "the connection to the kernel is lost" });
  await status.waitFor({ timeout: 10_000 });
  const last = await dashboard.round();
  await page.waitForTimeout(5000);
  wire.mend();
  await dashboard.until("running");
  await dashboard.waitForRound((round) => round > last + 5, "the rounds that were missed");
  await page.context().close();
  wire.close();
});

test("a press is answered by the page while the kernel runs another cell", async () => {
  const dashboard = await lab.dashboard("mrc");
  const { page, view } = dashboard;
  await dashboard.execute("import time; time.sleep(8)");
  await dashboard.press("step");
  await view.locator(".status", { hasText: "waiting for the kernel" }).waitFor({ timeout: 6000 });
  await dashboard.until("paused");
  await lab.leave(page);
});

test("a closed page pauses its solver; the race's page leaves no kernel behind", async () => {
  const dashboard = await lab.dashboard("weston_watkins");
  await dashboard.slide("C", 6);
  await dashboard.slide("rounds/s", -1);
  await dashboard.press("run");
  await dashboard.waitForRound((round) => round >= 3, "three rounds");
  await dashboard.command("docmanager:save");
  await dashboard.page.waitForTimeout(2000);
  await lab.leave(dashboard.page);
  const closed = Date.now();

  const earlier = new Set(lab.racing ? kernels(lab.racing) : []); // of the tests before this one
  const left = () => kernels(lab.racing).filter((id) => !earlier.has(id)).length;
  const race = await lab.race();
  const until = async (page, count, seconds) => {
    for (const end = Date.now() + 1000 * seconds; left() !== count; ) {
      assert.ok(Date.now() < end, `${left()} kernels instead of ${count}`);
      await page.waitForTimeout(500);
    }
  };
  for (let i = 0; i < 4; i += 1) {
    await race.page.reload();
    await race.until("ready");
  }
  await until(race.page, 1, 30);
  await race.press("run"); // it pauses by itself, and then its kernel goes
  await race.until("running");
  await lab.leave(race.page);
  const other = await lab.race(); // which stays, as it is open
  await until(other.page, 1, 180);
  await other.press("step");
  await other.until("paused");
  await other.page.waitForTimeout(Math.max(0, closed + 45_000 - Date.now()));
  await lab.leave(other.page);

  const again = await lab.reopen("weston_watkins");
  await again.until("paused");
  await again.view.locator(".note", { hasText: "no page showed this" }).waitFor();
  const round = await again.round();
  await again.press("run");
  await again.waitForRound((now) => now > round, "going on");
  await lab.leave(again.page);
});
