
"use strict";

// The page: a view (columns, rows and scores that are shown) is computed from the values and the controls, then drawn.
// Whatever comes from the table becomes a text node, never markup.

const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const FILTERS = { suite: (c) => [c.suite], level: (c) => [c.level], language: (c) => c.languages };
const sorting = { column: null, direction: "" }; // column null: by encoder; direction "": the table's own order
const SVG = document.querySelector("#panels svg").namespaceURI;
let view = null;

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---- values ---------------------------------------------------------------------------------------------------------

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function deviation(values) {
  if (values.length < 2) return null;
  const centre = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1));
}

// The average of some columns: the mean within each seed, then over seeds; missing where anything is missing.
function average(row, names) {
  const scores = names.map((name) => row.scores[name]);
  if (scores.includes(null)) return null;
  const seeds = scores.map((score) => new Map(score.seeds));
  const all = [...new Set(seeds.flatMap((values) => [...values.keys()]))].sort((a, b) => a - b);
  if (!seeds.every((values) => all.every((seed) => values.has(seed)))) return null;
  const values = all.map((seed) => mean(seeds.map((of) => of.get(seed))));
  if (!values.length) return null;
  return {
    mean: mean(values), sd: deviation(values), n: values.length, seeds: all.map((seed, i) => [seed, values[i]]),
    interval: null, tied: false, cell_ids: [...new Set(scores.flatMap((score) => score.cell_ids))],
  };
}

// What an average is taken over while columns are hidden.
function shownColumns() {
  const passes = (column) =>
    Object.entries(FILTERS).every(([id, of]) => !$(id).value || of(column).includes($(id).value));
  const tasks = new Set(data.columns.filter((c) => !c.average_of.length && passes(c)).map((c) => c.name));
  const seen = new Set();
  return data.columns.flatMap((column) => {
    if (!column.average_of.length) return tasks.has(column.name) ? [{ column, over: null }] : [];
    const over = column.average_of.filter((name) => tasks.has(name));
    const key = JSON.stringify(over);
    if (over.length < 2 || seen.has(key)) return [];
    seen.add(key);
    return [{ column, over: over.length < column.average_of.length ? over : null }];
  });
}

// 1 for the best score of a column as printed, 2 for the second best, else 0; a baseline (no spec) has no rank.
function ranks(rows, position) {
  const printed = rows.map(({ row, scores }) =>
    (row.spec && scores[position] ? Number(number(scores[position].mean)) : null));
  const values = [...new Set(printed.filter((value) => value !== null))].sort((a, b) => b - a);
  if (printed.filter((value) => value !== null).length < 2) return printed.map(() => 0);
  return printed.map((value) => (value === null ? 0 : value === values[0] ? 1 : value === values[1] ? 2 : 0));
}

function compare(a, b) {
  const at = view.columns.findIndex(({ column }) => column.name === sorting.column);
  const sign = sorting.direction === "ascending" ? 1 : -1;
  if (at < 0) return sign * a.row.encoder.localeCompare(b.row.encoder, undefined, { numeric: true });
  const [left, right] = [a.scores[at], b.scores[at]];
  if (!left || !right) return (left ? 0 : 1) - (right ? 0 : 1); // what is missing comes last, whichever way
  return sign * (left.mean - right.mean);
}

