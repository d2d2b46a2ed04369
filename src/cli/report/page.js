"use strict";

// Sorts and filters the tables, which are whole without it.

function cellValue(row, column) {
  const cell = row.cells[column];
  if (cell.classList.contains("none")) return null;
  if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
  return cell.textContent.trim().toLowerCase();
}

// Figures before texts; what is not known stays last in either direction.
function order(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  if (typeof a === "number") return sign * (a - b);
  return sign * (a < b ? -1 : a > b ? 1 : 0);
}

function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const sign = direction === "ascending" ? 1 : -1;
  const rows = Array.from(body.rows, (row) => ({ row, value: cellValue(row, column) }));
  rows.sort((a, b) => order(a.value, b.value, sign));
  body.append(...rows.map((item) => item.row));
  for (const head of table.tHead.rows[0].cells) head.removeAttribute("aria-sort");
  table.tHead.rows[0].cells[column].setAttribute("aria-sort", direction);
}

// Texts ascend first, figures descend: the largest is what one looks for.
function makeSortable(table) {
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = document.createElement("button");
    const first = head.classList.contains("num") ? "descending" : "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      sortTable(table, column, head.getAttribute("aria-sort") === first ? second : first);
    });
  });
}

function labelled(text, control) {
  const label = document.createElement("label");
  label.append(control, " " + text);
  return label;
}

// The targets that the table has, by their image's number.
function targetSelect(rows) {
  const names = new Map();
  for (const row of rows) {
    const cell = row.querySelector("td.target");
    if (cell) names.set(row.dataset.image, cell.textContent);
  }
  if (names.size < 2) return null;
  const select = document.createElement("select");
  select.setAttribute("aria-label", "Target");
  select.append(new Option("All targets", ""));
  for (const [image, name] of names) select.append(new Option(name, image));
  return select;
}

function checkBox() {
  const box = document.createElement("input");
  box.type = "checkbox";
  return box;
}

function makeTools(tools) {
  const table = document.getElementById(tools.dataset.of);
  const rows = Array.from(table.tBodies[0].rows);
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const search = document.createElement("input");
  const select = targetSelect(rows);
  const spills = table.querySelector("td.spill") ? checkBox() : null;
  const twins = table.querySelector("td.twin") ? checkBox() : null;
  const count = document.createElement("output");
  search.type = "search";
  search.className = "search";
  search.placeholder = "Search " + tools.dataset.rows;
  search.setAttribute("aria-label", search.placeholder);
  search.autocomplete = "off";
  search.spellcheck = false;

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !(words.every((word) => texts.get(row).includes(word)) &&
        (!select || !select.value || row.dataset.image === select.value) &&
        (!spills || !spills.checked || row.querySelector("td.spill")) &&
        (!twins || !twins.checked || row.querySelector("td.twin")));
      shown += !row.hidden;
    }
    count.textContent = (shown === rows.length ? "" : shown.toLocaleString("en-US") + " of ") +
      rows.length.toLocaleString("en-US") + " " + tools.dataset.rows;
  }

  // A link to a row that is filtered out shows all.
  function reveal() {
    const row = document.getElementById(location.hash.slice(1));
    if (!row || !row.hidden || !table.contains(row)) return;
    search.value = "";
    if (select) select.value = "";
    if (spills) spills.checked = false;
    if (twins) twins.checked = false;
    filter();
    row.scrollIntoView();
  }

  tools.append(search);
  if (select) tools.append(select);
  if (spills) tools.append(labelled("spilling only", spills));
  if (twins) tools.append(labelled("twins only", twins));
  tools.append(count);
  tools.addEventListener("input", filter);
  window.addEventListener("hashchange", reveal);
  tools.hidden = false;
  filter();
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll(".tools").forEach(makeTools);
