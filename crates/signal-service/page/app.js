// The page of the signal service: all signals as they come, and a plot of some.
//
// It speaks x-afb-ws-json1 to the service that it comes from, and to nobody else. Whatever a name or a
// text contains, it becomes text of the page: nothing of it is read as HTML, and the plot gets numbers only.
"use strict";

const PROTOCOL = "x-afb-ws-json1";
const API = "low-can";
/** Events per second and signal that the page asks for. */
const FREQUENCY = 10;
const NEWEST = { latest: true, filter: { frequency: FREQUENCY } };
/** How often the page is drawn, how often it asks for statistics, and how long a reply may take: milliseconds. */
const DRAW_MS = 200;
const STATS_MS = 1_000;
const PATIENCE_MS = 5_000;
/** When a value is old, and what the plot shows: milliseconds. */
const OLD_MS = 2_000;
const WINDOW_MS = 60_000;
/** Rows of the table that are there at once, how many of them are before the first one that is seen, and by how many they change. */
const MOST_ROWS = 120;
const ROWS_BEFORE = 40;
const ROWS_STEP = 20;
/** How long the table has to rest before the page asks for the values of other rows: milliseconds. */
const REST_MS = 100;
/** Signals in the plot. */
const MOST_PLOTTED = 6;
const BACK_OFF_MS = [1_000, 2_000, 4_000, 5_000];

/** How long to wait before the next attempt, after so many that failed. */
const backOff = (failures) => BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)];

/** A number without digits that mean nothing. */
function numberText(value) {
  if (typeof value !== "number") return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  return String(Number(value.toPrecision(7)));
}

/** A value and what it is called. */
function valueText(value, text) {
  return text === undefined ? numberText(value) : `${numberText(value)} (${text})`;
}

/** The bytes of a frame, as candump writes them. */
const hex = (bytes) => bytes.map((byte) => Number(byte).toString(16).toUpperCase().padStart(2, "0")).join(" ");

function idText(id, extended) {
  return id === undefined ? "" : `0x${Number(id).toString(16).toUpperCase().padStart(extended ?? id > 0x7ff ? 8 : 3, "0")}`;
}

/** An age in whole units: what is new has none. */
function ageText(ms) {
  if (ms === null) return "–";
  if (ms < OLD_MS) return "now";
  if (ms < 120_000) return `${Math.floor(ms / 1_000)} s`;
  return ms < 7_200_000 ? `${Math.floor(ms / 60_000)} min` : `${Math.floor(ms / 3_600_000)} h`;
}

