// A resource in the table: its own row, with its gateways below it. Synced gateways are collapsed if they
// would hide the rest, and a long list grows on request: the page never has more rows than a user can read.
import { STANDINGS, waitsForApproval } from "../model/gateway_status.js";
import { icon, make, put, show } from "../page/dom.js";
import { button, placeOf } from "../page/components.js";
import { sentenceOf } from "../model/reason_text.js";
import { routeTo } from "../page/route.js";
import { Row, setStanding } from "./gateway_row.js";
import { moment, setMoment } from "../page/clock.js";
import { counted, figure, shortCommit } from "../model/format.js";

const FEW = 6;
const MOST = 100;
const NO_GATEWAYS = "No gateway uses this resource yet: add annotation stoker.io/cr-name to a pod.";

export class Group {
  #rows = new Map();
  #unfolded = false;
  #limit = MOST;
  #group = null;
  #view = null;

  constructor(resource) {
    this.#build(resource);
  }

  #build(resource) {
    this.word = make("span");
    this.state = make("span", { class: "pill" }, icon("step"), this.word);
    this.open = make("a", { class: "open", href: routeTo(resource) }, resource.name);
    this.place = make("span", { class: "quiet place" }, placeOf(resource));
    this.marks = make("span", { class: "marks" });
    this.delivers = make("span", { class: "delivers" });
    this.tally = make("span", { class: "quiet counts" });
    this.time = moment(null);
    this.synced = make("span", {}, "synced ");
    this.message = make("span", { class: "message" });
    this.fold = button("fold", () => this.#toggle(), icon("down"), make("span"));
    const age = make("span", { class: "quiet age" }, this.synced, this.time);
    const head = make("th", { role: "rowheader", scope: "rowgroup", colspan: "8", class: "resource" },
      make("span", { class: "state" }, this.state), make("span", { class: "title" }, this.open, this.place),
      this.marks, this.delivers, this.tally, age, this.fold, this.message);
    this.more = button("more", () => this.#grow());
    this.head = make("tr", { role: "row", class: "head" }, head);
    this.foot = make("tr", { role: "row", class: "foot" }, make("td", { role: "cell", colspan: "8" }, this.more));
    this.node = make("tbody", { role: "rowgroup", data: { id: resource.id } }, this.head, this.foot);
  }

  /** Draws the group; returns the number of matching gateways, or -1 if the group is hidden. */
  update(group, wanted, view) {
    this.#group = group;
    this.#view = { wanted, ...view };
    const kept = wanted.of(group);
    show(this.node, kept !== null);
    if (kept === null) return -1;
    this.#drawHead(group);
    this.#drawRows(group, kept);
    return kept.length;
  }

  #toggle() {
    this.#unfolded = !this.#unfolded;
    this.#again();
  }

  #grow() {
    this.#limit += MOST * 5;
    const last = this.foot.previousElementSibling;
    this.#again();
    // The button may be gone now; the focus must not jump to the top of the page.
    if (this.foot.hidden) last.nextElementSibling.querySelector("a").focus();
  }

  #again() {
    this.update(this.#group, this.#view.wanted, this.#view);
  }

  #drawHead(group) {
    const { resource } = group;
    setStanding(this.state, group.worst);
    put(this.word, group.word);
    const what = `${resource.ref} ${shortCommit(resource.commit)}`.trim();
    put(this.delivers, what && `${resource.rollback ? "instead of" : "delivers"} ${what}`);
    this.delivers.title = resource.commit;
    put(this.tally, countsOf(group));
    setMoment(this.time, resource.lastSync);
    put(this.synced, resource.lastSync ? "synced " : "never synced");
    put(this.message, messageOf(group));
    this.message.classList.toggle("quiet", !group.own);
    this.#drawMarks(resource);
  }

  #drawMarks(resource) {
    const marks = marksOf(resource);
    const key = marks.map((one) => one.join()).join();
    if (this.marks.dataset.key === key) return;
    this.marks.dataset.key = key;
    this.marks.replaceChildren(...marks.map(([shape, word]) => make("span", { class: "mark" }, icon(shape), word)));
  }

  #drawRows(group, kept) {
    const chosen = this.#chosen(kept);
    const shown = chosen.slice(0, this.#limit);
    const keys = new Set(shown.map((one) => one.key));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.node.remove();
      this.#rows.delete(key);
    }
    let before = this.head.nextElementSibling;
    for (const one of shown) {
      const row = this.#rows.get(one.key) ?? this.#newRow(group.resource, one);
      row.update(one);
      if (row.node === before) before = before.nextElementSibling;
      else place(this.node, row.node, before);
    }
    this.#drawFold(kept);
    this.#drawMore(chosen.length - shown.length);
  }

  /** Problems always; synced gateways if expanded, searched for, or if there is room. */
  #chosen(kept) {
    const few = this.#group.worst !== "step" && kept.length <= FEW;
    this.folds = this.#view.wanted.anything && !this.#view.roomy && !few && kept.some((one) => !troubled(one));
    return this.folds && !this.#unfolded ? kept.filter(troubled) : kept;
  }

  #drawFold(kept) {
    show(this.fold, this.folds);
    if (!this.folds) return;
    const folded = kept.length - kept.filter(troubled).length;
    this.fold.setAttribute("aria-expanded", String(this.#unfolded));
    const all = folded === kept.length;
    const what = all ? "gateways" : `${figure(folded)} in sync`;
    put(this.fold.lastChild, `${this.#unfolded ? "Hide" : "Show"} ${what}`);
  }

  #drawMore(left) {
    show(this.foot, left > 0);
    if (left) put(this.more, `Show ${figure(Math.min(left, MOST * 5))} more of ${counted(left, "gateway")}`);
  }

  #newRow(resource, one) {
    const row = new Row(resource, one);
    this.#rows.set(one.key, row);
    return row;
  }
}

/** Moves a node; it keeps its focus if the browser supports moveBefore. */
export function place(parent, node, before) {
  if (node.parentNode === parent && parent.moveBefore) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}

function troubled({ standing }) {
  return standing !== "step";
}

/** `5 gateways`, or the counts by status if they differ. */
function countsOf({ gateways, counts }) {
  if (!gateways.length) return "no gateways";
  const told = STANDINGS.filter(({ key }) => counts[key]);
  if (told.length === 1) return `${counted(gateways.length, "gateway")} ${told[0].many}`;
  return told.map(({ key, many }) => `${figure(counts[key])} ${many}`).join(", ");
}

/** The message in a resource's row; without gateways, only this row can explain why. */
function messageOf({ resource, own, gateways }) {
  if (!own && gateways.length) return "";
  if (!own && resource.ready === "True") return NO_GATEWAYS;
  return resource.message || sentenceOf(resource.reason);
}

function backWord({ state, toSnapshot, toCommit }) {
  const where = toSnapshot ? "a snapshot" : shortCommit(toCommit ?? "");
  if (state === "Succeeded") return `Rolled back to ${where}`;
  return state === "Failed" ? `Rollback to ${where} failed` : `Rolling back to ${where}`;
}

function marksOf(resource) {
  const marks = [];
  if (resource.paused) marks.push(["paused", "Paused"]);
  if (resource.rollback) marks.push(["back", backWord(resource.rollback)]);
  if (waitsForApproval(resource)) marks.push(["hand", "Waiting for approval"]);
  if (resource.release?.stage) marks.push(["branch", `Stage ${resource.release.stage}`]);
  return marks;
}
