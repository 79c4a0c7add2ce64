// Lines of several candidates: distributions of latencies, and figures under other loads.

function distribution(data) {
  const curves = data.curves.map((curve) => ({
    name: curve.name,
    points: curve.points.filter(([value, share]) => isShown(value, data.axis) && isNumber(share)),
  }));
  const share = { name: 'Share of requests', unit: '' };
  const bounds = (data.bounds || []).filter((bound) => isShown(bound.value, data.axis));
  const values = curves.flatMap((curve) => curve.points.map(([value]) => value));
  return ({ theme }) => {
    const looks = curves.map((curve, index) => ({ name: curve.name, ...lineLook(theme, index), symbol: 'none' }));
    const series = looks.map((look, index) => {
      const points = curves[index].points;
      // Up to the smallest value there is no request.
      const data = points.length > 0 ? [[points[0][0], 0], ...points] : [];
      return { ...lineSeries(look), showSymbol: false, step: 'end', data };
    });
    const across = acrossLines(bounds, values, data.axis, theme);
    series.push(markSeries(across, bounds.map((bound) => [bound.value, 0])));
    const option = {
      grid: { left: 52, right: 22, top: 30 + 16 * across.length, bottom: 46 },
      xAxis: horizontalAxis(theme, data.axis, fromZero([...values, ...bounds.map((bound) => bound.value)], data.axis)),
      yAxis: verticalAxis(theme, share, { min: 0, max: 1, axisLabel: { formatter: percent }, nameGap: 8 + 16 * across.length }),
      tooltip: tooltip(theme, {
        trigger: 'axis',
        formatter: (hits) => distributionTip(hits[0].axisValue, curves, data.axis),
      }),
      series,
    };
    return { option, legend: looks };
  };
}

function distributionTip(value, curves, axis) {
  return tip(`At most ${figure(value, axis.unit)}`, curves.map((curve) => [curve.name, percent(shareUpTo(curve.points, value))]));
}

// The share of requests up to a value: that of the last point which is not beyond it.
function shareUpTo(points, value) {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= value) low = middle + 1;
    else high = middle;
  }
  return low > 0 ? points[low - 1][1] : 0;
}

function loadCurve(data) {
  const curves = data.curves.map((curve) => ({
    name: curve.name,
    points: curve.points.filter(([load, value]) => isShown(load, data.x) && isShown(value, data.y)),
  }));
  const loads = curves.flatMap((curve) => curve.points.map(([load]) => load));
  const bounds = (data.bounds || []).filter((bound) => isShown(bound.value, data.y));
  const values = curves.flatMap((curve) => curve.points.map(([, value]) => value));
  const marks = (data.marks || []).filter((mark) => isShown(mark.value, data.x));
  const edges = [...marks.map((mark) => [mark.value, values[0]]), ...bounds.map((bound) => [loads[0], 1.08 * bound.value])];
  const withEdges = (values, index) => [...values, ...edges.map((edge) => edge[index])];
  return ({ theme }) => {
    const looks = curves.map((curve, index) => ({ name: curve.name, ...lineLook(theme, index) }));
    const series = looks.map((look, index) => ({ ...lineSeries(look), data: curves[index].points }));
    const across = acrossLines(marks, loads, data.x, theme);
    series.push(markSeries([...across, ...bounds.map((bound) => levelLine(bound, theme))], edges));
    const option = {
      grid: { left: 52, right: 22, top: 30 + 16 * across.length, bottom: 46 },
      xAxis: horizontalAxis(theme, data.x, endsFor(withEdges(loads, 0), data.x)),
      yAxis: verticalAxis(theme, data.y, { nameGap: 8 + 16 * across.length, ...fromZero(withEdges(values, 1), data.y) }),
      tooltip: tooltip(theme, { trigger: 'axis', formatter: (hits) => loadTip(hits, data) }),
      series,
    };
    return { option, legend: looks };
  };
}

function loadTip(hits, data) {
  const curves = hits.filter((hit) => hit.seriesName !== MARKS);
  const rows = curves.map((hit) => [hit.seriesName, figure(hit.value[1], data.y.unit)]);
  return tip(`${data.x.name} ${figure(hits[0].axisValue, data.x.unit)}`, rows);
}

function lineSeries({ name, colour, dash, symbol }) {
  return {
    type: 'line',
    name,
    symbol,
    symbolSize: 8,
    itemStyle: { color: colour },
    lineStyle: { color: colour, width: 2, type: dash },
    emphasis: { disabled: true },
  };
}

// Lines across hang from a series of their own, so that a switched-off candidate does not take them along. Its points
// are not drawn: they keep the lines in sight.
function markSeries(lines, edges) {
  return {
    type: 'line',
    name: MARKS,
    data: edges,
    symbol: 'none',
    lineStyle: { width: 0 },
    silent: true,
    tooltip: { show: false },
    markLine: { symbol: 'none', silent: true, data: lines },
  };
}

// Lines across the horizontal axis, with labels above the chart, each in a row of its own so that none hides another.
function acrossLines(marks, values, axis, theme) {
  const ends = extent([...values, ...marks.map((mark) => mark.value)], axis);
  return marks.map((mark, row) => {
    const place = position(mark.value, ends, axis);
    const align = place < 0.3 ? 'left' : place > 0.7 ? 'right' : 'center';
    return {
      xAxis: mark.value,
      lineStyle: { color: theme.text, type: [4, 3], width: 1.2 },
      label: { ...markLabel(mark, theme), position: 'end', distance: [0, 3 + 16 * row], align },
    };
  });
}

function levelLine(mark, theme) {
  return {
    yAxis: mark.value,
    lineStyle: { color: theme.text, type: [4, 3], width: 1.2 },
    label: { ...markLabel(mark, theme), position: 'insideStartTop' },
  };
}

function markLabel(mark, theme) {
  return { show: true, formatter: () => mark.label, color: theme.text, fontSize: 12, textBorderColor: theme.card, textBorderWidth: 3 };
}
