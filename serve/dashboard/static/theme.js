// The theme: the system's, or the one chosen here. It runs before the page is drawn.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const show = (theme) => {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
  };
  root.classList.add("has-script");
  show(kept());

  const next = { "": "dark", dark: "light", light: "" };
  const named = { "": "as the system's", dark: "dark", light: "light" };
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-switch]");
    if (!button) return;
    const say = () => {
      const said = `Theme: ${named[root.dataset.theme || ""]}`;
      button.title = said;
      button.setAttribute("aria-label", said);
    };
    say();
    button.addEventListener("click", () => {
      const theme = next[root.dataset.theme || ""];
      try {
        if (theme) localStorage.setItem("theme", theme); else localStorage.removeItem("theme");
      } catch { /* not kept, and shown all the same */ }
      show(theme);
      say();
    });
  });
  addEventListener("storage", (event) => { if (event.key === "theme") show(event.newValue); });
})();
