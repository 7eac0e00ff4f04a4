"use strict";
(() => {
  const page = JSON.parse(document.getElementById("page").textContent);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const media = { dark: matchMedia("(prefers-color-scheme: dark)"), touch: matchMedia("(pointer: coarse)") };
  const off = new Set(); // methods, by index, that are switched off
  const state = { curves: "excess", arcs: document.getElementById("arcs-of")?.value };
  let whole = false;
  let printing = false;
  const PAPER = 660; // CSS pixels of a chart on A4

  function recoloured(value, key = "") {
    if (Array.isArray(value)) return value.map((item) => recoloured(item, key));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, recoloured(inner, name)]));
    }
    return typeof value === "string" && /color$/.test(key) ? (page.dark[value] ?? value) : value;
  }

  function shown(name, meta) {
    if (!meta) return true;
    return !off.has(meta.method) && (meta.state === undefined || String(meta.state) === state[name]);
  }

  function layoutOf(name) {
    const chart = page.charts[name];
    const at = chart.states?.[state[name]] ?? {};
    const yaxis = { ...chart.layout.yaxis, ...at.yaxis };
    if (whole && name === "curves") delete yaxis.range;
    const xaxis = { ...chart.layout.xaxis };
    if (xaxis.dtick && document.getElementById(name).clientWidth < 480) xaxis.dtick *= 2;
    return {
      ...chart.layout, xaxis, yaxis,
      shapes: [...chart.layout.shapes, ...(at.shapes ?? [])],
      dragmode: media.touch.matches ? false : "zoom", // a finger scrolls the page
      uirevision: `${state[name]} ${whole}`, // a zoom outlives the switching of methods
      width: printing ? PAPER : undefined,
      hoverlabel: { bgcolor: "#ffffff", bordercolor: "#595959", font: { color: "#1a1a1a" } },
    };
  }

  function draw(name) {
    const chart = page.charts[name];
    const data = chart.data.filter((trace) => shown(name, trace.meta));
    const figure = { data, layout: layoutOf(name) };
    const coloured = media.dark.matches && !printing ? recoloured(figure) : structuredClone(figure);
    const config = { responsive: !printing, displaylogo: false, displayModeBar: media.touch.matches ? false : "hover", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]] };
    return Plotly.react(name, coloured.data, coloured.layout, config);
  }

  const drawAll = () => Object.keys(page.charts).forEach(draw);

  function toggle(index) {
    if (!off.delete(index)) off.add(index);
    all(".method").forEach((button) => button.setAttribute("aria-pressed", String(!off.has(Number(button.dataset.method)))));
    all("[data-shows]").forEach((grid) => { grid.hidden = off.has(Number(grid.dataset.shows)); });
    drawAll();
  }

  function said(name, x) {
    const here = page.charts[name].data.filter((trace) => shown(name, trace.meta) && trace.hovertemplate);
    const values = here.filter((trace) => trace.x.includes(x)).map((trace) => [trace.name, trace.y[trace.x.indexOf(x)]]);
    return `${x.toLocaleString("en")}: ` + values.map(([of, y]) => `${of} ${y === null ? "none" : Number(y.toPrecision(4))}`).join(", ");
  }

  function move(chart, step) {
    const lines = page.charts[chart.id].data.filter((trace) => shown(chart.id, trace.meta) && trace.hovertemplate);
    const xs = [...new Set(lines.flatMap((trace) => trace.x))].sort((a, b) => a - b);
    if (!xs.length) return;
    const at = Math.min(xs.length - 1, Math.max(0, Number(chart.dataset.at ?? -1) + step));
    chart.dataset.at = at;
    Plotly.Fx.hover(chart, { xval: xs[at] }, "xy");
    document.getElementById("heard").textContent = said(chart.id, xs[at]);
  }

  async function copy(button) {
    const text = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch { // a page opened from a file has no clipboard in some browsers
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
    }
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 2000);
  }

  function print(begins) {
    printing = begins;
    drawAll();
  }

  all(".method").forEach((button) => button.addEventListener("click", () => toggle(Number(button.dataset.method))));
  all(".copy").forEach((button) => button.addEventListener("click", () => copy(button)));
  all("input[name=curves]").forEach((radio) => radio.addEventListener("change", () => { state.curves = radio.value; draw("curves"); }));
  document.getElementById("whole")?.addEventListener("change", (event) => { whole = event.target.checked; draw("curves"); });
  document.getElementById("arcs-of")?.addEventListener("change", (event) => { state.arcs = event.target.value; draw("arcs"); });
  all("[data-moves]").forEach((chart) => chart.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) { event.preventDefault(); move(chart, step); }
  }));
  media.dark.addEventListener("change", drawAll);
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  drawAll();
})();
