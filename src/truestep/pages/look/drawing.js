// Draws one figure as SVG from its JSON (figure.py says what that holds): axes, lines, marks; and finds the point at a pointer.
const Drawing = (() => {
  "use strict";
  const SIZE = 12, GAP = 8, TOP = 10, RIGHT = 14, BOTTOM = 46; // pixels: of text, between text and drawing, of the margins
  const DASHES = {
    dash: [3, 2], dot: [1, 1.6], dashdot: [3, 1.5, 1, 1.5], longdash: [6, 2], longdashdot: [6, 1.5, 1, 1.5],
  }; // in widths of the line
  const STAR = Array.from({ length: 10 }, (_, k) => {
    const reach = k % 2 ? 0.5 : 1.25, turn = (k * Math.PI) / 5;
    return [reach * Math.sin(turn), -reach * Math.cos(turn)];
  });
  const SHAPES = {
    "square": [[[-0.87, -0.87], [0.87, -0.87], [0.87, 0.87], [-0.87, 0.87]]],
    "diamond": [[[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]]],
    "triangle-up": [[[0, -1.1], [1.1, 0.85], [-1.1, 0.85]]],
    "cross": [[[-0.36, -1.1], [0.36, -1.1], [0.36, -0.36], [1.1, -0.36], [1.1, 0.36], [0.36, 0.36],
      [0.36, 1.1], [-0.36, 1.1], [-0.36, 0.36], [-1.1, 0.36], [-1.1, -0.36], [-0.36, -0.36]]],
    "x": [[[-0.6, -1.05], [0, -0.45], [0.6, -1.05], [1.05, -0.6], [0.45, 0], [1.05, 0.6],
      [0.6, 1.05], [0, 0.45], [-0.6, 1.05], [-1.05, 0.6], [-0.45, 0], [-1.05, -0.6]]],
    "star": [STAR],
    "x-thin-open": [[[-0.7, -0.7], [0.7, 0.7]], [[-0.7, 0.7], [0.7, -0.7]]],
    "line-ns-open": [[[0, -1], [0, 1]]],
    "triangle-right-open": [[[1.1, 0], [-0.8, 1.05], [-0.8, -1.05]]],
    "triangle-left-open": [[[-1.1, 0], [0.8, 1.05], [0.8, -1.05]]],
  }; // corners in units of half the size; two corners are a stroke

  const tenth = (value) => Math.round(value * 10) / 10;
  const each = (value, index) => (Array.isArray(value) ? value[index] : value);
  const measure = document.createElement("canvas").getContext("2d");
  measure.font = `${SIZE}px ${getComputedStyle(document.body).fontFamily}`;
  const widthOf = (text) => measure.measureText(text).width;

  const add = (parent, tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text !== undefined) made.textContent = text; // never markup: names are a user's
    return parent.appendChild(made);
  };

  // Four significant digits, thousands apart; a percentage where the axis is one.
  const words = (axis, value) => {
    if (axis.percent) return `${Math.round(100 * value)} %`;
    if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e15)) return value.toExponential(3);
    const digits = Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value) || 1)));
    return value.toLocaleString("en-US", { maximumFractionDigits: digits });
  };

  // Ticks at 1, 2 or 5 times a power of ten, at most `most` of them.
  const steps = (low, high, most) => {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((times) => times * power >= rough) * power;
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    return Array.from({ length: count }, (_, k) => {
      const value = (first + k) * step;
      return { value, text: value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }) };
    });
  };

  // The range of an axis that declares none: its values with air around them.
  const around = (values) => {
    const finite = values.filter((value) => value !== null);
    const low = finite.reduce((a, b) => Math.min(a, b), Infinity), high = finite.reduce((a, b) => Math.max(a, b), -Infinity);
    if (low > high) return [0, 1];
    const air = 0.05 * (high - low || Math.abs(high) || 1);
    return [low - air, high + air];
  };

  // Where an axis puts values once it lies between two pixels, and its ticks.
  const axis = (spec, range, most) => {
    const into = spec.type === "log" ? Math.log10 : Number;
    const [low, high] = range;
    const inside = (tick) => into(tick.value) >= Math.min(low, high) && into(tick.value) <= Math.max(low, high);
    const declared = spec.tickvals?.map((value, k) => ({ value, text: spec.ticktext?.[k] ?? words(spec, value) }));
    return {
      spec, range,
      ticks: (declared ?? steps(low, high, most)).filter(inside),
      lay(from, to) {
        this.from = from;
        this.to = to;
        this.at = (value) => tenth(from + ((to - from) * (into(value) - low)) / (high - low));
        this.of = (pixel) => low + ((pixel - from) / (to - from)) * (high - low);
        return this;
      },
    };
  };

  const axes = ({ data, layout }, { width, height, zoom }) => {
    const on = (name) => data.filter((trace) => (trace.yaxis ?? "y") === name).flatMap((trace) => trace.y);
    const ends = (layout.shapes ?? []).filter((line) => !line.yref).flatMap((line) => [line.y0, line.y1]);
    const y = axis(layout.yaxis, layout.yaxis.range ?? around([...on("y"), ...ends]), Math.max(3, Math.round(height / 45)));
    const below = layout.yaxis2 && axis(layout.yaxis2, layout.yaxis2.range, 1);
    const labels = [...y.ticks, ...(below?.ticks ?? [])].map((tick) => widthOf(tick.text));
    const left = Math.ceil(Math.max(0, ...labels)) + GAP, bottom = height - BOTTOM;
    const range = zoom ?? layout.xaxis.range ?? around(data.flatMap((trace) => trace.x));
    const x = axis(layout.xaxis, range, Math.max(2, Math.min(8, Math.floor((width - left) / 70)))).lay(left, width - RIGHT);
    [y, below].filter(Boolean).forEach((one) => {
      const [low, high] = one.spec.domain ?? [0, 1];
      one.lay(bottom - low * (bottom - TOP), bottom - high * (bottom - TOP));
    });
    return { x, y, y2: below, bottom };
  };

  const frame = (svg, { x, y, y2, bottom }, width, height) => {
    const grid = add(svg, "g", { class: "grid" }), text = add(svg, "g", { class: "ticks" });
    x.ticks.forEach((tick) => {
      const at = x.at(tick.value), half = widthOf(tick.text) / 2;
      add(grid, "path", { d: `M${at} ${TOP}V${bottom}` });
      const place = Math.min(Math.max(at, half), width - half);
      add(text, "text", { "x": place, "y": bottom + GAP + SIZE, "text-anchor": "middle" }, tick.text);
    });
    [y, y2].filter(Boolean).forEach((one) => one.ticks.forEach((tick) => {
      const at = one.at(tick.value);
      if (one.spec.showgrid !== false) add(grid, "path", { d: `M${x.from} ${at}H${x.to}` });
      add(text, "text", { "x": x.from - GAP, "y": at + 0.35 * SIZE, "text-anchor": "end" }, tick.text);
    }));
    const middle = (x.from + x.to) / 2;
    add(text, "text", { "x": middle, "y": height - 6, "text-anchor": "middle", "class": "title" }, x.spec.title);
  };

  const rules = (svg, lines, { x, y, bottom }) => lines.forEach((line) => {
    const [left, right] = line.xref ? [x.from, x.to] : [x.at(line.x0), x.at(line.x1)];
    const [low, high] = line.yref ? [bottom, TOP] : [y.at(line.y0), y.at(line.y1)];
    stroke(svg, `M${left} ${low}L${right} ${high}`, line.line, "rule");
  });

  const stroke = (parent, d, { color, width, dash }, name) => {
    const pattern = DASHES[dash]?.map((part) => tenth(part * Math.max(1.5, width))).join(" ");
    const style = `fill:none;stroke:${color};stroke-width:${width};stroke-linejoin:round`;
    add(parent, "path", { d, style, class: name, ...(pattern && { "stroke-dasharray": pattern }) });
  };

  // A line through the points, or steps that hold a value until the next; a gap where either is null.
  const course = (points, steps) => {
    let open = false;
    return points.map((point) => {
      const command = !point ? "" : !open ? `M${point[0]} ${point[1]}` : steps ? `H${point[0]}V${point[1]}` : `L${point[0]} ${point[1]}`;
      open = Boolean(point);
      return command;
    }).join("");
  };

  const outline = (symbol, [x, y], half) => {
    if (symbol === "circle") return `M${tenth(x - half)} ${y}a${half} ${half} 0 1 0 ${2 * half} 0a${half} ${half} 0 1 0 ${-2 * half} 0z`;
    const corner = ([right, down]) => `${tenth(x + right * half)} ${tenth(y + down * half)}`;
    return SHAPES[symbol].map((part) => `M${part.map(corner).join("L")}${part.length > 2 ? "z" : ""}`).join("");
  };

  const marks = (parent, points, { color, symbol, size, line, maxdisplayed }) => {
    const every = maxdisplayed ? Math.ceil(points.length / maxdisplayed) : 1;
    const drawn = { filled: "", open: "" };
    let width = 0;
    points.forEach((point, k) => {
      if (!point || k % every || !each(size, k)) return;
      const name = each(symbol, k);
      drawn[name.endsWith("-open") ? "open" : "filled"] += outline(name, point, each(size, k) / 2);
      width = Math.max(width, each(line?.width, k) ?? 0);
    });
    if (drawn.filled) add(parent, "path", { d: drawn.filled, class: "mark", style: `fill:${color}` });
    if (drawn.open) stroke(parent, drawn.open, { color, width }, "mark");
  };

  const bars = (parent, trace, points, x) => {
    const { array, arrayminus, color, thickness, width } = trace.error_x;
    const d = points.map((point, k) => {
      if (!point) return "";
      const [low, high] = [trace.x[k] - arrayminus[k], trace.x[k] + array[k]].map(x.at);
      const cap = (at) => (width ? `M${at} ${point[1] - width}v${2 * width}` : "");
      return `M${low} ${point[1]}H${high}${cap(low)}${cap(high)}`;
    }).join("");
    stroke(parent, d, { color, width: thickness }, "spread");
  };

  // One trace; returns the points that have words.
  const trace = (svg, one, found, clip) => {
    const y = one.yaxis === "y2" ? found.y2 : found.y;
    const points = one.x.map((value, k) => (value === null || one.y[k] === null ? null : [found.x.at(value), y.at(one.y[k])]));
    const group = add(svg, "g", { "class": "trace", "data-slot": one.slot, "clip-path": `url(#${clip})`, "opacity": one.opacity ?? 1 });
    if (one.error_x) bars(group, one, points, found.x);
    if (one.mode.includes("lines")) stroke(group, course(points, one.line.shape === "hv"), one.line, "line");
    if (one.mode.includes("markers")) marks(group, points, one.marker);
    if (!one.hover) return [];
    return points.flatMap((at, k) => (at ? [{ at, color: (one.marker ?? one.line).color, words: () => said(one, k, found.x.spec, y.spec) }] : []));
  };

  const said = (one, k, x, y) => {
    const values = { name: one.name, text: one.text?.[k], x: words(x, one.x[k]), y: words(y, one.y[k]) };
    return one.hover.replace(/\{(\w+)\}/g, (_, name) => values[name]);
  };

  let clips = 0;

  // Draws `spec` into `holder` at this size in pixels, without the candidates in `hidden`, from one end of `zoom` to the other
  // where it is not null; returns what a pointer can ask for.
  const draw = (holder, spec, { width, height, hidden, zoom }) => {
    const found = axes(spec, { width, height, zoom });
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    Object.entries({ width, height, "viewBox": `0 0 ${width} ${height}`, "aria-hidden": true }).forEach(([name, value]) => svg.setAttribute(name, value));
    const clip = `clip-${clips++}`, { from, to } = found.x;
    const edge = zoom ? 0 : 7; // half a mark may stand over the ends
    add(add(svg, "clipPath", { id: clip }), "rect", { x: from - edge, y: 0, width: to - from + 2 * edge, height: found.bottom + 7 });
    frame(svg, found, width, height);
    rules(svg, spec.layout.shapes ?? [], found);
    const points = spec.data.filter((one) => !hidden.has(one.slot)).flatMap((one) => trace(svg, one, found, clip));
    holder.querySelector("svg")?.remove();
    holder.append(svg);
    const near = (x, y) => {
      const far = ({ at }) => Math.hypot(at[0] - x, at[1] - y);
      return points.reduce((best, point) => (far(point) < (best ? far(best) : 24) ? point : best), null);
    };
    return { svg, near, x: found.x, bottom: found.bottom };
  };

  return { draw };
})();
