// Measures what stays at the top of the page, so that the head of the table and the side view begin below it.
// How high it is depends on the width, and on what has to be said there.
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
