// Live pages. Everything works without this file; with it a page shows what is new without being loaded again.
"use strict";
(() => {
  const body = document.body;
  const state = document.getElementById("live-state");
  const say = (words) => { if (state && state.textContent !== words) state.textContent = words; };

  // Copying a command: only where the browser lets a page do it.
  const offerCopy = () => {
    if (!navigator.clipboard) return;
    for (const button of document.querySelectorAll("button.copy")) button.hidden = false;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("button.copy") : null;
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
    } catch { button.textContent = "Not copied"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  // One click, one answer.
  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method !== "post") return;
    setTimeout(() => { for (const b of event.target.querySelectorAll("button[type=submit]")) b.disabled = true; }, 0);
  });
  window.addEventListener("pageshow", () => {
    for (const b of document.querySelectorAll("button[type=submit]")) b.disabled = false;
  });
  offerCopy();

  const address = body.dataset.live;
  if (!address || !window.EventSource) return;
  let shown = Number(body.dataset.version), wanted = shown, busy = false, last = 0;
  const GAP_MS = 700;
  const LIVE = { headers: { "X-Live": "1" }, credentials: "same-origin" };
  const SIGNED_OUT = "You are signed out; load the page to sign in again.";

  // A link that is replaced while it is being pressed would not be followed.
  let pressed = false;
  document.addEventListener("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, () => { pressed = false; });
  const released = async () => {
    for (let look = 0; pressed && look < 40; look++) await new Promise((done) => setTimeout(done, 50));
  };

  // What a person did to the old part of the page is kept: ticks, open folds, the focus.
  const replace = (old, fresh) => {
    for (const box of old.querySelectorAll("input[type=checkbox]:checked")) {
      for (const other of fresh.querySelectorAll("input[type=checkbox]")) {
        if (other.name === box.name && other.value === box.value) other.checked = true;
      }
    }
    for (const fold of old.querySelectorAll("details[id]")) {
      const other = fresh.querySelector("#" + CSS.escape(fold.id));
      if (other) other.open = fold.open;
    }
    const active = document.activeElement;
    let again = null;
    if (active && old.contains(active)) {
      again = active.id ? fresh.querySelector("#" + CSS.escape(active.id))
        : [...fresh.querySelectorAll(active.tagName)].find((e) => e.href && e.href === active.href) ?? null;
    }
    old.replaceWith(fresh);
    if (again) again.focus({ preventScroll: true });
  };

  const refresh = async () => {
    if (busy || document.hidden || wanted === shown) return;
    busy = true;
    const aim = wanted;
    try {
      const wait = last + GAP_MS - Date.now();
      if (wait > 0) await new Promise((done) => setTimeout(done, wait));
      last = Date.now();
      const answer = await fetch(location.href, LIVE);
      if (answer.status === 401) { say(SIGNED_OUT); source?.close(); return; }
      if (!answer.ok) { say("This page cannot be shown any more; load it again."); shown = aim; return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      await released();
      for (const old of document.querySelectorAll("[data-region][id]")) {
        const fresh = page.getElementById(old.id);
        if (fresh && fresh.outerHTML !== old.outerHTML) replace(old, document.importNode(fresh, true));
      }
      // A question that was answered elsewhere takes no answer here.
      const form = document.getElementById("answer-section");
      if (form && !page.getElementById("answer-section")) {
        for (const control of form.querySelectorAll("input, textarea, button")) control.disabled = true;
      }
      document.title = page.title;
      offerCopy();
      shown = aim;
    } catch { say("The server cannot be reached."); }
    finally { busy = false; }
    if (wanted !== shown) setTimeout(refresh, GAP_MS);
  };

  let source = null;
  const connect = () => {
    source = new EventSource(address);
    source.addEventListener("change", (event) => { say("Live."); wanted = Number(event.data); refresh(); });
    source.addEventListener("error", async () => {
      say("Not live at the moment; trying again.");
      if (source.readyState !== EventSource.CLOSED) return;
      // A stream that was refused does not say why. After a restart, or a long time, nobody is signed in any more.
      const status = await fetch(location.href, LIVE).then((answer) => answer.status, () => 0);
      if (status === 401) say(SIGNED_OUT);
      else setTimeout(connect, 15000);
    });
  };
  connect();
  document.addEventListener("visibilitychange", refresh);
  window.addEventListener("pagehide", () => source?.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
})();
