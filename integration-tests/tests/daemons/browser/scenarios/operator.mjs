// From an empty fleet to a verdict: live, by the keyboard alone, on a phone, and without JavaScript.

import { assert, isUsable, known, origin, say, scenario, tabTo, until } from "./lib.mjs";

const text = (page, selector) => page.locator(selector).innerText();

async function signsIn(context) {
  const page = await context.newPage();
  await page.goto(`${origin}/verdicts?outcome=fail`);
  assert.equal(new URL(page.url()).pathname, "/login", "a page takes whoever is not signed in there");
  await isUsable(page, "sign in");
  await page.keyboard.type("assay_read_wrong");
  await page.keyboard.press("Enter");
  await page.locator("#refused").waitFor();
  await page.locator("#token").fill(known.token);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${origin}/verdicts?outcome=fail`);
  assert.match(await text(page, ".viewer"), /read/, "the role is told");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL(`${origin}/login`);
  await page.goto(`${origin}/login?then=//evil.example/`);
  await page.locator("#token").fill(known.token);
  await page.keyboard.press("Enter");
  await page.waitForURL(`${origin}/`);
  const refused = await context.request.post(`${origin}/miners/abcdabcd/suspend`, { headers: { origin } });
  assert.equal(refused.status(), 403, "what this role may not do");
  await page.getByRole("button", { name: "Sign out" }).click();
  // Chromium may lose the closing of a page that has not loaded yet.
  await page.waitForURL(`${origin}/login`);
  await page.close();
}

async function beginsEmpty(context) {
  const fleet = await context.newPage();
  await fleet.goto(known.signIn);
  await fleet.waitForURL(`${origin}/`);
  const commands = await fleet.locator("ol.commands pre").allInnerTexts();
  assert.equal(commands.length, 3);
  const expected = ["assay-validator enroll", "assay-miner run --validator 'assay://", "assay-validator challenge"];
  for (const [index, command] of expected.entries()) assert.ok(commands[index].includes(command), commands[index]);
  await isUsable(fleet, "empty fleet");
  await until(fleet, () => document.querySelector("[data-live-state]").textContent === "Live");
  await fleet.evaluate("window.marker = true");
  say("empty");
  await fleet.locator("#miners tr").waitFor();
  assert.equal(await fleet.evaluate("window.marker"), true, "the page was not loaded again");
  assert.match(await text(fleet, "#miners tr"), /Enrolled[\s\S]*Connected[\s\S]*None yet/);
  return fleet;
}

// From the top of the page on, with nothing but keys.
async function challengesByKeyboard(context) {
  const page = await context.newPage();
  await page.goto(`${origin}/`);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate("document.activeElement.id"), "main", "the skip link leads to the content");
  await tabTo(page, page.locator("#miners tr th > a"));
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/miners\//);
  await isUsable(page, "a miner that showed nothing yet");
  await page.goto(page.url());
  await tabTo(page, page.locator("#mode"));
  await page.keyboard.press("a");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/(challenges|verdicts)\//);
  // The page of the challenge gives way to that of its verdict by itself, also while it still loads: that load is aborted.
  const comes = () => page.waitForURL(/\/verdicts\//);
  await comes().catch((error) => (/ERR_ABORTED/.test(error.message) ? comes() : Promise.reject(error)));
  assert.match(await text(page, "h1"), /^Pass: all checks passed/);
  return page;
}

async function readsTheVerdict(page) {
  const words = await text(page, "main");
  for (const part of [/Had 1 % of the work of a device rested on wrong values, it would have passed with a probabil/,
    /Memory that may have been elsewhere/, /n = 256, 1 iteration, 1 checked by audit/, /assay-validator receipt verify/,
    /Asked by\s+operator/]) {
    assert.match(words, part);
  }
  assert.equal((await page.locator("textarea").inputValue()).split(".").length, 3, "a token of three parts");
  assert.equal(await page.locator("#shown ~ .table tbody tr").count(), 3, "two devices and the host");
  await isUsable(page, "a verdict");
  const link = page.getByRole("link", { name: "This verdict as JSON" });
  const json = await page.request.get(await link.evaluate((element) => element.href));
  assert.equal((await json.json()).outcome, "pass");
}

