
// The picture of an inspection. It looks up in the record what was counted for each format and scale.
(() => {
  "use strict";
  const source = document.getElementById("picture-json");
  if (source === null) return;
  const { formats, sets, window: [low, high], start } = JSON.parse(source.textContent);
  const record = JSON.parse(document.getElementById("record-json").textContent);
  const rows = [...record.whole, ...record.numbers]; // as the sets are ordered
  const [values, format, scale] = ["values", "format", "scale"].map((name) => document.getElementById(name));
  const place = (exponent) => Math.min(100, Math.max(0, (exponent - low) / (high - low) * 100));

  // As truestep.pages.words.percent writes a share: three significant digits.
  const percent = (share) => {
    const hundredfold = 100 * share;
    if (hundredfold === 0) return "0\u00a0%";
    const [digits, exponent] = hundredfold.toExponential(2).split("e").map(Number);
    if (exponent < -4) return `${digits.toFixed(2)}e-${String(-exponent).padStart(2, "0")}\u00a0%`;
    return `${Number(hundredfold.toPrecision(3))}\u00a0%`;
  };
  const power = (exponent) => {
    const raised = document.createElement("sup");
    raised.textContent = String(exponent).replace("-", "\u2212");
    return ["2", raised];
  };

  const draw = (holder, set, chosen, shift) => {
    const edges = [low, ...[chosen.zero, chosen.normal, chosen.top].map((edge) => Math.min(high, Math.max(low, edge))), high];
    ["zero", "subnormal", "normal", "overflow"].forEach((name, k) => {
      for (const part of holder.querySelectorAll(`.region-${name}, .name-${name}`)) {
        part.style.left = `${place(edges[k])}%`;
        part.style.width = `${place(edges[k + 1]) - place(edges[k])}%`;
      }
    });
    holder.querySelector("svg").setAttribute("viewBox", `${low} 0 ${high - low} 100`);
    holder.querySelector("path").setAttribute("d", set.path ?? "");
    holder.querySelector("path").setAttribute("transform", `translate(${shift} 0)`);
    holder.querySelector(".bin i").style.height = `${set.zero_height}%`;
    const words = holder.querySelector(".plot .absent");
    words.hidden = set.absent === null;
    words.textContent = set.absent ?? "";
  };
  const isScaled = (place) => rows[place].scales !== null;
  // Zero, subnormal, normal, overflow; null of no numbers. What no scale multiplies is as at scale 1.
  const shares = (at, name, exponent) => {
    const { tables, spread: { nonzero } } = rows[at];
    const table = tables[name];
    const column = (isScaled(at) ? exponent : 0) - table.from;
    const [zero, subnormal, overflow] = [table.flushed, table.subnormal, table.overflowed].map((counts) => counts[column]);
    return nonzero === 0 ? null : [zero, subnormal, nonzero - zero - subnormal - overflow, overflow].map((count) => count / nonzero);
  };

  const live = document.getElementById("fate");
  const showFate = (at, chosen, exponent) => {
    const found = shares(at, chosen.name, exponent);
    ["zero", "subnormal", "normal", "overflow"].forEach((name, k) => {
      const shown = live.querySelector(`[data-fate="${name}"]`);
      shown.value = found === null ? "" : String(found[k]);
      shown.textContent = found === null ? "no values" : percent(found[k]);
    });
    document.getElementById("sentence").textContent = `${sets[at].name}, ${isScaled(at) ? `times 2^${exponent}, ` : ""}stored in ${chosen.name}: shares of those that are finite and not zero.`;
  };
  const lossless = document.getElementById("lossless");
  const first = Number(scale.min);
  const last = Number(scale.max);
  const showLossless = (at, chosen) => {
    const exponents = [...Array(last - first + 1).keys()].map((k) => k + first);
    const free = exponents.filter((exponent) => {
      const found = shares(at, chosen.name, exponent);
      return found !== null && found[0] === 0 && found[3] === 0;
    });
    const bar = document.querySelector(".safe i");
    bar.hidden = !isScaled(at) || free.length === 0;
    if (!isScaled(at)) lossless.textContent = "The loss scale does not multiply these.";
    else if (free.length === 0) lossless.textContent = `None of these scales brings all of them into ${chosen.name}.`;
    else {
      const ends = [free[0], free[free.length - 1]].map((exponent) => (exponent - first) / (last - first) * 100);
      bar.style.left = `${ends[0]}%`;
      bar.style.width = `${ends[1] - ends[0]}%`;
      lossless.replaceChildren(`Nothing is lost in ${chosen.name} from `, ...power(free[0]), " to ", ...power(free[free.length - 1]), ", of the scales here.");
    }
  };

  const show = () => {
    const at = Number(values.value);
    const chosen = formats[Number(format.value)];
    const exponent = Number(scale.value);
    const number = (2 ** Math.abs(exponent)).toLocaleString("en");
    document.getElementById("scale-shown").replaceChildren(...power(exponent), ` = ${exponent < 0 ? "1/" : ""}${number}`);
    scale.setAttribute("aria-valuetext", `2 to the power of ${exponent}`);
    scale.disabled = !isScaled(at);
    draw(document.querySelector("#picture .spread"), sets[at], chosen, isScaled(at) ? exponent : 0);
    showFate(at, chosen, exponent);
    showLossless(at, chosen);
    document.querySelectorAll(".small").forEach((small) => {
      const own = Number(small.dataset.set);
      const found = shares(own, chosen.name, exponent);
      draw(small, sets[own], chosen, isScaled(own) ? exponent : 0);
      small.querySelector(".lost").textContent = found === null ? "nothing to lose" : `zero ${percent(found[0])}, overflow ${percent(found[3])}`;
    });
  };

  document.querySelector(".safe b").style.left = `${(start.exponent - first) / (last - first) * 100}%`;
  values.value = String(start.set);
  format.value = String(start.format);
  scale.value = String(start.exponent);
  for (const control of [values, format, scale]) control.addEventListener("input", show);
  document.querySelectorAll("[data-scripted]").forEach((part) => { part.hidden = false; });
  show();
})();
