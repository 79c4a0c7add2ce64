// What a pool did over time: requests above, the KV cache below, on one axis of time.

function timeline(data) {
  const along = (values) => data.time_s.map((time, index) => [time, values[index]]).filter((point) => point.every(isNumber));
  const time = { name: 'Simulated time', unit: 's' };
  const lines = [
    { name: 'Waiting requests', points: along(data.waiting_requests) },
    { name: 'Running requests', points: along(data.running_requests) },
    { name: 'KV cache in use', points: along(data.kv_share), isShare: true },
  ].filter((line) => line.points.length > 0);
  const requests = { name: 'Requests', unit: '' };
  const counts = lines.filter((line) => !line.isShare).flatMap((line) => line.points.map(([, count]) => count));
  const hasRequests = lines.some((line) => !line.isShare);
  const hasShare = lines.some((line) => line.isShare);
  const parts = hasRequests && hasShare ? [{ top: 30, height: 128 }, { top: 200, height: 82 }] : [{ top: 30, height: 220 }];
  const partOf = (line) => (line.isShare ? parts.length - 1 : 0);
  // The ends have no labels of their own: these would stand beside round numbers.
  const upToTheEnd = { min: 'dataMin', max: 'dataMax' };
  return ({ theme }) => {
    const looks = lines.map((line, index) => ({ name: line.name, ...lineLook(theme, index), dash: index === 1 ? [6, 3] : 'solid', symbol: 'none' }));
    const xAxis = parts.map((part, index) => {
      const last = index === parts.length - 1;
      const axisLabel = { show: last, showMinLabel: false, showMaxLabel: false };
      return horizontalAxis(theme, last ? time : { name: '' }, { gridIndex: index, ...upToTheEnd, axisLabel });
    });
    const yAxis = [];
    if (hasRequests) yAxis.push(verticalAxis(theme, requests, { gridIndex: 0, ...fromZero([0, ...counts], requests, 1) }));
    if (hasShare) {
      yAxis.push(verticalAxis(theme, { name: 'KV cache in use' }, { gridIndex: parts.length - 1, min: 0, max: 1, interval: 0.5, axisLabel: { formatter: percent } }));
    }
    const option = {
      grid: parts.map((part) => ({ left: 52, right: 22, ...part })),
      xAxis,
      yAxis,
      axisPointer: { link: [{ xAxisIndex: 'all' }] },
      tooltip: tooltip(theme, { trigger: 'axis', formatter: (hits) => timelineTip(hits[0].axisValue, lines, time) }),
      series: looks.map((look, index) => timelineSeries(look, lines[index], partOf(lines[index]))),
    };
    const last = parts.at(-1);
    return { option, legend: looks, height: last.top + last.height + 46 };
  };
}

function timelineSeries(look, line, part) {
  return {
    ...lineSeries(look),
    lineStyle: { color: look.colour, width: 1.5, type: look.dash },
    showSymbol: false,
    step: 'end',
    xAxisIndex: part,
    yAxisIndex: part,
    ...(line.isShare ? { areaStyle: { color: look.colour, opacity: 0.18 } } : {}),
    data: line.points,
  };
}

function timelineTip(at, lines, time) {
  const rows = lines.map((line) => {
    const value = shareUpTo(line.points, at);
    return [line.name, line.isShare ? percent(value) : figure(value)];
  });
  return tip(`At ${figure(at, time.unit)}`, rows);
}