async function looksAtTheOthers(context, verdict) {
  const page = await context.newPage();
  const miner = await verdict.locator(".outcome a").evaluate((link) => link.href);
  await page.goto(miner);
  for (const shown of ["tops", "bandwidth"]) assert.equal(await page.locator(`#${shown} svg[role=img]`).count(), 1, shown);
  assert.equal(await text(page, "#temperature .none"), "Not shown by any challenge yet.", "a processor has no sensors");
  assert.match(await page.locator("#tops desc").textContent(), /^Last [\d.]+ TOPS; /);
  await page.getByText("The same as a table").click();
  assert.equal(await page.locator("#figures table tbody tr").count(), 2);
  await isUsable(page, "a miner");
  for (const [path, heading] of [["/verdicts", "Verdicts"], ["/rounds", "Rounds"], ["/devices", "Devices"]]) {
    await page.goto(origin + path);
    assert.equal(await text(page, "h1"), heading);
    await isUsable(page, path);
  }
  await page.locator("#devices a").first().click();
  await page.waitForURL(/\/devices\/[0-9a-f]{32}$/);
  await isUsable(page, "a device");
  const answer = await page.goto(`${origin}/miners/ffffffffffff`);
  assert.equal(answer.status(), 404);
  await isUsable(page, "a problem");
  // The colours that were chosen stay chosen, and no cookie says which.
  await page.emulateMedia({ colorScheme: "light" });
  await page.goto(`${origin}/devices`);
  await page.getByRole("button", { name: "Dark" }).click();
  await page.goto(`${origin}/`);
  assert.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark");
  assert.equal(await page.evaluate("document.cookie"), "");
  await page.close();
}

async function filters(context) {
  const page = await context.newPage();
  await page.goto(`${origin}/`);
  await page.getByLabel("State", { exact: true }).selectOption("failed");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/state=failed/);
  assert.match(await text(page, "main"), /No miner fits/);
  await page.getByRole("link", { name: /Passing|Enrolled/ }).first().click();
  await page.waitForURL(/state=(passing|enrolled)/);
  assert.equal(await page.locator("#list").count(), 1);
  await page.close();
}

async function doesWithoutScript({ plain, close }, verdict) {
  const page = await plain.newPage();
  await page.goto(`${origin}/`);
  assert.match(await text(page, "#miners tr"), /Pass/);
  await page.getByLabel("Last verdict", { exact: true }).selectOption("pass");
  await page.getByRole("button", { name: "Filter" }).click();
  assert.equal(await page.locator("#miners tr").count(), 1);
  await page.goto(verdict.url());
  assert.match(await text(page, "h1"), /^Pass: all checks passed/);
  await page.locator(".outcome a").click();
  // Asked for twice: it ends what is attested.
  await page.getByText("Suspend…").click();
  await page.getByRole("button", { name: "Suspend this miner" }).click();
  assert.match(await text(page, ".notice"), /^Suspended: /);
  await page.getByRole("button", { name: "Resume" }).click();
  assert.match(await text(page, ".notice"), /^Resumed: /);
  await close();
}

await scenario(async (context, withoutScript) => {
  await signsIn(context);
  const fleet = await beginsEmpty(context);
  const verdict = await challengesByKeyboard(context);
  // The page of the fleet, open since before, shows the verdict without being loaded again.
  await until(fleet, () => /Pass/.test(document.querySelector('#miners td[data-of="Last verdict"]').textContent));
  assert.equal(await fleet.evaluate("window.marker"), true);
  await isUsable(fleet, "the fleet");
  await readsTheVerdict(verdict);
  await looksAtTheOthers(context, verdict);
  await filters(context);
  await doesWithoutScript(await withoutScript(), verdict);
});
