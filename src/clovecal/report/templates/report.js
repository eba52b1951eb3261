"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const options = { actions: false, renderer: "svg", ast: true, tooltip: { disableDefaultStyle: false } };
  const drawn = {};
  const draw = (name) => {
    const place = document.getElementById("chart-" + name);
    if (place.closest("[hidden]")) return; // it has no width yet
    drawn[name] ??= vegaEmbed(place, charts[name], options).then((result) => result.view);
  };
  Object.keys(charts).forEach(draw);
  window.clovecalCharts = drawn;

  // One of several charts, drawn when it is first chosen
  for (const choice of document.querySelectorAll(".choice")) {
    const buttons = [...choice.querySelectorAll("input")];
    const show = () => {
      for (const button of buttons) {
        document.getElementById("figure-" + button.value).hidden = !button.checked;
        draw(button.value);
      }
      window.dispatchEvent(new Event("resize")); // the window may have another width than when it was drawn
    };
    choice.addEventListener("change", show);
    for (const button of buttons) button.checked = button.defaultChecked; // a reloaded page may remember another
    show();
  }

  // Domains of the reliability diagram
  const panel = document.getElementById("domains-shown");
  if (panel) {
    const boxes = [...panel.querySelectorAll("input")];
    const bars = document.getElementById("show-bars");
    const band = document.getElementById("show-band"); // not on every page
    const status = document.getElementById("shown-status");
    const update = async () => {
      const keys = boxes.filter((box) => box.checked).map((box) => box.value);
      const view = await drawn.reliability;
      await view.signal("shown", keys).signal("bars", bars.checked).signal("band", band?.checked ?? true).runAsync();
      status.textContent = keys.length + " of " + boxes.length + " curves shown";
    };
    panel.addEventListener("change", update);
    bars.addEventListener("change", update);
    band?.addEventListener("change", update);
    const sizes = boxes.filter((box) => box.dataset.rows).map((box) => Number(box.dataset.rows)).sort((a, b) => b - a);
    const chosen = (wanted, box) => ({
      all: true,
      none: false,
      first: box.defaultChecked,
      off: box.dataset.finding === "off",
      largest: Number(box.dataset.rows) >= sizes[Math.min(4, sizes.length) - 1],
    })[wanted];
    for (const button of document.querySelectorAll("[data-show]")) {
      button.addEventListener("click", () => {
        const wanted = button.dataset.show;
        for (const box of boxes) {
          box.checked = box.value === "all" || chosen(wanted, box);
        }
        update();
      });
    }
    for (const box of boxes) box.checked = box.defaultChecked; // a reloaded page may remember what the chart does not
    bars.checked = bars.defaultChecked;
    if (band) band.checked = true;
    update();
  }

  // A cell's number: what it is said to be, or what it says ("1,234", "−0.03", "<0.001", "4.9%")
  const numberOf = (cell) => {
    const said = cell.dataset.value ?? (cell.firstChild?.textContent ?? "").replace(/[,<%]/g, "").replace("−", "-");
    return said.trim() === "" || Number.isNaN(Number(said)) ? -Infinity : Number(said);
  };
  const textOf = (cell) => cell.dataset.value ?? (cell.firstChild?.textContent ?? "").trim();

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
        const numeric = head.dataset.kind === "number";
        const order = new Intl.Collator(undefined, { numeric: true });
        const compare = numeric ? (a, b) => (a.key === b.key ? 0 : a.key - b.key) : (a, b) => order.compare(a.key, b.key);
        const rows = [...body.rows].map((row) => ({ row, key: (numeric ? numberOf : textOf)(row.cells[column]) }));
        rows.sort((a, b) => (falling ? -compare(a, b) : compare(a, b)));
        body.append(...rows.map((one) => one.row));
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        table.dispatchEvent(new Event("sorted"));
      });
    });
  }

  // The table of domains shows its first rows, or those that are looked for
  const table = document.getElementById("domain-table");
  const search = document.getElementById("find-domain");
  if (search) {
    const finding = document.getElementById("find-finding");
    const status = document.getElementById("found-status");
    const more = document.getElementById("show-every-row");
    const body = table.tBodies[1];
    const names = new Map([...body.rows].map((row) => [row, row.cells[0].textContent.toLowerCase()]));
    let most = Number(table.dataset.atFirst);
    const show = () => {
      const wanted = search.value.trim().toLowerCase();
      let found = 0;
      for (const row of body.rows) {
        const fits = names.get(row).includes(wanted) && (!finding.value || row.dataset.finding === finding.value);
        row.hidden = !fits || found >= most;
        found += fits;
      }
      const shown = Math.min(found, most);
      const all = names.size.toLocaleString("en");
      status.textContent = shown < found
        ? "the first " + shown.toLocaleString("en") + " of " + found.toLocaleString("en")
        : found.toLocaleString("en") + " of " + all + " domains";
      more.hidden = shown === found;
    };
    more.addEventListener("click", () => { most = Infinity; show(); });
    search.addEventListener("input", show);
    finding.addEventListener("change", show);
    table.addEventListener("sorted", show);
    search.value = finding.value = ""; // a reloaded page may remember them
    show();
  }
})();
