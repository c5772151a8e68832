// What is wrong with the page that is shown, as sentences. Written for these tests; the numbers are those of WCAG 2.2 AA.
() => {
  const CONTRAST = 4.5;
  const TARGET_PX = 20; // boxes to tick have room around them, which counts
  const faults = [];
  const short = (e) => e.outerHTML.replace(/\s+/g, " ").slice(0, 110);
  const shown = (e) => e.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
  const all = (query) => [...document.querySelectorAll(query)];
  const text = (id) => (document.getElementById(id)?.textContent ?? "").trim();
  const named = (e) => {
    const by = (e.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
    if (by.length) return by.map(text).join(" ");
    return (e.getAttribute("aria-label") ?? "").trim();
  };

  if (!document.documentElement.lang) faults.push("the page has no language");
  if (!document.title.trim()) faults.push("the page has no title");
  for (const e of all("input:not([type=hidden]), textarea, select")) {
    const label = named(e) || [...(e.labels ?? [])].map((l) => l.textContent.trim()).join(" ");
    if (!label) faults.push("no label: " + short(e));
  }
  for (const e of all("a[href], button, summary")) {
    const image = [...e.querySelectorAll("img")].map((i) => i.alt).join("");
    if (!(named(e) || e.textContent.trim() || image)) faults.push("no name: " + short(e));
  }
  for (const e of all("img:not([alt])")) faults.push("an image without words: " + short(e));
  const ids = new Map();
  for (const e of all("[id]")) ids.set(e.id, (ids.get(e.id) ?? 0) + 1);
  for (const [id, count] of ids) if (count > 1) faults.push("the id " + id + " is there twice");
  for (const name of ["aria-labelledby", "aria-describedby", "for"]) {
    for (const e of all(`[${name}]`)) {
      for (const id of e.getAttribute(name).split(/\s+/)) {
        if (!document.getElementById(id)) faults.push(`${name} names nothing: ` + short(e));
      }
    }
  }

  let before = 0;
  const headings = all("h1, h2, h3, h4, h5, h6").filter(shown);
  for (const e of headings) {
    const level = Number(e.tagName[1]);
    if (level > before + 1) faults.push(`the order of headings jumps from ${before} to ${level}: ` + short(e));
    if (!e.textContent.trim()) faults.push("an empty heading");
    before = level;
  }
  if (headings.filter((e) => e.tagName === "H1").length !== 1) faults.push("there is not exactly one first heading");

  if (all("main").length !== 1) faults.push("there is not exactly one main part");
  const navs = all("nav");
  for (const e of navs) if (!named(e)) faults.push("a navigation without a name");
  if (new Set(navs.map(named)).size !== navs.length) faults.push("two navigations have one name");
  for (const e of all("[role=region]")) if (!named(e)) faults.push("a region without a name");

  // Colours, with what lies behind them.
  const parse = (colour) => {
    const found = colour.match(/[\d.]+/g).map(Number);
    return { r: found[0], g: found[1], b: found[2], a: found[3] ?? 1 };
  };
  const over = (top, under) => ({
    r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a),
    b: top.b * top.a + under.b * (1 - top.a), a: 1,
  });
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      layers.push(colour);
      if (colour.a === 1) break;
    }
    let ground = { r: 255, g: 255, b: 255, a: 1 };
    for (const layer of layers.reverse()) ground = over(layer, ground);
    return ground;
  };
  const light = ({ r, g, b }) => {
    const part = (v) => { const c = v / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const judge = (e, colour, what) => {
    const ground = behind(e);
    const got = ratio(over(parse(colour), ground), ground);
    if (got < CONTRAST) faults.push(`contrast ${got.toFixed(2)} of ${what}: ` + short(e));
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const judged = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE", "OPTION"].includes(e.tagName) || !shown(e)) continue;
    if (!e.closest("main, header, nav, footer, .skip")) faults.push("text outside of any landmark: " + short(e));
    if (judged.has(e) || e.closest("[disabled]")) continue;
    judged.add(e);
    judge(e, getComputedStyle(e).color, "text");
  }
  for (const e of all("input:not([type=hidden]), textarea").filter(shown)) {
    judge(e, getComputedStyle(e).color, "what is typed");
    if (e.placeholder) judge(e, getComputedStyle(e, "::placeholder").color, "a placeholder");
  }

  const wide = document.documentElement.scrollWidth, room = document.documentElement.clientWidth;
  if (wide > room) {
    const who = all("body *").filter((e) => shown(e) && !e.closest(".scroll, pre") && e.getBoundingClientRect().right > room + 1);
    faults.push(`the page scrolls sideways, ${wide} px in ${room}: ` + who.slice(0, 2).map(short).join(" and "));
  }
  for (const e of all("button, input[type=checkbox], input[type=radio], summary").filter(shown)) {
    const box = e.getBoundingClientRect();
    if (box.height < TARGET_PX || box.width < TARGET_PX) faults.push(`hard to hit, ${box.width} × ${box.height} px: ` + short(e));
  }
  return faults;
}
