"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const options = { actions: false, renderer: "svg", ast: true, tooltip: { disableDefaultStyle: false } };
  const drawn = {};
  for (const [name, spec] of Object.entries(charts)) {
    const place = document.getElementById("chart-" + name);
    drawn[name] = vegaEmbed(place, spec, options).then((result) => result.view);
  }
  window.clovecalCharts = drawn;

  // Domains of the reliability diagram
  const panel = document.getElementById("domains-shown");
  if (panel) {
    const boxes = [...panel.querySelectorAll("input")];
    const bars = document.getElementById("show-bars");
    const status = document.getElementById("shown-status");
    const update = async () => {
      const keys = boxes.filter((box) => box.checked).map((box) => box.value);
      const view = await drawn.reliability;
      await view.signal("shown", keys).signal("bars", bars.checked).runAsync();
      status.textContent = keys.length + " of " + boxes.length + " curves shown";
    };
    panel.addEventListener("change", update);
    bars.addEventListener("change", update);
    for (const button of document.querySelectorAll("[data-show]")) {
      button.addEventListener("click", () => {
        const wanted = button.dataset.show;
        for (const box of boxes) {
          box.checked = wanted === "all" || box.value === "all" || (wanted === "first" && box.defaultChecked);
        }
        update();
      });
    }
    for (const box of boxes) box.checked = box.defaultChecked; // a reloaded page may remember what the chart does not
    bars.checked = bars.defaultChecked;
    update();
  }

  // Tables that sort by a click on a column's head
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[table.tBodies.length - 1];
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const falling = before ? before === "ascending" : head.dataset.first === "descending";
        const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
        const compare = head.dataset.kind === "number"
          ? (a, b) => Number(value(a)) - Number(value(b))
          : (a, b) => value(a).localeCompare(value(b), undefined, { numeric: true });
        const rows = [...body.rows].sort((a, b) => (falling ? -compare(a, b) : compare(a, b)));
        body.append(...rows);
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      });
    });
  }
})();
