"use strict";
// Keeps a form from being sent twice while the next page loads. After some seconds it may be
// sent again: a browser may ask before it opens an application, and the person may say no.
// The pages work without it.
(() => {
  const pause = 3000; // milliseconds

  for (const form of document.forms) {
    const release = () => form.removeAttribute("data-sent");
    form.addEventListener("submit", (event) => {
      if (form.hasAttribute("data-sent")) {
        event.preventDefault();
        return;
      }
      form.setAttribute("data-sent", "");
      setTimeout(release, pause);
    });
    addEventListener("pageshow", release); // the browser brought the page back
  }
})();
