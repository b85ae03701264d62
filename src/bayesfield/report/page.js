
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const { names, columns, limit } = data.rows;
  const known = Object.keys(columns);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE = 200;
  document.documentElement.classList.add("js");

  // --- words: the same rules as wording.py ---------------------------------------------------------------------

  function number(v) {
    if (v === null) return "–";
    const size = Math.abs(v);
    if (size && (size < 5e-4 || size >= 1e5)) return v.toExponential(2).replace(/e([+-])(\d)$/, "e$10$2");
    return size >= 100 ? v.toFixed(1) : v.toFixed(3);
  }
  function chance(v) {
    if (v !== null && v < 0.001) return "< 0.001";
    return v !== null && v > 0.999 ? "> 0.999" : number(v);
  }
  const chances = new Set(["p_positive", "inclusion"]);
  const told = (name, v) => (chances.has(name) ? chance(v) : number(v));
  const percent = `${Number((100 * data.level).toPrecision(6))} %`;
  const plural = (n, thing) => `${n.toLocaleString("en-GB")} ${thing}${n === 1 ? "" : "s"}`;

  function element(tag, attributes = {}, text) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }
  function drawn(tag, attributes = {}) {
    const node = document.createElementNS(SVG, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  }

  // --- theme ---------------------------------------------------------------------------------------------------

  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const labelTheme = () => { $("theme").textContent = isDark() ? "Light theme" : "Dark theme"; };
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    labelTheme();
  });
  system.addEventListener("change", labelTheme);
  labelTheme();

  // --- the table -----------------------------------------------------------------------------------------------

  const state = { sort: null, way: 0, shown: [], drawn: 0, picked: null };
  const body = document.querySelector("#table tbody");
  const heads = [...document.querySelectorAll("#table th[data-column]")];

  function across(v) {
    return (60 * (1 + Math.max(-1, Math.min(1, v / limit)) * 0.96)).toFixed(2);
  }
  function bar(i) {
    const { mean, lower, upper } = columns;
    if (mean[i] === null || lower[i] === null || upper[i] === null) return "";
    const side = lower[i] > 0 ? "pos" : upper[i] < 0 ? "neg" : "open";
    const svg = drawn("svg", { class: `bar ${side}`, viewBox: "0 0 120 16", "aria-hidden": "true" });
    svg.append(
      drawn("path", { class: "zero", d: "M60 0V16" }),
      drawn("path", { class: "range", d: `M${across(lower[i])} 8H${across(upper[i])}` }),
      drawn("circle", { cx: across(mean[i]), cy: 8, r: 3.2 }),
    );
    return svg;
  }
  function row(i) {
    const tr = element("tr");
    const place = element("td", { class: "bar", "data-ends": `${number(columns.lower[i])} to ${number(columns.upper[i])}` });
    place.append(bar(i));
    const head = element("th", { scope: "row", title: names[i] });
    head.append(...names[i].split(/(?<=\*)/).map((part) => element("span", {}, part))); // lines on narrow screens
    tr.append(head, place);
    for (const name of known) tr.append(element("td", { class: `n ${name}` }, told(name, columns[name][i])));
    return tr;
  }
  function more() {
    const next = state.shown.slice(state.drawn, state.drawn + PAGE);
    body.append(...next.map(row));
    state.drawn += next.length;
    $("more").hidden = state.drawn >= state.shown.length;
    $("more").textContent = `Show more rows (${(state.shown.length - state.drawn).toLocaleString("en-GB")} left)`;
  }
  const order = new Intl.Collator("en", { numeric: true }).compare;
  function compare(a, b) {
    if (state.sort === "name") return state.way * order(names[a], names[b]);
    const [x, y] = [columns[state.sort][a], columns[state.sort][b]];
    if (x === null || y === null) return (x === null) - (y === null);
    return state.way * (x - y);
  }
  function refresh() {
    const text = $("filter").value.trim().toLowerCase();
    const sure = $("sure").checked;
    let rows = state.picked ? [...state.picked.rows].sort((a, b) => a - b) : names.map((_, i) => i);
    if (text) rows = rows.filter((i) => names[i].toLowerCase().includes(text));
    if (sure) rows = rows.filter((i) => columns.lower[i] > 0 || (columns.upper[i] !== null && columns.upper[i] < 0));
    if (state.sort) rows.sort(compare);
    state.shown = rows;
    state.drawn = 0;
    body.replaceChildren();
    more();
    const of = rows.length === names.length ? "" : ` of ${names.length.toLocaleString("en-GB")}`;
    $("shown").textContent = rows.length ? `${plural(rows.length, "row")}${of}` : "No row fits.";
    $("picked").hidden = !state.picked;
    if (state.picked) $("picked").textContent = `Only ${state.picked.name} ✕`;
    $("picked").setAttribute("aria-label", state.picked ? `Show all rows again, not only ${state.picked.name}` : "");
  }
  function sortBy(name) {
    state.way = state.sort !== name ? 1 : state.way === 1 ? -1 : 0;
    state.sort = state.way ? name : null;
    for (const th of heads) {
      const own = th.dataset.column === state.sort;
      th.setAttribute("aria-sort", !own ? "none" : state.way === 1 ? "ascending" : "descending");
    }
    refresh();
  }
  for (const th of heads) {
    const button = element("button", { type: "button" }, th.textContent);
    button.addEventListener("click", () => sortBy(th.dataset.column));
    th.replaceChildren(button);
    th.setAttribute("aria-sort", "none");
  }
  function pick(name, rows) {
    state.picked = name === null ? null : { name, rows };
    refresh();
  }
  $("filter").addEventListener("input", refresh);
  $("sure").addEventListener("change", refresh);
  $("more").addEventListener("click", more);
  $("picked").addEventListener("click", () => {
    pick(null);
    $("filter").focus();
  });

  function quoted(text) {
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }
  $("download").addEventListener("click", () => {
    const lines = [["parameter", ...known].join(",")];
    for (const i of state.shown) lines.push([quoted(names[i]), ...known.map((c) => columns[c][i] ?? "")].join(","));
    const url = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv;charset=utf-8" }));
    const link = element("a", { href: url, download: "parameters.csv" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
  refresh();

  // --- the citation --------------------------------------------------------------------------------------------

  function copySelected() {
    const range = document.createRange();
    range.selectNodeContents($("citation"));
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }
  $("copy").addEventListener("click", async () => {
    let done = true;
    try {
      await navigator.clipboard.writeText($("citation").textContent);
    } catch {
      done = copySelected();
    }
    $("copied").textContent = done ? "Copied." : "Select the text above and copy it.";
  });

  // --- the tooltip ---------------------------------------------------------------------------------------------

  const tip = $("tip");
  function listed(pairs) {
    const list = element("dl");
    for (const [name, value] of pairs) {
      const pair = element("div");
      pair.append(element("dt", {}, name), element("dd", {}, value));
      list.append(pair);
    }
    return list;
  }
  function numbers([, mean, sd, lower, upper, positive]) {
    return [
      ["Mean", number(mean)],
      ["SD", number(sd)],
      [`${percent} interval`, `${number(lower)} to ${number(upper)}`],
      ["P(> 0)", chance(positive)],
    ];
  }
  function tell(title, facts, count, further) {
    const parts = [element("strong", {}, title)];
    for (const fact of facts) {
      if (facts.length > 1 || fact[0] !== title) parts.push(element("div", { class: "part" }, fact[0]));
      parts.push(listed(numbers(fact)));
    }
    if (count > facts.length) parts.push(element("div", { class: "part" }, `and ${plural(count - facts.length, "parameter")} more`));
    if (further.length) parts.push(listed(further));
    tip.replaceChildren(...parts);
  }
  function placeTip(x, y) {
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(x + 14, window.innerWidth - box.width - 8));
    const below = y + 16 + box.height < window.innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${Math.max(8, below ? y + 16 : y - box.height - 12)}px`;
  }

  // --- the network ---------------------------------------------------------------------------------------------

  const holder = $("drawing");
  const net = data.network;
  if (!holder || !net) return;
  const svg = drawn("svg", { role: "group", "aria-label": "Network of the variables", "aria-describedby": "network-help" });
  const edgeLayer = svg.appendChild(drawn("g"));
  const nodeLayer = svg.appendChild(drawn("g"));
  holder.append(svg);
  const strongest = Math.max(1e-12, ...net.edges.map((e) => e.effect ?? 0));
  const title = (e) => `${net.nodes[e.a].name} – ${net.nodes[e.b].name}`;
  const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

  net.edges.forEach((e, k) => {
    const kind = e.sign > 0 ? "pos" : e.sign < 0 ? "neg" : "both";
    e.g = drawn("g", { class: `edge ${kind}`, role: "button", tabindex: -1, "aria-label": `Edge ${title(e)}` });
    const width = 1 + (6 * (e.effect ?? 0)) / strongest;
    e.ink = drawn("line", { class: "ink", "stroke-width": width.toFixed(2), "stroke-opacity": (0.12 + 0.88 * (e.sure ?? 0)).toFixed(3) });
    if (e.sign < 0) e.ink.setAttribute("stroke-dasharray", `${(2 + 1.8 * width).toFixed(1)} ${(2 + 1.6 * width).toFixed(1)}`);
    e.hit = drawn("line", { class: "hit" });
    e.g.append(e.hit, e.ink);
    e.g.dataset.edge = k;
  });
  edgeLayer.append(...[...net.edges].reverse().map((e) => e.g)); // the surest on top
  net.nodes.forEach((n, k) => {
    n.g = drawn("g", { class: n.hidden ? "node hidden-one" : "node", role: "button", tabindex: k ? -1 : 0, "aria-label": `Variable ${n.name}${n.hidden ? ", hidden" : ""}` });
    n.shape = drawn(n.hidden ? "rect" : "circle");
    n.label = drawn("text");
    n.g.append(n.shape, n.label);
    n.g.dataset.node = k;
    nodeLayer.append(n.g);
  });

  const circle = net.nodes.length <= 25 && net.aspect === 1 && net.nodes.some((n) => Math.hypot(n.x - 0.5, n.y - 0.5) > 0.49)
    && net.nodes.every((n) => net.nodes.length < 2 || Math.abs(Math.hypot(n.x - 0.5, n.y - 0.5) - 0.5) < 1e-3);
  const springs = net.aspect === 0.8 && net.nodes.length > 25; // as network.py lays out
  function layOut() {
    const wide = Math.max(holder.clientWidth, 240);
    const narrow = wide < 560;
    const side = narrow ? 18 : circle ? 130 : 34;
    const widest = net.nodes.length > 80 ? 900 : circle || net.aspect > 0.9 ? 520 : 860;
    const inner = net.nodes.length > 1 ? Math.min(wide - 2 * side, widest / Math.max(net.aspect, 1)) : 0;
    const tall = inner * (narrow && springs ? 1.15 : net.aspect);
    const left = (wide - inner) / 2;
    const top = narrow && circle ? 38 : 30;
    svg.setAttribute("viewBox", `0 0 ${wide} ${tall + 2 * top}`);
    svg.setAttribute("height", tall + 2 * top);
    const room = Math.sqrt((Math.max(inner, 60) * Math.max(tall, 60)) / net.nodes.length);
    const r = Math.max(2.5, Math.min(10, room * 0.14));
    const most = circle ? (narrow ? 9 : 17) : Math.max(4, Math.floor((room * 1.3) / 8));
    for (const n of net.nodes) {
      n.px = left + n.x * inner;
      n.py = top + n.y * tall;
      placeNode(n, r, most);
      keepInside(n, r, wide);
    }
    for (const e of net.edges) {
      const [a, b] = [net.nodes[e.a], net.nodes[e.b]];
      for (const line of [e.ink, e.hit]) {
        for (const [key, value] of [["x1", a.px], ["y1", a.py], ["x2", b.px], ["y2", b.py]]) line.setAttribute(key, value.toFixed(1));
      }
    }
  }
  function placeNode(n, r, most) {
    const [x, y] = [n.px.toFixed(1), n.py.toFixed(1)];
    if (n.hidden) {
      for (const [key, value] of [["x", n.px - r], ["y", n.py - r], ["width", 2 * r], ["height", 2 * r]]) n.shape.setAttribute(key, value);
    } else {
      for (const [key, value] of [["cx", x], ["cy", y], ["r", r]]) n.shape.setAttribute(key, value);
    }
    const text = clipped(n.name, most);
    n.label.textContent = net.nodes.length > (holder.clientWidth < 560 ? 40 : 80) ? "" : text; // pointing tells them
    const [dx, dy] = circle ? [2 * (n.x - 0.5), 2 * (n.y - 0.5)] : [0, -1];
    n.label.setAttribute("x", (n.px + (r + 7) * dx).toFixed(1));
    n.label.setAttribute("y", (n.py + (r + (Math.abs(dx) < 0.2 ? 12 : 7)) * dy + 4.5).toFixed(1));
    n.label.setAttribute("text-anchor", dx > 0.2 ? "start" : dx < -0.2 ? "end" : "middle");
  }

  // a name that would leave the drawing goes above its variable, or below in the lower half
  function keepInside(n, r, wide) {
    const length = n.label.getComputedTextLength();
    const [x, anchor] = [Number(n.label.getAttribute("x")), n.label.getAttribute("text-anchor")];
    const left = anchor === "start" ? x : anchor === "end" ? x - length : x - length / 2;
    if (left >= 2 && left + length <= wide - 2) return;
    n.label.setAttribute("text-anchor", "start");
    n.label.setAttribute("x", Math.max(2, Math.min(left, wide - 2 - length)).toFixed(1));
    n.label.setAttribute("y", (circle && n.y > 0.55 ? n.py + r + 15 : n.py - r - 6).toFixed(1));
  }

  // which edges are shown
  const slider = $("slider");
  const bySign = net.by === "sign";
  if (bySign) {
    $("slider-label").textContent = "Edges whose sign is at least this sure";
    slider.min = "0.5";
  }
  $("key-both").hidden = net.edges.every((e) => e.sign);
  $("network-controls").hidden = $("network-key").hidden = !net.edges.length;
  if (!bySign && !net.edges.some((e) => e.sure >= 0.5)) slider.value = "0";
  function sift() {
    const least = Number(slider.value);
    let shown = 0;
    for (const e of net.edges) {
      e.there = (e.sure ?? 0) >= least;
      e.g.style.display = e.there ? "" : "none";
      shown += e.there;
    }
    $("slider-value").textContent = `${least.toFixed(2)} · ${shown.toLocaleString("en-GB")} of ${plural(net.edges.length, "edge")} shown`;
  }
  slider.addEventListener("input", sift);

  // what is pointed at
  let at = null; // { node: k } or { edge: k }
  const things = (spot) => (spot.node !== undefined ? net.nodes[spot.node] : net.edges[spot.edge]);
  function light(spot) {
    for (const g of svg.querySelectorAll(".lit")) g.classList.remove("lit");
    svg.classList.toggle("dim", spot !== null);
    if (spot === null) return;
    const edges = spot.edge !== undefined ? [net.edges[spot.edge]] : net.edges.filter((e) => e.there && (e.a === spot.node || e.b === spot.node));
    if (spot.node !== undefined) net.nodes[spot.node].g.classList.add("lit");
    for (const e of edges) for (const g of [e.g, net.nodes[e.a].g, net.nodes[e.b].g]) g.classList.add("lit");
  }
  function describe(spot) {
    if (spot.node !== undefined) {
      const n = net.nodes[spot.node];
      const own = net.edges.filter((e) => e.there && (e.a === spot.node || e.b === spot.node)).length;
      const further = [["Edges shown", String(own)]];
      if (n.hidden) further.unshift(["Hidden", "no case observes it"]);
      tell(n.name, n.facts, n.parameters, further);
    } else {
      const e = net.edges[spot.edge];
      const further = [];
      if (e.inclusion !== undefined) {
        further.push(["Inclusion", chance(e.inclusion)], ["log Bayes factor", number(e.log_bayes_factor)], ["At 10", e.verdict]);
      }
      tell(title(e), e.facts, e.parameters, further);
    }
  }
  function point(spot, x, y) {
    at = spot;
    light(spot);
    describe(spot);
    placeTip(x, y);
  }
  function leave() {
    at = null;
    light(null);
    tip.hidden = true;
  }
  function spotOf(target) {
    const g = target.closest?.("[data-node], [data-edge]");
    if (!g) return null;
    return g.dataset.node !== undefined ? { node: Number(g.dataset.node) } : { edge: Number(g.dataset.edge) };
  }
  svg.addEventListener("pointermove", (event) => {
    const spot = spotOf(event.target);
    if (spot) point(spot, event.clientX, event.clientY);
    else if (at) leave();
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("focusin", (event) => {
    const spot = spotOf(event.target);
    if (!spot) return;
    const thing = things(spot);
    const box = thing.g.getBoundingClientRect();
    point(spot, box.left + box.width / 2, box.top + box.height / 2);
    thing.g.setAttribute("aria-describedby", "tip");
  });
  svg.addEventListener("focusout", (event) => {
    spotOf(event.target) && event.target.closest("g").removeAttribute("aria-describedby");
    leave();
  });
  svg.addEventListener("click", (event) => {
    const spot = spotOf(event.target);
    if (!spot) return;
    choose(spot);
  });
  function choose(spot) {
    const thing = things(spot);
    for (const g of svg.querySelectorAll(".now")) g.classList.remove("now");
    thing.g.classList.add("now");
    pick(spot.node !== undefined ? thing.name : title(thing), thing.rows);
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !tip.hidden) leave();
  });

  // by keyboard: one stop for Tab, arrows within
  let lastNode = 0;
  function move(to) {
    for (const g of svg.querySelectorAll('[tabindex="0"]')) g.setAttribute("tabindex", -1);
    const g = things(to).g;
    g.setAttribute("tabindex", 0);
    g.focus();
  }
  function nextEdge(spot, step) {
    const around = net.edges.map((_, k) => k).filter((k) => net.edges[k].there);
    const own = around.filter((k) => net.edges[k].a === lastNode || net.edges[k].b === lastNode);
    const list = spot.node !== undefined ? own : own.includes(spot.edge) ? own : around;
    if (!list.length) return null;
    const here = spot.edge !== undefined ? list.indexOf(spot.edge) : step > 0 ? -1 : 0;
    return { edge: list[(here + step + list.length) % list.length] };
  }
  svg.addEventListener("keydown", (event) => {
    const spot = spotOf(event.target);
    if (!spot) return;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      if (spot.node !== undefined) lastNode = spot.node;
      const across = event.key === "ArrowRight" || event.key === "ArrowLeft";
      const n = net.nodes.length;
      const to = across ? { node: (lastNode + steps[event.key] + n) % n } : nextEdge(spot, steps[event.key]);
      if (across) lastNode = to.node;
      if (to) move(to);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      choose(spot);
    } else if (event.key === "Escape") {
      leave();
      for (const g of svg.querySelectorAll(".now")) g.classList.remove("now");
      pick(null);
    }
  });

  layOut();
  sift();
  let wide = holder.clientWidth;
  new ResizeObserver(() => {
    if (holder.clientWidth !== wide) {
      wide = holder.clientWidth;
      layOut();
    }
  }).observe(holder);
})();
