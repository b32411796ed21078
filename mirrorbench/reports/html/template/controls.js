// Actions of the reader: details, address, downloads, copying; and the start of the page.

// ---- details of a score ---------------------------------------------------------------------------------------------

function details(target) {
  const at = target.cellIndex - 1;
  const column = view.columns[at]?.column;
  if (target.closest("thead")) return column && target.scope === "col" ? aboutColumn(column, at) : null;
  const entry = view.rows[target.parentNode.rowIndex - $("board").tHead.rows.length];
  if (!entry) return null;
  if (!column && !entry.row.spec) return [entry.row.encoder, [["baseline", "needs no encoder"]]];
  if (!column) return [entry.row.encoder, [["spec", code(entry.row.spec)], ["protocol", entry.row.protocol], ["size", size(entry.row)]]];
  const title = `${entry.row.encoder}, ${column.display.heading}`;
  const score = entry.scores[at];
  if (!score) return [title, [["missing", "no result, or not for every task or seed"]]];
  const several = score.n > 1;
  const command = entry.row.display.error_commands[column.name];
  const ids = score.cell_ids.map((id) => id.slice(0, 12));
  const runs = ids.length > 6 ? `${ids.length} results` : code(ids.join(" "));
  return [title, [
    [several ? "mean" : "score", minus(score.mean.toFixed(data.display.digits + 1))],
    ["sd", several && score.sd !== null ? `${score.sd.toFixed(data.display.digits + 1)} over ${score.n} seeds` : ""],
    ["interval", score.interval ? score.interval.map((end) => minus(number(end))).join(" to ") : ""],
    ["seeds", several ? score.seeds.map(([seed, value]) => `${seed}: ${minus(number(value))}`).join(", ") : ""],
    ["tied", score.tied ? "not separable from the best" : ""],
    [ids.length > 1 ? "runs" : "run", ids.length ? runs : ""],
    ["items that changed", command ? code(command) : ""],
  ]];
}

function aboutColumn(column, at) {
  const over = view.columns[at].over ?? column.average_of;
  return [column.display.heading, [
    ["data", column.display.source],
    ["task", over.length ? "" : code(column.name)], ["average of", over.join(", ")], ["metric", column.display.metric],
    ["suite", column.suite], ["level", column.level], ["language", column.languages.join(", ")],
  ]];
}

const code = (text) => element("code", {}, text);

let tipTarget = null;
let timer = 0; // delays details, so that a passing pointer opens and closes nothing

function later(action) {
  clearTimeout(timer);
  timer = setTimeout(action, 200);
}

function showTip(target) {
  clearTimeout(timer);
  if (target === tipTarget) return;
  hideTip();
  const content = details(target);
  if (!content) return;
  const [title, lines] = content;
  const list = lines.flatMap(([name, value]) => (value ? [element("dt", {}, name), element("dd", {}, value)] : []));
  $("tip").replaceChildren(element("p", {}, title), element("dl", {}, ...list));
  $("tip").hidden = false;
  tipTarget = target;
  tipTarget.setAttribute("aria-describedby", "tip");
  placeTip();
}

// Below, above, right or left of the cell: the first place where the details cover none of the column that is sorted
// by, else the one where they cover least of it.
function placeTip() {
  const box = tipTarget.getBoundingClientRect();
  const tip = $("tip").getBoundingClientRect();
  const area = document.querySelector(".scroller").getBoundingClientRect();
  const head = document.querySelector("#board [aria-sort]")?.getBoundingClientRect();
  const column = head && { left: head.left, right: head.right, top: area.top, bottom: area.bottom };
  const inside = (value, size, room) => Math.max(4, Math.min(value, room - size - 4));
  const places = [
    [box.right - tip.width, box.bottom + 6],
    [box.right - tip.width, box.top - tip.height - 6],
    [Math.max(box.right, head?.right ?? 0) + 6, box.top],
    [Math.min(box.left, head?.left ?? box.left) - tip.width - 6, box.top],
    [box.right - tip.width, area.bottom + 6],
    [box.right - tip.width, area.top - tip.height - 6],
  ].map(([left, top]) => [inside(left, tip.width, window.innerWidth), inside(top, tip.height, window.innerHeight)]);
  const overlap = ([left, top], other) => {
    const across = Math.min(left + tip.width, other.right) - Math.max(left, other.left);
    const down = Math.min(top + tip.height, other.bottom) - Math.max(top, other.top);
    return Math.max(0, across) * Math.max(0, down);
  };
  const covered = (place) => overlap(place, box) + (column ? overlap(place, column) : 0);
  const least = Math.min(...places.map(covered));
  const [left, top] = places.find((place) => covered(place) === least);
  $("tip").style.left = `${left}px`;
  $("tip").style.top = `${top}px`;
}

function hideTip() {
  clearTimeout(timer);
  tipTarget?.removeAttribute("aria-describedby");
  tipTarget = null;
  $("tip").hidden = true;
}

// Moving to a cell out of view scrolls to it: its details move along, but details under a pointer are hidden.
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

// The address holds the filters, so that a link shows the same rows and columns.
function remember() {
  const chosen = new URLSearchParams(CHOSEN.filter((id) => $(id).value).map((id) => [id, $(id).value])).toString();
  if (chosen !== location.hash.slice(1)) history.replaceState(null, "", chosen ? `#${chosen}` : location.pathname + location.search);
}

function recall() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  for (const id of CHOSEN) {
    $(id).value = chosen.get(id) ?? "";
    if ($(id).selectedIndex === -1) $(id).value = ""; // the address names a value that this table does not have
  }
}

// The shown table in full precision, as the command writes it.
function csv() {
  const quoted = (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const parts = ["", " sd", " seeds"];
  if (data.rows.some((row) => Object.values(row.scores).some((score) => score?.interval))) parts.push(" low", " high");
  const lines = view.rows.map(({ row, scores }) => [row.encoder, row.spec, ...scores.flatMap((score) =>
    [score?.mean, score?.sd, score?.n, ...(score?.interval ?? [null, null])].slice(0, parts.length))]);
  lines.unshift(["encoder", "spec", ...view.columns.flatMap(({ column, over }) =>
    parts.map((part) => (over ? column.title : column.name) + part))]);
  return lines.map((line) => `${line.map((value) => quoted(String(value ?? ""))).join(",")}\n`).join("");
}

// The shown table as JSON that the command reads.
function json() {
  const values = ({ display, ...rest }) => rest;
  const columns = view.columns.map(({ column, over }) => ({ ...values(column), ...(over ? { average_of: over } : {}) }));
  const rows = view.rows.map(({ row, scores }) => ({
    ...values(row), scores: Object.fromEntries(columns.map((column, i) => [column.name, scores[i]])),
  }));
  const table = { schema: data.schema, title: data.title, columns, rows, notes: notes("plain") };
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
    // An older browser, or one that denies local files its clipboard: copy a selection.
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
    return null; // a browser may deny local files its storage
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
  for (const area of [board, $("tip")]) {
    area.addEventListener("mouseleave", () => later(hideTip));
  }
  $("tip").addEventListener("mouseenter", () => clearTimeout(timer));
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
  const scroller = document.querySelector(".scroller");
  scroller.addEventListener("scroll", () => {
    scroller.classList.toggle("scrolled", scroller.scrollLeft > 0);
    hint();
    scrolled();
  });
  window.addEventListener("scroll", scrolled, { passive: true });
  for (const id of ["controls", "theme", "key"]) $(id).hidden = false;
  recall();
  draw();
}

start();
