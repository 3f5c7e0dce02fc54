/* The console: asks the server every two seconds and shows what it says. What comes from outside (SQL, names, errors) is only ever
 * set as text. */
import { drawChart } from "./chart.js";

const STEP_MS = 2000;
const ANSWER_MS = 8000;
const CLOCK = { hourCycle: "h23" };
const $ = (id) => document.getElementById(id);

const session = { csrf: "", tokenNeeded: true, signedIn: false };
const series = { next: 0, rows: [], methods: [], step: 2000, kept: 300 };
const cancelling = new Set();
let lastAnswer = null;
let timer = 0;
let polling = false;

/* ---- words ---- */

const count = (n) => Number(n).toLocaleString("en");

function duration(ms) {
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

function age(seconds) {
  const s = Math.floor(seconds);
  const two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)} h`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = bytes;
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

const number = (n) => (n >= 10 || Number.isInteger(n) ? String(Math.round(n)) : n.toPrecision(2));

const who = (row) => (row.user ? `${row.user}, ${row.client}` : row.client);

/* ---- the page's parts ---- */

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

function notice(text, kind) {
  const node = $("notice");
  setText(node, text);
  node.className = `notice ${kind || ""}`;
  show(node, text !== "");
}

function tile(id, value, note) {
  const node = $(id);
  const text = `${value}${note ? ` ${note}` : ""}`;
  if (node.textContent === text) return;
  node.textContent = value;
  if (note) {
    const small = document.createElement("small");
    small.textContent = ` ${note}`;
    node.append(small);
  }
}

/* Makes the rows of TABLE those of ITEMS, in this order. A row is found again by its key, so that focus stays where it is. MAKE gives
 * a new row's cells, UPDATE(cells, item) fills them. */
function fill(table, items, keyOf, make, update) {
  const body = table.tBodies[0];
  const labels = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  let at = body.firstElementChild;

  for (const item of items) {
    const key = keyOf(item);
    let row = old.get(key);
    old.delete(key);
    if (!row) {
      row = document.createElement("tr");
      row.dataset.key = key;
      row.append(...make(item).map((cell, i) => {
        if (!cell.classList.contains("action")) cell.dataset.label = labels[i];
        return cell;
      }));
    }
    update([...row.cells], item);
    if (row === at) at = at.nextElementSibling;
    else body.insertBefore(row, at);
  }
  for (const row of old.values()) row.remove();
  show(table, items.length > 0);
}

function cell(className) {
  const td = document.createElement("td");
  if (className) td.className = className;
  return td;
}

function pill(td, text, kind) {
  let span = td.firstElementChild;
  if (!span) {
    span = document.createElement("span");
    td.append(span);
  }
  setText(span, text);
  span.className = `pill ${kind}`;
}

/* ---- running queries ---- */

function sqlCell() {
  const td = cell("sql");
  const code = document.createElement("code");
  const more = document.createElement("button");
  more.className = "link";
  more.type = "button";
  more.addEventListener("click", () => {
    const whole = code.classList.toggle("whole");
    more.textContent = whole ? "Show less" : "Show all";
    more.setAttribute("aria-expanded", String(whole));
  });
  more.textContent = "Show all";
  more.setAttribute("aria-expanded", "false");
  td.append(code, more);
  return td;
}

function runningCells(query) {
  const action = cell("action num");
  const button = document.createElement("button");
  button.type = "button";
  button.className = "danger";
  button.textContent = "Cancel";
  button.addEventListener("click", () => askToCancel(action.query));
  action.append(button);
  return [sqlCell(), cell(), cell("tight"), cell("num"), cell("num"), cell(), cell(), action];
}

function updateRunning(cells, query) {
  const [sql, database, state, old, sent, client, worker, action] = cells;
  const text = `${query.sql}${query.cut ? " …" : ""}` || "(no SQL)";
  const ending = cancelling.has(query.id);
  setText(sql.firstElementChild, text);
  const code = sql.firstElementChild;
  show(sql.lastElementChild, code.classList.contains("whole") || code.scrollHeight > code.clientHeight);
  setText(database, query.database);
  pill(state, ending ? "cancelling" : query.waiting ? "waiting" : "running", ending || query.waiting ? "warn" : "good");
  setText(old, age(query.elapsed_ms / 1000));
  setText(sent, size(query.bytes_sent));
  setText(client, who(query));
  setText(worker, query.worker || "–");
  action.query = query;
  action.firstElementChild.disabled = ending;
  action.firstElementChild.setAttribute("aria-label", `Cancel execution ${query.id}`);
}

function askToCancel(query) {
  const dialog = $("confirm");
  $("confirm-sql").textContent = query.sql;
  $("confirm-about").textContent = `${query.database || "no database"}, from ${who(query)}, for ${age(query.elapsed_ms / 1000)}. Execution ${query.id}.`;
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue === "cancel") cancel(query.id);
  };
  dialog.showModal();
}

async function cancel(id) {
  cancelling.add(id);
  const answer = await post("/api/cancel", { execution: id }).catch(() => null);
  if (!answer || answer.status !== 200) {
    cancelling.delete(id);
    notice("The query could not be cancelled: the server did not take the request.", "bad");
  } else if (answer.body.cancelled === "no") {
    cancelling.delete(id);
  }
  poll();
}

/* ---- what the server says ---- */

function showStatus(status) {
  setText($("role"), status.role === "serve" ? "server" : status.role);
  setText($("about"), `version ${status.version}${status.duckdb_version ? `, DuckDB ${status.duckdb_version}` : ""}, up ${age(status.uptime_seconds)}${status.databases.length ? `, databases: ${status.databases.join(", ")}` : ""}`);
  setText($("state"), status.draining ? "draining" : "serving");
  $("state").className = `pill ${status.draining ? "warn" : "good"}`;
  tile("tile-running", count(status.in_flight), `of ${count(status.max_in_flight)}`);
  tile("tile-queued", count(status.queued), `of ${count(status.max_queued)}`);
  tile("tile-transactions", count(status.transactions));
  document.title = `OpenDuck console: ${count(status.running_count)} running`;

  const ids = new Set(status.running.map((query) => query.id));
  for (const id of cancelling) if (!ids.has(id)) cancelling.delete(id);
  fill($("running"), status.running, (query) => query.id, runningCells, updateRunning);
  show($("no-running"), status.running.length === 0);
  setText($("more-running"), `${count(status.running_count - status.running.length)} younger ones are not listed.`);
  show($("more-running"), status.running_count > status.running.length);

  fill($("workers"), status.workers, (worker) => `${worker.id} ${worker.endpoint}`, workerCells, updateWorker);
  setText($("no-workers"), status.role === "serve"
    ? "This server runs queries itself; it has no other workers."
    : "No workers. Queries are refused until one registers (openduck worker --gateway) or is named by --workers.");
  $("no-workers").className = status.role === "serve" ? "empty" : "empty error";
  show($("no-workers"), status.workers.length === 0);
}

function workerCells() {
  return [cell(), cell(), cell("tight"), cell("num"), cell(), cell("num")];
}

function updateWorker(cells, worker) {
  const [id, endpoint, health, load, databases, known] = cells;
  setText(id, worker.id);
  setText(endpoint, worker.endpoint);
  pill(health, worker.healthy ? "up" : "down", worker.healthy ? "good" : "bad");
  setText(load, worker.max_concurrency ? `${count(worker.in_flight)} of ${count(worker.max_concurrency)}` : count(worker.in_flight));
  setText(databases, worker.databases.join(", ") || "any");
  setText(known, age(worker.known_seconds));
}

function failureCells() {
  return [cell("tight"), cell(), cell(), cell(), cell(), cell()];
}

function updateFailure(cells, failure) {
  const when = new Date(failure.unix_ms);
  const today = when.toDateString() === new Date().toDateString();
  const texts = [
    today ? when.toLocaleTimeString([], CLOCK) : when.toLocaleString([], CLOCK),
    `${failure.code === failure.kind || failure.kind === "NONE" ? failure.code : `${failure.kind}: ${failure.code}`}${failure.sqlstate ? ` (${failure.sqlstate})` : ""}`,
    failure.message, failure.database, who(failure), failure.id || failure.call,
  ];
  cells.forEach((node, i) => setText(node, texts[i]));
}

function showFailures({ failures }) {
  const seen = new Map(); /* the same execution may be there twice */
  fill($("failures"), failures, (failure) => {
    const key = `${failure.unix_ms} ${failure.id}`;
    seen.set(key, (seen.get(key) || 0) + 1);
    return `${key} ${seen.get(key)}`;
  }, failureCells, updateFailure);
  show($("no-failures"), failures.length === 0);
}

/* ---- rates and latency ---- */

const CALLS = 0;
const ERRORS = 1;
const P50 = 2;
const P95 = 3;
const P99 = 4;

function takeSeries(answer) {
  if (answer.first !== series.next) series.rows = []; /* another life of the server, or rows were missed */
  series.next = answer.next;
  series.methods = answer.methods;
  series.step = answer.step_ms;
  series.kept = answer.kept;
  series.rows.push(...answer.rows);
  series.rows.splice(0, series.rows.length - series.kept);
  setText($("window"), String(answer.window_ms / 1000));

  const select = $("method");
  if (select.options.length !== series.methods.length) {
    const chosen = select.value || "ExecuteFragment";
    select.replaceChildren(...series.methods.map((name) => new Option(name, name, false, name === chosen)));
  }
}

function figure(row, method, which) {
  const figures = method < 0 ? undefined : row[3 + method];
  return figures === undefined ? null : figures[which];
}

function drawCharts() {
  const rows = series.rows;
  const method = series.methods.indexOf($("method").value);
  const points = (which) => rows.map((row) => [row[0], figure(row, method, which)]);
  const end = rows.length ? rows[rows.length - 1][0] : Date.now();
  const since = rows.length ? end - rows[0][0] : 0;
  const at = { end, span: Math.min(Math.max(since, 60000), series.step * series.kept) };
  const line = (name, which) => ({ name, points: points(which) });

  drawChart($("chart-rate"), $("legend-rate"), { ...at, lines: [line("all", CALLS), line("failed", ERRORS)], format: number, least: 1 });
  drawChart($("chart-latency"), $("legend-latency"), { ...at, lines: [line("50 %", P50), line("95 %", P95), line("99 %", P99)], format: duration, least: 1 });
  drawChart($("chart-load"), $("legend-load"), {
    ...at, format: number, least: 4,
    lines: [{ name: "running", points: rows.map((row) => [row[0], row[1]]) }, { name: "queued", points: rows.map((row) => [row[0], row[2]]) }],
  });
}

function showSeries(answer) {
  takeSeries(answer);
  drawCharts();
  const last = series.rows[series.rows.length - 1];
  const execute = series.methods.indexOf("ExecuteFragment");
  const now = (which) => (last ? figure(last, execute, which) : null);
  tile("tile-rate", now(CALLS) === null ? "–" : number(now(CALLS)));
  tile("tile-errors", now(CALLS) ? `${number((100 * now(ERRORS)) / now(CALLS))} %` : "–");
  tile("tile-p95", now(P95) === null ? "–" : duration(now(P95)));
}

/* ---- asking ---- */

async function get(path) {
  const answer = await fetch(path, { cache: "no-store", redirect: "error", signal: AbortSignal.timeout(ANSWER_MS) });
  return { status: answer.status, body: answer.headers.get("content-type") === "application/json" ? await answer.json() : {} };
}

async function post(path, fields) {
  const answer = await fetch(path, {
    method: "POST", cache: "no-store", redirect: "error", signal: AbortSignal.timeout(ANSWER_MS),
    headers: { "X-OpenDuck-CSRF": session.csrf }, body: new URLSearchParams(fields),
  });
  return { status: answer.status, body: answer.headers.get("content-type") === "application/json" ? await answer.json() : {} };
}

function unreachable() {
  document.body.classList.add("stale");
  notice(`The gateway does not answer.${lastAnswer ? ` What is shown is of ${lastAnswer.toLocaleTimeString([], CLOCK)}.` : ""} Trying again.`, "bad");
}

function signedOut(why) {
  session.signedIn = false;
  session.csrf = "";
  if ($("confirm").open) $("confirm").close();
  show($("app"), false);
  show($("sign-in"), true);
  notice(why, "warn");
  $("token").focus();
}

async function ask() {
  const [status, rows, failures] = await Promise.all([get("/api/status"), get(`/api/series?since=${series.next}`), get("/api/failures")]);
  if ([status, rows, failures].some((answer) => answer.status === 401)) {
    await begin("Your session has ended: sign in again.");
    return;
  }
  if ([status, rows, failures].some((answer) => answer.status !== 200)) throw new Error("no answer");
  lastAnswer = new Date();
  document.body.classList.remove("stale");
  notice("", "");
  showStatus(status.body);
  showFailures(failures.body);
  showSeries(rows.body);
}

async function poll() {
  if (polling) return;
  polling = true;
  clearTimeout(timer);
  try {
    if (session.signedIn) await ask();
    else if ($("sign-in").hidden) await begin("");
  } catch {
    unreachable();
  }
  polling = false;
  if (!document.hidden) timer = setTimeout(poll, STEP_MS);
}

/* Finds out whether there is a session, and without a token to be asked for begins one. */
async function begin(why) {
  let { status, body } = await get("/api/session");
  if (status === 200 && !body.signed_in && !body.token_needed) {
    await post("/login", { token: "" });
    ({ status, body } = await get("/api/session"));
  }
  if (status !== 200) throw new Error("no answer");
  session.csrf = body.csrf;
  session.tokenNeeded = body.token_needed;
  session.signedIn = body.signed_in;
  document.body.classList.remove("stale");
  notice("", "");
  if (!body.signed_in) {
    signedOut(why);
    return;
  }
  show($("sign-in"), false);
  show($("app"), true);
  show($("sign-out"), body.token_needed);
  await ask();
}

async function signIn(event) {
  event.preventDefault();
  const field = $("token");
  const error = $("sign-in-error");
  setText(error, "");
  try {
    const answer = await post("/login", { token: field.value });
    if (answer.status === 200) {
      field.value = "";
      await begin("");
    } else if (answer.status === 401) {
      setText(error, "This is no token of an administrator.");
      field.select();
    } else {
      setText(error, `The server refuses to let this page sign in (${answer.status}).`);
    }
  } catch {
    setText(error, "The gateway does not answer.");
  }
}

async function signOut() {
  try {
    await post("/logout", {});
    await begin("You have signed out.");
  } catch {
    unreachable();
  }
}

$("sign-in-form").addEventListener("submit", signIn);
$("sign-out").addEventListener("click", signOut);
$("method").addEventListener("change", drawCharts);
addEventListener("resize", () => session.signedIn && drawCharts());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) poll();
});
poll();
