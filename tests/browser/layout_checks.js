// Looks the page over as it stands and returns what is wrong with it, in sentences.
({ contrast, smallest, stop }) => {
  const wrong = [];
  const modal = document.querySelector("dialog:modal");
  const root = modal ?? document.body;
  const seen = (node) => {
    if (!node.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })) return false;
    const box = node.getBoundingClientRect();
    return box.width > 1 && box.height > 1 && box.bottom > 0 && box.top < innerHeight && !node.closest("[inert], .unseen, .old");
  };
  const told = (node) => `${node.tagName.toLowerCase()} "${(node.textContent || node.id).trim().slice(0, 40)}"`;

  if (document.documentElement.scrollWidth > innerWidth) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const node of root.querySelectorAll("*")) {
    const box = node.getBoundingClientRect();
    if (seen(node) && box.right > innerWidth + 1 && !node.closest("svg, .unseen")) wrong.push(`${told(node)} hangs over the edge`);
  }

  for (const node of root.querySelectorAll("a[href], button, input, summary")) {
    if (!seen(node)) continue;
    const name = node.getAttribute("aria-label") || node.textContent.trim() || [...(node.labels ?? [])].map((one) => one.textContent.trim()).join();
    if (!name) wrong.push(`${told(node)} ${node.id} has no name`);
    const line = node.matches("a.open") ? node.closest("tr") : (node.type === "radio" && node.labels[0]) || node;
    const box = line.getBoundingClientRect();
    const inText = node.matches("a:not(.open)");
    if (!inText && (box.height < smallest || box.width < smallest)) wrong.push(`${told(node)} is ${Math.round(box.width)} by ${Math.round(box.height)}`);
  }

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const ground = (node) => {
    if (!node) return rgba(getComputedStyle(document.documentElement).getPropertyValue("--ground")).slice(0, 3);
    const style = getComputedStyle(node);
    const image = style.backgroundImage.match(/linear-gradient\((rgb\([^)]+\))/);
    const own = rgba(image ? image[1] : style.backgroundColor);
    return own[3] === 1 ? own.slice(0, 3) : over(own, ground(node.parentElement));
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((one) => (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  for (const node of root.querySelectorAll("*")) {
    const text = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.data.trim());
    if (!text || !seen(node) || node.closest(".none, svg")) continue;
    const behind = ground(node);
    const [one, other] = [light(over(rgba(getComputedStyle(node).color), behind)), light(behind)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < contrast) wrong.push(`${told(node)} has a contrast of ${ratio.toFixed(2)}`);
  }

  const sign = document.querySelector("#stop-place > *");
  if (stop) {
    const box = sign?.getBoundingClientRect();
    const hit = box && document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    if (!hit || !sign.contains(hit)) wrong.push("the emergency stop cannot be seen or reached");
  }
  return wrong;
}
