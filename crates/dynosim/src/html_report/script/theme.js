// Colours and fonts of charts are those of the style sheet, read anew whenever it shows other ones.

const DASHES = ['solid', [7, 4], [2, 3], [10, 3, 2, 3]];
const SYMBOLS = ['circle', 'rect', 'triangle', 'diamond'];

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    font: read('font'),
    card: read('card'),
    text: read('text'),
    quiet: read('quiet'),
    line: read('line'),
    grid: read('grid'),
    best: read('best'),
    broken: read('broken'),
    low: read('low'),
    high: read('high'),
    onLow: read('on-low'),
    onHigh: read('on-high'),
    series: [1, 2, 3, 4, 5, 6].map((index) => read(`series-${index}`)),
  };
}

// What tells a line from others: its colour, its dashes, and its symbols.
function lineLook(theme, index) {
  return {
    colour: theme.series[index % theme.series.length],
    dash: DASHES[index % DASHES.length],
    symbol: SYMBOLS[index % SYMBOLS.length],
  };
}

function onThemeChange(redraw) {
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  const print = (printing) => {
    document.documentElement.classList.toggle('printing', printing);
    redraw();
  };
  window.addEventListener('beforeprint', () => print(true));
  window.addEventListener('afterprint', () => print(false));
}
