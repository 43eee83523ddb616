// The counters that move are asked for every five seconds, as long as the page is looked at.
"use strict";
(() => {
  const EVERY_MS = 5000;
  const tiles = document.querySelector("[data-live-url]");
  const state = document.querySelector("[data-live-state]");
  if (!tiles || !state) return;
  let timer = 0;

  const say = (text) => {
    state.textContent = text;
    state.classList.toggle("paused", text !== "live");
  };

  const picture = (place, text) => {
    const made = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    if (made.localName === "svg") place.replaceChildren(document.importNode(made, true));
  };

  const show = (found) => {
    for (const place of document.querySelectorAll("[data-live]")) {
      const said = found[place.dataset.live];
      if (said !== undefined && place.textContent !== said) place.textContent = said;
    }
    for (const place of document.querySelectorAll("[data-live-picture]")) {
      picture(place, found[place.dataset.livePicture] ?? "");
    }
    say("live");
  };

  const ask = async () => {
    try {
      const answer = await fetch(tiles.dataset.liveUrl, { redirect: "error" });
      if (!answer.ok) throw new Error(answer.statusText);
      show(await answer.json());
    } catch {
      say("not reached");
    }
  };

  const follow = () => {
    clearInterval(timer);
    if (document.hidden) return say("paused");
    ask();
    timer = setInterval(ask, EVERY_MS);
  };

  document.addEventListener("visibilitychange", follow);
  timer = setInterval(ask, EVERY_MS);
})();
