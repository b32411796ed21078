// The view as a table and as plots.

// ---- drawing --------------------------------------------------------------------------------------------------------

function heading(title, name, average) {
  const button = element("button", { type: "button", class: "sort" }, title);
  button.addEventListener("click", () => sort(name));
  const th = element("th", { scope: "col", ...(average ? { class: "average" } : {}) }, button);
  if (sorting.direction && sorting.column === name) th.setAttribute("aria-sort", sorting.direction);
  return th;
}

function drawHead() {
  const groups = neighbours().map(({ suite, n }) =>
    suite ? element("th", { scope: "colgroup", colspan: n }, element("span", {}, suite)) : element("td", { colspan: n }));
  const titles = view.columns.map(({ column }) => heading(column.display.heading, column.name, column.average_of.length));
  const rows = groups.length ? [element("tr", {}, element("td", {}), ...groups)] : [];
  $("board").tHead.replaceChildren(...rows, element("tr", {}, heading("encoder", null), ...titles));
}

// 22.7M parameters, 384 dimensions
function size(row) {
  const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
  return [["parameters", short], ["dimensions", new Intl.NumberFormat("en")]]
    .flatMap(([name, format]) => (row[name] ? [`${format.format(row[name])} ${name}`] : [])).join(", ");
}

function encoder(row) {
  const text = size(row);
  return [element("span", { class: "encoder" }, row.encoder), ...(text ? [element("span", { class: "seeds" }, text)] : [])];
}

// In a table wider than its area deviations are hidden, so that more columns are in view.
function fit() {
  const scroller = document.querySelector(".scroller");
  scroller.classList.remove("narrow");
  scroller.classList.toggle("narrow", scroller.scrollWidth > scroller.clientWidth);
  $("spread").hidden = !scroller.classList.contains("narrow") || !view.deviates.includes(true);
  hint();
}

// A table that is wider than its area says so until its right end is in view.
function hint() {
  const scroller = document.querySelector(".scroller");
  const rest = scroller.scrollWidth - scroller.clientWidth - scroller.scrollLeft;
  $("more").hidden = scroller.scrollWidth <= scroller.clientWidth + 1;
  $("more").classList.toggle("unseen", rest <= 1);
  scroller.parentNode.classList.toggle("more-right", rest > 1);
}

const room = () => element("small", { class: "unseen", "aria-hidden": "true" }, ` ± ${number(0)}`);

function cell(entry, i) {
  const score = entry.scores[i];
  const average = view.columns[i].column.average_of.length ? { class: "average" } : {};
  const made = element("td", { tabindex: -1, ...average });
  // Space for a deviation, so that the decimal points of a column are aligned.
  const space = view.deviates[i] ? [room()] : [];
  // A dagger, or the space of one where another row of the column has it.
  const dagger = score?.tied && entry.whole ? data.display.tied.plain : "";
  const tied = view.ties[i] ? [element("span", { class: "tied" }, dagger)] : [];
  if (!score) {
    made.append(element("span", { class: "missing" }, data.display.missing.plain), ...space, ...tied);
    return made;
  }
  const text = minus(number(score.mean));
  made.append([text, element("b", {}, text), element("i", {}, text)][entry.ranks[i]]);
  // The blank is inside, since it goes with the deviation where there is no room.
  if (score.sd !== null) made.append(element("small", {}, ` ± ${number(score.sd)}`), ...tied);
  else made.append(...tied, ...space);
  if ($("seeds").checked && score.seeds.length > 1) {
    made.append(element("span", { class: "seeds" }, score.seeds.map(([, value]) => minus(number(value))).join(" ")));
  }
  return made;
}

function drawBody() {
  const rows = view.rows.map((entry) =>
    element("tr", {}, element("th", { scope: "row", tabindex: -1 }, ...encoder(entry.row)),
      ...view.columns.map((_, i) => cell(entry, i))));
  if (!rows.length) {
    const text = "No encoder has scores here.";
    rows.push(element("tr", {}, element("td", { class: "empty", colspan: view.columns.length + 1 }, text)));
  }
  $("board").tBodies[0].replaceChildren(...rows);
  const first = $("board").tBodies[0].querySelector("[tabindex]");
  if (first) first.tabIndex = 0;
}

