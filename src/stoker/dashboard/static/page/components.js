// Small pieces that more than one part of the page is made of.
import { icon, make } from "./dom.js";
import { counted, figure, shortCommit } from "../model/format.js";

/** Shape and word of a standing: never the colour alone. */
export function pill(standing, word, shape = standing) {
  return make("span", { class: "pill", data: { standing } }, icon(shape), make("span", {}, word));
}

/** A button; `press` gets the button itself. `kind` is its class. */
export function button(kind, press, ...children) {
  const on = { click: (event) => press(event.currentTarget) };
  return make("button", { type: "button", class: kind, on }, ...children);
}

/** A button that shows a shape alone, and says what it does to those who do not see it. */
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

/** A commit as people say it; pointing at it tells the whole. */
export function commit(id) {
  return id ? make("code", { title: id }, shortCommit(id)) : "";
}

/** Where a resource is; one that flags describe is none of a cluster's. */
export function placeOf({ kind, namespace }) {
  return kind === "Folder" ? "a folder on this machine" : `${kind} in ${namespace}`;
}

export function list(kind, items) {
  return make("ul", { class: kind }, ...items);
}

/** Pairs of a word and what it is; those without a value are left out. */
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

/** Paths, and how many there are beyond those that are known by name. */
export function paths(items, all) {
  const more = all - items.length;
  const rest = more > 0 ? [make("li", { class: "quiet" }, `and ${counted(more, "more file")}`)] : [];
  return list("paths", [...items, ...rest]);
}
