"use strict";
// On the page for testers the list of requests is fetched again and again. The rest of the page
// stays, with what was typed there.
(() => {
  const refreshEvery = 2000; // milliseconds
  const part = document.querySelector("[data-refresh]");

  setInterval(async () => {
    if (document.hidden || part.contains(document.activeElement)) {
      return;
    }
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
    if (!answer?.ok) {
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("[data-refresh]");
    if (fresh) {
      part.replaceChildren(...fresh.childNodes);
    }
  }, refreshEvery);
})();