function draw() {
  hideTip();
  look();
  drawHead();
  drawBody();
  remember();
  fit();
  drawPlots();
  const tasks = view.columns.filter(({ column }) => !column.average_of.length).length;
  const all = data.columns.filter((column) => !column.average_of.length).length;
  const count = (n, of, what) => `${n === of ? n : `${n} of ${of}`} ${what}${of === 1 ? "" : "s"}`;
  const encoders = (rows) => rows.filter((entry) => (entry.row ?? entry).spec).length;
  const parts = [count(encoders(view.rows), encoders(data.rows), "encoder"), count(tasks, all, "task")];
  const by = data.columns.find((column) => column.name === sorting.column);
  if (sorting.direction && by) {
    parts.push(`sorted by ${by.display.heading}, ${sorting.direction === "descending" ? "best" : "worst"} first`);
  } else if (sorting.direction) {
    parts.push(`sorted by encoder, ${sorting.direction}`);
  }
  say(parts.join(", "));
}

// ---- plot -----------------------------------------------------------------------------------------------------------

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A name of at most ``most`` characters; a long one without its backbone, since its rows are together.
function cut(text, most) {
  const rest = text.length > most ? text.replace(/^.*? (?=\+ )/, "") : text;
  return rest.length > most ? `${rest.slice(0, most - 1)}\u2026` : rest;
}

function ends(score) {
  return score.interval ?? [score.mean - (score.sd ?? 0), score.mean + (score.sd ?? 0)];
}

// Round numbers within a range, about four of them.
function ticks(low, high) {
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  return Array.from({ length: 12 }, (_, i) => (Math.ceil(low / step) + i) * step).filter((value) => value <= high);
}

// A plot with a row for each name, which has one or two lines; ``draw`` makes the marks of a row, and ``lines`` what lies
// below all marks.
function chart(names, values, label, draw, lines = () => []) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const margin = (most - least || 0.1) * 0.06;
  const [low, high] = [least - margin, most + margin];
  const left = 16 + 6.1 * Math.max(...names.flat().map((name) => name.length)); // letters of 10.5 pixels
  const height = 5 + 12 * Math.max(...names.map((name) => name.length));
  const [width, top] = [left + 190, 8];
  const bottom = top + names.length * height;
  const x = (value) => (left + ((value - low) / (high - low)) * (width - left - 16)).toFixed(1);
  const y = (i) => top + (i + 0.5) * height;
  const drawn = ticks(low, high).flatMap((value) => [
    shape("line", { class: "grid", x1: x(value), x2: x(value), y1: top, y2: bottom }),
    shape("text", { x: x(value), y: bottom + 13, "text-anchor": "middle" }, minus(number(value))),
  ]);
  drawn.push(...lines(x, y, top, bottom));
  names.forEach((name, i) => {
    const first = y(i) + 4 - 6 * (name.length - 1);
    name.forEach((text, k) => {
      drawn.push(shape("text", { x: left - 8, y: first + 12 * k, "text-anchor": "end" }, text));
    });
    drawn.push(...draw(i, x, y(i)));
  });
  const size = { width: 1.15 * width, viewBox: `0 0 ${width} ${bottom + 18}` };
  return shape("svg", { ...size, role: "img", "aria-label": label }, ...drawn);
}

// A dot with its bar, and a text for a pointer.
function dot(x, y, value, [from, to], filled, text) {
  return [
    shape("line", { class: "interval", x1: x(from), x2: x(to), y1: y, y2: y }),
    shape("circle", { class: filled ? "tuned" : "untuned", cx: x(value), cy: y, r: 3.6 }, shape("title", {}, text)),
  ];
}

