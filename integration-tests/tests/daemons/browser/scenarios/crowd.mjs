// A thousand miners, of which some have hostile names: pages stay small, and show texts as texts.

import { assert, isUsable, known, origin, scenario } from "./lib.mjs";

// A page of a list, whatever is in it.
const MAX_PAGE_BYTES = 400_000;

async function pages(context) {
  const page = await context.newPage();
  let answer = await page.goto(known.signIn);
  const seen = new Set();
  let isHostileSeen = false;
  for (let number = 1; ; number += 1) {
    const html = await (await context.request.get(page.url())).text();
    assert.ok(html.length < MAX_PAGE_BYTES, `page ${number} has ${html.length} characters`);
    assert.ok(!/[\u001b\u202e]/.test(html), "what steers a terminal or a line of text is not sent");
    assert.equal(await page.title(), "Fleet · Assay", "no text is a script");
    assert.equal(await page.locator("main img, main script").count(), 0);
    for (const id of await page.locator("#miners tr").evaluateAll((rows) => rows.map((row) => row.id))) seen.add(id);
    const hostile = page.locator("#miners th a", { hasText: "<script>" });
    if (!isHostileSeen && await hostile.count()) {
      isHostileSeen = true;
      assert.match(await hostile.first().innerText(), /^<script>document\.title='pwned'<\/script>/);
      await isUsable(page, "a fleet with hostile names");
      await readsTheHostile(context, await hostile.first().evaluate((link) => link.href));
    }
    const next = page.getByRole("link", { name: "Next page" });
    if (await next.count() === 0) break;
    answer = await Promise.all([page.waitForNavigation(), next.click()]).then(([found]) => found);
    assert.equal(answer.status(), 200);
  }
  assert.equal(seen.size, known.miners, "each miner is on one page");
  assert.ok(isHostileSeen);
  return page;
}

async function readsTheHostile(context, address) {
  const page = await context.newPage();
  const answer = await page.goto(address);
  assert.ok((await answer.text()).length < MAX_PAGE_BYTES);
  assert.equal(await page.locator("main img, main script").count(), 0);
  assert.ok((await page.title()).startsWith("<script>"), "the name, as a text");
  await isUsable(page, "a miner with a hostile name");
  // Nothing is offered that this role may not do.
  assert.equal(await page.locator("#actions").count(), 0);
  await page.close();
}

async function finds(page) {
  await page.goto(`${origin}/`);
  await page.getByLabel("Key, label, address", { exact: true }).fill("gpu-0044");
  await page.keyboard.press("Enter");
  await page.waitForURL(/text=gpu-0044/);
  assert.deepEqual(await page.locator("#miners th > a").allInnerTexts(), ["gpu-0044"]);
  await page.locator("#miners .tag", { hasText: "rack=1" }).click();
  await page.waitForURL(/label=rack%3D1/);
  assert.equal(await page.locator("#miners tr").count(), 10, "those that have the label");
  await page.getByLabel("Label", { exact: true }).fill("");
  await page.getByLabel("State", { exact: true }).selectOption("failed");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Filter" }).click();
  await page.waitForURL(/state=failed/);
  const states = await page.locator("#miners td[data-of=State] > div > .badge").allInnerTexts();
  assert.equal(states.length, 100);
  assert.ok(states.every((state) => state.includes("Failed")), states[0]);
  assert.match(await page.locator("#miners .why").first().innerText(), /^It failed/, "why");
  assert.match(await page.locator("#miners .remedy").first().innerText(), /challenge/, "what to do");
}

await scenario(async (context) => {
  const page = await pages(context);
  await finds(page);
});
