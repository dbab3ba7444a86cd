// Draws the page's figures by plotly in the page's colours; theme button, legend buttons, zoom, print. It asks nothing of the network.
(() => {
  "use strict";
  const root = document.documentElement;
  const fine = matchMedia("(pointer: fine)").matches;
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;

  // A variable of the style sheet, as the colour that it has now.
  const colour = (name) => {
    probe.style.color = name;
    return getComputedStyle(probe).color;
  };

  // A copy of plotly's JSON, which plotly writes to, with every `var(--name)` replaced.
  const coloured = (value) => {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value) : value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value.slice() : value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
  };

  const figures = new Map([...document.querySelectorAll(".drawing")].map((holder) => [holder, {
    holder,
    spec: JSON.parse(document.getElementById(holder.dataset.plot).textContent),
    hidden: new Set(),
    whole: 1, // plotly keeps the stretch that a reader chose for as long as this is the same
  }]));

  const draw = (figure) => {
    const { holder, spec, hidden } = figure;
    const { data, layout } = coloured(spec);
    data.forEach((trace) => { trace.visible = !hidden.has(trace.meta.slot); });
    layout.width = holder.clientWidth;
    if ("printing" in root.dataset) layout.height = Math.round(0.68 * layout.height); // two figures to a page of paper
    layout.font.family = getComputedStyle(document.body).fontFamily;
    layout.uirevision = figure.whole;
    if (!fine) layout.dragmode = false; // a finger scrolls the page
    Plotly.react(holder, data, layout, { displayModeBar: false, displaylogo: false, showTips: false, doubleClick: false });
    figure.button ??= zoom(figure);
    holder.dataset.drawn = "true";
  };

  // A stretch drawn with a mouse fills the drawing; the button below it, or a double click, gives the whole again.
  const zoom = (figure) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "whole", hidden: true });
    button.textContent = "Show the whole again";
    figure.holder.after(button);
    const whole = () => {
      figure.whole += 1;
      button.hidden = true;
      draw(figure);
    };
    button.addEventListener("click", whole);
    figure.holder.on("plotly_doubleclick", whole);
    figure.holder.on("plotly_relayout", (change) => {
      if (Object.keys(change).some((key) => key.includes("range"))) button.hidden = false;
    });
    return button;
  };

  // A figure is drawn once it is less than two screens away, each by itself, so that the page answers in between.
  const near = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
    near.unobserve(target);
    setTimeout(draw, 0, figures.get(target));
  }), { rootMargin: "200% 0px" });
  const drawAnew = () => {
    if (!("Plotly" in window)) return;
    figures.forEach(({ holder }) => {
      delete holder.dataset.drawn;
      near.unobserve(holder);
      near.observe(holder);
    });
  };

  // plotly is in the page as text, since to run it takes a moment: it begins when the words are on the screen, as a blob, which
  // the browser reads beside the page's own work. Paper does not wait, nor does a browser that refuses blobs: there it runs at once.
  const plotly = () => document.getElementById("plotly").textContent;
  const run = (script) => document.head.append(Object.assign(document.createElement("script"), script));
  const atOnce = () => { if (!("Plotly" in window)) run({ textContent: plotly() }); };
  const begin = () => {
    if ("Plotly" in window) return; // the page went to paper first
    const src = URL.createObjectURL(new Blob([plotly()], { type: "text/javascript" }));
    run({ src, onload: drawAnew, onerror: () => { atOnce(); drawAnew(); } });
  };
  if (figures.size) addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(begin)));

  figures.forEach((figure) => {
    figure.holder.closest(".figure").querySelectorAll(".legend button").forEach((button) => {
      button.addEventListener("click", () => {
        const slot = Number(button.dataset.slot);
        const shown = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!shown));
        if (shown) figure.hidden.add(slot); else figure.hidden.delete(slot);
        if ("drawn" in figure.holder.dataset) draw(figure);
      });
    });
  });

  const themes = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
  const button = document.getElementById("theme");
  let theme = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    root.dataset.theme = themes[theme][0];
    button.textContent = `Theme: ${themes[theme][1]}`;
    drawAnew();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAnew);

  // Paper is light and narrower than a screen, and nobody can open what is folded on it.
  const folded = [];
  addEventListener("beforeprint", () => {
    root.dataset.theme = "light";
    root.dataset.printing = "";
    document.querySelectorAll("details[data-print]:not([open])").forEach((part) => {
      part.open = true;
      folded.push(part);
    });
    if (figures.size) atOnce();
    figures.forEach(draw);
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = themes[theme][0];
    delete root.dataset.printing;
    folded.splice(0).forEach((part) => { part.open = false; });
    drawAnew();
  });

  let width = root.clientWidth;
  addEventListener("resize", () => {
    if (root.clientWidth === width || "printing" in root.dataset) return;
    width = root.clientWidth;
    drawAnew();
  });
})();
