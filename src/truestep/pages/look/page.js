// Draws the page's figures in the page's colours; theme button, legend buttons, print. It asks nothing of the network.
(() => {
  "use strict";
  const root = document.documentElement;
  const probe = document.body.appendChild(document.createElement("span"));
  probe.hidden = true;

  // A variable of the style sheet, as the colour that it has now.
  const colour = (name) => {
    probe.style.color = name;
    return getComputedStyle(probe).color;
  };

  // A copy of plotly's JSON with every `var(--name)` replaced; data columns pass through as they are.
  const coloured = (value) => {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value) : value;
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
  };

  const fine = matchMedia("(pointer: fine)").matches;
  const figures = [...document.querySelectorAll(".drawing")].map((holder) => ({
    holder,
    spec: JSON.parse(document.getElementById(holder.dataset.plot).textContent),
    hidden: new Set(),
  }));

  const draw = ({ holder, spec, hidden }) => {
    const { data, layout } = coloured(spec);
    data.forEach((trace) => { trace.visible = !hidden.has(trace.meta?.slot); });
    layout.width = holder.clientWidth;
    layout.font.family = getComputedStyle(document.body).fontFamily;
    if (!fine) layout.dragmode = false; // a finger scrolls the page
    return Plotly.react(holder, data, layout, { displayModeBar: false, displaylogo: false, showTips: false });
  };
  const drawAll = () => Promise.all(figures.map(draw));

  figures.forEach((figure) => {
    figure.holder.closest(".figure").querySelectorAll(".legend button").forEach((button) => {
      button.addEventListener("click", () => {
        const slot = Number(button.dataset.slot);
        const shown = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!shown));
        if (shown) figure.hidden.add(slot); else figure.hidden.delete(slot);
        draw(figure);
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
    drawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());

  // Paper is light and narrower than a screen, and nobody can open what is folded on it.
  const folded = [];
  addEventListener("beforeprint", () => {
    root.dataset.theme = "light";
    root.dataset.printing = "";
    document.querySelectorAll("details[data-print]:not([open])").forEach((part) => {
      part.open = true;
      folded.push(part);
    });
    drawAll();
  });
  addEventListener("afterprint", () => {
    root.dataset.theme = themes[theme][0];
    delete root.dataset.printing;
    folded.splice(0).forEach((part) => { part.open = false; });
    drawAll();
  });

  let width = root.clientWidth;
  addEventListener("resize", () => {
    if (root.clientWidth === width || "printing" in root.dataset) return;
    width = root.clientWidth;
    drawAll();
  });

  drawAll().then(() => { root.dataset.drawn = "true"; });
})();
