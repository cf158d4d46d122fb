// Before the first paint: mark that scripts run, and take the theme from the address or the last visit.
(function () {
  const root = document.documentElement;
  root.classList.add("js");
  const asked = /[#&]theme=(light|dark)\b/.exec(location.hash);
  let theme = asked ? asked[1] : null;
  try {
    theme = theme || localStorage.getItem("tellwhy-theme");
  } catch (blocked) {
    theme = theme || null;
  }
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
})();
