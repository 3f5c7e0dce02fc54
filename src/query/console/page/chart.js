/* Lines over time, as SVG. */

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 52, right: 8, top: 8, bottom: 20 };

function element(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

/* The least of 1, 2, 5 times a power of ten that is not below VALUE. */
function roundUp(value, least) {
  if (!(value > least)) return least;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value * 0.999);
}

function ago(ms) {
  if (ms === 0) return "now";
  return ms < 120000 ? `${Math.round(ms / 1000)} s ago` : `${Math.round(ms / 6000) / 10} min ago`;
}

/* One line; what is not known is a gap in it, and a point between two gaps is drawn all the same. */
function lineOf(points, x, y) {
  let text = "";
  let open = false;
  points.forEach(([time, value], i) => {
    if (value === null) {
      open = false;
      return;
    }
    text += `${open ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    const next = points[i + 1];
    if (!open && (!next || next[1] === null)) text += "h0.01";
    open = true;
  });
  return text;
}

/* Draws LINES, each {name, points: [[unix ms, number or null]]}, of the SPAN ms before END into the element SVG, and their names
 * with the last values into the list LEGEND. FORMAT writes a value; LEAST is the least that the axis goes up to. */
export function drawChart(svg, legend, { lines, end, span, format, least }) {
  const width = svg.clientWidth || 400;
  const height = svg.clientHeight || 150;
  const values = lines.flatMap((line) => line.points.map((p) => p[1])).filter((v) => v !== null);
  const top = roundUp(Math.max(0, ...values), least);
  const x = (time) => MARGIN.left + (1 - (end - time) / span) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => MARGIN.top + (1 - value / top) * (height - MARGIN.top - MARGIN.bottom);
  const parts = [];

  for (const share of [0, 0.5, 1]) {
    const at = y(top * share);
    parts.push(element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
    parts.push(element("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, format(top * share)));
  }
  for (const [share, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const text = ago((1 - share) * span);
    parts.push(element("text", { x: x(end - (1 - share) * span), y: height - 5, "text-anchor": anchor }, text));
  }
  lines.forEach((line, i) => {
    parts.push(element("path", { class: `s${i + 1}`, d: lineOf(line.points, x, y) }));
  });
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...parts);

  const last = lines.map((line) => {
    const value = line.points.length ? line.points[line.points.length - 1][1] : null;
    return `${line.name} ${value === null ? "–" : format(value)}`;
  });
  svg.setAttribute("aria-label", `Now: ${last.join(", ")}`);
  legend.replaceChildren(...last.map((text, i) => {
    const item = document.createElement("li");
    item.className = `s${i + 1}`;
    item.textContent = text;
    return item;
  }));
}
