// What `make lab` and `make race` serve, and a headless Chromium that looks at it.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { chromium } from "playwright-core";

const ROOT = resolve(import.meta.dirname ?? new URL(".", import.meta.url).pathname, "../..");
const LEFT_OUT = new Set([".git", ".venv", "tests", "runs", "data/cache", "course", "docs"]);
export const DASHBOARDS = ["mrc", "weston_watkins", "least_squares", "sampled_cuts", "memoir",
  "race"];
const QUIET = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
  "--disable-background-networking", "--disable-component-update", "--no-sandbox"];
const PATIENCE = 90_000; // ms; compiling a solver for the first time takes up to a minute

// The checkout is served as a copy, which is a git checkout, too: JupyterLab saves what it runs.
async function copy() {
  const folder = await mkdtemp(join(tmpdir(), "workbench-lab-"));
  const filter = (path) => !LEFT_OUT.has(relative(ROOT, path));
  await cp(ROOT, folder, { recursive: true, preserveTimestamps: true, filter });
  await symlink(join(ROOT, ".venv"), join(folder, ".venv"));
  const git = (...words) => execFileSync("git", ["-C", folder, ...words], { stdio: "ignore" });
  git("init");
  git("add", "--all");
  git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-m", "copy");
  const settings = join(folder, "config", "lab", "user-settings", "@jupyterlab/notebook-extension");
  await mkdir(settings, { recursive: true }); // or cells out of sight are not there
  await writeFile(join(settings, "tracker.jupyterlab-settings"), '{"windowingMode": "none"}');
  return folder;
}

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

