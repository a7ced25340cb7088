// Fetches the content of a page again while it is looked at; without scripts a page stays as it is.
"use strict";
const main = document.querySelector("main[data-refresh]");
const showEnd = () => {
  const text = main && "end" in main.dataset && main.querySelector("pre");
  if (text) text.scrollTop = text.scrollHeight;
};
showEnd();
if (main) {
  setInterval(async () => {
    const busy = main.contains(document.activeElement) || String(getSelection());
    if (document.hidden || busy) return;
    try {
      const answer = await fetch(location.href, { redirect: "error" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const content = fresh.querySelector("main");
      if (content) main.replaceChildren(...content.childNodes);
      showEnd();
    } catch { /* the next try may succeed */ }
  }, 1000 * Number(main.dataset.refresh));
}
