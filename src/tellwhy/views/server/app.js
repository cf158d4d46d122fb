// The page that an analyst works in: it asks the server for pieces of HTML and puts them in their places.
(function () {
  "use strict";
  const one = (selector, inside) => (inside || document).querySelector(selector);
  const all = (selector, inside) => Array.from((inside || document).querySelectorAll(selector));
  const filters = one("#filters");
  const list = one("#list");
  const pane = one("#row");
  let chosen = null;
  let last = [];

  // ---- talking to the server ---------------------------------------------------------------------------------
  const said = one("#said");
  let silence = 0;
  const say = (text, isError) => {
    said.textContent = text;
    said.classList.toggle("is-error", Boolean(isError));
    window.clearTimeout(silence);
    silence = window.setTimeout(() => { said.textContent = ""; }, isError ? 9000 : 3500);
  };
  const ask = async (address, options) => {
    let answer;
    try {
      answer = await fetch(address, options);
    } catch (lost) {
      if (lost.name === "AbortError") throw lost;
      throw new Error("The server does not answer. Is it still running?");
    }
    if (answer.ok) return answer;
    let told = "The server answered with status " + answer.status + ".";
    try {
      told = (await answer.json()).error.message;
    } catch (unread) {
      // no JSON: the status must do
    }
    throw new Error(told);
  };
  const send = (address, told) => ask(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(told),
  }).then((answer) => answer.json());
  // The newest request for a place wins: answers to older ones are thrown away.
  const waiting = new Map();
  const fetchInto = async (place, address) => {
    const older = waiting.get(place);
    if (older) older.abort();
    const own = new AbortController();
    waiting.set(place, own);
    place.classList.add("busy");
    try {
      const answer = await ask(address, { signal: own.signal });
      const text = await answer.text();
      if (waiting.get(place) !== own) return false;
      place.innerHTML = text;
      return true;
    } catch (error) {
      if (error.name !== "AbortError") say(error.message, true);
      return false;
    } finally {
      if (waiting.get(place) === own) {
        waiting.delete(place);
        place.classList.remove("busy");
      }
    }
  };

  // ---- the list ----------------------------------------------------------------------------------------------
  const query = () => {
    const told = new URLSearchParams(new FormData(filters));
    for (const [name, value] of Array.from(told)) if (!value || (name === "page" && value === "1")) told.delete(name);
    return told.toString();
  };
  const items = () => all("tr.item", list);
  const showList = async () => {
    const asked = query();
    history.replaceState(null, "", "/" + (asked ? "?" + asked : "") + location.hash);
    if (!(await fetchInto(list, "/list?" + asked))) return false;
    mark();
    return true;
  };
  const mark = () => {
    for (const item of items()) {
      const is = Number(item.dataset.row) === chosen;
      item.classList.toggle("chosen", is);
      const link = one("a.pick", item);
      if (is) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
  };
  const set = (name, value) => {
    filters.elements[name].value = value;
    if (name !== "page") filters.elements.page.value = "1";
    return showList();
  };
  const refreshCounts = async () => {
    const counts = await (await ask("/counts")).json();
    for (const option of filters.elements.show.options) {
      option.textContent = option.value + " (" + counts[option.value].toLocaleString("en").replace(/,/g, "\u202f") + ")";
    }
  };

  // ---- the row -----------------------------------------------------------------------------------------------
  const choose = async (row, focus) => {
    chosen = row;
    mark();
    const item = items().find((each) => Number(each.dataset.row) === row);
    if (item) item.scrollIntoView({ block: "nearest" });
    if (location.hash !== "#row-" + row) history.replaceState(null, "", location.search + "#row-" + row);
    document.body.classList.add("has-row");
    if (!(await fetchInto(pane, "/row/" + row))) return;
    pane.scrollTop = 0;
    filled();
    if (focus) one("h2", pane).focus({ preventScroll: true });
  };
  const filled = () => {
    tried = {};
    all("[data-fetch]", pane).forEach((place) => fetchInto(place, place.dataset.fetch));
    fillMethods();
  };
  const step = async (by) => {
    const rows = items();
    const at = rows.findIndex((item) => Number(item.dataset.row) === chosen);
    const next = rows[at + by];
    if (next) return choose(Number(next.dataset.row));
    const page = Number(filters.elements.page.value || 1) + (by > 0 ? 1 : -1);
    const button = one('.pager [data-set="page"][data-value="' + page + '"]:not(:disabled)', list);
    if (!button) return undefined;
    await set("page", String(page));
    const fresh = items();
    const item = fresh[by > 0 ? 0 : fresh.length - 1];
    return item && choose(Number(item.dataset.row));
  };

  // ---- decisions ---------------------------------------------------------------------------------------------
  const changed = async () => {
    await Promise.all([showList(), fetchInto(pane, "/row/" + chosen).then(filled), refreshCounts()]);
  };
  const decide = async (verdict) => {
    if (chosen === null) return;
    const row = chosen;
    const why = one(".decide input", pane);
    try {
      const made = await send("/marks", { row: row, verdict: verdict, why: why ? why.value : "" });
      last.push(made.id);
      say("Saved: row " + row + " is " + verdict + ". u takes it back.");
    } catch (error) {
      say("Not saved: " + error.message, true);
      return;
    }
    await changed();
  };
  const undo = async (id) => {
    try {
      await send("/undo", { id: id });
      last = last.filter((each) => each !== id);
      say("Taken back.");
    } catch (error) {
      say("Not taken back: " + error.message, true);
      return;
    }
    await changed();
  };

  // ---- what is tried on a row --------------------------------------------------------------------------------
  const post = (address, told, signal) => ask(address, {
    method: "POST", signal: signal,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(told),
  }).then((answer) => answer.text());
  let tried = {};
  let trying = null;
  const tryChanges = async (form) => {
    const part = form.closest(".part");
    const place = one(".answer", part);
    const listed = one(".changes", part);
    if (trying) trying.abort();
    const own = trying = new AbortController();
    listed.textContent = "";
    for (const name of Object.keys(tried)) {
      const line = document.createElement("li");
      line.textContent = name + " = " + (tried[name] || "nothing");
      listed.append(line);
    }
    listed.hidden = Object.keys(tried).length < 2;
    if (!Object.keys(tried).length) {
      place.textContent = "";
      return;
    }
    place.classList.add("busy");
    const address = "/row/" + form.dataset.row + "/what-if";
    try {
      place.innerHTML = await post(address, { changes: tried, checked: false }, own.signal);
      place.classList.remove("busy");
      place.innerHTML = await post(address, { changes: tried, checked: true }, own.signal);
    } catch (error) {
      if (error.name !== "AbortError") say(error.message, true);
    } finally {
      if (trying === own) place.classList.remove("busy");
    }
  };
  let methods = null;
  const fillMethods = async () => {
    const select = one("select[data-options]", pane);
    if (!select) return;
    methods = methods || ask(select.dataset.options).then((answer) => answer.json());
    try {
      for (const name of await methods) select.add(new Option(name, name));
    } catch (error) {
      methods = null;
      say(error.message, true);
    }
  };

  // ---- theme -------------------------------------------------------------------------------------------------
  const root = document.documentElement;
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

  // ---- hands -------------------------------------------------------------------------------------------------
  let typing = 0;
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.addEventListener("input", (event) => {
    window.clearTimeout(typing);
    const isText = event.target.matches('[type="search"], [type="text"]');
    typing = window.setTimeout(() => { filters.elements.page.value = "1"; showList(); }, isText ? 220 : 0);
  });
  document.addEventListener("click", (event) => {
    const setter = event.target.closest("[data-set]");
    if (setter) return void set(setter.dataset.set, setter.dataset.value);
    const verdict = event.target.closest("[data-verdict]");
    if (verdict) return void decide(verdict.dataset.verdict);
    const taken = event.target.closest("[data-undo]");
    if (taken) return void undo(taken.dataset.undo);
    const item = event.target.closest("tr.item");
    if (item && !event.target.closest("button") && !String(window.getSelection())) {
      event.preventDefault();
      return void choose(Number(item.dataset.row), Boolean(event.target.closest("a")));
    }
    return undefined;
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".decide, .what-if, .opinion")) return;
    event.preventDefault();
    const form = event.target;
    if (form.matches(".what-if")) {
      tried[form.elements.column.value] = form.elements.value.value;
      tryChanges(form);
    } else if (form.matches(".opinion")) {
      const asked = "/row/" + form.dataset.row + "/opinion?method=" + encodeURIComponent(form.elements.method.value);
      fetchInto(one(".answer", form.closest(".part")), asked);
    }
  });
  document.addEventListener("reset", (event) => {
    if (!event.target.matches(".what-if")) return;
    tried = {};
    tryChanges(event.target);
  });
  const keys = one("#keys");
  one("#keys-button").addEventListener("click", () => keys.showModal());
  const handlers = {
    j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
    b: () => decide("benign"), c: () => decide("confirmed"),
    u: () => last.length && undo(last[last.length - 1]),
    "/": () => one("#search").focus(),
    "?": () => keys.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    if (event.key === "Escape" && event.target.matches("input")) return void event.target.blur();
    if (event.target.matches("input, select, textarea") || !(event.key in handlers)) return;
    event.preventDefault();
    handlers[event.key]();
  });
  const openTarget = () => {
    const found = /^#row-(\d+)$/.exec(location.hash);
    if (found && Number(found[1]) !== chosen) choose(Number(found[1]));
  };
  window.addEventListener("hashchange", openTarget);

  const first = one(".row-card", pane);
  if (first) {
    chosen = Number(first.dataset.row);
    mark();
    filled();
  }
  openTarget();
})();
