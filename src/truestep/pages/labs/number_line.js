// A gradient and a loss scale on the line of a format: what is stored and what comes back is looked up in the engine's table.
(() => {
  "use strict";
  const { svg, words, power, tell } = Labs;
  const { gradients, values, scales, formats } = Labs.json("table-json");
  const [format, gradient, scale] = ["format", "gradient", "scale"].map((name) => document.getElementById(name));
  const NAMES = { fp16: "float16", bf16: "bfloat16", e4m3fn: "fp8 e4m3", e5m2: "fp8 e5m2" };
  const LOW = -44, HIGH = 44;
  const FATES = {
    zero: "Underflows: 0 is stored, and nothing comes back.",
    subnormal: "Subnormal: stored below the smallest normal number, with fewer bits.",
    rounded: "Normal: rounded to the nearest number of the format.",
    exact: "Normal: stored exactly.",
    overflow: "Overflows: beyond the largest number, so the attempt is skipped.",
    saturated: "Beyond the largest number, which is stored in its place: torch's cast saturates here, and nobody is told.",
  };
  const REGIONS = [["zero", "zero"], ["subnormal", "subnormal"], ["normal", "normal"], ["overflow", "overflow"]];
  format.append(...formats.map((each, k) => new Option(NAMES[each.name] ?? each.name, String(k))));
  gradient.max = String(gradients.length - 1);
  [scale.min, scale.max] = scales.map(String);
  gradient.value = String(gradients.indexOf("1e-8"));
  scale.value = "16";

  const now = () => {
    const chosen = formats[Number(format.value)];
    const [row, exponent] = [Number(gradient.value), Number(scale.value)];
    const at = (name) => chosen[name][row][exponent - scales[0]];
    // Times or through a power of two: exact, so nothing is rounded here.
    const stored = at("stored");
    return {
      chosen, exponent, value: values[row], text: gradients[row], scaled: values[row] * 2 ** exponent, stored, fate: at("fate"),
      below: at("below"), above: at("above"), error: at("error"), back: stored === null ? null : stored / 2 ** exponent,
    };
  };
  const log = Math.log2;
  // Regions differ in pattern as in colour.
  const hatches = () => {
    const all = svg("defs");
    [["zero", 45], ["subnormal", 0], ["overflow", -45]].forEach(([name, turned]) => {
      const hatch = svg("pattern", { id: `hatch-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${turned})` });
      const sign = turned ? svg("rect", { width: 1.5, height: 6, class: `line-${name}` }) : svg("circle", { cx: 3, cy: 3, r: 1, class: `line-${name}` });
      hatch.append(svg("rect", { width: 6, height: 6, class: `fill-${name}` }), sign);
      all.append(hatch);
    });
    return all;
  };
  const inside = (exponent) => Math.min(HIGH, Math.max(LOW, exponent));
  let place = null;

  const drawLine = Labs.drawing("line", 226, (paper, width) => {
    const { chosen, value, scaled, stored, exponent, fate, back } = now();
    const left = 44, right = width - 44;
    const x = (at) => left + (inside(at) - LOW) / (HIGH - LOW) * (right - left);
    place = (pixels) => LOW + (pixels - left) / (right - left) * (HIGH - LOW);
    const edges = [LOW, log(chosen.smallest) - 1, log(chosen.smallest_normal), log(chosen.largest), HIGH].map(inside);
    paper.append(hatches());
    const labels = [];
    REGIONS.forEach(([name, label], k) => {
      const [from, to] = [x(edges[k]), x(edges[k + 1])];
      if (to - from < 1) return;
      paper.append(svg("rect", { x: from, y: 84, width: to - from, height: 64, class: "fill-normal", ...(name === "normal" ? {} : { fill: `url(#hatch-${name})`, class: "" }) }));
      if (to - from > 7.2 * label.length) labels.push(svg("text", { x: (from + to) / 2, y: 79, class: "middle halo" }, label));
    });
    paper.append(svg("rect", { x: 4, y: 84, width: 30, height: 64, fill: "url(#hatch-zero)" }), svg("text", { x: 19, y: 166, class: "middle" }, "0"));
    paper.append(svg("rect", { x: width - 34, y: 84, width: 30, height: 64, fill: "url(#hatch-overflow)" }), svg("text", { x: width - 19, y: 166, class: "middle" }, "∞"));
    const apart = width < 500 ? 16 : 8;
    for (let tick = -40; tick <= 40; tick += apart) {
      paper.append(svg("line", { x1: x(tick), x2: x(tick), y1: 148, y2: 153, class: "tick" }), svg("text", { x: x(tick), y: 166, class: "middle" }, power(tick)));
    }
    const kept = stored === null ? width - 19 : stored === 0 ? 19 : x(log(stored));
    const [start, wanted] = [x(log(value)), x(log(scaled))];
    const home = back === null ? width - 19 : back === 0 ? 19 : x(log(back));
    paper.append(svg("path", { d: `M${start} 40V62H${wanted}V96`, class: "way" }));
    paper.append(svg("path", { d: `M${wanted} 116H${kept}`, class: "way bad" }));
    paper.append(svg("path", { d: `M${kept} 128V188H${home}V200`, class: "way" }));
    paper.append(svg("text", { x: (start + wanted) / 2, y: 57, class: "middle" }, exponent ? `× ${power(exponent)}` : ""));
    paper.append(...labels);
    paper.append(svg("line", { x1: start, x2: start, y1: 40, y2: 210, class: "thread" }));
    paper.append(svg("circle", { cx: start, cy: 30, r: 10, class: "handle open" }), svg("text", { x: start + (start > width / 2 ? -16 : 16), y: 34, class: start > width / 2 ? "end" : "" }, "gradient"));
    paper.append(svg("rect", { x: wanted - 9, y: 97, width: 18, height: 18, class: "handle open" }));
    paper.append(svg("circle", { cx: kept, cy: 126, r: 7, class: `handle ${fate}` }));
    paper.append(svg("circle", { cx: home, cy: 206, r: 7, class: `handle ${fate}` }), svg("text", { x: home + (home > width / 2 ? -13 : 13), y: 210, class: home > width / 2 ? "end" : "" }, stored === null ? "nothing comes back" : "comes back"));
  });

  const drawLoupe = Labs.drawing("loupe", 104, (paper, width) => {
    const { stored, scaled, below, above, fate } = now();
    const middle = width / 2, y = 52;
    if (stored === null) {
      paper.append(svg("text", { x: middle, y, class: "middle" }, "No finite number of this format is near."));
      return;
    }
    const spacing = 2 ** Math.max(below ?? -Infinity, above ?? -Infinity);
    const reach = Math.min(width * 0.36, 330);
    const x = (number) => middle + (number - stored) / spacing * reach;
    paper.append(svg("line", { x1: 8, x2: width - 8, y1: y, y2: y, class: "tick" }));
    const marks = [stored];
    if (below !== null) marks.push(stored - 2 ** below);
    if (above !== null) marks.push(stored + 2 ** above);
    marks.forEach((number) => {
      const own = number === stored;
      paper.append(svg("line", { x1: x(number), x2: x(number), y1: y - 12, y2: y + 12, class: own ? "mark own" : "mark" }));
      paper.append(svg("text", { x: x(number), y: y + 30, class: "middle" }, words(number, width < 500 ? 3 : 6)));
    });
    paper.append(svg("circle", { cx: x(stored), cy: y, r: 7, class: `handle ${fate}` }), svg("text", { x: x(stored), y: y + 47, class: "middle" }, "stored"));
    paper.append(svg("rect", { x: x(scaled) - 6, y: y - 26, width: 12, height: 12, class: "handle open" }), svg("line", { x1: x(scaled), x2: x(scaled), y1: y - 14, y2: y, class: "way" }), svg("text", { x: x(scaled), y: y - 32, class: "middle" }, "gradient × scale"));
  });

  const show = () => {
    const { chosen, text, exponent, value, scaled, stored, fate, back, error } = now();
    tell("gradient-shown", text.replace("-", "−"));
    tell("scale-shown", `${power(exponent)} = ${words(2 ** exponent)}`);
    gradient.setAttribute("aria-valuetext", text);
    scale.setAttribute("aria-valuetext", `2 to the power of ${exponent}`);
    tell("fate", FATES[fate]);
    document.getElementById("fate").dataset.fate = fate;
    tell("true", words(value, 8), value);
    tell("scaled", words(scaled, 8), scaled);
    tell("stored", stored === null ? "no finite number" : words(stored, 8), stored);
    tell("back", back === null ? "nothing: the attempt is skipped" : words(back, 8), back);
    tell("error", error === null ? "-" : error === 0 ? "none" : `${words(100 * error, 3)} %`, error);
    tell("source", `${NAMES[chosen.name] ?? chosen.name}, ${chosen.source}`);
    drawLine();
    drawLoupe();
  };

  // Dragging moves whichever handle the pointer took: the gradient above the line, the scale on it.
  const line = document.getElementById("line");
  let held = null;
  const move = (event) => {
    const at = place(event.clientX - line.getBoundingClientRect().left);
    const { value } = now();
    if (held === "gradient") {
      const distance = (k) => Math.abs(log(values[k]) - at);
      gradient.value = String(values.reduce((best, _, k) => (distance(k) < distance(best) ? k : best), 0));
    } else scale.value = String(Math.round(at - log(value)));
    show();
  };
  line.addEventListener("pointerdown", (event) => {
    held = event.clientY - line.getBoundingClientRect().top < 64 ? "gradient" : "scale";
    line.setPointerCapture(event.pointerId);
    event.preventDefault();
    move(event);
  });
  line.addEventListener("pointermove", (event) => { if (held !== null) move(event); });
  ["pointerup", "pointercancel"].forEach((kind) => line.addEventListener(kind, () => { held = null; }));

  [format, gradient, scale].forEach((control) => control.addEventListener("input", show));
  show();
})();
