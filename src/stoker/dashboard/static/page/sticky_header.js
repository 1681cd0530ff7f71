// Measures the sticky header, so that the table's header and the side panel start below it.
// Its height depends on the width of the window and on the banners shown.
import { byId } from "./dom.js";

export function startFraming() {
  const bar = document.querySelector(".bar");
  const banners = byId("banners");
  const measure = () => {
    const stays = getComputedStyle(banners).position === "sticky" ? banners.offsetHeight : 0;
    const root = document.documentElement.style;
    root.setProperty("--bar", `${bar.offsetHeight}px`);
    root.setProperty("--top", `${bar.offsetHeight + stays}px`);
  };
  const watching = new ResizeObserver(measure);
  watching.observe(bar);
  watching.observe(banners);
}
