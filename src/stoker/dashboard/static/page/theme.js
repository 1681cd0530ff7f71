// Dark or light theme: that of the device, or the user's choice. `theme_before_paint.js` applies the choice
// before the first paint.
import { byId } from "./dom.js";

const KEY = "stoker-theme";

export function startTheming() {
  const chosen = document.documentElement.dataset.theme ?? "auto";
  byId("themes").querySelector(`input[value=${chosen}]`).checked = true;
  byId("themes").addEventListener("change", (event) => choose(event.target.value));
}

function choose(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "auto") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Without storage, the choice lasts until the page is closed.
  }
}
