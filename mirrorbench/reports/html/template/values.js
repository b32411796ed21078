"use strict";

// The page: a view (columns, rows and scores that are shown) is computed from the values and the controls, then drawn.
// Everything from the table becomes a text node, never markup.

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

// The shown columns, each with the tasks that its average is taken over while others are hidden (else null).
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
    if (over.length === column.average_of.length) return [{ column, over: null }];
    const of = (name) => `${name} of ${over.length}`; // not the average of all tasks
    const { heading, markdown, latex } = column.display;
    const display = { ...column.display, heading: of(heading), markdown: of(markdown), latex: of(latex) };
    return [{ column: { ...column, title: of(column.title), display }, over }];
  });
}

// 1 for the best printed score of a column, 2 for the second best, else 0; a baseline (no spec) has no rank. Rows of
// different computations (parts) are ranked apart.
function ranks(rows, position) {
  const printed = rows.map(({ row, scores }) =>
    (row.spec && scores[position] ? Number(number(scores[position].mean)) : null));
  return printed.map((own, i) => {
    const rivals = printed.filter((value, j) => value !== null && rows[j].row.part === rows[i].row.part);
    const values = [...new Set(rivals)].sort((a, b) => b - a);
    return own === null || rivals.length < 2 ? 0 : own === values[0] ? 1 : own === values[1] ? 2 : 0;
  });
}

function compare(a, b) {
  const at = view.columns.findIndex(({ column }) => column.name === sorting.column);
  const sign = sorting.direction === "ascending" ? 1 : -1;
  if (at < 0) return sign * a.row.encoder.localeCompare(b.row.encoder, undefined, { numeric: true });
  const [left, right] = [a.scores[at], b.scores[at]];
  if (!left || !right) return (left ? 0 : 1) - (right ? 0 : 1); // missing scores come last in both directions
  return sign * (left.mean - right.mean);
}

function look() {
  const columns = shownColumns();
  const words = $("text").value.toLowerCase().split(/\s+/).filter(Boolean);
  const filtered = Object.keys(FILTERS).some((id) => $(id).value);
  let rows = data.rows.map((row, place) => ({
    row, place, scores: columns.map(({ column, over }) => (over ? average(row, over) : row.scores[column.name])),
  }));
  rows = rows.filter(({ row, scores }) => {
    const text = `${row.encoder} ${row.spec}`.toLowerCase();
    return words.every((word) => text.includes(word)) && (!filtered || scores.some((score) => score));
  });
  view = { columns, rows };
  if (sorting.direction) rows.sort(compare);
  view.deviates = columns.map((_, i) => rows.some(({ scores }) => scores[i] && scores[i].sd !== null));
  const marks = columns.map((_, i) => ranks(rows, i));
  // A score is tied with the best of all rows, so the mark is dropped while rows are hidden.
  const whole = rows.length === data.rows.length;
  view.ties = columns.map((_, i) => whole && rows.some(({ scores }) => scores[i]?.tied));
  view.rows = rows.map((entry, i) => ({ ...entry, ranks: marks.map((column) => column[i]), whole }));
}

// ---- text -----------------------------------------------------------------------------------------------------------

// A score as the papers print it: .743, -.012, 1.000; ties are rounded to the even digit.
function number(value) {
  const digits = data.display.digits;
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
  return interval + (score.tied && whole ? data.display.tied.plain : "");
}

const notes = (format) => data.display.notes.map((note) => note[format]);

function neighbours() {
  const groups = [];
  for (const { column } of view.columns) {
    const last = groups.at(-1);
    if (last && last.suite === column.suite) last.n += 1;
    else groups.push({ suite: column.suite, latex: column.display.suite_latex, n: 1 });
  }
  return new Set(groups.map((group) => group.suite).filter(Boolean)).size > 1 ? groups : [];
}

function markdown() {
  const marks = [(text) => text, (text) => `**${text}**`, (text) => `*${text}*`];
  const rows = view.rows.map(({ row, scores, ranks, whole }) => [
    row.display.markdown,
    ...scores.map((score, i) =>
      score ? marks[ranks[i]](withDeviation(score)) + withMarks(score, whole) : data.display.missing.plain),
  ]);
  const lines = [["encoder", ...view.columns.map(({ column }) => column.display.markdown)], ...rows];
  const widths = lines[0].map((_, i) => Math.max(...lines.map((line) => line[i].length)));
  const pad = (line) => line.map((text, i) => (i ? text.padStart(widths[i]) : text.padEnd(widths[i])));
  const drawn = lines.map((line) => `| ${pad(line).join(" | ")} |`);
  drawn.splice(1, 0, `|${widths.map((width, i) => (i ? "-".repeat(width + 1) + ":" : ":" + "-".repeat(width + 1))).join("|")}|`);
  const title = data.display.title ? `**${data.display.title}**\n\n` : "";
  return `${title}${drawn.join("\n")}${notes("markdown").map((note) => `\n\n${note}`).join("")}\n`;
}

// The lines of a tabular, from the types of its columns on.
function tabular() {
  const marks = [(text) => text, (text) => `\\textbf{${text}}`, (text) => `\\underline{${text}}`];
  const sign = (text) => text.replaceAll("-", "$-$");
  const print = (score) => sign(withDeviation(score)).replace("±", "$\\pm$");
  const interval = (ends) => (ends ? `\\,{\\scriptsize [${ends.map((end) => sign(number(end))).join(", ")}]}` : "");
  const lines = [`l${"c".repeat(view.columns.length)}}`, "\\toprule"];
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
  lines.push(`${["encoder", ...view.columns.map(({ column }) => column.display.latex)].join(" & ")} \\\\`, "\\midrule");
  const changes = view.rows.map(({ row }, i) => i > 0 && row.backbone !== view.rows[i - 1].row.backbone);
  const blocks = changes.filter(Boolean).length + 1 < view.rows.length;
  view.rows.forEach(({ row, scores, ranks, whole }, i) => {
    if (blocks && changes[i]) lines.push("\\midrule");
    const cells = scores.map((score, j) => (score
      ? marks[ranks[j]](print(score)) + (score.tied && whole ? data.display.tied.latex : "") + interval(score.interval)
      : data.display.missing.latex));
    lines.push(`${[row.display.latex, ...cells].join(" & ")} \\\\`);
  });
  lines.push("\\bottomrule", "");
  return lines.join("\n");
}

// The table as the command writes it, with the rows and columns that are shown.
function latex() {
  return data.display.latex.before + tabular() + data.display.latex.after;
}
