// Which gateways are wanted: a standing that was chosen in the summary line, and words that were typed.
// Every word must be found somewhere in a gateway or its resource.

const FIELDS = ["namespace", "kind", "name", "pod", "ref", "commit", "reason", "message", "stage"];
const found = new WeakMap();

export class Wanted {
  standing = "";
  #words = [];

  get text() {
    return this.#words.join(" ");
  }

  set text(typed) {
    this.#words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  }

  get anything() {
    return !this.standing && !this.#words.length;
  }

  /** The gateways of one resource that are wanted; null: not even the resource. */
  of(group) {
    if (this.anything) return group.gateways;
    const kept = group.gateways.filter((one) => this.#takes(group.resource, one));
    if (kept.length) return kept;
    // A resource in trouble of its own counts as failed, with or without gateways.
    const own = group.own && (!this.standing || this.standing === "failed") && this.#reads(haystack(group.resource));
    return own ? [] : null;
  }

  #takes(resource, { gateway, standing }) {
    if (this.standing && standing !== this.standing) return false;
    return this.#reads(haystack(resource) + haystack(gateway));
  }

  #reads(text) {
    return this.#words.every((word) => text.includes(word));
  }
}

/** All text of a value that somebody could search for, made once: values are replaced, never changed. */
function haystack(value) {
  let text = found.get(value);
  if (text === undefined) {
    const people = (value.heldBy ?? []).flatMap((one) => [one.user, one.project]);
    const own = FIELDS.map((field) => value[field]);
    text = `${[...own, ...people].filter(Boolean).join("\n").toLowerCase()}\n`;
    found.set(value, text);
  }
  return text;
}