// Starts a server as a user does, by `make TARGET`, and waits until it answers at `path`.
async function serve(target, options, path, cwd) {
  const port = await freePort();
  const env = { ...process.env, OMP_NUM_THREADS: "1", OPENBLAS_NUM_THREADS: "1" };
  for (const name of ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"]) delete env[name]; // of make test-browser
  env.WORKBENCH_RUNS = join(cwd, "runs");
  env.JUPYTER_CONFIG_DIR = join(cwd, "config"); // the user's own theme stays
  const args = ["--no-browser", `--port=${port}`, ...options].join(" ");
  const child = spawn("make", [target, "IDLE=15", `ARGS=${args}`], {
    cwd, env, stdio: ["ignore", "ignore", "pipe"], detached: true,
  });
  let log = "";
  child.stderr.on("data", (text) => (log += text));
  const url = `http://127.0.0.1:${port}`;
  for (const end = Date.now() + PATIENCE; Date.now() < end; ) {
    const answer = await fetch(url + path).catch(() => null);
    if (answer) return { url, pid: child.pid, stop: () => process.kill(-child.pid, "SIGTERM") };
    if (child.exitCode !== null) break;
    await new Promise((done) => setTimeout(done, 200));
  }
  if (child.exitCode === null) process.kill(-child.pid, "SIGTERM");
  throw new Error(`make ${target} did not start:\n${log.slice(-2000)}`);
}

// A wire to a server: once cut, connections end and new ones are refused, until it is mended.
async function wire(url) {
  const ends = new Set();
  let whole = true;
  const server = createServer((near) => {
    if (!whole) return near.destroy();
    const far = connect(new URL(url).port, "127.0.0.1");
    for (const end of [near, far]) {
      ends.add(end);
      end.on("error", () => {});
      end.on("close", () => [near, far].forEach((each) => ends.delete(each.destroy())));
    }
    return near.pipe(far).pipe(near);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut: () => {
      whole = false;
      ends.forEach((end) => end.destroy());
    },
    mend: () => (whole = true),
    close: () => server.close(),
  };
}

// The process numbers of the kernels that a server has.
export function kernels({ pid }) {
  const lines = execFileSync("ps", ["-eo", "pid=,ppid=,args="], { encoding: "utf8" }).split("\n");
  const all = lines.map((line) => line.trim().split(/\s+/)).map(([id, parent, ...args]) =>
    ({ id: Number(id), parent: Number(parent), kernel: args.join(" ").includes("ipykernel") }));
  const below = (id) => all.filter(({ parent }) => parent === id).flatMap(
    (one) => [one, ...below(one.id)]);
  return below(pid).filter(({ kernel }) => kernel).map(({ id }) => id);
}

export class Lab {
  static async open() {
    const lab = new Lab();
    lab.folder = await copy();
    const options = ["--expose-app-in-browser", "--allow-root", "--IdentityProvider.token="];
    lab.servers = [await serve("lab", options, "/api", lab.folder)];
    lab.browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: QUIET });
    return lab;
  }

  async close() {
    await this.browser?.close();
    for (const server of this.servers ?? []) server.stop();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 500 });
  }

  // What git sees changed in the checkout that is served.
  changes() {
    const words = ["-C", this.folder, "diff", "--", "notebooks/explore"];
    return execFileSync("git", words, { encoding: "utf8" });
  }

  wire() {
    return wire(this.servers[0].url);
  }

  // Opens a notebook in a fresh page, runs it and returns its dashboard.
  async dashboard(name, { width = 1500, height = 1300, url = this.servers[0].url } = {}) {
    const page = await this.page({ width, height });
    await page.goto(`${url}/lab/tree/notebooks/explore/${name}.ipynb?reset`);
    await page.locator(".jp-Notebook .jp-Cell").first().waitFor();
    const dashboard = new Dashboard(page);
    await dashboard.runAll();
    return dashboard;
  }

  // Opens a notebook again whose kernel is still there.
  async reopen(name) {
    const page = await this.page({ width: 1500, height: 1300 });
    await page.goto(`${this.servers[0].url}/lab/tree/notebooks/explore/${name}.ipynb?reset`);
    return new Dashboard(page);
  }

  // Serves the race as a page of its own, without JupyterLab around it.
  async race({ width = 1500, height = 1300, theme = "light" } = {}) {
    this.racing ??= await serve("race", [], "/favicon.ico", this.folder);
    if (!this.servers.includes(this.racing)) this.servers.push(this.racing);
    const page = await this.page({ width, height });
    await page.goto(`${this.racing.url}/?theme=${theme}`);
    const dashboard = new Dashboard(page);
    await dashboard.until("ready");
    return dashboard;
  }

  async page(viewport) {
    const context = await this.browser.newContext({ viewport });
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    page.setDefaultNavigationTimeout(PATIENCE);
    page.faults = [];
    page.on("pageerror", (error) => page.faults.push(String(error)));
    page.on("request", (request) => {
      const { protocol, hostname } = new URL(request.url());
      const here = ["data:", "blob:", "file:"].includes(protocol) || hostname === "127.0.0.1";
      if (!here) page.faults.push(`asks another host: ${request.url()}`);
    });
    return page;
  }

  // Closes a page on which there was no error, and which has asked no other host.
  async leave(page) {
    assert.deepEqual(page.faults, []);
    await page.context().close();
  }
}

export class Dashboard {
  constructor(page) {
    this.page = page;
    this.view = page.locator(".live").last();
  }

  async runAll() {
    await this.page.getByText("Python 3 (ipykernel) | Idle").waitFor(); // or it asks for a kernel
    await this.command("notebook:run-all-cells");
    await this.button("run").waitFor();
    await this.button("run").scrollIntoViewIfNeeded();
    await this.view.locator("canvas").waitFor();
  }

  command(name, options = {}) {
    return this.page.evaluate(([id, args]) => {
      window.jupyterapp.commands.execute(id, args);
    }, [name, options]);
  }

  // Runs code in the notebook's kernel, and does not wait for its end.
  execute(code) {
    return this.page.evaluate((code) => {
      const { session } = window.jupyterapp.shell.currentWidget.sessionContext;
      session.kernel.requestExecute({ code });
    }, code);
  }

  button(name) {
    return this.page.locator(`.live .bar button.${name}`).last();
  }

  press(name) {
    return this.act(this.button(name));
  }

  // Presses a button, without a mouse if there are only `keys`.
  async act(button) {
    if (!this.keys) return button.click();
    await button.focus();
    return this.page.keyboard.press("Enter");
  }

  status() {
    return this.view.locator(".status").textContent();
  }

  async until(status) {
    await this.view.locator(".status", { hasText: new RegExp(`^(${status})$`) }).waitFor();
  }

