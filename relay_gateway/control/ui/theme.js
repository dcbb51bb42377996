// Before the first paint, so that no page flashes in the wrong colours.
(() => {
  const chosen = localStorage.getItem("relay-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
