// Axes of values.

function valueAxis(theme, axis, { axisLabel: labels, ...more }) {
  return {
    type: axis.scale === 'logarithmic' ? 'log' : 'value',
    name: axisTitle(axis),
    nameTextStyle: { color: theme.quiet, fontSize: 12 },
    axisLine: { show: true, lineStyle: { color: theme.line } },
    axisTick: { show: false },
    axisLabel: { ...axisLabel(theme, shortFigure), ...labels },
    splitLine: { lineStyle: { color: theme.grid } },
    axisPointer: { lineStyle: { color: theme.quiet }, label: { show: false } },
    splitNumber: 5,
    ...more,
  };
}

function axisLabel(theme, formatter) {
  return { color: theme.quiet, fontSize: 12, formatter, hideOverlap: true };
}

// The horizontal axis has its name below its middle, the vertical one above its end.
function horizontalAxis(theme, axis, more) {
  return valueAxis(theme, axis, { nameLocation: 'middle', nameGap: 28, ...more });
}

function verticalAxis(theme, axis, more) {
  const nameTextStyle = { color: theme.quiet, fontSize: 12, align: 'left', padding: [0, 0, 2, -44] };
  return valueAxis(theme, axis, { nameLocation: 'end', nameGap: 8, nameTextStyle, ...more });
}

// Ends of an axis with these values in sight. Linear ones end at steps, logarithmic ones a little beyond the values instead
// of at powers of ten.
function endsFor(values, axis, leastStep = 0) {
  const [low, high] = extent(values, axis);
  if (!(low <= high)) return {};
  if (axis.scale !== 'logarithmic') return steps(low, high, leastStep);
  const [below, above] = [10 ** Math.floor(Math.log10(low)), 10 ** Math.floor(Math.log10(high))];
  const min = Number((Math.floor((low / below) * 0.98) * below).toPrecision(6)) || 0.9 * below;
  const max = Number((Math.ceil((high / above) * 1.02) * above).toPrecision(6));
  // Labels of ends that would touch that of the power of ten beside them are left out.
  return { min, max, axisLabel: { showMinLabel: isApart(min), showMaxLabel: isApart(max) } };
}

// Ends of an axis that starts at 0 if that is not far away.
function fromZero(values, axis, leastStep) {
  const isNear = axis.scale !== 'logarithmic' && values.every((value) => value >= 0) && extent(values, axis)[0] < 0.4 * extent(values, axis)[1];
  return endsFor(isNear ? [0, ...values] : values, axis, leastStep);
}

// The library's own steps can be 3, which makes 0.3, 0.6, 0.9 of what people count in halves.
function steps(low, high, leastStep) {
  const rough = Math.max((high - low) / 5, leastStep, 1e-12 * Math.abs(high)) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const interval = [1, 2, 2.5, 5, 10].map((part) => part * power).find((step) => step >= 0.999 * rough && step >= leastStep);
  const round = (value) => Number(value.toPrecision(12));
  const min = round(Math.floor(low / interval + 1e-9) * interval);
  const max = round(Math.ceil(high / interval - 1e-9) * interval);
  return { min, max: max > min ? max : min + interval, interval };
}

// Whether there is room between a number and the powers of ten on both sides.
function isApart(value) {
  const part = Math.log10(value) - Math.floor(Math.log10(value) + 1e-9);
  return part < 0.01 || (part > 0.35 && part < 0.75);
}

// The smallest and the largest of the values that an axis can show.
function extent(values, axis) {
  const shown = values.filter((value) => isShown(value, axis));
  return [shown.reduce((a, b) => Math.min(a, b), Infinity), shown.reduce((a, b) => Math.max(a, b), -Infinity)];
}

// Where a value is between the ends of an axis, from 0 to 1.
function position(value, [low, high], axis) {
  if (!(high > low)) return 0.5;
  if (axis.scale === 'logarithmic') return Math.log(value / low) / Math.log(high / low);
  return (value - low) / (high - low);
}
