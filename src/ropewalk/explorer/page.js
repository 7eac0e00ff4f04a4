"use strict";
// What the local page and the exported one share: plotly's figures in the colours of the reader's screen.
window.ropewalk = (() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const config = { responsive: true, displaylogo: false, displayModeBar: false, scrollZoom: false };

  function recoloured(value, colours) {
    if (Array.isArray(value)) return value.map((item) => recoloured(item, colours));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, recoloured(inner, colours)]));
    }
    return typeof value === "string" ? (colours[value] ?? value) : value;
  }

  function painted(figure, colours) {
    const made = dark.matches ? recoloured(figure, colours) : figure;
    const hoverlabel = { bgcolor: "#ffffff", bordercolor: "#595959", font: { color: "#1a1a1a" } };
    return { data: made.data, layout: { ...made.layout, hoverlabel, dragmode: touch.matches ? false : "zoom" } };
  }

  return { dark, config, painted };
})();
