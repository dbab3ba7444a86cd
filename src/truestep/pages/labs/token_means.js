// Token counts and two means: both are looked up in what the engine, and a loop by hand, computed for these counts.
(() => {
  "use strict";
  const { svg, words, tell } = Labs;
  const { losses, counts, means } = Labs.json("table-json");
  const sliders = losses.map((_, k) => document.getElementById(`count-${k}`));
  [100, 10, 20].forEach((count, k) => { sliders[k].value = String(counts.indexOf(count)); });
  const now = () => {
    const size = Number(document.querySelector("[name=size]:checked").value);
    const chosen = sliders.slice(0, size).map((slider) => counts[Number(slider.value)]);
    const [token, mean] = means[chosen.join(",")];
    return { size, chosen, token, mean };
  };

  const bars = (name, widths, level) => Labs.drawing(name, 220, (paper, width, height) => {
    const parts = widths(now());
    const total = parts.reduce((sum, part) => sum + part, 0);
    const left = 34, right = width - 8, bottom = height - 28, top = 16;
    const most = Math.max(...losses.slice(0, parts.length)) + 1;
    const y = (loss) => bottom - loss / most * (bottom - top);
    (most > 6 ? [0, 5, 10] : [0, 2, 4]).forEach((loss) => paper.append(svg("line", { x1: left, x2: right, y1: y(loss), y2: y(loss), class: "grid" }), svg("text", { x: left - 8, y: y(loss) + 4, class: "end" }, String(loss))));
    let x = left;
    parts.forEach((part, k) => {
      const wide = part / total * (right - left);
      paper.append(svg("rect", { x, y: y(losses[k]), width: Math.max(wide - 1, 1), height: bottom - y(losses[k]), class: `bar bar-${k}` }));
      if (wide > 24) paper.append(svg("text", { x: x + wide / 2, y: bottom + 18, class: "middle" }, String(k + 1)));
      x += wide;
    });
    const mean = level(now());
    paper.append(svg("line", { x1: left, x2: right, y1: y(mean), y2: y(mean), class: "level-line" }), svg("text", { x: left + 4, y: y(mean) - 6, class: "value halo" }, words(mean, 5)));
  });
  const draw = [bars("by-token", (at) => at.chosen, (at) => at.token), bars("of-means", (at) => at.chosen.map(() => 1), (at) => at.mean)];

  const show = () => {
    const { size, chosen, token, mean } = now();
    sliders.forEach((slider, k) => {
      slider.closest(".part").hidden = k >= size;
      const count = counts[Number(slider.value)];
      tell(`count-${k}-shown`, `${count} token${count === 1 ? "" : "s"}`);
      slider.setAttribute("aria-valuetext", `${count} tokens`);
    });
    const equal = chosen.every((count) => count === chosen[0]);
    const [most, fewest] = [Math.max(...chosen), Math.min(...chosen)];
    tell("said", equal
      ? "Equal counts: the mean of means is the mean, and the mistake sleeps."
      : `A token of the shortest microbatch counts ${words(most / fewest, 4)} times one of the longest, in the mean of means.`);
    document.getElementById("said").dataset.fate = equal ? "exact" : "overflow";
    tell("token", words(token, 6), token);
    tell("means", words(mean, 6), mean);
    draw.forEach((each) => each());
  };
  document.querySelectorAll(".controls input").forEach((control) => control.addEventListener("input", show));
  show();
})();
