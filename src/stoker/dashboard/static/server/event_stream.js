// Receives changes by server-sent events, and detects when the stream has failed.
//
// EventSource reconnects after most failures on its own. It does not in three cases: a response that is no
// event stream (it gives up), a connection that died silently (it waits for ever), and a phone that was asleep.
// Then this module asks for the session and opens the stream again. The server sends `alive` every 15 s, so
// silence means a dead connection. `bye` leads to the sign-in form, unless there already is a new session, as
// behind a proxy that renews its token.
//
// A browser opens six connections to a server for all tabs together, and each stream holds one. A hidden tab
// therefore closes its stream and polls instead; otherwise six tabs would block the emergency stop.
import * as talking from "./api.js";

const LOOK_EVERY = 10_000;
const UNSEEN = 5_000;
const ASK_EVERY = 60_000;
const QUIET = 45_000;
const LONGEST = 15_000;

export class Listening {
  #told;
  #source = null;
  #heard = 0;
  #tries = 0;
  #timer = 0;
  #resting = 0;
  #bye = -Infinity;
  #link = "";
  #begun = false;

  /** `told` has picture, change, session, bye and link("connecting" | "live" | "resting" | "lost"). */
  constructor(told) {
    this.#told = told;
    setInterval(() => this.#lookAfter(), LOOK_EVERY);
    window.addEventListener("offline", () => this.#lost());
    window.addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => this.#seenOrNot());
  }

  start() {
    this.#say("connecting");
    this.#begun = true;
    this.#open();
  }

  stop() {
    this.#begun = false;
    this.#close();
  }

  /** Reconnects at once, whenever the next attempt was due. */
  retry() {
    if (!this.#begun) return;
    this.#tries = 0;
    this.#again(0);
  }

  #close() {
    clearTimeout(this.#timer);
    clearTimeout(this.#resting);
    this.#source?.close();
    this.#source = null;
  }

  #open() {
    this.#close();
    if (document.hidden) {
      this.#rest();
      return;
    }
    this.#heard = performance.now();
    const source = new EventSource("api/events");
    this.#source = source;
    const hear = (name, take) => source.addEventListener(name, (event) => {
      if (source !== this.#source) return;
      this.#heard = performance.now();
      this.#tries = 0;
      this.#say("live");
      take(event.data ? JSON.parse(event.data) : null);
    });
    hear("picture", this.#told.picture);
    hear("change", this.#told.change);
    hear("alive", () => {});
    hear("bye", () => this.#ended());
    source.addEventListener("error", () => {
      if (source !== this.#source) return;
      this.#say("lost");
      if (source.readyState === EventSource.CLOSED) this.#again();
    });
  }

  #lost() {
    if (!this.#begun) return;
    this.#source?.close();
    this.#say("lost");
    this.#again();
  }

  /** The session has ended: asks for a new session once, but not again if that ends at once as well. */
  #ended() {
    const again = performance.now() - this.#bye < LOOK_EVERY;
    this.#bye = performance.now();
    this.#close();
    if (again) this.#told.bye();
    else this.#reopen();
  }

  #seenOrNot() {
    clearTimeout(this.#resting);
    if (!this.#begun) return;
    if (document.hidden) this.#resting = setTimeout(() => this.#rest(), UNSEEN);
    else if (this.#source) this.#lookAfter();
    else this.#open();
  }

  /** Polls without a stream: a hidden tab keeps its title current and its session alive. */
  async #rest() {
    this.#close();
    this.#say("resting");
    this.#resting = setTimeout(() => this.#rest(), ASK_EVERY);
    try {
      const picture = await talking.picture();
      if (!this.#begun || this.#source) return;
      this.#told.picture(picture);
      this.#say("live");
      this.#say("resting");
    } catch (trouble) {
      if (trouble.status === 401 && this.#begun && !this.#source) this.#ended();
    }
  }

  #again(after = Math.min(LONGEST, 1000 * 2 ** this.#tries++) * (0.7 + 0.6 * Math.random())) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#reopen(), after);
  }

  async #reopen() {
    try {
      const session = await talking.session(8);
      if (!this.#begun) return;
      if (!session.signedIn) {
        this.stop();
        this.#told.bye();
        return;
      }
      this.#told.session(session);
      this.#open();
    } catch {
      this.#say("lost");
      this.#again();
    }
  }

  /** Reconnects a stream that was silent for too long, even if the browser considers it open. */
  #lookAfter() {
    const silent = performance.now() - this.#heard;
    if (!this.#source || this.#source.readyState === EventSource.CLOSED || silent < QUIET) return;
    this.#source.close();
    this.#say("lost");
    this.retry();
  }

  #say(link) {
    if (link === this.#link) return;
    this.#link = link;
    this.#told.link(link);
  }
}
