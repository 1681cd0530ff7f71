// Keeps the displayed ages current. All times are relative to the server's clock: a phone with a wrong clock
// must not show a sync of this minute as an hour old.
import { make, put } from "./dom.js";
import { ago, exactly, span, until } from "../model/format.js";

const EVERY = 10_000;
const HOW = { ago, until: (seconds) => until(-seconds), lasted: span };
let skew = 0;

export function setServerTime(at) {
  const read = Date.parse(at);
  if (Number.isFinite(read)) skew = read - Date.now();
}

export function now() {
  return Date.now() + skew;
}

export function secondsSince(moment) {
  return (now() - Date.parse(moment)) / 1000;
}

/** A time as its age, with the exact time as tooltip. */
export function moment(at, how = "ago") {
  const node = make("time", { data: { how } });
  setMoment(node, at);
  return node;
}

export function setMoment(node, at) {
  if (!at) {
    node.removeAttribute("datetime");
    node.removeAttribute("title");
    put(node, "");
    return;
  }
  if (node.getAttribute("datetime") !== at) {
    node.setAttribute("datetime", at);
    node.title = exactly(Date.parse(at));
  }
  put(node, HOW[node.dataset.how](secondsSince(at)));
}

/** Updates all ages; `also` is called each time, because a status may depend on how long it has lasted. */
export function startTicking(also) {
  setInterval(() => {
    also();
    for (const node of document.querySelectorAll("time[datetime]")) {
      put(node, HOW[node.dataset.how](secondsSince(node.getAttribute("datetime"))));
    }
  }, EVERY);
}
