// Creates elements. Text from outside only ever becomes a text node: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with properties and children; strings become text.
 * `on` holds listeners, `data` data attributes; all others are attributes, and null values are omitted.
 */
export function make(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  const { on = {}, data = {}, ...attributes } = given;
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : value);
  }
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  Object.assign(node.dataset, data);
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

/** An icon of the page's own set, hidden from screen readers, which read the word beside it. */
export function icon(name, kind = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", `icon ${kind}`.trim());
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** Writes a text only if it differs, because every write makes the browser compute the layout again. */
export function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function show(node, shown) {
  if (node.hidden === shown) node.hidden = !shown;
}

export function byId(id) {
  return document.getElementById(id);
}