function look() {
  const columns = shownColumns();
  const words = $("text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const filtered = Object.keys(FILTERS).some((id) => $(id).value);
  let rows = data.rows.map((row) => ({
    row, scores: columns.map(({ column, over }) => (over ? average(row, over) : row.scores[column.name])),
  }));
  rows = rows.filter(({ row, scores }) => {
    const text = `${row.encoder} ${row.spec}`.toLowerCase();
    return words.every((word) => text.includes(word)) && (!filtered || scores.some((score) => score));
  });
  view = { columns, rows };
  if (sorting.direction) rows.sort(compare);
  view.deviates = columns.map((_, i) => rows.some(({ scores }) => scores[i] && scores[i].sd !== null));
  const marks = columns.map((_, i) => ranks(rows, i));
  // A score is tied with the best of all; where that one is hidden, the mark would say something else.
  const whole = rows.length === data.rows.length;
  view.rows = rows.map((entry, i) => ({ ...entry, ranks: marks.map((column) => column[i]), whole }));
}

// ---- text -----------------------------------------------------------------------------------------------------------

// As the papers print it: .743, -.012, 1.000; what lies exactly between two numbers goes to the even one.
function number(value) {
  const digits = data.digits;
  const scaled = Math.abs(value) * 10 ** digits;
  const tie = Number.isInteger(value * 2 ** (digits + 1)) && scaled % 1 === 0.5;
  const rounded = tie ? (Math.sign(value) * 2 * Math.round(scaled / 2)) / 10 ** digits : value;
  let text = rounded.toFixed(digits);
  if (Number(text) === 0) text = text.replace("-", "");
  return Math.abs(Number(text)) < 1 ? text.replace("0.", ".") : text;
}

const minus = (text) => text.replaceAll("-", "\u2212");

function withDeviation(score) {
  return score.sd === null ? number(score.mean) : `${number(score.mean)} ± ${number(score.sd)}`;
}

function withMarks(score, whole) {
  const interval = score.interval ? ` [${score.interval.map((end) => number(end)).join(", ")}]` : "";
  return interval + (score.tied && whole ? data.tied.plain : "");
}

// The notes on what is shown, each without its parts on other columns and rows; null for one of which nothing is left.
function notes(format) {
  const columns = new Set(view.columns.map(({ column }) => column.name));
  const specs = new Set(view.rows.map(({ row }) => row.spec));
  const tied = view.rows.some(({ scores, whole }) => whole && scores.some((score) => score?.tied));
  const [headed, known] = [new Set(data.columns.map((c) => c.name)), new Set(data.rows.map((row) => row.spec))];
  // What is about no column or row of the whole table (a file may lack one) is about the table.
  const concerns = (part) => {
    const [over, of] = [part.columns.filter((name) => headed.has(name)), part.specs.filter((spec) => known.has(spec))];
    return (!over.length || over.some((name) => columns.has(name))) &&
      (!of.length || (part.all ? of.every((spec) => specs.has(spec)) : of.some((spec) => specs.has(spec))));
  };
  return data.written.notes.map((note) => {
    const parts = note.parts.filter(concerns);
    if (!parts.length || (note.tied && !tied)) return null;
    const text = parts.length === note.parts.length ? note.whole[format]
      : note.start[format] + parts.map((part) => part.text[format]).join(note.between) + note.end;
    return text + (format === "latex" && parts.length === note.parts.length ? note.stop : "");
  });
}

function neighbours() {
  const groups = [];
  for (const { column } of view.columns) {
    const last = groups.at(-1);
    if (last && last.suite === column.suite) last.n += 1;
    else groups.push({ suite: column.suite, latex: column.suite_latex, n: 1 });
  }
  return new Set(groups.map((group) => group.suite).filter(Boolean)).size > 1 ? groups : [];
}

function markdown() {
  const marks = [(text) => text, (text) => `**${text}**`, (text) => `<u>${text}</u>`];
  const rows = view.rows.map(({ row, scores, ranks, whole }) => [
    row.written.markdown,
    ...scores.map((score, i) =>
      score ? marks[ranks[i]](withDeviation(score)) + withMarks(score, whole) : data.missing.plain),
  ]);
  const lines = [["encoder", ...view.columns.map(({ column }) => column.written.markdown)], ...rows];
  const widths = lines[0].map((_, i) => Math.max(...lines.map((line) => line[i].length)));
  const pad = (line) => line.map((text, i) => (i ? text.padStart(widths[i]) : text.padEnd(widths[i])));
  const drawn = lines.map((line) => `| ${pad(line).join(" | ")} |`);
  drawn.splice(1, 0, `|${widths.map((width, i) => (i ? "-".repeat(width + 1) + ":" : ":" + "-".repeat(width + 1))).join("|")}|`);
  const title = data.written.title ? `**${data.written.title}**\n\n` : "";
  return `${title}${drawn.join("\n")}${notes("markdown").filter(Boolean).map((note) => `\n\n${note}`).join("")}\n`;
}

function latex() {
  const marks = [(text) => text, (text) => `\\textbf{${text}}`, (text) => `\\underline{${text}}`];
  const sign = (text) => text.replaceAll("-", "$-$");
  const print = (score) => sign(withDeviation(score)).replace("±", "$\\pm$");
  const interval = (ends) => (ends ? `\\,{\\scriptsize [${ends.map((end) => sign(number(end))).join(", ")}]}` : "");
  const lines = [data.written.before];
  lines.push(`\\begin{tabular}{l${"c".repeat(view.columns.length)}}`, "\\toprule");
  const groups = neighbours();
  if (groups.length) {
    let last = 1;
    const rules = groups.map(({ suite, n }) => {
      last += n;
      return suite ? `\\cmidrule(lr){${last - n + 1}-${last}}` : "";
    });
    lines.push(`& ${groups.map((g) => `\\multicolumn{${g.n}}{c}{${g.latex}}`).join(" & ")} \\\\`);
    lines.push(rules.filter(Boolean).join(" "));
  }
  lines.push(`${["encoder", ...view.columns.map(({ column }) => column.written.latex)].join(" & ")} \\\\`, "\\midrule");
  const changes = view.rows.map(({ row }, i) => i > 0 && row.backbone !== view.rows[i - 1].row.backbone);
  const blocks = changes.filter(Boolean).length + 1 < view.rows.length;
  view.rows.forEach(({ row, scores, ranks, whole }, i) => {
    if (blocks && changes[i]) lines.push("\\midrule");
    const cells = scores.map((score, j) => (score
      ? marks[ranks[j]](print(score)) + (score.tied && whole ? data.tied.latex : "") + interval(score.interval)
      : data.missing.latex));
    lines.push(`${[row.written.latex, ...cells].join(" & ")} \\\\`);
  });
  lines.push("\\bottomrule", "\\end{tabular}");
  const said = notes("latex").filter(Boolean).join(" ");
  const box = ["\\par\\smallskip", "\\begin{minipage}{\\linewidth}", `\\footnotesize\\raggedright ${said}`, "\\end{minipage}"];
  lines.push(...(said && data.written.below ? box : []), data.written.after);
  if (said && !data.written.below) lines.push(`{\\footnotesize\\noindent\\raggedright ${said}\\par}`);
  return [...lines, ""].join("\n");
}

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
  const titles = view.columns.map(({ column }) => heading(column.words, column.name, column.average_of.length));
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
  const said = size(row);
  return [element("span", { class: "encoder" }, row.encoder), ...(said ? [element("span", { class: "seeds" }, said)] : [])];
}

