"use strict";
// The local page's own part: what runs in the browser between two answers of the library.
window.dash_clientside = window.dash_clientside ?? {};
window.dash_clientside.ropewalk = {
  // Figures in the colours of the screen, one for each graph; those of the panel before this one are late.
  paint: (drawn, _dark, page) => {
    if (drawn?.panel !== page.panel) return window.dash_clientside.no_update;
    return drawn.pictures.map((figure) => ropewalk.painted(figure, drawn.dark));
  },
  // A slider's number beside it, at once.
  said: (values, most) => values.map((value, at) => Math.min(value, most[at]).toLocaleString("en")),
  // The address keeps the state, and so does the link to the other language.
  keep: (sliders, choices, texts, page) => {
    const query = new URLSearchParams({ panel: page.panel });
    for (const { id, value } of window.dash_clientside.callback_context.inputs_list.slice(0, 3).flat()) {
      const name = Object.values(id)[0];
      if (String(value ?? "") !== String(page.defaults[name])) query.set(name, value ?? "");
    }
    const address = (language) => `?${new URLSearchParams([["lang", language], ...query])}`;
    history.replaceState(history.state, "", address(page.language));
    return page.others.map(address);
  },
  // The document's own language and title.
  name: (page) => {
    document.documentElement.lang = page.language;
    document.title = page.title;
  },
};
ropewalk.dark.addEventListener("change", () => window.dash_clientside.set_props("dark", { data: ropewalk.dark.matches }));
