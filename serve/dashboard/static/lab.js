// The slider over the memory's life moves the date beside it, and asks again when it is let go.
"use strict";
(() => {
  const DAY_MS = 86400000;
  const form = document.querySelector("form.lab");
  const slide = form?.querySelector("[data-slide]");
  const date = form?.elements.as_of;
  if (!slide || !date) return;
  const said = form.querySelector("[data-slide-said]");
  const first = Date.parse(`${form.dataset.first}T00:00:00Z`);
  const last = Number(slide.max);

  const show = () => {
    const text = date.value || "now";
    said.textContent = text;
    slide.setAttribute("aria-valuetext", text);
  };

  const fromDate = () => {
    const day = Math.round((Date.parse(`${date.value}T00:00:00Z`) - first) / DAY_MS);
    slide.value = date.value ? Math.min(last, Math.max(0, day)) : last;
    show();
  };

  slide.addEventListener("input", () => {
    const isNow = Number(slide.value) === last;
    date.value = isNow ? "" : new Date(first + Number(slide.value) * DAY_MS).toISOString().slice(0, 10);
    show();
  });
  slide.addEventListener("change", () => {
    if (form.elements.q.value.trim()) form.requestSubmit();
  });
  date.addEventListener("change", fromDate);
  fromDate();

  // what compares is meant to be compared
  const other = form.querySelector(".side.other");
  other?.addEventListener("toggle", () => {
    form.elements.compare.checked = other.open;
  });
})();
