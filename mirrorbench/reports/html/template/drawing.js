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
}

const room = () => element("small", { class: "unseen", "aria-hidden": "true" }, `± ${number(0)}`);

function cell(entry, i) {
  const score = entry.scores[i];
  const average = view.columns[i].column.average_of.length ? { class: "average" } : {};
  const made = element("td", { tabindex: -1, ...average });
  // Space for a deviation, so that the decimal points of a column are aligned.
  const space = view.deviates[i] ? [" ", room()] : [];
  if (!score) made.append(element("span", { class: "missing" }, data.display.missing.plain), ...space);
  if (!score) return made;
  const text = minus(number(score.mean));
  made.append([text, element("b", {}, text), element("i", {}, text)][entry.ranks[i]]);
  const tied = score.tied && entry.whole ? [element("span", { class: "tied" }, data.display.tied.plain)] : [];
  if (score.sd !== null) made.append(" ", element("small", {}, `± ${number(score.sd)}`), ...tied);
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

// The scores of a column, in the order of the rows.
function panel({ column, over }, at) {
  const entries = view.rows.filter(({ scores }) => scores[at]);
  if (!entries.length) return [];
  const all = entries.flatMap(({ scores }) => [scores[at].mean, ...ends(scores[at])]);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const margin = (most - least || 0.1) * 0.06;
  const [low, high] = [least - margin, most + margin];
  const names = entries.map(({ row }) => cut(row.encoder, 36));
  const left = 16 + 6.1 * Math.max(...names.map((name) => name.length)); // letters of 10.5 pixels
  const [width, line, top] = [left + 190, 17, 8];
  const bottom = top + entries.length * line;
  const x = (value) => (left + ((value - low) / (high - low)) * (width - left - 16)).toFixed(1);
  const y = (i) => top + (i + 0.5) * line;
  const drawn = ticks(low, high).flatMap((value) => [
    shape("line", { class: "grid", x1: x(value), x2: x(value), y1: top, y2: bottom }),
    shape("text", { x: x(value), y: bottom + 13, "text-anchor": "middle" }, minus(number(value))),
  ]);
  entries.forEach(({ row, scores }, i) => {
    const before = entries[i - 1];
    if (row.spec && before?.row.backbone === row.backbone) {
      drawn.push(shape("line", { class: "ladder", x1: x(before.scores[at].mean), y1: y(i - 1), x2: x(scores[at].mean), y2: y(i) }));
    }
  });
  entries.forEach(({ row, scores }, i) => {
    const [from, to] = ends(scores[at]);
    const name = shape("text", { x: left - 8, y: y(i) + 4, "text-anchor": "end" }, names[i]);
    drawn.push(name, shape("line", { class: "interval", x1: x(from), x2: x(to), y1: y(i), y2: y(i) }));
    drawn.push(shape("circle", { class: row.tuned ? "tuned" : "untuned", cx: x(scores[at].mean), cy: y(i), r: 3.6 },
      shape("title", {}, `${row.encoder}: ${minus(withDeviation(scores[at]))}`)));
  });
  const averaged = over ?? column.average_of;
  const title = averaged.length ? `Average of ${averaged.length} tasks` : column.display.heading;
  const text = `${title}: ${entries.map(({ row, scores }) => `${row.encoder} ${number(scores[at].mean)}`).join(", ")}`;
  return element("figure", {}, element("figcaption", {}, title, column.display.metric ? element("small", {}, ` ${column.display.metric}`) : ""),
    shape("svg", { viewBox: `0 0 ${width} ${bottom + 18}`, role: "img", "aria-label": text }, ...drawn));
}

function drawPlots() {
  const panels = view.columns.flatMap(panel);
  $("panels").replaceChildren(...panels);
  $("plot").hidden = !panels.length;
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
