// The table of all candidates: sorted by a click on a heading, filtered by words.

const ARROWS = { none: '', ascending: '↑', descending: '↓' };
const NEXT_ORDER = { none: 'ascending', ascending: 'descending', descending: 'none' };

function candidateTable(data) {
  const columns = [{ name: 'Bounds', unit: '' }, ...data.columns];
  const rows = data.rows.map((row, rank) => tableRow(row, rank, columns.length));
  const formats = columns.map((column, index) => columnFormat(column, rows.map((row) => row.values[index])));
  const state = { column: 0, order: 'none', words: [], isLimited: data.initial_rows > 0 && data.initial_rows < rows.length };
  const headings = columns.map((column, index) => heading(column, formats[index], () => sortBy(index)));
  const body = make('tbody');
  document.getElementById('table').append(make('thead', {}, make('tr', {}, ...headings.map((entry) => entry.cell))), body);

  function sortBy(index) {
    state.order = state.column === index ? NEXT_ORDER[state.order] : 'ascending';
    state.column = index;
    show();
  }

  function show() {
    headings.forEach(({ cell, arrow }, index) => {
      const order = index === state.column ? state.order : 'none';
      cell.setAttribute('aria-sort', order);
      arrow.textContent = ARROWS[order];
    });
    const found = rows.filter((row) => state.words.every((word) => row.text.includes(word)));
    if (state.order !== 'none') found.sort((a, b) => compareRows(a, b, state));
    const shown = state.isLimited ? found.slice(0, data.initial_rows) : found;
    body.replaceChildren(...shown.map((row) => rowElement(row, formats)));
    const total = found.length === rows.length ? `${rows.length}` : `${found.length} found among ${rows.length}`;
    document.getElementById('shown').textContent = `${shown.length} of ${total}`;
    const button = document.getElementById('show-all');
    button.hidden = shown.length === found.length;
    button.textContent = `Show all ${found.length}`;
  }

  document.getElementById('filter').addEventListener('input', (event) => {
    state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    show();
  });
  document.getElementById('show-all').addEventListener('click', () => {
    state.isLimited = false;
    show();
  });
  rows.forEach((row) => {
    row.text = row.values.map((value, index) => formats[index].text(value)).join(' ').toLowerCase();
  });
  show();
}

function tableRow(row, rank, width) {
  const bounds = row.is_best ? (row.feasible ? '★ best' : '★ best, broken') : row.feasible ? 'kept' : '✕ broken';
  const values = [bounds, ...row.cells];
  return {
    rank,
    values: Array.from({ length: width }, (_, index) => values[index] ?? null),
    className: row.is_best ? 'best' : row.feasible ? '' : 'broken',
  };
}

// Numbers of a column have the same decimals, so that their points are below each other.
function columnFormat(column, values) {
  const numbers = values.filter(isNumber);
  const largest = numbers.reduce((high, value) => Math.max(high, Math.abs(value)), 0);
  const decimals = column.decimals ?? (numbers.every(Number.isInteger) ? 0 : decimalsFor(largest));
  return {
    isNumeric: numbers.length > 0,
    text: (value) => (isNumber(value) ? withDecimals(value, decimals) : value ?? ''),
  };
}

function heading(column, format, onClick) {
  const arrow = make('span', { className: 'arrow' });
  arrow.setAttribute('aria-hidden', 'true');
  const unit = make('span', { className: 'unit' }, arrow, column.unit || '');
  const button = make('button', { type: 'button' }, column.name, unit);
  button.addEventListener('click', onClick);
  return { arrow, cell: make('th', { scope: 'col', className: format.isNumeric ? 'number' : '' }, button) };
}

function rowElement(row, formats) {
  const cells = row.values.map((value, index) => {
    const text = formats[index].text(value);
    const cell = make('td', { className: formats[index].isNumeric ? 'number' : '', textContent: text });
    if (text.length > 40) cell.title = text;
    return cell;
  });
  return make('tr', { className: row.className }, ...cells);
}

// Numbers before texts, empty cells last in both directions, and equal ones by rank.
function compareRows(a, b, { column, order }) {
  const left = a.values[column];
  const right = b.values[column];
  if (left === null || right === null) return (left === null) - (right === null) || a.rank - b.rank;
  const sign = order === 'descending' ? -1 : 1;
  return sign * compareValues(left, right) || a.rank - b.rank;
}

function compareValues(left, right) {
  if (isNumber(left) && isNumber(right)) return left - right;
  if (isNumber(left) !== isNumber(right)) return isNumber(left) ? -1 : 1;
  return left.localeCompare(right, 'en', { numeric: true });
}
