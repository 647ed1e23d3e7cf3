"use strict";
// Makes or uses a passkey, and sends it with the form. What asks for one is a form, or a button
// within one, with data-webauthn ("create" or "get") and the options in data-options. It is hidden
// until here, and data-webauthn-none says why. The rest of each page works without this.
(() => {
  const parsers = { create: "parseCreationOptionsFromJSON", get: "parseRequestOptionsFromJSON" };

  function ready(asks) {
    const kind = asks.dataset.webauthn;
    const form = asks.closest("form");
    const field = form.elements.credential;
    const said = form.querySelector("[data-webauthn-refused]");
    let asking = false;

    async function ask() {
      asking = true;
      said.textContent = "";
      try {
        const publicKey = PublicKeyCredential[parsers[kind]](JSON.parse(asks.dataset.options));
        field.value = JSON.stringify(await navigator.credentials[kind]({ publicKey }));
        form.submit();
      } catch {
        said.textContent = said.dataset.webauthnRefused;
      }
      asking = false;
    }

    asks.hidden = false;
    form.addEventListener("submit", (event) => {
      if (asks === form || asks === event.submitter) {
        event.preventDefault();
        asking || ask();
      }
    });
    addEventListener("pageshow", () => { field.value = ""; }); // the browser brought the page back
  }

  if (window.PublicKeyCredential?.parseRequestOptionsFromJSON) {
    document.querySelectorAll("[data-webauthn]").forEach(ready);
    document.querySelectorAll("[data-webauthn-none]").forEach((none) => none.remove());
  }
})();