  // Every run's line of the table: its latest values by column.
  numbers() {
    return this.view.locator("table").evaluate((table) => {
      const lines = [table.tHead, ...table.tBodies].map(({ rows }) => [...rows[0].cells]);
      const [head, ...runs] = lines.map((cells) => cells.slice(1));
      return runs.map((cells) => Object.fromEntries(
        cells.map((cell, j) => [head[j].textContent, Number(cell.textContent || NaN)])));
    });
  }

  async round() {
    return (await this.numbers()).at(-1)?.round ?? -1;
  }

  // What is said about the point of a curve that the cursor is on.
  async readout() {
    await this.page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() =>
      requestAnimationFrame(drawn))));
    const words = await this.view.locator(".readout").textContent();
    const values = words.split("\n").map((line) => line.match(/^(.+?) (\S+)( \(.*)?$/));
    return Object.fromEntries(values.filter(Boolean).map(([, key, v]) => [key, Number(v)]));
  }

  async labels() {
    return this.view.locator("tbody .name").allTextContents();
  }

  async waitForRound(test, why) {
    for (const end = Date.now() + PATIENCE; Date.now() < end; ) {
      const round = await this.round();
      if (test(round)) return round;
      await this.page.waitForTimeout(50);
    }
    throw new Error(`waited in vain for ${why}; now at round ${await this.round()}`);
  }

  // A slider with its field; those of solvers that are not chosen are hidden.
  knob(name) {
    return this.page.locator(".knob", {
      has: this.page.locator(".name", { hasText: new RegExp(`^${name}$`) }),
    }).locator("visible=true").last();
  }

  // Moves a slider by its handle with the arrow keys, as a person without a mouse would.
  async slide(name, steps) {
    const knob = this.knob(name);
    await knob.locator("[type=range]").focus();
    for (let i = 0; i < Math.abs(steps); i += 1) {
      await this.page.keyboard.press(steps > 0 ? "ArrowRight" : "ArrowLeft");
    }
    // A value is held back until the kernel has answered the one before it, a press is not. So wait.
    await this.page.evaluate(async () => {
      const session = window.jupyterapp?.shell.currentWidget?.sessionContext?.session;
      for (let i = 0; i < 2; i += 1) await session?.kernel?.requestKernelInfo();
    });
    return knob.locator("[type=text]").inputValue();
  }

  // Chooses an option, with the arrow keys if there are only `keys`.
  async choose(name, value) {
    const box = this.page.locator(".widget-inline-hbox", {
      has: this.page.locator(".widget-label", { hasText: new RegExp(`^${name}$`) }),
    }).last().locator("select");
    if (!this.keys) return box.selectOption(value);
    const options = await box.locator("option").allTextContents();
    const wanted = options.findIndex((text) => text.replace(/\s/g, " ") === value); // no-break spaces
    const now = () => box.evaluate((select) => select.selectedIndex);
    await box.focus();
    for (let i = await now(); i < wanted; i += 1) await this.page.keyboard.press("ArrowDown");
    assert.equal(await now(), wanted);
  }

  // The controls that are beyond an edge of the notebook, or of the page.
  outOfSight() {
    return this.page.locator(".live-page").evaluate((el) => {
      const frame = (el.closest(".jp-Notebook") ?? document.body).getBoundingClientRect();
      const beyond = (part) => {
        const { left, right, width } = part.getBoundingClientRect();
        return width > 0 && (left < frame.left || right > Math.min(frame.right, innerWidth));
      };
      return [...el.querySelectorAll("button, select, input, summary")].filter(beyond)
        .map((part) => part.outerHTML.slice(0, 80));
    });
  }

  // Moves the pointer to a place on the chart, as fractions of its width and height.
  async point(x, y) {
    const box = await this.view.locator("canvas").boundingBox();
    await this.page.mouse.move(box.x + x * box.width, box.y + y * box.height);
  }

  async runs(count) {
    await this.page.waitForFunction(
      (n) => document.querySelectorAll(".live tbody").length === n, count);
  }

  pixels() {
    return this.view.locator("canvas").evaluate((canvas) => canvas.toDataURL());
  }
}
