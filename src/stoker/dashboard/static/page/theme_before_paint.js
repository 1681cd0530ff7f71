// Applies the chosen theme before the first paint: a module would run too late and the page would flash.
// This is the only script that is not a module. It must do nothing else.
try {
  const chosen = localStorage.getItem("stoker-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Without storage, the page uses the theme of the device.
}
