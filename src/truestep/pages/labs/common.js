// What the pages of the labs share: the record's tables, numbers in words, SVG elements, and the answers kept in this browser.
const Labs = (() => {
  "use strict";
  const SHELF = "truestep-labs";
  const json = (name) => JSON.parse(document.getElementById(name).textContent);

  const raised = (exponent) => [...String(exponent)].map((sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻").join("");
  const power = (exponent) => `2${raised(exponent)}`;
  // A number to so many digits, whole ones whole; a word, such as inf, as it is.
  const words = (value, digits = 5) => {
    if (value === null || value === undefined) return "-";
    if (Array.isArray(value)) return `[${value.map((each) => words(each, digits)).join(", ")}]`;
    if (typeof value !== "number") return String(value) === "inf" ? "∞" : String(value) === "-inf" ? "−∞" : String(value);
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("-", "−");
    const short = Number.isInteger(value) ? value : Number(value.toPrecision(digits));
    return short.toLocaleString("en", { maximumSignificantDigits: 12 }).replace("-", "−");
  };

  const svg = (tag, attributes = {}, text = null) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    if (text !== null) made.textContent = text;
    return made;
  };
  const html = (tag, name, text) => Object.assign(document.createElement(tag), { className: name ?? "", textContent: text ?? "" });

  // A drawing is made anew, in pixels of its own width, when it is shown and whenever that width changes.
  const drawing = (name, height, draw) => {
    const holder = document.getElementById(name);
    const again = () => {
      const width = holder.clientWidth;
      if (width < 50) return;
      const paper = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", focusable: "false" });
      draw(paper, width, height);
      holder.replaceChildren(paper);
    };
    // For paper the page has the width of paper: page.js has set it when this is called.
    ["resize", "beforeprint", "afterprint"].forEach((kind) => addEventListener(kind, again));
    return again;
  };

  // Words and the number behind them; a screen reader hears what has changed.
  const tell = (name, text, value = null) => {
    const place = document.getElementById(name);
    if (place.textContent !== text) place.textContent = text;
    if (value !== null) place.dataset.value = String(value);
    else delete place.dataset.value;
  };

  // What was answered, by lab and exercise. A browser that keeps nothing still asks and answers.
  const kept = () => {
    try { return JSON.parse(localStorage.getItem(SHELF)) ?? {}; } catch { return {}; }
  };
  const keep = (name, answer) => {
    try { localStorage.setItem(SHELF, JSON.stringify({ ...kept(), [name]: answer })); } catch { /* nothing is kept */ }
  };
  const forget = () => {
    try { localStorage.removeItem(SHELF); } catch { /* nothing was kept */ }
  };

  document.querySelectorAll("[data-scripted]").forEach((part) => { part.hidden = false; });
  return { json, power, words, svg, html, drawing, tell, kept, keep, forget };
})();
