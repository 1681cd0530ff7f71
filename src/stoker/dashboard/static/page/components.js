// Small components that several parts of the page use.
import { icon, make } from "./dom.js";
import { counted, figure, shortCommit } from "../model/format.js";

/** The icon and word of a status: never the colour alone. */
export function pill(standing, word, shape = standing) {
  return make("span", { class: "pill", data: { standing } }, icon(shape), make("span", {}, word));
}

/** A button; `press` receives the button itself. `kind` is its class. */
export function button(kind, press, ...children) {
  const on = { click: (event) => press(event.currentTarget) };
  return make("button", { type: "button", class: kind, on }, ...children);
}

/** A button with an icon only, and a label for screen readers. */
export function bareButton(shape, name, press) {
  const made = button("bare", press, icon(shape));
  made.setAttribute("aria-label", name);
  return made;
}

export function quiet(...children) {
  return make("span", { class: "quiet" }, ...children);
}

export function paragraph(...children) {
  return make("p", {}, ...children);
}

export function link(href, text) {
  return make("a", { href }, text);
}

/** A short commit id, with the full id as tooltip. */
export function commit(id) {
  return id ? make("code", { title: id }, shortCommit(id)) : "";
}

/** Where a resource is; a folder given by command-line flags is in no cluster. */
export function placeOf({ kind, namespace }) {
  return kind === "Folder" ? "a folder on this machine" : `${kind} in ${namespace}`;
}

export function list(kind, items) {
  return make("ul", { class: kind }, ...items);
}

/** Pairs of a term and its value; pairs without a value are omitted. */
export function facts(pairs) {
  const told = pairs.filter(([, value]) => value);
  const nodes = told.flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)]);
  return make("dl", { class: "facts" }, ...nodes);
}

/** Sign, number and word: `+12 added`. */
export function diffCounts({ added, modified, deleted }) {
  const parts = [["+", added, "added"], ["~", modified, "changed"], ["−", deleted, "deleted"]];
  return make("p", { class: "diff-counts" }, ...parts.map(([sign, number, word]) => {
    const much = make("b", {}, `${sign}${figure(number)}`);
    return make("span", { class: number ? word : `${word} none` }, much, ` ${word}`);
  }));
}

/** The known paths, and the number of further files. */
export function paths(items, all) {
  const more = all - items.length;
  const rest = more > 0 ? [make("li", { class: "quiet" }, `and ${counted(more, "more file")}`)] : [];
  return list("paths", [...items, ...rest]);
}
