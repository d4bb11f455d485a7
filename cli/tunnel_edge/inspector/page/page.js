"use strict";
// Keeps the list of requests current. The pages are complete without this script.

const rows = document.getElementById("rows");
const state = document.getElementById("state");
const filter = document.getElementById("filter");
const empty = document.querySelector(".empty");
const folder = rows.dataset.folder;
const selected = Number(rows.dataset.selected);
const MOST = 500;

function text(name, value) {
  const span = document.createElement("span");
  span.className = name;
  span.textContent = value;
  return span;
}

function time(at) {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

function createRow(row) {
  const link = document.createElement("a");
  link.href = `${folder}requests/${Number(row.id)}`;
  const status = row.status === null ? "" : String(Number(row.status));
  link.append(
    text("method", row.method ?? "–"),
    text("path", row.path ?? "connection"),
    text(`status s${status.slice(0, 1)}`, status || "…"),
    text("ms", row.ms === null ? "" : `${Number(row.ms)} ms`),
    text("at", time(row.at)),
  );
  if (row.id === selected) link.setAttribute("aria-current", "page");
  const item = document.createElement("li");
  item.id = `r${Number(row.id)}`;
  if (row.replay_of !== null) item.className = "replay";
  item.append(link);
  return item;
}

function show(row) {
  const item = createRow(row);
  const before = document.getElementById(item.id);
  const hasFocus = before?.contains(document.activeElement);
  if (before) before.replaceWith(item);
  else rows.prepend(item);
  if (hasFocus) item.firstChild.focus();
  while (rows.children.length > MOST) rows.lastChild.remove();
  empty.hidden = true;
  applyFilter(item);
  if (row.id === selected && row.ms !== null && document.body.dataset.open) offerReload();
}

function clear() {
  rows.replaceChildren();
  empty.hidden = false;
}

function offerReload() {
  delete document.body.dataset.open;
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "This request has ended: show it again.";
  const line = document.createElement("p");
  line.setAttribute("role", "status");
  line.append(link);
  document.getElementById("detail").prepend(line);
}

function applyFilter(item) {
  const wanted = filter.value.trim().toLowerCase();
  item.hidden = wanted !== "" && !item.textContent.toLowerCase().includes(wanted);
}

function follow() {
  const source = new EventSource(`${folder}events`);
  source.addEventListener("open", () => { state.textContent = "live"; });
  source.addEventListener("error", () => { state.textContent = "te has ended"; });
  source.addEventListener("row", (event) => show(JSON.parse(event.data)));
  source.addEventListener("clear", clear);
}

// The keys j and k move between requests, / goes to the filter.
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea")) return;
  if (event.key === "/") {
    event.preventDefault();
    filter.focus();
    return;
  }
  if (event.key !== "j" && event.key !== "k") return;
  const links = [...rows.querySelectorAll("li:not([hidden]) a")];
  const focused = links.indexOf(document.activeElement);
  const current = focused >= 0 ? focused : links.findIndex((link) => link.hasAttribute("aria-current"));
  links[Math.min(Math.max(current + (event.key === "j" ? 1 : -1), 0), links.length - 1)]?.focus();
}

function restoreScroll() {
  const nav = rows.parentElement;
  nav.scrollTop = Number(sessionStorage.getItem("scroll"));
  addEventListener("pagehide", () => sessionStorage.setItem("scroll", String(nav.scrollTop)));
}

if (document.querySelector(`#r${selected} .ms`)?.textContent === "") document.body.dataset.open = "yes";
filter.hidden = false;
filter.addEventListener("input", () => [...rows.children].forEach(applyFilter));
document.addEventListener("keydown", onKey);
restoreScroll();
follow();
