// Sorting, filtering and unfolding of the ranked rows; the theme. Without scripts everything is simply unfolded.
(function () {
  "use strict";
  const root = document.documentElement;
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => Array.from(document.querySelectorAll(selector));

  // ---- theme -------------------------------------------------------------------------------------------------
  const themeButton = one("#theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const currentTheme = () => root.dataset.theme || (prefersDark.matches ? "dark" : "light");
  const showTheme = () => {
    const other = currentTheme() === "dark" ? "light" : "dark";
    themeButton.setAttribute("aria-label", "Switch to the " + other + " theme");
    themeButton.title = "Switch to the " + other + " theme";
  };
  themeButton.addEventListener("click", () => {
    root.dataset.theme = currentTheme() === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("tellwhy-theme", root.dataset.theme);
    } catch (blocked) {
      // private windows forget the choice
    }
    showTheme();
  });
  prefersDark.addEventListener("change", showTheme);
  showTheme();

  // ---- where we are ------------------------------------------------------------------------------------------
  const links = new Map(all("nav.contents a").map((a) => [a.getAttribute("href").slice(1), a]));
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting || !links.has(entry.target.id)) continue;
        links.forEach((a) => a.removeAttribute("aria-current"));
        links.get(entry.target.id).setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-15% 0px -75% 0px" }
  );
  all("main section[id]").forEach((section) => watcher.observe(section));

  // ---- ranked rows -------------------------------------------------------------------------------------------
  const body = one("#ranked tbody");
  if (!body) return;
  const STEP = 25;
  let limit = STEP;
  const items = all("#ranked tr.line").map((line) => ({
    line,
    card: line.nextElementSibling && line.nextElementSibling.matches("tr.card-row") ? line.nextElementSibling : null,
    button: line.querySelector("button.unfold"),
    text: line.textContent.toLowerCase(),
  }));
  const search = one("#search");
  const column = one("#main-column");
  const aboveOnly = one("#above-only");
  const status = one("#shown-count");
  const moreButton = one("#show-more");

  const setOpen = (item, open) => {
    if (!item.card) return;
    item.card.classList.toggle("folded", !open);
    item.line.classList.toggle("open", open);
    item.button.setAttribute("aria-expanded", String(open));
  };

  const matches = (item) => {
    const wanted = search.value.trim().toLowerCase();
    if (wanted && !item.text.includes(wanted)) return false;
    if (column && column.value !== "" && item.line.dataset.main !== column.value) return false;
    return !(aboveOnly && aboveOnly.checked && item.line.dataset.above !== "1");
  };

  const refresh = () => {
    let found = 0;
    for (const item of items) {
      const fits = matches(item);
      if (fits) found += 1;
      for (const row of [item.line, item.card]) {
        if (!row) continue;
        row.classList.toggle("filtered", !fits);
        row.classList.toggle("beyond", fits && found > limit);
      }
    }
    const shown = Math.min(found, limit);
    status.textContent = found === 0 ? "No row fits." : "Showing " + shown + " of " + found + (found === 1 ? " row." : " rows.");
    moreButton.hidden = shown >= found;
    moreButton.textContent = "Show " + Math.min(4 * STEP, found - shown) + " more";
  };

  const sortBy = (header) => {
    const key = header.dataset.key;
    const first = key === "rank" ? "ascending" : "descending";
    const second = first === "ascending" ? "descending" : "ascending";
    const direction = header.getAttribute("aria-sort") === first ? second : first;
    all("#ranked th[data-key]").forEach((th) => th.setAttribute("aria-sort", "none"));
    header.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    items.sort((a, b) => sign * (Number(a.line.dataset[key]) - Number(b.line.dataset[key])) ||
      Number(a.line.dataset.rank) - Number(b.line.dataset.rank));
    for (const item of items) {
      body.append(item.line);
      if (item.card) body.append(item.card);
    }
    refresh();
  };

  const openTarget = () => {
    const found = /^#anomaly-(\d+)$/.exec(location.hash);
    const item = found && items.find((candidate) => candidate.card && candidate.card.id === location.hash.slice(1));
    if (!item) return;
    if (item.line.matches(".filtered, .beyond")) {
      search.value = "";
      if (column) column.value = "";
      if (aboveOnly) aboveOnly.checked = false;
      limit = items.length;
      refresh();
    }
    setOpen(item, true);
    item.line.scrollIntoView({ block: "start", behavior: "instant" });
    item.button.focus({ preventScroll: true });
  };

  for (const item of items) {
    if (!item.card) continue;
    item.button.addEventListener("click", () => setOpen(item, item.card.classList.contains("folded")));
    item.line.addEventListener("click", (event) => {
      if (event.target.closest("a, button") || String(window.getSelection())) return;
      setOpen(item, item.card.classList.contains("folded"));
    });
  }
  all("#ranked th[data-key] button").forEach((b) => b.addEventListener("click", () => sortBy(b.closest("th"))));
  for (const control of [search, column, aboveOnly]) if (control) control.addEventListener("input", refresh);
  moreButton.addEventListener("click", () => {
    limit += 4 * STEP;
    refresh();
  });
  one("#unfold-all").addEventListener("click", () => items.forEach((item) => setOpen(item, true)));
  one("#fold-all").addEventListener("click", () => items.forEach((item) => setOpen(item, false)));
  window.addEventListener("hashchange", openTarget);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      search.value = "";
      refresh();
    }
  });

  refresh();
  window.addEventListener("load", openTarget); // after the browser has moved to the fragment itself
})();