/** Whether a text has all words of a search. */
function matches(text, search) {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

/** Which rows are there, from the first to before the last, if the row at this place is the first one that is seen. */
function span(at, rows) {
  if (rows <= MOST_ROWS) return [0, rows];
  const first = Math.min(Math.max(0, Math.floor((at - ROWS_BEFORE) / ROWS_STEP) * ROWS_STEP), rows - MOST_ROWS);
  return [first, first + MOST_ROWS];
}

const count = (number, what) => `${number.toLocaleString("en-US")} ${what}${number === 1 ? "" : "s"}`;

/** What a message of the service means: a reply, an event, or nothing that this page knows. */
function read(message) {
  let parts = null;
  try { parts = JSON.parse(message); } catch { /* none of the protocol */ }
  if (!Array.isArray(parts)) return null;
  const [kind, name, body] = parts;
  if (kind === 3) return { reply: String(name), response: body?.response };
  if (kind === 4) return { reply: String(name), error: String(body?.request?.info ?? body?.request?.status ?? "the call failed") };
  if (kind !== 5 || typeof body?.data !== "object" || body.data === null) return null;
  return { event: String(name), data: body.data };
}

/** Takes from the front of the points of a signal what the plot does not show any more. One stays, for the line. */
function forget(points, now) {
  let gone = 0;
  while (gone + 1 < points.length && points[gone + 1][0] < now - WINDOW_MS) gone += 1;
  points.splice(0, gone);
}

/* ---- the connection ---- */

/** A connection that comes back. `on` has opened(call), event(name, data) and closed(wait). */
function connect(url, on) {
  let failures = 0;

  function attempt() {
    const socket = new WebSocket(url, PROTOCOL);
    const pending = new Map();
    let last = 0;
    let isOver = false;

    /** Calls a verb; rejects with what the service says, or when no reply comes. */
    const call = (verb, args = null) => new Promise((resolve, reject) => {
      if (isOver) return reject(new Error("not connected"));
      last += 1;
      const id = String(last);
      // A service that does not answer is as good as gone.
      const timer = setTimeout(end, PATIENCE_MS);
      pending.set(id, { resolve, reject, timer });
      socket.send(JSON.stringify([2, id, `${API}/${verb}`, args]));
    });

    const opening = setTimeout(end, PATIENCE_MS);
    function end() {
      if (isOver) return;
      isOver = true;
      clearTimeout(opening);
      socket.close();
      for (const { reject, timer } of pending.values()) {
        clearTimeout(timer);
        reject(new Error("not connected"));
      }
      const wait = backOff(failures);
      failures += 1;
      on.closed(wait);
      setTimeout(attempt, wait);
    }

    socket.onopen = () => {
      clearTimeout(opening);
      on.opened(call, () => { failures = 0; });
    };
    socket.onclose = end;
    socket.onmessage = ({ data }) => {
      const message = read(data);
      if (message?.event !== undefined) return on.event(message.event, message.data);
      const waiting = pending.get(message?.reply);
      if (waiting === undefined) return;
      pending.delete(message.reply);
      clearTimeout(waiting.timer);
      if (message.error === undefined) waiting.resolve(message.response);
      else waiting.reject(new Error(message.error));
    };
  }

  attempt();
}

/* ---- the page ---- */

function start() {
  const $ = (id) => document.getElementById(id);
  /** An element with a text, and nothing but text. */
  const element = (tag, text = "", properties = {}) => Object.assign(document.createElement(tag), { textContent: text }, properties);
  const write = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const tell = (text) => write(Object.assign($("trouble"), { hidden: text === "" }), text);

  /** All rows by name; those that the search leaves; those that are in the document; those of the plot in their order. */
  const rows = new Map();
  let found = [];
  let there = [];
  const plotted = [];
  let isRaw = false;
  let isStale = false;
  let isFound = true;
  let colours = [];
  let nextPlot = 0;

  /* rows */

  function makeRow(name, { bus = "", unit = "", id, extended, values = {} } = {}) {
    const row = { name, unit: String(unit ?? ""), values, value: undefined, text: undefined, came: null, points: [], isChanged: true, height: null };
    row.about = [bus, idText(id, extended)].filter(Boolean).join(" ");
    rows.set(name, row);
    return row;
  }

  /** Makes the elements of a row. */
  function show(row) {
    const { name } = row;
    row.box = element("input", "", { type: "checkbox", ariaLabel: `Plot ${name}`, checked: plotted.includes(row) });
    row.box.disabled = plotted.length === MOST_PLOTTED && !row.box.checked;
    row.box.addEventListener("change", () => (row.box.checked ? plot(row) : unplot(row)));
    row.shown = element("td", "", { className: "value" });
    row.number = row.shown.appendChild(document.createTextNode(""));
    if (row.unit !== "") row.shown.append(" ", element("span", row.unit));
    row.age = element("td", "", { className: "age" });
    const pick = element("td", "", { className: "pick" });
    pick.append(row.box);
    const title = element("td");
    // Long names break behind a part rather than anywhere.
    for (const part of name.split(/(?<=[./_])/)) title.append(part, element("wbr"));
    if (row.about !== "") title.append(element("small", row.about));
    row.tr = element("tr");
    row.tr.append(pick, title, row.shown, row.age);
    row.isChanged = true;
  }

  /** Finds the rows that the search leaves. */
  function search() {
    const wanted = $("search").value;
    found = [...rows.values()].filter((row) => matches(`${row.name} ${row.about} ${row.unit}`, wanted));
    const all = count(rows.size, isRaw ? "identifier" : "signal");
    write($("count"), found.length === rows.size ? all : `${found.length} of ${all}`);
    render();
  }

  /** The mean height of the rows that were in the document: pixels. */
  function usualHeight() {
    const known = found.filter(({ height }) => height !== null);
    return known.reduce((sum, { height }) => sum + height, 0) / known.length || 1;
  }

  /** Puts the rows into the document that are seen, and some around them; space is in the place of the others. */
  function render() {
    let usual = usualHeight();
    const top = $("rows-frame").scrollTop;
    let at = 0;
    for (let down = 0; at < found.length; at += 1) {
      down += found[at].height ?? usual;
      if (down > top) break;
    }
    const [first, last] = span(at, found.length);
    const next = found.slice(first, last);
    const stays = new Set(next);
    for (const row of there) {
      if (stays.has(row)) continue;
      row.tr.remove();
      row.tr = undefined;
    }
    let behind = $("rows").firstChild;
    for (const row of next) {
      if (row.tr === undefined) show(row);
      if (row.tr === behind) behind = behind.nextSibling;
      else $("rows").insertBefore(row.tr, behind);
    }
    there = next;
    draw();
    // Names may break into several lines.
    for (const row of there) row.height = row.tr.offsetHeight;
    usual = usualHeight();
    const height = (some) => some.reduce((sum, row) => sum + (row.height ?? usual), 0);
    for (const [id, some] of [["above", found.slice(0, first)], ["below", found.slice(last)]]) {
      $(id).hidden = some.length === 0;
      $(id).firstElementChild.firstElementChild.style.height = `${height(some)}px`;
    }
    follow();
  }

  /** Shows what the service has, and keeps what is plotted as far as it is still there. */
  function setSignals({ signals = [], frames = [] }) {
    const chosen = plotted.map(({ name, points }) => ({ name, points }));
    for (const row of [...plotted]) unplot(row);
    rows.clear();
    there = [];
    $("rows").replaceChildren();
    isRaw = signals.length === 0;
    for (const one of isRaw ? frames : signals) makeRow(String(one.name), one);
    for (const { name, points } of isRaw ? [] : chosen) {
      if (rows.has(name)) Object.assign(plot(rows.get(name)), { points });
    }
    $("signals").classList.toggle("raw", isRaw);
    document.querySelector("main").classList.toggle("raw", isRaw);
    $("plots").hidden = isRaw;
    $("hint").hidden = !isRaw;
    write($("hint"), "No bus has a DBC file, so there are no signals. These are the data of the frames, in hexadecimal digits.");
    write($("list-title"), isRaw ? "All frames" : "All signals");
    search();
  }

  /** A value, with the time when it came if it is new. */
  function take(row, value, text, came) {
    const named = text ?? (Object.hasOwn(row.values, value) ? row.values[value] : undefined);
    Object.assign(row, { value, text: named === undefined ? undefined : String(named), isChanged: true });
    if (came === null) return;
    row.came = came;
    if (plotted.includes(row)) row.points.push([came, typeof value === "number" ? value : null]);
  }

  function event(name, data) {
    if (name === "candor/missed") {
      write($("missed"), `This page has missed ${count(Number(data.total), "event")}: it, or the network, was too slow.`);
      $("missed").hidden = false;
      return;
    }
    if (isRaw) {
      if (!Array.isArray(data.data)) return;
      const known = rows.size;
      const row = rows.get(name) ?? makeRow(name, { id: data.id });
      take(row, undefined, hex(data.data), performance.now());
      if (rows.size !== known) isFound = false;
    } else if (rows.has(String(data.name))) {
      take(rows.get(String(data.name)), data.value, data.text, performance.now());
    }
  }

  /* the plot */

  function plot(row) {
    plotted.push(row);
    row.points = typeof row.value === "number" && row.came !== null ? [[row.came, row.value]] : [];
    plotChanged();
    return row;
  }

  function unplot(row) {
    plotted.splice(plotted.indexOf(row), 1);
    row.points = [];
    plotChanged();
  }

  function plotChanged() {
    for (const row of there) {
      row.box.checked = plotted.includes(row);
      row.box.disabled = plotted.length === MOST_PLOTTED && !row.box.checked;
    }
    $("legend").replaceChildren(...plotted.map((row, index) => {
      row.chip = element("button", "", { type: "button", ariaLabel: `Remove ${row.name} from the plot` });
      row.chip.style.borderLeftColor = colours[index];
      row.chip.addEventListener("click", () => {
        unplot(row);
        ($("legend").querySelector("button") ?? (row.tr && row.box) ?? $("rows-frame")).focus();
      });
      row.isChanged = true;
      const item = element("li");
      item.append(row.chip);
      return item;
    }));
    write($("plot-hint"), plotted.length === 0 ? "Choose signals in the table."
      : `${plotted.length} of at most ${MOST_PLOTTED}, the last 60 s as they came here`);
    $("plot").hidden = plotted.length === 0;
    isStale = true;
    follow();
  }

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    colours = style.getPropertyValue("--series").trim().split(/\s+/);
    plotChanged();
  }

  /** One strip for each signal, one above the other, over the same time. */
  function drawPlot(now) {
    if (plotted.length === 0 || globalThis.Plotly === undefined) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const share = 1 / plotted.length;
    const axis = { fixedrange: true, gridcolor: colour("--line"), zeroline: false };
    const layout = {
      height: 60 + Math.max(110 * plotted.length, 220), margin: { l: 60, r: 12, t: 12, b: 34 },
      paper_bgcolor: "transparent", plot_bgcolor: "transparent", showlegend: false, dragmode: false,
      font: { color: colour("--text"), size: 12 },
      xaxis: { ...axis, range: [-WINDOW_MS / 1_000, 0], ticksuffix: " s", anchor: plotted.length > 1 ? `y${plotted.length}` : "y" },
    };
    const traces = plotted.map((row, index) => {
      forget(row.points, now);
      const number = index === 0 ? "" : String(index + 1);
      layout[`yaxis${number}`] = { ...axis, nticks: 5, domain: [1 - (index + 1) * share + (index + 1 < plotted.length ? 0.02 : 0), 1 - index * share] };
      const xs = row.points.map(([time]) => (time - now) / 1_000);
      const ys = row.points.map(([, value]) => value);
      // A value holds until the next one.
      if (row.came !== null && now - row.came < OLD_MS) {
        xs.push(0);
        ys.push(ys.at(-1) ?? null);
      }
      return { x: xs, y: ys, yaxis: `y${number}`, mode: "lines", line: { color: colours[index], width: 2, shape: "hv" }, hovertemplate: "%{y}<extra></extra>" };
    });
    const began = performance.now();
    globalThis.Plotly.react($("plot"), traces, layout, { displayModeBar: false, responsive: true });
    // A slow machine draws less often, so that half of its time is left.
    nextPlot = now + 2 * (performance.now() - began);
  }

  function draw() {
    if (document.hidden) return;
    if (!isFound) {
      isFound = true;
      search();
    }
    const now = performance.now();
    for (const row of new Set([...there, ...plotted])) {
      const text = isRaw ? row.text ?? "–" : valueText(row.value, row.text);
      if (row.chip?.isConnected && row.isChanged) write(row.chip, `${row.name}: ${text} ${row.unit}`.trimEnd() + " ×");
      if (row.tr === undefined) continue;
      const age = row.came === null ? null : now - row.came;
      row.tr.classList.toggle("old", age === null || age >= OLD_MS);
      write(row.age, ageText(age));
      if (!row.isChanged) continue;
      row.isChanged = false;
      if (row.number.data !== text) row.number.data = text;
    }
    if (!isStale && (now < nextPlot || plotted.every(({ came }) => came === null))) return;
    isStale = false;
    drawPlot(now);
  }

  /* the service */

  const fill = (body, lines) => body.replaceChildren(...lines.map((cells) => {
    const line = element("tr");
    line.append(...cells.map((cell) => element("td", String(cell ?? "–"))));
    return line;
  }));
  const whole = (number) => (Number.isFinite(number) ? Math.round(number).toLocaleString("en-US") : "–");

  /** What was counted at the last statistics: the rate of a service that tells none. */
  let counted = { frames: new Map() };
  function showStats({ buses = [], subscribers = [], uptime_ns: uptime }) {
    $("stats").hidden = false;
    const seconds = (uptime - counted.uptime) / 1e9;
    const rate = (bus) => bus.frames_per_s ?? (bus.frames - counted.frames.get(bus.name)) / seconds;
    fill($("buses"), buses.map((bus) => [bus.name, whole(rate(bus)), whole(bus.lost), whole((bus.malformed ?? 0) + (bus.unlisted ?? 0)), bus.trouble ?? "none"]));
    fill($("subscribers"), subscribers.map((one) => [one.id, one.format, whole(one.topics), whole(one.delivered), whole(one.missed), whole(one.waiting)]));
    counted = { uptime, frames: new Map(buses.map(({ name, frames }) => [name, frames])) };
    const missed = subscribers.reduce((sum, one) => sum + (Number(one.missed) || 0), 0);
    write($("audience"), `${count(subscribers.length, "subscriber")}, ${count(missed, "missed event")}`);
    write($("uptime"), typeof uptime === "number" ? `up for ${uptimeText(uptime / 1e6)}` : "");
  }
  const uptimeText = (ms) => (ms < OLD_MS ? `${Math.floor(ms / 1_000)} s` : ageText(ms));

  let polling;
  const state = (name, text) => write(Object.assign($("state"), { className: name }), text);

  /** The connection, and the names that it is subscribed to. */
  let link = null;
  let subscribed = new Set();
  let isFollowing = false;
  let resting;

  /** Looks what the service has, and subscribes to what is shown of that. */
  async function look(call) {
    setSignals(await call("list") ?? {});
    if (isRaw) await call("subscribe", { id: "*", ...NEWEST });
    else await subscribe(call, true);
  }

  /** Subscribes to the rows that are there and in the plot, and to no others. */
  async function subscribe(call, isNew = false) {
    const rowsNow = new Set([...there, ...plotted]);
    const names = new Set([...rowsNow].map(({ name }) => name));
    const gone = [...subscribed].filter((name) => !names.has(name));
    const added = [...names].filter((name) => !subscribed.has(name));
    subscribed = names;
    // Nobody knows how old the values of others are.
    for (const name of gone) if (rows.has(name)) Object.assign(rows.get(name), { came: null });
    if (added.length > 0) await call("subscribe", { event: added, ...NEWEST });
    const unknown = isNew ? [...names] : added;
    if (unknown.length > 0) {
      const newest = await call("get", { event: unknown }) ?? [];
      for (const { name, value, text } of newest) {
        if (rows.get(name)?.came === null) take(rows.get(name), value, text, null);
      }
    }
    if (gone.length > 0) await call("unsubscribe", { event: gone });
  }

  /** Does so once the table rests. */
  function follow() {
    clearTimeout(resting);
    resting = setTimeout(async () => {
      if (link === null || isRaw) return;
      if (isFollowing) return follow();
      isFollowing = true;
      try {
        await subscribe(link);
      } catch (error) {
        if (error.message !== "not connected") tell(`The service refused: ${error.message}`);
      }
      isFollowing = false;
    }, REST_MS);
  }

  async function opened(call, succeeded) {
    subscribed = new Set();
    try {
      await look(call);
      link = call;
      succeeded();
      $("missed").hidden = true;
      state("open", "Connected");
      tell("");
    } catch (error) {
      if (error.message === "not connected") return;
      state("waiting", "Connected, but without events");
      tell(`The service refused: ${error.message}`);
    }
    let changes;
    const poll = async () => {
      const stats = await call("stats");
      showStats(stats);
      // Its buses have changed while it runs.
      if (changes !== undefined && stats.changes !== changes) await look(call);
      ({ changes } = stats);
      polling = setTimeout(poll, STATS_MS);
    };
    // Without a connection, there is another one soon.
    poll().catch(() => {});
  }

  function closed(wait) {
    clearTimeout(polling);
    link = null;
    counted = { frames: new Map() };
    // Nobody knows the values until it is back: a gap in the lines.
    for (const row of plotted) row.points.push([performance.now(), null]);
    state("waiting", `Not connected; the next attempt is in ${wait / 1_000} s`);
  }

  $("search").addEventListener("input", () => {
    $("rows-frame").scrollTop = 0;
    search();
  });
  let isScrolled = false;
  $("rows-frame").addEventListener("scroll", () => {
    if (isScrolled) return;
    isScrolled = true;
    requestAnimationFrame(() => {
      isScrolled = false;
      render();
    });
  });
  addEventListener("resize", () => {
    for (const row of rows.values()) row.height = null;
    render();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
  readColours();
  setInterval(draw, DRAW_MS);
  connect(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api`, { opened, event, closed });
}

if (typeof module === "undefined") start();
else module.exports = { ageText, backOff, forget, hex, idText, matches, numberText, read, span, valueText };
