// Candidates by two figures: kept and broken bounds, the front, and the answer.

function pareto(data) {
  const points = data.points.filter((point) => isShown(point.x, data.x) && isShown(point.y, data.y));
  const [best, others] = split(points, (point) => point.is_best);
  const [front, behind] = split(others, (point) => point.on_front);
  const [kept, broken] = split(behind, (point) => point.feasible);
  const line = points.filter((point) => point.on_front).sort((a, b) => a.x - b.x);
  // Room for the label of the best: it takes more lines where there is less room.
  const highest = extent(points.map((point) => point.y), data.y)[1];
  const heights = (width) => [...points.map((point) => point.y), highest + (width < 500 ? 0.22 : 0.1) * Math.abs(highest)];
  return ({ theme, width }) => {
    const groups = [
      { name: 'Breaks a bound', points: broken, colour: theme.broken, symbol: 'cross', size: 8 },
      { name: 'Keeps all bounds', points: kept, colour: theme.series[0], symbol: 'circle', size: 8, hollow: true },
      { name: 'On the front', points: front, colour: theme.series[2], symbol: 'rect', size: 9 },
      { name: 'Best', points: best, colour: theme.best, symbol: 'diamond', size: 19 },
    ].filter((group) => group.points.length > 0);
    const series = groups.map((group, index) => scatter(group, index + 2, theme));
    if (line.length > 1) series.unshift(frontLine(line, theme));
    best.forEach((point) => labelBest(series.at(-1), point, points, data, theme, width));
    const option = {
      grid: { left: 52, right: 22, top: 34, bottom: 46 },
      xAxis: horizontalAxis(theme, data.x, fromZero(points.map((point) => point.x), data.x)),
      yAxis: verticalAxis(theme, data.y, fromZero(heights(width), data.y)),
      tooltip: tooltip(theme, { trigger: 'item', formatter: (hit) => paretoTip(hit.data.point, data) }),
      series,
    };
    return { option, legend: groups };
  };
}

function split(values, test) {
  return [values.filter(test), values.filter((value) => !test(value))];
}

function scatter(group, z, theme) {
  const cross = group.symbol === 'cross';
  return {
    type: 'scatter',
    name: group.name,
    z,
    symbol: cross ? CROSS : group.symbol,
    symbolSize: group.size,
    itemStyle: {
      color: group.hollow ? theme.card : group.colour,
      borderColor: group.colour,
      borderWidth: group.hollow ? 1.6 : 0,
      opacity: cross ? 0.8 : 1,
    },
    data: group.points.map((point) => ({
      value: [point.x, point.y],
      point,
      // What breaks a bound is crossed wherever it is.
      ...(point.feasible || cross ? {} : { symbol: CROSS }),
    })),
  };
}

function frontLine(line, theme) {
  return {
    type: 'line',
    name: 'On the front',
    z: 1,
    silent: true,
    symbol: 'none',
    lineStyle: { color: theme.series[2], width: 1.5, type: [5, 4] },
    data: line.map((point) => [point.x, point.y]),
  };
}

// The label is written above the mark, towards the middle of the chart.
function labelBest(series, point, points, data, theme, width) {
  const place = position(point.x, extent(points.map((other) => other.x), data.x), data.x);
  const align = place < 0.35 ? 'left' : place > 0.65 ? 'right' : 'center';
  const limit = Math.min(360, 0.55 * width);
  const datum = series.data.find((candidate) => candidate.point === point);
  datum.label = {
    show: true,
    formatter: () => point.label,
    position: 'top',
    distance: 6,
    align,
    color: theme.text,
    backgroundColor: theme.card,
    padding: [2, 4],
    borderRadius: 3,
    fontWeight: 600,
    fontSize: 12,
    lineHeight: 16,
    // Only labels that are too long for a line get a width: the ground behind them is as wide as that.
    ...(7 * point.label.length > limit ? { width: limit, overflow: 'break' } : {}),
  };
}

function paretoTip(point, data) {
  const figures = [[data.y.name, figure(point.y, data.y.unit)], [data.x.name, figure(point.x, data.x.unit)]];
  const bounds = [['Bounds', point.feasible ? 'kept' : 'broken']];
  return tip(point.label, [...figures, ...(point.figures || []), ...bounds]);
}
