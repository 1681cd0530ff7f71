// Holds the view of the server, and calls `draw` once per frame with what changed.
// A hundred changes a second become at most sixty draws, and each draws only what changed.
import { judged } from "./gateway_status.js";
import { setServerTime } from "../page/clock.js";

const UNSEEN = 500;
const NO_STOP = { active: false, since: null, may: false };

export class Holding {
  mode = "";
  you = { name: "" };
  stop = NO_STOP;
  /** The result of `judged` for each resource, by id. */
  resources = new Map();
  destinations = new Map();
  /** The kinds that the server can no longer read. */
  unseen = [];
  #draw;
  #waiting = null;

  /** `draw` receives { whole, ids, destinations, stop }. */
  constructor(draw) {
    this.#draw = draw;
  }

  forget() {
    const nothing = { resources: [], destinations: [], unseen: [] };
    this.takePicture({ mode: "", at: "", you: { name: "" }, stop: NO_STOP, ...nothing });
  }

  takePicture(picture) {
    this.mode = picture.mode;
    this.you = picture.you;
    this.stop = picture.stop;
    this.unseen = picture.unseen;
    setServerTime(picture.at);
    this.resources = new Map(picture.resources.map((one) => [one.id, judged(one)]));
    this.destinations = new Map(picture.destinations.map((one) => [one.id, one]));
    this.#soon((news) => { news.whole = news.destinations = news.stop = true; });
  }

  takeChange(change) {
    for (const one of change.resources) this.resources.set(one.id, judged(one));
    for (const id of change.gone) this.resources.delete(id);
    for (const one of change.destinations) this.destinations.set(one.id, one);
    for (const id of change.goneDestinations) this.destinations.delete(id);
    if (change.stop) this.stop = change.stop;
    this.#soon((news) => {
      for (const one of change.resources) news.ids.add(one.id);
      for (const id of change.gone) news.ids.add(id);
      if (change.destinations.length || change.goneDestinations.length) news.destinations = true;
      if (change.stop) news.stop = true;
    });
  }

  /** Whether this visitor may perform any action. */
  get mayAct() {
    if (this.stop.may) return true;
    for (const { resource } of this.resources.values()) if (resource.may.length) return true;
    return false;
  }

  #soon(note) {
    if (!this.#waiting) {
      this.#waiting = { whole: false, ids: new Set(), destinations: false, stop: false };
      // A hidden page gets no animation frames, but its title must still show the current state.
      if (document.hidden) setTimeout(() => this.#flush(), UNSEEN);
      else requestAnimationFrame(() => this.#flush());
    }
    note(this.#waiting);
  }

  #flush() {
    const news = this.#waiting;
    this.#waiting = null;
    this.#draw(news);
  }
}
