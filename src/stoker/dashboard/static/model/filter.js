// Filters gateways by the status that was chosen in the summary and by the search words.
// Every word must occur in the gateway or its resource.

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

  /** The matching gateways of a resource; null if the resource does not match either. */
  of(group) {
    if (this.anything) return group.gateways;
    const kept = group.gateways.filter((one) => this.#takes(group.resource, one));
    if (kept.length) return kept;
    // A resource with a problem of its own counts as failed, with or without gateways.
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

/** The searchable text of a value, computed once: values are replaced, never modified. */
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
