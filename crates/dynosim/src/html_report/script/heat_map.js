// Scores by two sizes. Colour shows the score; forms show what breaks a bound and what is best.

function heatMap(data) {
  const cells = [...new Map(data.cells.map((cell) => [`${cell.x} ${cell.y}`, cell])).values()];
  const columns = sizes(cells.map((cell) => cell.x));
  const rows = sizes(cells.map((cell) => cell.y));
  const [low, high] = extent(cells.filter((cell) => cell.feasible).map((cell) => cell.score), { scale: 'linear' });
  const largest = extent(cells.map((cell) => Math.abs(cell.score)), { scale: 'linear' })[1];
  // The same decimals in all cells, unless the numbers are too long for that.
  const text = (score) => (largest < 10000 ? withDecimals(score, decimalsFor(largest)) : shortFigure(score));
  return ({ theme, width }) => {
    const cellWidth = (width - 70) / columns.length;
    const named = cells.map((cell) => heatDatum(cell, columns, rows, { low, high, theme, cellWidth, text }));
    const height = Math.min(560, Math.max(240, 34 * rows.length + 90));
    const option = {
      grid: { left: 46, right: 16, top: 30, bottom: 46 },
      xAxis: sizeAxis(theme, data.x, columns, { nameLocation: 'middle', nameGap: 28 }),
      yAxis: sizeAxis(theme, data.y, rows, { nameTextStyle: { color: theme.quiet, fontSize: 12, align: 'left', padding: [0, 0, 2, -38] }, nameGap: 8 }),
      visualMap: { show: false, min: low < high ? low : low - 1, max: low < high ? high : low + 1, dimension: 2, inRange: { color: [theme.low, theme.high] } },
      tooltip: tooltip(theme, { trigger: 'item', formatter: (hit) => heatTip(hit.data.cell, data) }),
      series: [{ type: 'heatmap', data: named, emphasis: { itemStyle: { borderColor: theme.text, borderWidth: 2 } } }],
    };
    return { option, legend: heatLegend(data, cells, { low, high, text }), height };
  };
}

function sizes(values) {
  return [...new Set(values)].sort((a, b) => a - b);
}

function sizeAxis(theme, name, values, more) {
  return {
    type: 'category',
    data: values.map(String),
    name,
    nameTextStyle: { color: theme.quiet, fontSize: 12 },
    axisLine: { lineStyle: { color: theme.line } },
    axisTick: { show: false },
    axisLabel: axisLabel(theme, undefined),
    ...more,
  };
}

function heatDatum(cell, columns, rows, { low, high, theme, cellWidth, text }) {
  const scored = isNumber(cell.score);
  const mark = cell.is_best ? '★' : cell.feasible ? '' : '✕';
  const number = scored ? text(cell.score) : '';
  const label = cellWidth > 58 ? `${mark} ${number}`.trim() : cellWidth > 34 && !mark ? number : mark;
  const strength = low < high ? (cell.score - low) / (high - low) : 0.5;
  const hollow = !cell.feasible || !scored;
  const colour = hollow ? theme.quiet : strength > 0.5 ? theme.onHigh : theme.onLow;
  return {
    value: [columns.indexOf(cell.x), rows.indexOf(cell.y), scored ? cell.score : low],
    cell,
    visualMap: !hollow,
    itemStyle: {
      ...(hollow ? { color: theme.card, borderType: [3, 3] } : {}),
      borderColor: cell.is_best ? theme.best : hollow ? theme.broken : theme.card,
      borderWidth: cell.is_best ? 3 : 1,
    },
    label: { show: true, formatter: () => label, color: colour, fontSize: cellWidth > 58 ? 12 : 11, fontWeight: cell.is_best ? 700 : 400 },
  };
}

function heatTip(cell, data) {
  const bounds = cell.is_best ? 'kept, best' : 'kept';
  return tip(cell.label, [
    [data.score.name, figure(cell.score, data.score.unit)],
    [data.x, String(cell.x)],
    [data.y, String(cell.y)],
    ['Bounds', cell.feasible ? bounds : 'broken'],
  ]);
}

function heatLegend(data, cells, { low, high, text }) {
  const legend = [];
  if (low <= high) {
    const ramp = [text(low), make('span', { className: 'ramp' }), text(high)];
    legend.push(make('span', {}, axisTitle(data.score)), make('span', { className: 'short' }, ...ramp));
  }
  if (cells.some((cell) => cell.is_best)) legend.push(make('span', {}, '★ best'));
  if (cells.some((cell) => !cell.feasible)) legend.push(make('span', {}, '✕ breaks a bound'));
  return legend;
}
