// Cards of the destinations: their last commits, the authors of the changes, and how far behind git is.
import { counts, more, rank, standing } from "../model/destination_status.js";
import { byId, icon, make, put, show } from "../page/dom.js";
import { button, commit, facts, list, paragraph, pill, quiet } from "../page/components.js";
import { asked } from "../actions/confirm_dialog.js";
import { whyNone } from "../actions/buttons.js";
import { give, of } from "../server/actions.js";
import { moment } from "../page/clock.js";
import { counted, figure, listed, span } from "../model/format.js";

/** Commits that a card shows at once; more would push the next destination out of view. */
const RECENT = 3;

export class Destinations {
  #cards = new Map();

  draw(holding) {
    const all = [...holding.destinations.values()].sort((a, b) => rank(a) - rank(b) || a.id.localeCompare(b.id));
    show(byId("destinations"), all.length > 0);
    show(byId("to-destinations"), all.length > 0);
    put(byId("destinations-sum"), holding.resources.size ? more(counts(all)) : "");
    const nodes = all.map((one) => this.#card(one));
    for (const id of this.#cards.keys()) if (!holding.destinations.has(id)) this.#cards.delete(id);
    const place = byId("destination-cards");
    const same = nodes.length === place.children.length && nodes.every((node, index) => place.children[index] === node);
    if (!same) keepFocus(place, () => place.replaceChildren(...nodes));
  }

  #card(destination) {
    const old = this.#cards.get(destination.id);
    const [, word] = standing(destination);
    if (old?.destination === destination && old.word === word) return old.node;
    const node = card(destination, old?.node.querySelector("details")?.open ?? false);
    this.#cards.set(destination.id, { destination, word, node });
    return node;
  }
}

/** Keeps the focus of a keyboard user who reads older commits when the card is rebuilt or moved. */
function keepFocus(place, redraw) {
  const id = place.contains(document.activeElement) ? document.activeElement.closest("article").dataset.id : null;
  redraw();
  if (id === null) return;
  [...place.children].find((node) => node.dataset.id === id)?.querySelector("summary")?.focus();
}

function card(one, open) {
  const [state, word, sentence, then] = standing(one);
  return make("article", { class: "card destination", data: { id: one.id, standing: state } },
    make("h3", {}, pill(state, word), one.name, quiet(`in ${one.namespace}`)),
    make("p", { class: "lead" }, sentence),
    then ? make("p", { class: "quiet" }, then) : "",
    held(one),
    troubles(one.troubles, "failed"),
    troubles(one.warnings, "drifted"),
    facts([
      ["Not in git yet", waiting(one)],
      ["Last commit", one.commit ? make("span", {}, commit(one.commit), " ", moment(one.committedAt)) : "none yet"],
      ["Lag", one.lagSeconds === null || one.pending ? "" : `${lag(one.lagSeconds)} from the last change to its push`],
      ["Changes by", one.recent.length ? listed(one.authors, 4) || "unknown" : ""],
      ["Repository", one.repo],
      ["Branch", one.branch],
      ["Folder", one.folder && `${one.folder}/`],
    ]),
    recent(one, open));
}

/** Deletions that wait for approval, with the first paths and a button that approves exactly these. */
function held(one) {
  if (!one.held) return "";
  const { count, paths } = one.held;
  const rest = count - paths.length;
  const names = [...paths, ...(rest > 0 ? [`${figure(rest)} more`] : [])].map((path) => make("li", {}, path));
  const acts = one.may.includes("approve")
    ? button("main", (pressed) => approveDeletions(pressed, one), icon("step"), "Approve deletions…")
    : make("p", { class: "quiet" }, whyNone({ ...one, kind: "GitDestination" }));
  return make("div", { class: "held" },
    make("details", {}, make("summary", {}, `${counted(count, "file")} would be deleted`), list("per-gateway", names)),
    acts);
}

async function approveDeletions(pressed, one) {
  const sure = await asked({
    title: `Delete ${counted(one.held.count, "file")} from git?`,
    confirm: "Delete them",
    shape: "step",
    body: [paragraph(`Their objects are deleted. Files are removed from ${one.folder}/ on ${one.branch}; ` +
      "git history keeps them. If the list changes before the commit, nothing is deleted.")],
  });
  if (sure) await give(pressed, of({ ...one, kind: "GitDestination" }, "approve", { digest: one.held.digest }));
}

/** Problems that keep objects from git, or warnings. */
function troubles(sentences, standing) {
  if (!sentences.length) return "";
  const item = (text) => make("li", { data: { standing } }, icon(standing), make("span", {}, text));
  return list("troubles", sentences.map(item));
}

/** The number of pending changes, and how long the oldest has waited. */
function waiting({ pending, pendingSince }) {
  if (!pending) return "";
  const long = pendingSince ? [", the oldest has waited for ", moment(pendingSince, "lasted")] : [];
  return make("span", {}, counted(pending, "change"), ...long);
}

function lag(seconds) {
  return seconds < 1 ? "less than 1 s" : span(seconds);
}

function recent(one, open) {
  if (!one.recent.length) return "";
  const older = one.recent.slice(RECENT);
  const rest = older.length ? make("details", { open },
    make("summary", {}, counted(older.length, "older commit")), commits(older, `Older commits to ${one.name}`)) : "";
  return make("div", { class: "written" }, commits(one.recent.slice(0, RECENT), `Last commits to ${one.name}`), rest);
}

function commits(all, name) {
  const entries = all.map(({ commit: id, subject, author, at }) => make("li", {},
    commit(id), make("span", { class: "subject" }, subject), quiet(author ? `${author} ` : "", moment(at))));
  return make("ol", { class: "recent", "aria-label": name }, ...entries);
}
