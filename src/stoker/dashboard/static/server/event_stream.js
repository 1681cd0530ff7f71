// Hears of changes as they happen, and knows when it no longer does.
//
// EventSource comes back by itself from most breaks. Three it does not: an answer that is no stream (it gives up),
// a connection that died without a word (it waits for ever), and a phone that slept. For those the session is asked,
// and the stream opened anew; the server says `alive` every 15 s, so silence means that nobody is there. `bye` leads
// to the sign-in page unless a new session is there already, as behind a proxy that renews its token.
//
// A browser has six connections to a server, and a stream holds one of them for all tabs: a tab that nobody sees
// lets go of it and asks now and then instead. Else six tabs would leave no way for the emergency stop.
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

  /** At once, whatever the next attempt was planned for. */
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

  /** The session is over: once it is asked for another one, and not again where that is over at once as well. */
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

  /** Without a stream: the title of a tab that nobody sees still tells how things stand, and its session stays. */
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

  /** What is silent for so long is dead, whatever the browser believes of it. */
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
