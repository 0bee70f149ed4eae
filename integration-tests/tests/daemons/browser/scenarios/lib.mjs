// A browser of which every page is watched: what it asks for, what its policy of contents refuses, what its scripts
// throw.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const tools = process.env.ASSAY_BROWSER_TOOLS;
const require = createRequire(join(tools, "tools.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(join(tools, "axe-core", "axe.min.js"), "utf8");

export { assert };
export const known = JSON.parse(process.argv[2]);
export const origin = new URL(known.signIn).origin;
// Longer than any wait of a busy machine, shorter than the patience of the test.
const PATIENCE_MS = 45_000;

const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];

// What went wrong on any page, to be told at the end.
const faults = [];
const folder = mkdtempSync(join(tmpdir(), "assay-browser-"));
const options = { executablePath: process.env.ASSAY_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS };

function watch(context) {
  context.setDefaultTimeout(PATIENCE_MS);
  context.on("page", (page) => {
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.origin !== origin && url.protocol !== "data:") faults.push(`a request left the host: ${request.url()}`);
    });
    page.on("pageerror", (error) => faults.push(`a script threw at ${page.url()}: ${error}`));
    page.on("console", (message) => {
      if (/Content Security Policy|Refused to/.test(message.text())) faults.push(`${page.url()}: ${message.text()}`);
    });
    page.on("response", (response) => {
      const isRedirect = response.status() >= 300 && response.status() < 400;
      const isPage = response.request().resourceType() === "document" && !isRedirect;
      const policy = response.headers()["content-security-policy"] ?? "";
      if (isPage && (!policy.includes("script-src 'self'") || policy.includes("unsafe"))) {
        faults.push(`the policy of ${response.url()}: ${policy}`);
      }
    });
  });
  return context;
}

// Runs a scenario in a browser with an empty profile, and ends with the process.
export async function scenario(run) {
  const viewport = { width: 1280, height: 900 };
  const context = watch(await chromium.launchPersistentContext(folder, { ...options, viewport }));
  // A second one without JavaScript, signed in with the first one's cookie.
  const withoutScript = async () => {
    const browser = await chromium.launch(options);
    const plain = watch(await browser.newContext({ javaScriptEnabled: false }));
    await plain.addCookies(await context.cookies());
    return { plain, close: () => browser.close() };
  };
  try {
    await run(context, withoutScript);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

// Tells the test that something is the case.
export const say = (words) => console.log(words);

// Nothing that keeps people from using a page, in both colours, and at the width of a small phone.
export async function isUsable(page, what) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    // The policy of contents forbids pages to run this; the browser's own console may.
    if (!(await page.evaluate("typeof axe !== 'undefined'"))) await page.evaluate(axe);
    const found = await page.evaluate("axe.run({ resultTypes: ['violations'] })");
    const places = (violation) => violation.nodes.map((node) => node.html).join(" ");
    const words = found.violations.map((violation) => `${violation.id}: ${places(violation)}`);
    assert.deepEqual(words, [], `axe, ${what}, ${colorScheme}`);
  }
  const before = page.viewportSize();
  for (const width of [320, 3840]) {
    await page.setViewportSize({ width, height: 800 });
    const beyond = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    assert.ok(beyond <= 0, `${what} scrolls sideways by ${beyond} px at ${width} px`);
  }
  await page.setViewportSize(before);
}

// Goes on by the keyboard until this has the focus.
export async function tabTo(page, locator) {
  for (let step = 0; step < 80; step += 1) {
    await page.keyboard.press("Tab");
    if (await locator.evaluate((element) => element === document.activeElement)) {
      const outline = await locator.evaluate((element) => getComputedStyle(element).outlineStyle);
      assert.notEqual(outline, "none", "the focus can be seen");
      return;
    }
  }
  assert.fail(`the keyboard does not reach ${locator}`);
}

// Waits until this holds of the page, without loading it again. A function: the policy of contents forbids texts that
// become code.
export const until = (page, holds) => page.waitForFunction(holds, undefined, { polling: 50 });
