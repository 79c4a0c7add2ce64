// Looks at a report and tells the page around it what it finds.
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const later = () => new Promise((done) => setTimeout(done, 200));

  const rows = () => all('#table tbody tr');

  function numbersBelow(heading) {
    const column = all('#table th').indexOf(heading);
    return rows().map((row) => Number(row.cells[column].textContent.replaceAll(',', '')));
  }

  function probeTable() {
    const found = { initial_rows: rows().length, sorts: [], best_rows: all('#table tr.best').length };
    const heading = all('#table th').find((cell) => cell.textContent.includes('Throughput'));
    const note = () => found.sorts.push(heading.getAttribute('aria-sort'));
    const click = () => heading.querySelector('button').click();
    note();
    click();
    note();
    found.ascending = numbersBelow(heading);
    click();
    note();
    found.descending = numbersBelow(heading);
    click();
    note();
    document.getElementById('show-all').click();
    found.all_rows = rows().length;
    return found;
  }

  // Points at the largest mark of the first chart that is not behind others, which is the best candidate.
  async function probeTip() {
    const box = document.querySelector('.plot[data-chart="pareto"]');
    box.scrollIntoView();
    const best = getComputedStyle(root).getPropertyValue('--best').trim();
    const mark = all('svg path', box).find((path) => path.getAttribute('fill') === best);
    const { left, top, width, height } = mark.getBoundingClientRect();
    const at = { clientX: left + width / 2, clientY: top + height / 2, bubbles: true };
    mark.dispatchEvent(new MouseEvent('mousemove', at));
    await later();
    const tip = box.querySelector('.tip');
    return tip ? tip.textContent : '';
  }

  const textColours = () => [...new Set(all('.plot svg text').map((text) => text.getAttribute('fill')))].sort();

  async function probe() {
    for (let tries = 0; tries < 20 && all('.plot').some((box) => !box.dataset.drawn); tries += 1) await later();
    const seen = {
      charts: all('.plot').map((box) => ({
        kind: box.dataset.chart,
        is_drawn: box.dataset.drawn === 'true',
        paths: all('svg path', box).length,
      })),
      page_width: root.scrollWidth,
      window_width: window.innerWidth,
      is_dark: getComputedStyle(root).colorScheme === 'dark',
      texts_before: textColours(),
      table: probeTable(),
      tip: await probeTip(),
      foreign: all('img, b, iframe, object, link').map((element) => element.tagName),
    };
    window.dispatchEvent(new Event('beforeprint'));
    await later();
    seen.texts_printing = textColours();
    window.dispatchEvent(new Event('afterprint'));
    seen.page_width = Math.max(seen.page_width, root.scrollWidth);
    seen.errors = root.dataset.errors || '';
    return JSON.stringify(seen);
  }

  const tell = (text) => window.parent.postMessage(text, '*');
  probe().then(tell, (error) => tell(String(error.stack)));
})();