function caption({ column, over }) {
  const averaged = over ?? column.average_of;
  return averaged.length ? `Average of ${averaged.length} tasks` : column.display.heading;
}

// The scores of a column, in the order of the rows.
function panel(shown, at) {
  const entries = view.rows.filter(({ scores }) => scores[at]);
  if (!entries.length) return [];
  const title = caption(shown);
  const values = entries.flatMap(({ scores }) => [scores[at].mean, ...ends(scores[at])]);
  const text = `${title}: ${entries.map(({ row, scores }) => `${row.encoder} ${number(scores[at].mean)}`).join(", ")}`;
  const ladders = (x, y) => entries.flatMap(({ row, scores, place }, i) => {
    const before = entries[i - 1];
    // Only rows that follow each other in the table too: sorted rows are in no such order.
    const follows = before && before.place + 1 === place && row.spec && before.row.backbone === row.backbone;
    return follows
      ? [shape("line", { class: "ladder", x1: x(before.scores[at].mean), y1: y(i - 1), x2: x(scores[at].mean), y2: y(i) })]
      : [];
  });
  const marks = (i, x, y) => {
    const { row, scores } = entries[i];
    const words = `${row.encoder}: ${minus(withDeviation(scores[at]))}`;
    return dot(x, y, scores[at].mean, ends(scores[at]), row.tuned, words);
  };
  const drawn = chart(entries.map(({ row }) => [cut(row.encoder, 48)]), values, text, marks, ladders);
  const metric = shown.column.display.metric;
  return element("figure", {}, element("figcaption", {}, title, metric ? element("small", {}, ` ${metric}`) : ""), drawn);
}

// The tested differences of a column between rows that are shown.
function differencePanel(shown) {
  if (shown.over) return []; // an average of other tasks than those of the tests
  const keys = new Set(view.rows.map(({ row }) => JSON.stringify([row.spec, row.protocol])));
  const tested = data.display.differences.filter(({ column, rows }) =>
    column === shown.column.name && rows.every((row) => keys.has(JSON.stringify(row))));
  if (!tested.length) return [];
  const title = caption(shown);
  const values = [0, ...tested.flatMap(({ difference, interval }) => [difference, ...interval])];
  const zero = (x, y, top, bottom) => [shape("line", { class: "zero", x1: x(0), x2: x(0), y1: top, y2: bottom })];
  const marks = (i, x, y) => {
    const { difference, interval, separable, sentence } = tested[i];
    return dot(x, y, difference, interval, separable, minus(sentence));
  };
  const text = `Differences on ${title}: ${tested.map(({ sentence }) => sentence).join("; ")}`;
  const names = tested.map(({ row, over }) => [cut(row, 48), `over ${cut(over, 48)}`]);
  const drawn = chart(names, values, text, marks, zero);
  return [element("figure", {}, element("figcaption", {}, title), drawn)];
}

function drawPlots() {
  const panels = view.columns.flatMap(panel);
  $("panels").replaceChildren(...panels);
  $("plot").hidden = !panels.length;
  // The column of the longest average first, which the sentences above the table are about.
  const longest = (a, b) => b.column.average_of.length - a.column.average_of.length;
  const [first, ...others] = [...view.columns].sort(longest).flatMap(differencePanel);
  $("main-difference").replaceChildren(...(first ? [first] : []));
  $("other-differences").hidden = !others.length;
  $("other-differences").querySelector(".panels").replaceChildren(...others);
  $("differences").hidden = !first;
}

function say(text) {
  $("status").textContent = text;
}

// The first click sorts (scores best first, names from A), the second reverses, the third restores the table's order.
function sort(name) {
  const order = name === null ? ["ascending", "descending", ""] : ["descending", "ascending", ""];
  sorting.direction = sorting.column === name ? order[(order.indexOf(sorting.direction) + 1) % 3] : order[0];
  sorting.column = name;
  draw();
  const position = view.columns.findIndex(({ column }) => column.name === name);
  $("board").tHead.querySelectorAll(".sort")[position + 1].focus();
}
