// Keyboard shortcuts: everything is reachable without a mouse, and common actions by a single key.
import { asked } from "../actions/confirm_dialog.js";
import { byId, make } from "./dom.js";
import { facts } from "./components.js";

const KEYS = [
  ["/", "Search"], ["↓ ↑  or  j k", "Next or previous row"], ["Enter", "Open the details"],
  ["Esc", "Close the details, or clear the search"], ["?", "This list"],
];

const PRESSED = {
  "/": search,
  "?": showKeys,
  ArrowDown: () => step(1),
  j: () => step(1),
  ArrowUp: () => step(-1),
  k: () => step(-1),
};

export function startKeys({ side, clearSearch }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("ask").open || byId("main").hidden) return;
    if (event.key === "Escape") return escape(event, side, clearSearch);
    if (event.target.matches("input, textarea, select")) return searchKeys(event);
    const press = PRESSED[event.key];
    // Arrow keys scroll the page, unless the focus is in the table.
    if (!press || (event.key.startsWith("Arrow") && !event.target.closest("#gateways"))) return undefined;
    event.preventDefault();
    return press();
  });
  byId("show-keys").addEventListener("click", showKeys);
}

function search() {
  byId("search").focus();
  byId("search").select();
}

function searchKeys(event) {
  if (event.target.id !== "search" || event.key !== "ArrowDown") return;
  event.preventDefault();
  step(1);
}

function escape(event, side, clearSearch) {
  const menu = byId("menu");
  if (menu.open && menu.contains(event.target)) {
    menu.open = false;
    menu.querySelector("summary").focus();
  } else if (side.open) side.close();
  else clearSearch();
}

/** Moves the focus to the next row, or from outside the table to its first row. */
function step(by) {
  const all = [...byId("gateways").querySelectorAll("a.open, button.more")];
  const lines = all.filter((node) => node.checkVisibility());
  const at = lines.indexOf(document.activeElement);
  const next = lines[at < 0 ? 0 : Math.min(lines.length - 1, Math.max(0, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

export function showKeys() {
  byId("menu").open = false;
  const body = [facts(KEYS.map(([key, what]) => [make("kbd", {}, key), what]))];
  return asked({ title: "Keyboard shortcuts", confirm: "Close", cancel: "", body });
}
