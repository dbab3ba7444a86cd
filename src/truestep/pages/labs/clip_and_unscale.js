// The order of clip and unscale, for gradients from short to long: every stage is looked up in what was run.
(() => {
  "use strict";
  const { svg, words, tell } = Labs;
  const { factors, settings } = Labs.json("table-json");
  const [setting, factor, swap] = ["setting", "factor", "swap"].map((name) => document.getElementById(name));
  const NAMES = { unscale: "unscale", clip: "clip" };
  setting.append(...settings.map((each, k) => new Option(`${each.row}: gradient ${words(each.gradient)}, scale ${each.scale}, limit ${each.limit}`, String(k))));
  factor.max = String(factors.length - 1);
  factor.value = String((factors.length - 1) / 2);
  let first = "unscale";
  const other = (name) => (name === "unscale" ? "clip" : "unscale");
  const now = () => ({ own: settings[Number(setting.value)], at: Number(factor.value) });

  const draw = Labs.drawing("norms", 300, (paper, width, height) => {
    const { own, at } = now();
    const stages = (name) => [own.cases[at].true, ...own.cases[at][name]];
    const all = own.cases.flatMap((each) => [...each.unscale, ...each.clip, each.true]).map((stage) => Math.log10(stage.norm));
    const [low, high] = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all))];
    const left = 56, right = width - 16, top = 30, bottom = height - 40;
    const x = (k) => left + 30 + k * (right - left - 60) / 3;
    const y = (norm) => bottom - (Math.log10(norm) - low) / (high - low) * (bottom - top);
    for (let level = low; level <= high; level += Math.ceil((high - low) / 8)) {
      paper.append(svg("line", { x1: left, x2: right, y1: y(10 ** level), y2: y(10 ** level), class: "grid" }), svg("text", { x: left - 8, y: y(10 ** level) + 4, class: "end" }, words(10 ** level)));
    }
    paper.append(svg("line", { x1: left, x2: right, y1: y(own.limit), y2: y(own.limit), class: "limit" }), svg("text", { x: right, y: y(own.limit) - 6, class: "end limit-word" }, `limit ${own.limit}`));
    const labels = ["true", "stored", `${NAMES[first]}`, `${NAMES[other(first)]}`];
    labels.forEach((label, k) => paper.append(svg("text", { x: x(k), y: height - 16, class: "middle" }, label)));
    [other(first), first].forEach((name) => {
      const line = stages(name).map((stage, k) => `${k ? "L" : "M"}${x(k)} ${y(stage.norm)}`).join("");
      const mine = name === first;
      paper.append(svg("path", { d: line, class: mine ? "course" : "course faint" }));
      stages(name).forEach((stage, k) => {
        if (mine) paper.append(svg("circle", { cx: x(k), cy: y(stage.norm), r: 5, class: "handle normal" }), svg("text", { x: x(k), y: y(stage.norm) - 11, class: "middle value halo" }, words(stage.norm, 4)));
        else paper.append(svg("rect", { x: x(k) - 4, y: y(stage.norm) - 4, width: 8, height: 8, class: "handle faint" }));
      });
    });
  });

  const show = () => {
    const { own, at } = now();
    const found = own.cases[at];
    const [stored, one, two] = found[first];
    tell("order", `${NAMES[first]}, then ${NAMES[other(first)]}`);
    tell("factor-shown", words(found.true.vector, 4));
    factor.setAttribute("aria-valuetext", `gradient ${words(found.true.vector, 4)}`);
    const short = found.engine.norm / two.norm;
    const times = words(short, 4);
    tell("said", Math.abs(short - 1) < 1e-5
      ? `${words(two.vector, 5)} reaches the optimizer, as it should${first === "clip" ? ": here the limit cuts nothing in either order" : ""}.`
      : `${words(two.vector, 5)} reaches the optimizer: ${times} times too short.`);
    document.getElementById("said").dataset.fate = Math.abs(short - 1) < 1e-5 ? "exact" : "overflow";
    const stage = (each) => `${words(each.vector, 5)}, norm ${words(each.norm, 5)}`;
    tell("true", stage(found.true), found.true.norm);
    tell("stored", stage(stored), stored.norm);
    tell("first-name", `After ${NAMES[first]}`);
    tell("first", stage(one), one.norm);
    tell("second-name", `After ${NAMES[other(first)]}`);
    tell("second", stage(two), two.norm);
    tell("engine", stage(found.engine), found.engine.norm);
    draw();
  };
  swap.addEventListener("click", () => {
    first = other(first);
    show();
  });
  [setting, factor].forEach((control) => control.addEventListener("input", show));
  show();
})();
