// Brings a page up to date while it is open. Each page is complete without it.
//
// An event of the validator says that something changed, never what to show: the page is fetched again, and the parts that
// differ take the place of the old ones. Only the validator renders.

"use strict";

// The colours are chosen before anything is drawn. Nothing of it leaves the browser.
const themes = ["light", "dark"];
const kept = {
  get() { try { return localStorage.getItem("theme"); } catch { return null; } },
  set(theme) { try { localStorage.setItem("theme", theme); } catch { /* Then it is for this page alone. */ } },
};
if (themes.includes(kept.get())) document.documentElement.dataset.theme = kept.get();

// Between two fetches of the page: events may come by the hundred.
const REFRESH_MS = 1000;
// After a fetch that failed.
const RETRY_MS = 5000;
const TICK_MS = 1000;

const SECOND = 1, MINUTE = 60, HOUR = 3600, DAY = 86400;

function stretch(seconds) {
  if (seconds < MINUTE) return `${Math.floor(seconds)} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < 2 * DAY) return `${Math.floor(seconds / HOUR)} h`;
  return `${Math.floor(seconds / DAY)} d`;
}

// How far the browser's clock is ahead of the validator's, which all times on the page are by.
let ahead = 0;

function tellTimes(root) {
  const now = Date.now() - ahead;
  for (const time of root.querySelectorAll("time[data-ago]")) {
    const seconds = (now - Date.parse(time.dateTime)) / 1000;
    let words = "now";
    if (seconds < 0) words = `in ${stretch(-seconds)}`;
    else if (seconds >= SECOND) words = `${stretch(seconds)} ago`;
    if (time.textContent !== words) time.textContent = words;
  }
}

function noteClock() {
  const made = document.querySelector("footer time.at");
  if (made) ahead = Date.now() - Date.parse(made.dateTime);
}

// Puts a new node in the place of an old one; what had the focus inside it has it again.
function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const same = focused && [...old.querySelectorAll(focused.tagName)].indexOf(focused);
  const open = [...old.querySelectorAll("details")].map((details) => details.open);
  old.replaceWith(fresh);
  fresh.querySelectorAll("details").forEach((details, index) => { details.open = open[index] ?? details.open; });
  if (focused) fresh.querySelectorAll(focused.tagName)[same]?.focus({ preventScroll: true });
}

// A node without what time alone changes.
function content(node) {
  const copy = node.cloneNode(true);
  for (const time of copy.querySelectorAll("time[data-ago]")) time.textContent = "";
  for (const button of copy.querySelectorAll("button.copy")) button.remove();
  copy.classList.remove("changed");
  return copy.outerHTML;
}

// Rows are compared one by one where the list is the same; a list that differs is exchanged whole.
function updateRows(old, fresh) {
  const rows = (list) => [...list.children];
  const names = (list) => rows(list).map((row) => row.id).join(" ");
  if (names(old) !== names(fresh)) {
    replace(old, document.importNode(fresh, true));
    return;
  }
  rows(fresh).forEach((row, index) => {
    const before = rows(old)[index];
    if (content(before) === content(row)) return;
    const after = document.importNode(row, true);
    after.classList.add("changed");
    replace(before, after);
  });
}

function update(page) {
  const parts = (root) => [...root.querySelectorAll("[data-part]")].map((part) => part.id).join(" ");
  if (parts(page) !== parts(document)) {
    // A list that was empty, or a section that was not there.
    const [old, fresh] = [document.getElementById("main"), page.getElementById("main")];
    if (old && fresh) replace(old, document.importNode(fresh, true));
  }
  for (const fresh of page.querySelectorAll("[data-part]")) {
    const old = document.getElementById(fresh.id);
    if (!old || content(old) === content(fresh)) continue;
    if (fresh.dataset.part === "rows") updateRows(old, fresh);
    else replace(old, document.importNode(fresh, true));
  }
  const [made, now] = [page.querySelector("footer time.at"), document.querySelector("footer time.at")];
  if (made && now) now.replaceWith(document.importNode(made, true));
  // A stream that begins anew begins with what follows this page.
  const live = page.getElementById("main")?.dataset.live;
  if (live) document.getElementById("main").dataset.live = live;
  noteClock();
  offerCopies(document);
  tellTimes(document);
}

const state = {
  source: null, // of events
  fetching: false,
  again: false, // something came while the page was fetched
  timer: 0,
};

function say(words, isLive) {
  const place = document.querySelector("[data-live-state]");
  if (!place || place.textContent === words) return;
  place.textContent = words;
  place.dataset.state = isLive ? "on" : "off";
}

async function refresh() {
  state.timer = 0;
  if (state.fetching) { state.again = true; return; }
  state.fetching = true;
  let wait = REFRESH_MS;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "manual" });
    if (answer.type === "opaqueredirect") {
      // Nobody is signed in any more, or what was shown has another place now.
      location.reload();
      return;
    }
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    update(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    state.again = true;
    wait = RETRY_MS;
  }
  state.fetching = false;
  if (state.again) {
    state.again = false;
    soon(wait);
  }
}

function soon(wait = REFRESH_MS / 4) {
  if (state.fetching) state.again = true;
  else if (!state.timer) state.timer = setTimeout(refresh, wait);
}

function heard(event) {
  const main = document.getElementById("main");
  if (main.dataset.miner) {
    try {
      if (JSON.parse(event.data).miner !== main.dataset.miner) return;
    } catch { /* Then it is worth a look. */ }
  }
  soon();
}

// The names that the validator gives its events; one that it does not name is a "message".
const KINDS = ["message", "verdict", "state", "miner_connected", "miner_left", "round_begun", "round_ended", "action",
  "challenge_started", "finding", "health", "running"];

function listen() {
  const main = document.getElementById("main");
  if (!main.dataset.live || state.source) return;
  const source = new EventSource(main.dataset.live);
  state.source = source;
  for (const kind of KINDS) source.addEventListener(kind, heard);
  if (main.dataset.then) source.addEventListener("verdict", () => location.assign(main.dataset.then));
  source.addEventListener("open", () => say("Live", true));
  source.addEventListener("error", () => {
    say("Not live: trying again", false);
    // A stream that was refused does not come back by itself.
    if (source.readyState === EventSource.CLOSED) {
      state.source = null;
      setTimeout(() => { soon(0); listen(); }, RETRY_MS);
    }
  });
}

// A browser has few connections for a host: a page that nobody sees keeps none.
function seen() {
  if (document.hidden) {
    state.source?.close();
    state.source = null;
  } else if (!state.source) {
    const main = document.getElementById("main");
    if (main.dataset.live) { soon(0); listen(); }
  }
}

function offerCopies(root) {
  if (!navigator.clipboard) return;
  for (const text of root.querySelectorAll("[data-copy]")) {
    if (text.nextElementSibling?.classList.contains("copy")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${text.dataset.copy || text.textContent.slice(0, 12)}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text.value ?? text.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    text.after(button);
  }
}

function offerThemes() {
  const button = document.querySelector("[data-theme-switch]");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.title = "Change the colours"; };
  button.hidden = false;
  name();
  prefersDark.addEventListener("change", name);
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    kept.set(theme);
    name();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  noteClock();
  offerThemes();
  offerCopies(document);
  setInterval(() => tellTimes(document), TICK_MS);
  document.addEventListener("visibilitychange", seen);
  listen();
});
