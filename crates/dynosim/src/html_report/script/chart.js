// The life of a chart: made, drawn, drawn anew in other colours or sizes, and marked as drawn.
//
// A chart is a function from { theme, width } to { option, legend, height }: what the library draws, the entries above
// it, and its height in pixels if it is not that of the style sheet.

const SVG = 'http://www.w3.org/2000/svg';
const CROSS = 'path://M1,0L5,4L9,0L10,1L6,5L10,9L9,10L5,6L1,10L0,9L4,5L0,1Z';
// The name of a series that only holds lines across a chart; no candidate has it.
const MARKS = '\u0000marks';
const charts = [];

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function addChart(box, build) {
  const chart = echarts.init(box, null, { renderer: 'svg' });
  const entry = { box, build, chart, width: box.clientWidth, hidden: new Set() };
  chart.on('finished', () => markAsDrawn(entry));
  charts.push(entry);
  drawChart(entry);
  new ResizeObserver(() => {
    if (box.clientWidth !== entry.width) drawChart(entry);
  }).observe(box);
}

function drawChart(entry) {
  const { box, build, chart, hidden } = entry;
  entry.width = box.clientWidth;
  const theme = readTheme();
  const { option, legend, height } = build({ theme, width: entry.width });
  if (height) box.style.height = `${height}px`;
  const selected = Object.fromEntries([...hidden].map((name) => [name, false]));
  chart.resize();
  chart.setOption({ ...base(theme), ...option, legend: { show: false, selected } }, { notMerge: true });
  drawLegend(entry, legend, theme);
}

function drawAllCharts() {
  charts.forEach(drawChart);
}

function base(theme) {
  return { animation: false, backgroundColor: 'transparent', textStyle: { fontFamily: theme.font, color: theme.text } };
}

// A chart is drawn if the library is done and something of its data can be seen.
function markAsDrawn({ box, chart }) {
  const shapes = chart.getZr().storage.getDisplayList();
  const marks = shapes.filter((shape) => shape.type !== 'text' && shape.type !== 'tspan' && belongsToSeries(chart, shape));
  if (marks.length > 0 && box.querySelector('svg path')) {
    box.dataset.marks = marks.length;
    box.dataset.drawn = 'true';
  }
}

function belongsToSeries(chart, shape) {
  const series = chart.getModel().getSeries().filter((one) => one.name !== MARKS);
  const groups = series.map((one) => chart.getViewOfSeriesModel(one).group);
  for (let node = shape; node; node = node.parent) {
    if (groups.includes(node)) return true;
  }
  return false;
}

// An entry is { name, colour, dash, symbol, hollow }, an element, or has a `fixed` name that cannot be switched off.
function drawLegend(entry, legend, theme) {
  const list = entry.box.parentElement.querySelector('.legend');
  list.replaceChildren(...(legend || []).map((item) => (item instanceof Node ? item : legendItem(entry, item, theme))));
}

function legendItem(entry, item, theme) {
  const swatch = legendSwatch(item, theme);
  if (item.fixed) return make('span', {}, swatch, item.fixed);
  const button = make('button', { type: 'button' }, swatch, item.name);
  button.setAttribute('aria-pressed', String(!entry.hidden.has(item.name)));
  button.addEventListener('click', () => {
    if (!entry.hidden.delete(item.name)) entry.hidden.add(item.name);
    button.setAttribute('aria-pressed', String(!entry.hidden.has(item.name)));
    entry.chart.dispatchAction({ type: 'legendToggleSelect', name: item.name });
  });
  return button;
}

function legendSwatch({ colour, dash, symbol, hollow }, theme) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('width', dash ? 26 : 12);
  svg.setAttribute('height', 12);
  svg.setAttribute('aria-hidden', 'true');
  const add = (tag, attributes) => {
    const shape = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
    svg.append(shape);
  };
  const middle = dash ? 13 : 6;
  if (dash) {
    const pattern = dash === 'solid' ? 'none' : dash.join(' ');
    add('path', { d: 'M0,6H26', stroke: colour, 'stroke-width': 2, 'stroke-dasharray': pattern, fill: 'none' });
  }
  const paint = { stroke: colour, 'stroke-width': 1.5, fill: hollow ? theme.card : colour };
  const paths = {
    circle: `M${middle - 4},6a4,4 0 1 0 8,0a4,4 0 1 0 -8,0Z`,
    rect: `M${middle - 4},2h8v8h-8Z`,
    triangle: `M${middle},1.5l4.5,8h-9Z`,
    diamond: `M${middle},0.5l5,5.5l-5,5.5l-5,-5.5Z`,
    cross: `M${middle - 4},2l8,8m0,-8l-8,8`,
  };
  if (paths[symbol]) add('path', { d: paths[symbol], ...paint });
  return svg;
}

// Texts go into the tip as texts: nothing in them is read as markup.
function tip(title, rows) {
  const list = make('dl');
  for (const [name, value] of rows) list.append(make('dt', { textContent: name }), make('dd', { textContent: value }));
  return make('div', { className: 'tip' }, make('strong', { textContent: title }), list);
}

function tooltip(theme, more) {
  return { confine: true, backgroundColor: theme.card, borderColor: theme.line, padding: [7, 10], transitionDuration: 0, ...more };
}
