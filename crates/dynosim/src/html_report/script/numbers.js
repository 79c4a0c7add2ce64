// Numbers as text.

function isNumber(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

// Decimals that numbers up to `largest` need to show four significant digits.
function decimalsFor(largest) {
  if (!(largest > 0)) return 0;
  return Math.min(6, Math.max(0, 3 - Math.floor(Math.log10(largest))));
}

function withDecimals(value, decimals) {
  return value.toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

// A number by itself, with its unit: four significant digits, without zeros at the end.
function figure(value, unit) {
  if (!isNumber(value)) return '–';
  const number = value.toLocaleString('en-US', { maximumFractionDigits: decimalsFor(Math.abs(value)) });
  return unit ? `${number}\u202f${unit}` : number;
}

// A number at an axis or in a cell: 12.5k instead of 12,500.
function shortFigure(value) {
  if (!isNumber(value)) return '–';
  if (Math.abs(value) < 10000) return value.toLocaleString('en-US', { maximumSignificantDigits: 4 });
  return value.toLocaleString('en-US', { notation: 'compact', maximumSignificantDigits: 4 }).replace('K', 'k');
}

function percent(share) {
  return isNumber(share) ? `${(100 * share).toLocaleString('en-US', { maximumFractionDigits: 1 })}\u202f%` : '–';
}

function axisTitle(axis) {
  return axis.unit ? `${axis.name} (${axis.unit})` : axis.name;
}

// Points that an axis can show.
function isShown(value, axis) {
  return isNumber(value) && (axis.scale !== 'logarithmic' || value > 0);
}
