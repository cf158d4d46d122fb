// Lines of a series: drag over a part of them to enlarge it, double-click for the whole.
(function () {
  "use strict";
  const WHOLE = 900;
  let from = null;
  const show = (svg, left, width) => {
    const panel = svg.closest(".lanes") || document;
    for (const lane of panel.querySelectorAll("svg.zoomable")) {
      lane.setAttribute("viewBox", left + " 0 " + width + " " + lane.viewBox.baseVal.height);
      lane.querySelectorAll(".event-number").forEach((number) => {
        const x = Number(number.getAttribute("x"));
        number.setAttribute("transform", "translate(" + x + " 0) scale(" + width / WHOLE + " 1) translate(" + -x + " 0)");
      });
    }
    const ticks = panel.querySelector(".ticks");
    if (ticks) ticks.hidden = width < WHOLE;
  };
  const place = (svg, event) => {
    const box = svg.getBoundingClientRect();
    const view = svg.viewBox.baseVal;
    return view.x + (event.clientX - box.left) / box.width * view.width;
  };
  const lane = (event) => event.target.closest && event.target.closest("svg.zoomable");
  document.addEventListener("pointerdown", (event) => {
    const svg = lane(event);
    from = svg ? place(svg, event) : null;
  });
  document.addEventListener("pointerup", (event) => {
    const svg = lane(event);
    if (svg && from !== null) {
      const to = place(svg, event);
      if (Math.abs(to - from) > svg.viewBox.baseVal.width / 100) show(svg, Math.min(from, to), Math.abs(to - from));
    }
    from = null;
  });
  document.addEventListener("dblclick", (event) => {
    const svg = lane(event);
    if (svg) show(svg, 0, WHOLE);
  });
})();