// Where the table is wider than its place, deviations go, so that more columns are in view.
function fit() {
  const place = document.querySelector(".scroller");
  place.classList.remove("narrow");
  place.classList.toggle("narrow", place.scrollWidth > place.clientWidth);
  $("spread").hidden = !place.classList.contains("narrow") || !view.deviates.includes(true);
}

const room = () => element("small", { class: "unseen", "aria-hidden": "true" }, `± ${number(0)}`);

function cell(entry, i) {
  const score = entry.scores[i];
  const average = view.columns[i].column.average_of.length ? { class: "average" } : {};
  const made = element("td", { tabindex: -1, ...average });
  // Room for a deviation, so that the points of a column stand one under the other.
  const space = view.deviates[i] ? [" ", room()] : [];
  if (!score) made.append(element("span", { class: "missing" }, data.missing.plain), ...space);
  if (!score) return made;
  const text = minus(number(score.mean));
  made.append([text, element("b", {}, text), element("u", {}, text)][entry.ranks[i]]);
  const tied = score.tied && entry.whole ? [element("span", { class: "tied" }, data.tied.plain)] : [];
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
  const about = notes("plain");
  document.querySelectorAll("#notes li").forEach((item, i) => {
    item.hidden = about[i] === null;
    item.textContent = about[i] ?? "";
  });
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
    parts.push(`sorted by ${by.words}, ${sorting.direction === "descending" ? "best" : "worst"} first`);
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

// A name of at most so many characters; a long one without its backbone, whose rows stand together.
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

// A column's scores, one below the other in the order of the rows.
function panel({ column }, at) {
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
    const tuned = !["", "base", "static"].includes(row.method);
    drawn.push(name, shape("line", { class: "interval", x1: x(from), x2: x(to), y1: y(i), y2: y(i) }));
    drawn.push(shape("circle", { class: tuned ? "tuned" : "untuned", cx: x(scores[at].mean), cy: y(i), r: 3.6 },
      shape("title", {}, `${row.encoder}: ${minus(withDeviation(scores[at]))}`)));
  });
  const title = column.average_of.length ? `Average of ${column.suite || "all tasks"}` : column.words;
  const text = `${title}: ${entries.map(({ row, scores }) => `${row.encoder} ${number(scores[at].mean)}`).join(", ")}`;
  return element("figure", {}, element("figcaption", {}, title, column.metric_words ? element("small", {}, ` ${column.metric_words}`) : ""),
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

// A first click sorts (scores best first, names from A), a second turns round, a third restores the table's own order.
function sort(name) {
  const order = name === null ? ["ascending", "descending", ""] : ["descending", "ascending", ""];
  sorting.direction = sorting.column === name ? order[(order.indexOf(sorting.direction) + 1) % 3] : order[0];
  sorting.column = name;
  draw();
  const position = view.columns.findIndex(({ column }) => column.name === name);
  $("board").tHead.querySelectorAll(".sort")[position + 1].focus();
}

// ---- details of a score ---------------------------------------------------------------------------------------------

function details(target) {
  const at = target.cellIndex - 1;
  const column = view.columns[at]?.column;
  if (target.closest("thead")) return column && target.scope === "col" ? aboutColumn(column, at) : null;
  const entry = view.rows[target.parentNode.rowIndex - $("board").tHead.rows.length];
  if (!entry) return null;
  if (!column && !entry.row.spec) return [entry.row.encoder, [["baseline", "needs no encoder"]]];
  if (!column) return [entry.row.encoder, [["spec", code(entry.row.spec)], ["protocol", entry.row.protocol], ["size", size(entry.row)]]];
  const title = `${entry.row.encoder}, ${column.words}`;
  const score = entry.scores[at];
  if (!score) return [title, [["missing", "no result, or not for every task or seed"]]];
  const several = score.n > 1;
  const ids = score.cell_ids.map((id) => id.slice(0, 12));
  const runs = ids.length > 6 ? `${ids.length} results` : code(ids.join(" "));
  return [title, [
    [several ? "mean" : "score", minus(score.mean.toFixed(data.digits + 1))],
    ["sd", several && score.sd !== null ? `${score.sd.toFixed(data.digits + 1)} over ${score.n} seeds` : ""],
    ["interval", score.interval ? score.interval.map((end) => minus(number(end))).join(" to ") : ""],
    ["seeds", several ? score.seeds.map(([seed, value]) => `${seed}: ${minus(number(value))}`).join(", ") : ""],
    ["tied", score.tied ? "not separable from the best" : ""],
    [ids.length > 1 ? "runs" : "run", ids.length ? runs : ""],
    ["items that changed", entry.row.items[column.name] ? code(entry.row.items[column.name]) : ""],
  ]];
}

function aboutColumn(column, at) {
  const over = view.columns[at].over ?? column.average_of;
  return [column.words, [
    ["data", column.about ?? ""],
    ["task", over.length ? "" : code(column.name)], ["average of", over.join(", ")], ["metric", column.metric_words],
    ["suite", column.suite], ["level", column.level], ["language", column.languages.join(", ")],
  ]];
}

const code = (text) => element("code", {}, text);

let tipTarget = null;
let soon = 0; // a pointer that only passes by opens and closes nothing

function later(action) {
  clearTimeout(soon);
  soon = setTimeout(action, 200);
}

function showTip(target) {
  clearTimeout(soon);
  if (target === tipTarget) return;
  hideTip();
  const found = details(target);
  if (!found) return;
  const [title, lines] = found;
  const list = lines.flatMap(([name, value]) => (value ? [element("dt", {}, name), element("dd", {}, value)] : []));
  $("tip").replaceChildren(element("p", {}, title), element("dl", {}, ...list));
  $("tip").hidden = false;
  tipTarget = target;
  tipTarget.setAttribute("aria-describedby", "tip");
  placeTip();
}

function placeTip() {
  const box = tipTarget.getBoundingClientRect();
  const tip = $("tip").getBoundingClientRect();
  const below = box.bottom + 6 + tip.height < window.innerHeight;
  $("tip").style.top = `${below ? box.bottom + 6 : Math.max(4, box.top - tip.height - 6)}px`;
  $("tip").style.left = `${Math.max(4, Math.min(box.right - tip.width, window.innerWidth - tip.width - 4))}px`;
}

function hideTip() {
  clearTimeout(soon);
  tipTarget?.removeAttribute("aria-describedby");
  tipTarget = null;
  $("tip").hidden = true;
}

// Going to a cell out of view scrolls there, and its details go along; those under a pointer end.
function scrolled() {
  if (tipTarget && tipTarget === document.activeElement) placeTip();
  else hideTip();
}

function move(event) {
  const from = event.target.closest("tbody [tabindex]");
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  if (!from || event.altKey || event.ctrlKey || event.metaKey) return;
  const row = from.parentNode;
  let to = null;
  if (event.key in steps) {
    const [down, right] = steps[event.key];
    const rows = [...$("board").tBodies[0].rows];
    to = rows[rows.indexOf(row) + down]?.cells[from.cellIndex + right];
  } else if (event.key === "Home" || event.key === "End") {
    to = event.key === "Home" ? row.cells[0] : row.cells[row.cells.length - 1];
  } else {
    return;
  }
  event.preventDefault();
  if (!to) return;
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

// ---- address, download ----------------------------------------------------------------------------------------------

const CHOSEN = ["text", ...Object.keys(FILTERS)];

// The filters stand in the address, so that a link shows the same rows and columns.
function remember() {
  const chosen = new URLSearchParams(CHOSEN.filter((id) => $(id).value).map((id) => [id, $(id).value])).toString();
  if (chosen !== location.hash.slice(1)) history.replaceState(null, "", chosen ? `#${chosen}` : location.pathname + location.search);
}

function recall() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  for (const id of CHOSEN) {
    $(id).value = chosen.get(id) ?? "";
    if ($(id).selectedIndex === -1) $(id).value = ""; // the address names what this table lacks
  }
}

// What is shown, with full precision, as the command writes it.
function csv() {
  const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const parts = ["", " sd", " seeds"];
  if (data.rows.some((row) => Object.values(row.scores).some((score) => score?.interval))) parts.push(" low", " high");
  const lines = view.rows.map(({ row, scores }) => [row.encoder, row.spec, ...scores.flatMap((score) =>
    [score?.mean, score?.sd, score?.n, ...(score?.interval ?? [null, null])].slice(0, parts.length))]);
  lines.unshift(["encoder", "spec", ...view.columns.flatMap(({ column }) => parts.map((part) => column.name + part))]);
  return lines.map((line) => `${line.map((value) => quoted(String(value ?? ""))).join(",")}\n`).join("");
}

// What is shown as a table that the command reads.
function json() {
  const only = (of, ...without) => Object.fromEntries(Object.entries(of).filter(([key]) => !without.includes(key)));
  const columns = view.columns.map(({ column, over }) => ({
    ...only(column, "written", "suite_latex", "words", "metric_words", "about"), ...(over ? { average_of: over } : {}),
  }));
  const rows = view.rows.map(({ row, scores }) => ({
    ...only(row, "written"), scores: Object.fromEntries(columns.map((column, i) => [column.name, scores[i]])),
  }));
  const table = { schema: data.schema, title: data.title, columns, rows, notes: notes("plain").filter(Boolean) };
  return `${JSON.stringify(table, null, 2)}\n`;
}

function download(text, type, name) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

// ---- copying, theme, start ------------------------------------------------------------------------------------------

async function copy(text, name) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch {
    // An older browser, or one that keeps its clipboard from local files: by way of a selection.
    const area = element("textarea", { readonly: "" });
    area.value = text;
    const before = document.activeElement;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
    before?.focus();
  }
  say(done ? `Copied as ${name}` : "The browser does not let this page copy.");
}

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function label() {
  $("theme").textContent = dark() ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `${dark() ? "Light" : "Dark"} colours`);
}

