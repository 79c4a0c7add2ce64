// From the data in the page to its charts and its table. What fails leaves the rest alone.

const BUILDERS = {
  pareto,
  distributions: distribution,
  load_curves: loadCurve,
  heat_maps: heatMap,
  timelines: timeline,
};

function start() {
  const data = JSON.parse(document.getElementById('report-data').textContent);
  for (const box of document.querySelectorAll('.plot')) {
    const kind = box.dataset.chart;
    try {
      addChart(box, BUILDERS[kind]([].concat(data[kind])[Number(box.dataset.index)]));
    } catch (error) {
      noteError(error);
      box.replaceChildren(make('p', { textContent: 'This chart could not be drawn.' }));
    }
  }
  onThemeChange(drawAllCharts);
  if (document.getElementById('table')) candidateTable(data.table);
}

start();
