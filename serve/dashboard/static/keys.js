// Keys: / searches, j and k go through a list, g and a letter to a page, ? shows them all.
// A list is made of [data-row]; its first link opens, its checkbox is chosen.
"use strict";
(() => {
  const AFTER_G_MS = 1500;
  let wasG = 0;

  const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
  const current = () => document.activeElement?.closest("[data-row]");
  const link = (row) => row?.querySelector("a[href]");

  const isTyping = (target) =>
    target.isContentEditable || target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");

  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(current());
    const to = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by));
    (link(all[to]) || all[to]).focus();
    all[to].scrollIntoView({ block: "nearest" });
  };

  const go = (key) => {
    const to = document.querySelector(`nav.places a[data-key="${CSS.escape(key)}"]`);
    if (to) to.click();
    return Boolean(to);
  };

  const press = (key) => {
    const button = document.querySelector(`[data-hotkey="${CSS.escape(key)}"]`);
    if (button) button.click();
    return Boolean(button);
  };

  // who speaks to the machine, or hits keys by chance, can turn single keys off (WCAG 2.1.4)
  const areOff = () => { try { return localStorage.getItem("keys") === "off"; } catch { return false; } };
  const turn = document.querySelector("[data-keys-switch]");
  if (turn) {
    turn.checked = !areOff();
    turn.addEventListener("change", () => {
      try {
        if (turn.checked) localStorage.removeItem("keys"); else localStorage.setItem("keys", "off");
      } catch { /* not kept: they stay on */ }
    });
  }

  const handled = {
    "/": () => {
      const search = document.getElementById("search");
      search?.focus();
      search?.select();
    },
    j: () => move(1),
    k: () => move(-1),
    x: () => current()?.querySelector("input[type=checkbox]")?.click(),
    "?": () => document.getElementById("keys")?.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || areOff()) return;
    if (document.querySelector("dialog[open]")) return;
    const after = Date.now() - wasG < AFTER_G_MS;
    wasG = 0;
    if (after && go(event.key)) return event.preventDefault();
    if (event.key === "g") { wasG = Date.now(); return; }
    const action = handled[event.key];
    if (action) { action(); event.preventDefault(); }
    else if (event.key.length === 1 && press(event.key)) event.preventDefault();
  });

  for (const opener of document.querySelectorAll("[data-opens]")) {
    opener.addEventListener("click", () => document.getElementById(opener.dataset.opens).showModal());
  }

  // the head of a list chooses all of it, and what is done with the chosen says how many they are;
  // the list may be replaced while one types
  const boxesOf = (form) => [...form.querySelectorAll("[data-row] input[type=checkbox]")];
  const count = (form) => {
    const boxes = boxesOf(form);
    const all = form.querySelector("[data-all]");
    const chosen = boxes.filter((box) => box.checked).length;
    for (const place of form.querySelectorAll("[data-chosen]")) place.textContent = chosen;
    form.classList.toggle("has-chosen", chosen > 0);
    if (all) {
      all.checked = chosen > 0 && chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    }
  };
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-chooses]");
    if (!form) return;
    if (event.target.matches("[data-all]")) for (const box of boxesOf(form)) box.checked = event.target.checked;
    count(form);
  });
  for (const form of document.querySelectorAll("form[data-chooses]")) count(form);

  // what was said once is not said again by a reload or a kept address
  const here = new URL(location.href);
  if (here.searchParams.has("flash")) {
    here.searchParams.delete("flash");
    history.replaceState(null, "", here);
  }

  // an open menu of the bar closes with Escape or a click beside it
  const menus = () => document.querySelectorAll("details[name][open]");
  document.addEventListener("click", (event) => {
    for (const menu of menus()) if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") for (const menu of menus()) { menu.open = false; menu.querySelector("summary").focus(); }
  });
})();
