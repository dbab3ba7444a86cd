// One effective update, stage by stage: every value is looked up in what a real run had after that stage.
(() => {
  "use strict";
  const { html, words, tell } = Labs;
  const { attempts } = Labs.json("table-json");
  const TITLES = {
    zero: () => "Zero", forward: (at) => `Autocast forward, microbatch ${at.microbatch}`, backward: (at) => `Scaled backward, microbatch ${at.microbatch}`,
    unscale: () => "Unscale", check: () => "Check", clip: () => "Clip", step: (at) => (at.completed ? "Step" : "Skip"), "scale update": () => "Scale update", clock: () => "Clock",
  };
  const SAID = {
    zero: () => "No gradient is left from the window before. The scale is fixed until the window ends.",
    forward: (at) => `The products run in ${at.ran_in}, the loss is ${words(at.loss)}. Gradient, scale and weights cannot change: a forward writes none of them.`,
    backward: (at) => (at.gradient.includes("inf")
      ? "Loss × its share × the loss scale, backward. In float16 an element leaves the range: it is infinite, and stays so in the sum."
      : "Loss × its share × the loss scale, backward: the scaled gradient is added to what is there. Weights cannot change before the verdict on the whole window."),
    unscale: (at) => (at.scaled
      ? "Infinity divided by the scale is infinite: nothing can be saved here, and the engine divides nothing."
      : "Once for the whole window: divided by the loss scale, the gradient is in its own units again."),
    check: (at) => (at.completed ? `Every element is finite: the attempt will complete. The norm is ${words(at.norm)}.` : `Not every element is finite: a ${at.reason}. The attempt will be skipped.`),
    clip: (at) => (at.completed ? `In original units: the norm of the gradient is held against the limit, and becomes ${words(at.norm)}.` : "Nothing to clip: the gradient is dropped."),
    step: (at) => (at.completed ? "The optimizer gets this gradient and moves the weights by rate × gradient. One more update is completed." : "No step: weights and optimizer stay as they were. One more attempt is counted, and one more skip; no update."),
    "scale update": (at) => (at.completed ? "Completed in a row often enough: the scale doubles, for the next window." : "A smaller scale can cure this overflow: the scale halves, for the next window."),
    clock: (at) => (at.completed ? "The schedule's clock counts completed updates: it ticks, and the rate moves." : "The schedule's clock counts completed updates: it does not tick."),
  };
  const VALUES = [
    ["gradient", "Gradient", (at) => (at.gradient === null ? "none" : `${words(at.gradient)}${at.scaled ? ", scaled" : ""}`)],
    ["scale", "Loss scale", (at) => words(at.scale)], ["weights", "Weights", (at) => words(at.weights)], ["attempts", "Attempts", (at) => words(at.attempts)],
    ["updates", "Completed", (at) => words(at.updates)], ["skips", "Skipped", (at) => words(at.skips)], ["ticks", "Ticks", (at) => words(at.ticks)], ["rate", "Learning rate", (at) => words(at.rate)],
  ];
  const list = document.getElementById("stages");
  const [back, on] = ["back", "on"].map((name) => document.getElementById(name));
  let place = 0;
  const stages = () => attempts[document.querySelector("[name=attempt]:checked").value];
  const title = (stage) => TITLES[stage.name](stage);

  const show = () => {
    const all = stages(), stage = all[place], before = all[place - 1] ?? stage;
    list.replaceChildren(...all.map((each, k) => {
      const item = document.createElement("li"), button = html("button", "", title(each));
      button.type = "button";
      button.tabIndex = -1; // the two buttons beside it do the same
      if (k === place) item.setAttribute("aria-current", "step");
      if (k < place) item.className = "past";
      button.addEventListener("click", () => go(k));
      item.append(button);
      return item;
    }));
    tell("where", `stage ${place + 1} of ${all.length}`);
    tell("stage-name", title(stage));
    tell("stage-words", SAID[stage.name](stage));
    document.getElementById("values").replaceChildren(...VALUES.map(([name, label, text]) => {
      const part = document.createElement("div"), value = html("dd", "", text(stage));
      const changed = text(stage) !== text(before);
      value.dataset.name = name;
      value.dataset.value = JSON.stringify(stage[name]);
      part.classList.toggle("changed", changed);
      part.append(html("dt", "", label), value);
      if (changed) part.append(html("dd", "was", `was ${text(before)}`));
      return part;
    }));
    back.setAttribute("aria-disabled", String(place === 0));
    on.setAttribute("aria-disabled", String(place === all.length - 1));
  };
  const go = (k) => {
    place = Math.min(stages().length - 1, Math.max(0, k));
    show();
  };
  back.addEventListener("click", () => go(place - 1));
  on.addEventListener("click", () => go(place + 1));
  document.querySelectorAll("[name=attempt]").forEach((each) => each.addEventListener("input", show));
  show();
})();
