"use strict";
// What the operators' pages add with a script: the live tail, buttons to copy, and the
// reader's local time. Nothing else depends on it.
(() => {
  const rowsMax = 200;
  const announceEvery = 10000; // milliseconds

  function addLocalTimes(within) {
    const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) {
        time.title = `${time.title} – ${format.format(at)}`;
      }
    }
  }

  function showCopyButtons() {
    for (const button of document.querySelectorAll("[data-copy]")) {
      if (!navigator.clipboard) {
        continue;
      }
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.previousElementSibling.textContent);
        button.textContent = "Copied";
      });
    }
  }

  function lookAgain() {
    if (document.querySelector("[data-working]") && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
      setTimeout(() => location.reload(), 3000);
    }
  }

  function follow(table) {
    const template = document.querySelector("template[data-row]");
    const status = document.querySelector("[data-live]");
    const body = table.tBodies[0];
    const section = table.parentElement;
    let source = null;
    let last = "";
    let fresh = 0;
    let told = 0;

    function say(text) {
      status.hidden = false;
      status.textContent = text;
    }

    function add(event) {
      const row = template.content.firstElementChild.cloneNode(true);
      const put = (name, text) => { row.querySelector(`[data-put=${name}]`).textContent = text; };
      row.dataset.event = event.id;
      row.querySelector(".kind").classList.add(`kind-${event.kind}`);
      put("type", event.type);
      put("resource", event.resource);
      put("source", event.source);
      put("when", "just now");
      const link = row.querySelector("a");
      link.setAttribute("href", link.getAttribute("href").replace("EVENT", encodeURIComponent(event.id)));
      const time = row.querySelector("time");
      time.dateTime = new Date(event.createdAt * 1000).toISOString();
      time.title = time.dateTime;
      addLocalTimes(row);
      body.prepend(row);
      while (body.rows.length > rowsMax) {
        body.lastElementChild.remove();
      }
      table.hidden = false;
      fresh += 1;
      if (Date.now() - told > announceEvery) {
        say(`Live – ${fresh} new ${fresh === 1 ? "event" : "events"}`);
        told = Date.now();
        fresh = 0;
      }
    }

    function start() {
      if (source) {
        return;
      }
      let address = table.dataset.tail;
      if (last) {
        address = address.replace(/after=[^&]*/, `after=${last}`);
      }
      source = new EventSource(address);
      source.onopen = () => say("Live");
      source.onmessage = (message) => {
        last = message.lastEventId;
        add(JSON.parse(message.data));
      };
      source.addEventListener("end", () => stop("Paused"));
      source.onerror = () => {
        if (source && source.readyState === EventSource.CLOSED) {
          stop("Paused");
        }
      };
    }

    function stop(text) {
      if (source) {
        source.close();
        source = null;
      }
      say(text);
    }

    function judge() {
      if (scrollY > 200 || section.contains(document.activeElement)) {
        stop("Paused");
      } else {
        start();
      }
    }

    addEventListener("scroll", judge, { passive: true });
    section.addEventListener("focusin", judge);
    section.addEventListener("focusout", () => setTimeout(judge, 0));
    addEventListener("pagehide", () => stop("Paused"));
    start();
  }

  addLocalTimes(document);
  showCopyButtons();
  lookAgain();
  const table = document.querySelector("table[data-tail]");
  if (table && typeof EventSource === "function") {
    follow(table);
  }
})();
