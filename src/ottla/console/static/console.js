// The live parts. All HTML comes from the server, which has escaped it; without this script pages work, but stand still.
"use strict";
(() => {
  const number = new Intl.NumberFormat("en");
  const ROWS_MAX = 300;

  // A part of a page that the server sends again whenever it has changed.
  for (const part of document.querySelectorAll("[data-live]")) {
    const events = new EventSource(part.dataset.live);
    events.addEventListener("html", (event) => {
      if (!part.contains(document.activeElement)) part.innerHTML = JSON.parse(event.data);
    });
    events.addEventListener("failed", () => events.close());
  }

  const prepend = (rows, html, max) => {
    rows.insertAdjacentHTML("afterbegin", html);
    while (rows.rows.length > max) rows.lastElementChild.remove();
  };

  // The newest messages of a topic, until the reader stops them.
  const tail = document.querySelector("[data-tail]");
  if (tail) {
    const button = tail.querySelector("[data-tail-start]");
    const state = tail.querySelector("[data-tail-state]");
    const contains = tail.querySelector("[data-tail-contains]");
    const rows = document.querySelector("[data-rows]");
    let events = null;
    let pending = [];
    let skipped = 0;
    // As often as the browser can: what came in the meantime is drawn at once, and what is too much is only counted.
    const draw = () => {
      if (!events) pending = [];
      if (!pending.length) return;
      const { seen, dropped } = pending.at(-1);
      const html = pending.reverse().map((news) => news.html).join("");
      pending = [];
      if (html.trim()) prepend(rows, html, ROWS_MAX);
      state.textContent = `live · ${number.format(seen)} came · ${number.format(dropped + skipped)} not shown`;
    };
    const stop = () => {
      events.close();
      events = null;
      button.textContent = "Live tail";
    };
    tail.hidden = false;
    button.addEventListener("click", () => {
      if (events) return stop();
      button.textContent = "Stop";
      state.textContent = "waiting for messages…";
      skipped = 0;
      rows.replaceChildren();
      events = new EventSource(`${tail.dataset.tail}?contains=${encodeURIComponent(contains.value)}`);
      events.addEventListener("ready", () => (state.textContent = "live"));
      events.addEventListener("rows", (event) => {
        pending.push(JSON.parse(event.data));
        if (pending.length === 1) requestAnimationFrame(draw);
        const count = () => pending.reduce((sum, news) => sum + news.rows, 0);
        while (pending.length > 1 && (!pending[0].rows || count() > ROWS_MAX)) skipped += pending.shift().rows;
      });
      events.addEventListener("failed", (event) => {
        stop();
        state.textContent = JSON.parse(event.data);
      });
    });
  }

  // The hits of a search as they are found; Cancel ends it on the server too.
  const search = document.querySelector("[data-search]");
  if (search) {
    const state = search.querySelector("[data-state]");
    const cancel = search.querySelector("[data-cancel]");
    const progress = search.querySelector("[data-progress]");
    const rows = search.querySelector("[data-rows]");
    const events = new EventSource(search.dataset.search);
    const text = (news) => `${number.format(news.hits)} hits in ${number.format(news.seen)} of ${number.format(news.total)} records`;
    let last = "";
    const end = (word) => {
      events.close();
      cancel.hidden = true;
      state.textContent = last ? `${word} · ${last}` : word;
    };
    events.addEventListener("rows", (event) => {
      const news = JSON.parse(event.data);
      if (news.html.trim()) rows.insertAdjacentHTML("beforeend", news.html);
      progress.max = news.total || 1;
      progress.value = news.seen;
      last = text(news);
      state.textContent = last;
    });
    events.addEventListener("done", (event) => {
      const news = JSON.parse(event.data);
      last = text(news);
      progress.max = news.total || 1;
      progress.value = news.seen;
      end(news.is_cut ? "the first of more" : "done");
    });
    events.addEventListener("failed", (event) => {
      last = "";
      end(JSON.parse(event.data));
    });
    cancel.addEventListener("click", () => end("cancelled"));
  }

  // "/" goes to the filter of the page.
  document.addEventListener("keydown", (event) => {
    const filter = document.querySelector("[data-filter]");
    const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (event.key === "/" && filter && !isTyping && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      filter.focus();
    }
  });
})();
