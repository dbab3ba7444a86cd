// The loss scale from attempt to attempt, with and without update(): each attempt's outcome is looked up in what was run.
(() => {
  "use strict";
  const { svg, html, words, power, tell } = Labs;
  const { sizes, exponents: [first, last], start, attempts, cells } = Labs.json("table-json");
  const chosen = Array(attempts).fill(0);
  chosen.fill(1, 3); // from the fourth on they are large
  const holder = document.getElementById("attempts");
  const walk = (moves) => {
    let [exponent, count] = [start, 0];
    return chosen.map((size) => {
      const found = cells[sizes[size].name][exponent - first][moves ? count : 0];
      const here = { size, exponent, count: moves ? count : 0, completed: found.completed };
      if (moves) ({ exponent, count } = found);
      return here;
    });
  };
  const moves = () => document.querySelector("[name=update]:checked").value === "yes";

  const draw = Labs.drawing("walk", 280, (paper, width, height) => {
    const left = 44, right = width - 12, top = 16, bottom = height - 36;
    const x = (k) => left + (k + 0.5) / attempts * (right - left);
    const y = (exponent) => bottom - (exponent - first) / (last - first) * (bottom - top);
    for (let exponent = first; exponent <= last; exponent += 4) paper.append(svg("line", { x1: left, x2: right, y1: y(exponent), y2: y(exponent), class: "grid" }), svg("text", { x: left - 8, y: y(exponent) + 4, class: "end" }, power(exponent)));
    chosen.forEach((_, k) => { if (width > 600 || k % 3 === 0) paper.append(svg("text", { x: x(k), y: height - 14, class: "middle" }, String(k + 1))); });
    [!moves(), moves()].forEach((kind, layer) => {
      const own = layer === 1, found = walk(kind), half = (x(1) - x(0)) / 2;
      const line = found.map(({ exponent }, k) => `${k ? "L" : "M"}${x(k) - half} ${y(exponent)}L${x(k) + half} ${y(exponent)}`).join("");
      paper.append(svg("path", { d: line, class: own ? "course" : "course faint" }));
      found.forEach(({ exponent, completed }, k) => {
        const [cx, cy] = [x(k), y(exponent)];
        if (!own && completed) paper.append(svg("rect", { x: cx - 3, y: cy - 3, width: 6, height: 6, class: "handle faint" }));
        else if (completed) paper.append(svg("circle", { cx, cy, r: 5, class: "handle normal" }));
        else paper.append(svg("path", { d: `M${cx - 6} ${cy - 6}L${cx + 6} ${cy + 6}M${cx - 6} ${cy + 6}L${cx + 6} ${cy - 6}`, class: own ? "cross" : "cross faint" }));
      });
    });
  });

  const show = () => {
    const found = walk(moves());
    const skipped = found.filter((each) => !each.completed).length;
    const other = walk(!moves()).filter((each) => !each.completed).length;
    const end = found[attempts - 1].exponent;
    tell("said", `${skipped} of ${attempts} attempts skipped ${moves() ? "with" : "without"} update(), ${other} ${moves() ? "without" : "with"}. At the last attempt the scale is ${power(end)} = ${words(2 ** end)}.`);
    document.getElementById("said").dataset.value = String(skipped);
    holder.querySelectorAll("button").forEach((button, k) => {
      const size = sizes[chosen[k]];
      button.dataset.size = String(chosen[k]);
      button.querySelector("b").textContent = size.name;
      button.setAttribute("aria-label", `attempt ${k + 1}: ${size.name} gradient, ${words(size.gradient)}`);
    });
    document.querySelector("#rows tbody").replaceChildren(...found.map((each, k) => {
      const row = document.createElement("tr");
      const texts = [k + 1, `${sizes[each.size].name}, ${words(sizes[each.size].gradient)}`, `${power(each.exponent)} = ${words(2 ** each.exponent)}`, each.count, each.completed ? "completed" : "✗ skipped"];
      row.append(...texts.map((text, column) => html(column ? "td" : "th", "", String(text))));
      return row;
    }));
    draw();
  };
  holder.append(...chosen.map((_, k) => {
    const button = html("button");
    button.type = "button";
    button.append(html("span", "", String(k + 1)), html("b"));
    button.addEventListener("click", () => {
      chosen[k] = (chosen[k] + 1) % sizes.length;
      show();
    });
    return button;
  }));
  document.querySelectorAll("[name=update]").forEach((each) => each.addEventListener("input", show));
  show();
})();