function remembered(value) {
  try {
    if (value) localStorage.setItem("mirrorbench-theme", value);
    return localStorage.getItem("mirrorbench-theme");
  } catch {
    return null; // a browser may keep storage from local files
  }
}

function start() {
  for (const [id, of] of Object.entries(FILTERS)) {
    const values = [...new Set(data.columns.flatMap(of))].filter(Boolean);
    $(id).append(...["", ...values].map((value) => element("option", { value }, value || "all")));
    $(id).parentNode.hidden = values.length < 2;
    $(id).addEventListener("change", draw);
  }
  const several = data.rows.some((row) => Object.values(row.scores).some((score) => score?.seeds.length > 1));
  $("seeds").parentNode.hidden = !several;
  $("seeds").addEventListener("change", draw);
  $("text").addEventListener("input", draw);
  $("copy-markdown").addEventListener("click", () => copy(markdown(), "Markdown"));
  $("copy-latex").addEventListener("click", () => copy(latex(), "LaTeX"));
  $("download-csv").addEventListener("click", () => download(csv(), "text/csv", "leaderboard.csv"));
  $("download-json").addEventListener("click", () => download(json(), "application/json", "leaderboard.json"));
  if ($("copy-bibtex")) {
    $("copy-bibtex").hidden = false;
    $("copy-bibtex").addEventListener("click", () => copy($("bibtex").textContent, "BibTeX"));
  }
  window.addEventListener("resize", fit);
  window.addEventListener("hashchange", () => { recall(); draw(); });

  const theme = remembered();
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = remembered(dark() ? "light" : "dark") ?? (dark() ? "light" : "dark");
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();

  const board = $("board");
  const within = (event) => event.target.closest("#board :is(th, td)");
  board.addEventListener("keydown", move);
  board.addEventListener("mouseover", (event) => {
    const target = within(event);
    if (target) later(() => target.isConnected && showTip(target));
  });
  board.addEventListener("focusin", (event) => within(event) && showTip(within(event)));
  board.addEventListener("focusout", hideTip);
  for (const place of [board, $("tip")]) {
    place.addEventListener("mouseleave", () => later(hideTip));
  }
  $("tip").addEventListener("mouseenter", () => clearTimeout(soon));
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  const scroller = document.querySelector(".scroller");
  scroller.addEventListener("scroll", () => {
    scroller.classList.toggle("scrolled", scroller.scrollLeft > 0);
    scrolled();
  });
  window.addEventListener("scroll", scrolled, { passive: true });
  for (const id of ["controls", "theme", "key"]) $(id).hidden = false;
  recall();
  draw();
}

start();
