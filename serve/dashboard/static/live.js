// What a page found, asked for again without the page around it: while one types a search
// ([data-search-as-typed]), and every few seconds where a list is followed ([data-follow]).
// A list goes on without this: the form sends itself, and a reload shows what is new.
"use strict";
(() => {
  const TYPING_MS = 60; // after the last key
  const EVERY_MS = 5000;

  const fetchPart = async (url, signal) => {
    const answer = await fetch(url, { headers: { "Mnemolog-Part": "1" }, redirect: "error", signal });
    if (!answer.ok && answer.status !== 400) throw new Error(answer.statusText);
    return answer.text();
  };

  const replace = (place, text) => {
    const made = new DOMParser().parseFromString(text, "text/html"); // runs no script
    place.replaceChildren(...[...made.body.childNodes].map((one) => document.adoptNode(one)));
  };

  const form = document.querySelector("form[data-search-as-typed]");
  if (form) {
    const place = document.getElementById(form.dataset.searchAsTyped);
    const said = document.querySelector("[data-found-said]");
    let timer = 0;
    let asking = new AbortController();
    let shown = "";

    const address = () => {
      const url = new URL(form.action);
      for (const [name, value] of new FormData(form)) {
        const usual = form.elements[name].querySelector?.("[data-usual]")?.value ?? "";
        if (value !== usual) url.searchParams.append(name, value);
      }
      return url;
    };

    const ask = async () => {
      clearTimeout(timer);
      asking.abort();
      asking = new AbortController();
      const url = address();
      if (url.href === shown) return;
      place.setAttribute("aria-busy", "true");
      try {
        replace(place, await fetchPart(url, asking.signal));
        shown = url.href;
        history.replaceState(null, "", url);
        if (said) said.textContent = place.querySelector("[data-said]")?.dataset.said ?? "";
      } catch (error) {
        if (error.name === "AbortError") return;
        form.submit(); // the whole page says what is wrong
      }
      place.removeAttribute("aria-busy");
    };

    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(ask, TYPING_MS);
    });
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      await ask();
      place.querySelector("[data-row] a[href]")?.focus(); // from here j and k go on
    });
  }

  const followed = document.querySelector("[data-follow]");
  const turn = document.querySelector("[data-follow-switch]");
  if (followed && turn) {
    let timer = 0;
    let shown = "";
    const ask = async () => {
      // who reads or chooses with the keyboard is not pulled away from where they are
      if (document.hidden || followed.contains(document.activeElement)) return;
      try {
        const text = await fetchPart(location.href);
        if (text !== shown) replace(followed, text);
        shown = text;
      } catch { /* the server is away: what is shown stays */ }
    };
    const follow = () => {
      clearInterval(timer);
      if (turn.checked) timer = setInterval(ask, EVERY_MS);
    };
    turn.addEventListener("change", follow);
    follow();
  }
})();
