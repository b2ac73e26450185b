// Measure a report as it is laid out, with everything unfolded; return what is wrong, as sentences.
(() => {
  document.querySelectorAll('details').forEach(each => { each.open = true; });
  const wrong = new Set();
  const shown = text => JSON.stringify(text.trim().replace(/\s+/g, ' ').slice(0, 60));
  const isInline = each => getComputedStyle(each).display === 'inline';
  const scrolls = each => ['auto', 'scroll'].includes(getComputedStyle(each).overflowX);
  const rects = (node, start = 0, end = node.length) => {
    const range = document.createRange();
    range.setStart(node, start);
    range.setEnd(node, end);
    return [...range.getClientRects()].filter(each => each.width > 0.5);
  };
  const lines = found => {
    let count = 0, bottom = -Infinity;
    for (const each of [...found].sort((a, b) => a.top - b.top)) {
      if (each.top + each.height / 2 > bottom) { count += 1; bottom = each.bottom; }
    }
    return count;
  };

  const texts = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest('title, .skip')) continue;
    let block = parent;
    while (isInline(block)) block = block.parentElement;
    const found = rects(node);
    if (!texts.has(block)) texts.set(block, { text: '', found: [] });
    texts.get(block).text += node.data;
    texts.get(block).found.push(...found);

    // No text lies outside of a box that it is in; what lies in a box that scrolls is clipped by it.
    const box = found.reduce((a, b) => ({
      left: Math.min(a.left, b.left), right: Math.max(a.right, b.right),
      top: Math.min(a.top, b.top), bottom: Math.max(a.bottom, b.bottom),
    }), { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity });
    for (let each = parent; each !== document.documentElement && !scrolls(each); each = each.parentElement) {
      if (isInline(each) || each instanceof SVGElement) continue;
      const outer = each.getBoundingClientRect();
      if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 4 || box.bottom > outer.bottom + 4)
        wrong.add(`outside of ${each.tagName}.${each.className}: ${shown(node.data)}`);
    }

    // No word is broken, unless it is part of something longer that has no place to break.
    if (parent.closest('pre')) continue;
    for (const run of node.data.matchAll(/[^\s-]+/g)) {
      if (run[0].length > 28) continue;
      for (const word of run[0].matchAll(/[\p{L}\p{N}]{2,}/gu)) {
        const start = run.index + word.index;
        if (lines(rects(node, start, start + word[0].length)) > 1)
          wrong.add(`broken inside a word: ${shown(word[0])} of ${shown(node.data)}`);
      }
    }
  }

  for (const { text, found } of texts.values()) {
    const length = text.replace(/\s+/g, ' ').trim().length;
    if (lines(found) > 1 && length / lines(found) < 8) wrong.add(`squeezed to ${lines(found)} lines: ${shown(text)}`);
  }
  for (const chart of document.querySelectorAll('svg.chart')) {
    const labels = [...chart.querySelectorAll('text:not(.limit-words)')].map(each => each.getBoundingClientRect());
    labels.forEach((a, index) => labels.slice(index + 1).forEach(b => {
      if (a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
        wrong.add(`labels of a chart overlap: ${shown(chart.getAttribute('aria-label'))}`);
    }));
  }
  // Cards reach to the right edge of the page.
  const right = document.querySelector('main').getBoundingClientRect().right;
  for (const row of document.querySelectorAll('.numbers, .views, #gates, #sign-offs, #runbooks')) {
    const cards = [...row.querySelectorAll(':scope > .card, :scope > figure')];
    const reach = Math.max(...cards.map(each => each.getBoundingClientRect().right));
    if (cards.length && reach < right - 2) wrong.add(`a third is empty: ${row.id || row.className} ends at ${reach}, not ${right}`);
  }
  const { scrollWidth, clientWidth } = document.documentElement;
  if (scrollWidth > clientWidth) wrong.add(`the page scrolls sideways: ${scrollWidth} in ${clientWidth}`);
  return [...wrong];
})()
