// Sets the colours that somebody chose before anything is painted: a module would come after the first flash.
// The only script that is not a module. It must do nothing else.
try {
  const chosen = localStorage.getItem("stoker-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing for us shows the device's own colours.
}
