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
  const toggleChart = async (button) => {
    const line = button.closest("tr");
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) return void line.nextElementSibling.remove();
    const row = document.createElement("tr");
    const cell = document.createElement("td");
    row.className = "chart-row";
    cell.colSpan = 4;
    row.append(cell);
    line.after(row);
    await fetchInto(cell, "/row/" + chosen + "/chart?column=" + encodeURIComponent(button.dataset.chart));
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
    await refreshTab();
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

  // ---- parts of the page -------------------------------------------------------------------------------------
  const other = one("#tab-other");
  const rowsTab = one("#tab-rows");
  let tab = "rows";
  const showTab = async (name, asked) => {
    tab = name;
    for (const link of all(".tabs a")) {
      if (link.dataset.tab === name) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    }
    rowsTab.hidden = name !== "rows";
    other.hidden = name === "rows";
    if (name === "rows") return;
    const given = asked ? "?" + new URLSearchParams(asked).toString() : "";
    if (location.hash !== "#" + name) history.replaceState(null, "", location.search + "#" + name);
    await fetchInto(other, "/tab/" + name + given);
  };
  const toRow = async (row) => {
    if (tab !== "rows") await showTab("rows");
    await choose(row);
  };
  const refreshTab = () => (tab === "rows" ? changed() : Promise.all([showTab(tab), showList(), refreshCounts()]));
  const act = async (address, told, words) => {
    try {
      const made = await send(address, told);
      if (made.id) last.push(made.id);
      say(words);
    } catch (error) {
      return void say(error.message, true);
    }
    return refreshTab();
  };

  // ---- work that takes long ----------------------------------------------------------------------------------
  const work = one("#work");
  const follow = async () => {
    const job = await (await ask("/job")).json();
    if (job.state === "none") return;
    work.hidden = job.state !== "running";
    if (job.state === "running") {
      one(".work-words", work).textContent = job.words + ": " + job.stage;
      const bar = one("progress", work);
      if (job.total) { bar.max = job.total; bar.value = job.done; } else bar.removeAttribute("value");
      window.setTimeout(() => follow().catch((error) => say(error.message, true)), 400);
    } else if (job.state === "done") {
      location.assign("/");
    } else {
      say(job.state === "failed" ? job.error : "Ended; nothing was written.", job.state === "failed");
    }
  };
  const start = async (address, told) => {
    try {
      await send(address, told);
      await follow();
    } catch (error) {
      say(error.message, true);
    }
  };

  // ---- files -------------------------------------------------------------------------------------------------
  const files = [];
  const showFiles = () => {
    const button = one("#explain-files");
    if (button) button.hidden = !files.some((file) => file.id) || files.some((file) => file.sending);
  };
  const upload = (file) => {
    const line = document.createElement("li");
    const words = document.createElement("span");
    const bar = document.createElement("progress");
    const stop = document.createElement("button");
    words.textContent = file.name;
    bar.max = 1;
    bar.value = 0;
    bar.setAttribute("aria-label", "Progress of " + file.name);
    stop.type = "button";
    stop.className = "small";
    stop.textContent = "Remove";
    line.append(words, bar, stop);
    one("#uploads").append(line);
    const kept = { id: null, sending: true };
    const request = new XMLHttpRequest();
    const gone = () => {
      line.remove();
      if (files.includes(kept)) files.splice(files.indexOf(kept), 1);
      showFiles();
    };
    stop.addEventListener("click", () => {
      if (kept.sending) request.abort();
      else send("/files/" + kept.id + "/drop", {}).catch(() => undefined);
      gone();
    });
    const most = Number(document.body.dataset.mostBytes);
    if (file.size > most) {
      words.textContent = file.name + ": larger than " + Math.floor(most / 1048576) + " MiB, which is the most that is read here.";
      bar.remove();
      return;
    }
    files.push(kept);
    request.open("PUT", "/files?name=" + encodeURIComponent(file.name));
    request.upload.addEventListener("progress", (event) => { bar.max = event.total; bar.value = event.loaded; });
    request.addEventListener("load", () => {
      kept.sending = false;
      const told = JSON.parse(request.responseText);
      if (request.status === 200) {
        kept.id = told.id;
        bar.max = 1;
        bar.value = 1;
      } else {
        words.textContent = file.name + ": " + told.error.message;
        bar.remove();
        files.splice(files.indexOf(kept), 1);
      }
      showFiles();
    });
    request.addEventListener("error", () => { kept.sending = false; say("The file did not arrive.", true); gone(); });
    request.send(file);
    showFiles();
  };
  const hasFiles = (event) => Array.from((event.dataTransfer || { types: [] }).types).includes("Files");
  document.addEventListener("dragover", (event) => { if (hasFiles(event)) event.preventDefault(); });
  document.addEventListener("drop", async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    const dropped = Array.from(event.dataTransfer.files);
    if (tab !== "open") await showTab("open");
    dropped.forEach(upload);
  });

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
    const link = event.target.closest('a[href^="#"]');
    if (link) {
      const target = /^#(?:row|anomaly)-(\d+)$/.exec(link.getAttribute("href"));
      if (target) {
        event.preventDefault();
        return void toRow(Number(target[1])).then(() => link.closest("#list") && one("h2", pane) && one("h2", pane).focus({ preventScroll: true }));
      }
      if (link.dataset.tab) {
        event.preventDefault();
        if (link.dataset.tab === "rows") history.replaceState(null, "", location.search || "/");
        return void showTab(link.dataset.tab);
      }
    }
    const told = (name) => event.target.closest("[data-" + name + "]");
    if (told("reject")) return void act("/findings", { finding: Number(told("reject").dataset.reject) }, "Rejected; the next run does not raise it.");
    if (told("accept-all")) return void act("/repairs", { all: true }, "Accepted.");
    if (told("repair")) {
      const cell = told("repair");
      const row = Number((cell.dataset.row === undefined ? cell.closest("[data-row]") : cell).dataset.row);
      return void act("/repairs", { row: row, column: cell.dataset.column, verdict: cell.dataset.repair }, "Saved: the repair is " + cell.dataset.repair + ".");
    }
    if (told("chart")) return void toggleChart(told("chart"));
    if (told("again")) return void start("/again", { alarms: told("again").dataset.again });
    if (told("open")) return void send("/open", { run: told("open").dataset.open }).then(() => location.assign("/"), (error) => say(error.message, true));
    if (event.target.closest("#cancel-work")) return void send("/job/cancel", {}).catch((error) => say(error.message, true));
    if (event.target.closest("#explain-files")) return void start("/explain", { files: files.map((file) => file.id) });
    if (told("copy")) return void navigator.clipboard.writeText(told("copy").dataset.copy).then(() => say("Copied."), () => say("The browser did not allow copying.", true));
    if (told("where")) return void showTab("rows").then(() => { filters.elements.show.value = "alarms"; return set("where", told("where").dataset.where); });
    if (told("view")) {
      const wanted = new URLSearchParams(told("view").dataset.view);
      filters.reset();
      for (const [name, value] of wanted) if (filters.elements[name]) filters.elements[name].value = value;
      filters.elements.page.value = "1";
      return void showTab("rows").then(showList);
    }
    const item = event.target.closest("tr.item");
    if (item && !event.target.closest("button") && !String(window.getSelection())) {
      return void choose(Number(item.dataset.row));
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
  document.addEventListener("input", (event) => {
    if (event.target.matches('#line-form [name="step"], #line-form [name="alarms"]')) {
      const range = event.target.matches('[name="step"]');
      const steps = one('#line-form [name="step"]').dataset.steps.split(" ");
      const alarms = range ? steps[Number(event.target.value)] : event.target.value;
      window.clearTimeout(typing);
      typing = window.setTimeout(() => moveLine(alarms), 120);
    } else if (event.target.matches("[data-tab-form] select")) {
      showTab(tab, { [event.target.name]: event.target.value });
    } else if (event.target.matches('#drop [type="file"]')) {
      Array.from(event.target.files).forEach(upload);
      event.target.value = "";
    }
  });
  // The slider stays in the hand that moves it: all but the form is put in its place.
  const moveLine = async (alarms) => {
    const made = document.createElement("div");
    if (!(await fetchInto(made, "/tab/line?alarms=" + encodeURIComponent(alarms)))) return;
    const form = one("#line-form");
    const fresh = one("#line-form", made);
    if (document.activeElement !== form.elements.step) form.elements.step.value = fresh.elements.step.value;
    if (document.activeElement !== form.elements.alarms) form.elements.alarms.value = fresh.elements.alarms.value;
    fresh.replaceWith(form);
    const focused = document.activeElement;
    other.replaceChildren(...made.childNodes);
    if (form.contains(focused)) focused.focus();
  };
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
    if (tab !== "rows" && event.key !== "?" && event.key !== "u") return;
    event.preventDefault();
    handlers[event.key]();
  });
  const openTarget = () => {
    const found = /^#row-(\d+)$/.exec(location.hash);
    const name = location.hash.slice(1);
    if (found) return void (Number(found[1]) !== chosen && toRow(Number(found[1])));
    if (all(".tabs a").some((link) => link.dataset.tab === name) && name !== tab) showTab(name);
    else if (!name && tab !== "rows" && one('.tabs a[data-tab="rows"]')) showTab("rows");
  };
  window.addEventListener("hashchange", openTarget);

  const first = one(".row-card", pane);
  if (first) {
    chosen = Number(first.dataset.row);
    mark();
    filled();
  }
  openTarget();
  if (!one('.tabs a[data-tab="rows"]') && !location.hash) showTab(one(".tabs a").dataset.tab);
  follow().catch(() => undefined);
})();
