// Draws the page's figures; theme button, legend buttons, words under the pointer, zoom, print. It asks nothing of the network.
(() => {
  "use strict";
  const root = document.documentElement;
  const figures = [...document.querySelectorAll(".drawing")].map((holder) => ({
    holder,
    spec: JSON.parse(document.getElementById(holder.dataset.plot).textContent),
    hidden: new Set(),
    zoom: null, // the ends of the axis to the right, where a reader chose them
  }));
  const draw = (figure) => { figure.drawn = Drawing.draw(figure.holder, figure.spec, figure); };
  const drawAll = () => {
    figures.forEach((figure) => { figure.width = figure.holder.clientWidth; }); // all at once: a page is laid out but once
    const part = "printing" in root.dataset ? 0.78 : 1; // two figures to a page of paper
    figures.forEach((figure) => { figure.height = Math.round(part * figure.spec.layout.height); });
    if (figures.some((figure) => figure.width < 100)) return; // a window without a size yet: it will be resized
    figures.forEach(draw);
    root.dataset.drawn = "true";
  };

  const legend = (figure) => {
    figure.holder.closest(".figure").querySelectorAll(".legend button").forEach((button) => {
      button.addEventListener("click", () => {
        const slot = Number(button.dataset.slot);
        const shown = button.getAttribute("aria-pressed") === "true";
        button.setAttribute("aria-pressed", String(!shown));
        if (shown) figure.hidden.add(slot); else figure.hidden.delete(slot);
        draw(figure);
      });
    });
  };

  const put = (parent, tag, name) => {
    const made = document.createElement(tag);
    made.className = name;
    made.hidden = true;
    parent.append(made);
    return made;
  };

  // The words of the point that is nearest to the pointer, beside it.
  const hover = (figure) => {
    const { holder } = figure;
    const label = put(holder, "div", "hover");
    holder.addEventListener("pointermove", (event) => {
      const box = holder.getBoundingClientRect();
      const point = figure.drawn.near(event.clientX - box.left, event.clientY - box.top);
      label.hidden = !point;
      if (!point) return;
      label.textContent = point.words();
      label.style.borderColor = point.color;
      const [x, y] = point.at;
      const left = x + 12 + label.offsetWidth < box.width ? x + 12 : x - 12 - label.offsetWidth;
      label.style.left = `${Math.max(0, left)}px`;
      label.style.top = `${Math.max(0, Math.min(y - label.offsetHeight / 2, box.height - label.offsetHeight))}px`;
    });
    ["pointerleave", "pointercancel"].forEach((kind) => holder.addEventListener(kind, () => { label.hidden = true; }));
  };

  // A stretch drawn with a mouse fills the drawing; the button below it, or a double click, gives the whole again. A finger scrolls.
  const zoom = (figure) => {
    const { holder } = figure;
    if (figure.spec.layout.xaxis.type === "log") return;
    const shade = put(holder, "div", "stretch"), whole = put(holder.parentElement, "button", "whole");
    whole.type = "button";
    whole.textContent = "Show the whole again";
    let begun = null;
    const inside = (event) => {
      const { from, to } = figure.drawn.x;
      return Math.min(Math.max(event.clientX - holder.getBoundingClientRect().left, from), to);
    };
    const turn = (range) => {
      figure.zoom = range;
      whole.hidden = range === null;
      draw(figure);
    };
    holder.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      begun = inside(event);
      holder.setPointerCapture(event.pointerId);
      event.preventDefault(); // no text is selected on the way
    });
    holder.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      const here = inside(event);
      shade.hidden = false;
      Object.assign(shade.style, { left: `${Math.min(begun, here)}px`, width: `${Math.abs(here - begun)}px`, height: `${figure.drawn.bottom}px` });
    });
    ["pointerup", "pointercancel"].forEach((kind) => holder.addEventListener(kind, (event) => {
      const ends = [begun, inside(event)].sort((left, right) => left - right);
      if (kind === "pointerup" && begun !== null && ends[1] - ends[0] > 8) turn(ends.map(figure.drawn.x.of));
      begun = null;
      shade.hidden = true;
    }));
    holder.addEventListener("dblclick", () => turn(null));
    whole.addEventListener("click", () => turn(null));
  };

  drawAll();
  figures.forEach((figure) => [legend, hover, zoom].forEach((wire) => wire(figure)));

  const themes = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
  const button = document.getElementById("theme");
  let theme = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = (theme + 1) % themes.length;
    root.dataset.theme = themes[theme][0];
    button.textContent = `Theme: ${themes[theme][1]}`;
  });

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
})();
