// The exported page's own part: controls choose among states that were drawn beforehand.
(() => {
  const { panels, dark } = JSON.parse(document.getElementById("drawn").textContent);
  const chosen = Object.fromEntries(Object.entries(panels).map(([name, panel]) => [name, [...panel.start]]));
  const all = (selector) => [...document.querySelectorAll(selector)];
  let language = location.hash.startsWith("#ko") || (!location.hash && navigator.language.startsWith("ko")) ? "ko" : "en";

  const part = () => document.querySelector(`[data-language="${language}"]`);

  function draw(name) {
    const panel = panels[name];
    const { pictures, facts } = panel.states[chosen[name].join(",")][language];
    part().querySelectorAll(`.picture[data-panel="${name}"]`).forEach((place, index) => {
      const { data, layout } = ropewalk.painted(pictures[index], dark);
      Plotly.react(place, data, layout, ropewalk.config);
    });
    part().querySelectorAll(`form [data-panel="${name}"]`).forEach((control) => {
      const at = Number(control.dataset.place);
      control.value = chosen[name][at];
      const said = control.parentElement.querySelector("output");
      if (said) said.textContent = panel.values[at][chosen[name][at]].toLocaleString("en");
    });
    part().querySelector(`[data-facts="${name}"]`).replaceChildren(...facts.map(([term, value]) => {
      const pair = document.createElement("div");
      pair.append(Object.assign(document.createElement("dt"), { textContent: term }), Object.assign(document.createElement("dd"), { textContent: value }));
      return pair;
    }));
  }

  function show() {
    document.documentElement.lang = language;
    all("[data-language]").forEach((each) => { each.hidden = each.dataset.language !== language; });
    Object.keys(panels).forEach(draw);
  }

  function set(name, values) {
    panels[name].controls.forEach((control, at) => {
      const place = panels[name].values[at].indexOf(values[control]);
      if (place >= 0) chosen[name][at] = place;
    });
    draw(name);
  }

  all("form [data-panel]").forEach((control) => control.addEventListener("input", () => {
    chosen[control.dataset.panel][Number(control.dataset.place)] = Number(control.value);
    draw(control.dataset.panel);
  }));
  all("form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
  all("[data-switch]").forEach((button) => button.addEventListener("click", () => { language = button.dataset.switch; show(); }));
  all("[data-values]").forEach((link) => link.addEventListener("click", () => set(link.dataset.panel, JSON.parse(link.dataset.values))));
  ropewalk.dark.addEventListener("change", show);
  show();
})();
