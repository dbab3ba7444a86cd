// The map answers to pointer and keyboard with the whys of its arrows; below it, answers kept in this browser by confidence.
(() => {
  "use strict";
  const panel = document.getElementById("why");
  const sentences = [...document.querySelectorAll(".arrow-list li")];
  const show = (name) => {
    document.querySelectorAll(".plan").forEach((plan) => {
      plan.classList.toggle("lit", name !== null);
      const near = new Set([name]);
      plan.querySelectorAll(".arrows path").forEach((arrow) => {
        const on = arrow.dataset.start === name || arrow.dataset.end === name;
        arrow.classList.toggle("on", on);
        if (on) near.add(arrow.dataset.start).add(arrow.dataset.end);
      });
      plan.querySelectorAll("a").forEach((node) => node.classList.toggle("on", near.has(node.dataset.lab)));
    });
    const whys = sentences.filter((each) => each.dataset.start === name || each.dataset.end === name);
    const list = document.createElement("ul");
    list.append(...whys.map((each) => {
      const item = document.createElement("li");
      const [own, before] = [...each.querySelectorAll("a")].map((link) => Labs.html("b", "", link.textContent));
      item.append(own, " needs ", before, `: ${each.querySelector("span").textContent}.`);
      return item;
    }));
    panel.replaceChildren(whys.length ? list : Labs.html("p", "note", "It stands by itself: no arrow leads to or from it."));
  };
  document.querySelectorAll(".plan a").forEach((node) => {
    node.addEventListener("focus", () => show(node.dataset.lab));
    node.addEventListener("pointerenter", () => show(node.dataset.lab));
  });

  const answers = Labs.kept();
  document.querySelectorAll("[data-lab-done]").forEach((link) => {
    const done = Object.keys(answers).filter((name) => name.startsWith(`${link.dataset.labDone}/`)).length;
    if (done) link.parentElement.querySelector(".done").textContent = ` · ${done} of ${link.dataset.asks} answered`;
  });
  const rated = Object.values(answers).filter((each) => each.sure !== null && each.right !== null);
  const body = document.querySelector("#calibration tbody");
  [1, 2, 3, 4, 5].forEach((sure) => {
    const own = rated.filter((each) => each.sure === sure);
    const share = own.length ? own.reduce((sum, each) => sum + each.right, 0) / own.length : null;
    const row = document.createElement("tr");
    const bar = Labs.html("i", "bar-of");
    bar.style.width = `${100 * (share ?? 0)}%`;
    const cells = [sure, own.length, share === null ? "-" : `${Math.round(100 * share)} %`].map((text) => Labs.html("td", "", String(text)));
    const drawn = Labs.html("td", "wide");
    drawn.append(bar);
    row.append(...cells, drawn);
    body.append(row);
  });
  document.getElementById("calibration").hidden = rated.length === 0;
  document.getElementById("nothing-yet").hidden = rated.length > 0;
  document.getElementById("forget").addEventListener("click", () => {
    Labs.forget();
    location.reload();
  });
})();
