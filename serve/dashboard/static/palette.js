// The palette: Ctrl+K (or Command+K) leads to a page, an action of this page or a memory by typing.
// All of it is on the pages too: without a script nothing is missing but the short way.
"use strict";
(() => {
  const TYPING_MS = 90; // after the last key
  const MOST_MEMORIES = 6;
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const said = dialog.querySelector("[aria-live]");
  let timer = 0;
  let asking = new AbortController();

  const fold = (text) => text.trim().toLowerCase();
  const label = (element) => element.textContent.trim().replace(/\s+/g, " ");

  // what can be chosen: what it is, what it is called, and what choosing it does
  const commands = () => [
    ...[...document.querySelectorAll("nav.places a")].map((one) => ["Page", label(one), () => one.click()]),
    ...[...document.querySelectorAll(".page-header .actions :is(a, button, summary), [data-hotkey=z]")]
      .filter((one) => one.offsetParent && label(one))
      .map((one) => ["Action", label(one), () => one.click()]),
    ...[...document.querySelectorAll(".switcher nav a")].map((one) => ["Tenant", label(one), () => one.click()]),
    ["Action", "Switch the theme", () => document.querySelector("[data-theme-switch]")?.click()],
    ["Action", "Show the keys", () => document.getElementById("keys")?.showModal()],
  ];

  const searchUrl = (text) => {
    const url = new URL(dialog.dataset.search, location.href);
    url.searchParams.set("q", text);
    return url;
  };

  const options = () => [...list.querySelectorAll("[role=option]")];

  const choose = (option) => {
    for (const one of options()) one.setAttribute("aria-selected", String(one === option));
    if (option) {
      input.setAttribute("aria-activedescendant", option.id);
      option.scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };

  const show = (found) => {
    list.replaceChildren(...found.map(([what, text, act], place) => {
      const option = document.createElement("li");
      option.id = `palette-${place}`;
      option.setAttribute("role", "option");
      const kind = document.createElement("span");
      kind.className = "muted";
      kind.textContent = what;
      const name = document.createElement("span");
      name.className = "said";
      name.dir = "auto";
      name.textContent = text;
      option.append(name, kind);
      option.addEventListener("click", () => { dialog.close(); act(); });
      return option;
    }));
    choose(options()[0]);
    said.textContent = `${found.length} to choose from`;
  };

  const matching = (text) => {
    const words = fold(text).split(/\s+/);
    return commands().filter(([, name]) => words.every((word) => fold(name).includes(word)));
  };

  const memories = async (text) => {
    asking.abort();
    asking = new AbortController();
    const answer = await fetch(searchUrl(text), {
      headers: { "Mnemolog-Part": "1" }, redirect: "error", signal: asking.signal,
    });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const links = [...page.querySelectorAll("[data-row] a.said")].slice(0, MOST_MEMORIES);
    return links.map((one) => ["Memory", label(one), () => location.assign(one.getAttribute("href"))]);
  };

  const ask = async () => {
    clearTimeout(timer);
    const text = input.value.trim();
    const known = matching(text);
    if (!text) return show(known);
    const search = ["Search", `Search for “${text}”`, () => location.assign(searchUrl(text))];
    show([...known, search]);
    timer = setTimeout(async () => {
      try {
        const found = await memories(text);
        if (dialog.open && input.value.trim() === text) show([...known, ...found, search]);
      } catch { /* asked again, or the server is away: the search says so */ }
    }, TYPING_MS);
  };

  const open = () => {
    if (document.querySelector("dialog[open]")) return;
    input.value = "";
    dialog.showModal();
    ask();
  };

  input.addEventListener("input", ask);
  input.addEventListener("keydown", (event) => {
    const all = options();
    const at = all.findIndex((one) => one.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown") choose(all[(at + 1) % all.length]);
    else if (event.key === "ArrowUp") choose(all[(at - 1 + all.length) % all.length]);
    else if (event.key === "Enter") all[at]?.click();
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    }
  });
  for (const opener of document.querySelectorAll("[data-opens-palette]")) opener.addEventListener("click", open);
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
})();
