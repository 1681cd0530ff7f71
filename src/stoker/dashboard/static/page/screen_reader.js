// Announces important changes to screen readers: one sentence at a time, at most every few seconds,
// because a listener cannot follow a hundred changes a second.
import { byId } from "./dom.js";

const SELDOM = 6000;

export class Announcing {
  #last = "";
  #next = "";
  #timer = 0;

  /** Announces the headline when it changes. */
  verdict({ sentence: now }) {
    if (!this.#last) {
      this.#last = now;
      return;
    }
    if (now !== this.#last) this.#soon(now);
  }

  #soon(text) {
    this.#next = text;
    this.#timer ||= setTimeout(() => this.#speak(), this.#timer === 0 ? 300 : SELDOM);
  }

  #speak() {
    if (this.#next !== this.#last) say(this.#next);
    this.#last = this.#next;
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      if (this.#next !== this.#last) this.#soon(this.#next);
    }, SELDOM);
  }
}

export function say(text) {
  byId("said").textContent = text;
}
