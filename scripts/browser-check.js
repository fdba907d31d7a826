// Looks at a page from inside, in a browser: what is wrong goes to the page around it, as text. Used by browser-check.
'use strict';
(() => {
  const wrong = [], say = text => { if (wrong.length < 30 && !wrong.includes(text)) wrong.push(text); };
  const all = (what, where = document) => [...where.querySelectorAll(what)];
  const expect = window.expected ?? {};
  const name = figure => figure.querySelector('figcaption').textContent.slice(0, 60);

  const luminance = colour => {
    const [r, g, b] = colour.match(/[\d.]+/g).map(Number).map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  };

  const overlaps = svg => {
    const boxes = all('text', svg).filter(t => t.textContent.trim()).map(t => [t.textContent, t.getBoundingClientRect()]);
    const whole = svg.getBoundingClientRect();
    for (const [text, box] of boxes)
      if (box.left < whole.left - 1 || box.right > whole.right + 1 || box.top < whole.top - 2 || box.bottom > whole.bottom + 2)
        say(`"${text}" leaves its chart: ${name(svg.closest('figure'))}`);
    for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
      const [a, b] = [boxes[i][1], boxes[j][1]];
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Boxes of letters are higher than letters.
      if (wide > 1 && high > 0.4 * Math.min(a.height, b.height))
        say(`"${boxes[i][0]}" and "${boxes[j][0]}" overlap: ${name(svg.closest('figure'))}`);
    }
  };

  // Names of rows, and ticks of an axis: which of them is meant must be seen.
  const identical = svg => {
    const groups = [all('text.row', svg), ...all('.xt, .yt', svg).map(group => all('text', group))];
    // Where ticks stand in no group, those of a line do. Values in cells and at bars may be equal.
    const loose = new Map();
    for (const text of all(':scope > text:not([class])', svg)) {
      const box = text.getBoundingClientRect();
      for (const place of [`y${Math.round(box.top)}`, `x${Math.round(box.right)}`]) loose.set(place, [...(loose.get(place) ?? []), text]);
    }
    // Without the title, which is seen only where the pointer is.
    const shown = text => [...text.childNodes].filter(node => node.nodeType === Node.TEXT_NODE).map(node => node.data).join('').trim();
    for (const texts of [...groups, ...loose.values()]) {
      const seen = new Set();
      for (const text of texts.map(shown).filter(text => text)) {
        if (seen.has(text)) say(`"${text}" is there twice: ${name(svg.closest('figure'))}`);
        seen.add(text);
      }
    }
  };

  const visible = (svg, back) => {
    for (const text of all('text', svg).filter(text => text.textContent.trim() && !text.closest('.node, .count') && !/cell-text|on-aggregator/.test(text.getAttribute('class') ?? '')))
      if (contrast(getComputedStyle(text).fill, back) < 3) return say(`"${text.textContent}" cannot be seen: ${name(svg.closest('figure'))}`);
  };

  const zoom = figure => {
    const svg = figure.querySelector('svg.plot'), view = svg.querySelector('svg.view'), tools = figure.querySelector('.tools');
    const now = () => view.getAttribute('viewBox') + svg.querySelector('.xt').textContent;
    const first = now(), moved = [];
    const step = (what, act) => { const before = now(); act(); if (now() === before) say(`${what} does nothing: ${name(figure)}`); moved.push(now()); };
    const key = k => () => svg.dispatchEvent(new KeyboardEvent('keydown', {key: k, cancelable: true}));
    const box = svg.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
    const pointer = (type, id, at) => svg.dispatchEvent(new PointerEvent(type, {pointerId: id, clientX: at, clientY: y, bubbles: true}));
    if (tools.hidden) return say(`no zoom: ${name(figure)}`);
    step('the button +', () => tools.querySelector('[data-do=in]').click());
    step('the key +', key('+'));
    step('the key →', key('ArrowRight'));
    step('the wheel', () => svg.dispatchEvent(new WheelEvent('wheel', {deltaY: 100, ctrlKey: true, clientX: x, clientY: y, cancelable: true})));
    step('dragging', () => { pointer('pointerdown', 1, x); pointer('pointermove', 1, x + 40); pointer('pointerup', 1, x + 40); });
    step('pinching', () => {
      pointer('pointerdown', 1, x - 20); pointer('pointerdown', 2, x + 20); pointer('pointermove', 2, x + 60);
      pointer('pointerup', 1, x); pointer('pointerup', 2, x);
    });
    for (const text of all('.xt text, .yt text', svg)) if (!/^−?[\d.]+(e−?\d+)?$/.test(text.textContent)) say(`a tick is "${text.textContent}": ${name(figure)}`);
    overlaps(svg);
    key('Home')();
    if (now() !== first) say(`reset is not the first view: ${name(figure)}`);
  };

  addEventListener('load', () => {
    const wide = document.documentElement.scrollWidth;
    if (wide > innerWidth) say(`the page is ${wide} pixels wide on a screen of ${innerWidth}`);
    // Before anything is unfolded or scrolled: the answer, and beside it on a wide screen what shows it.
    const answer = document.querySelector('.answers li'), shows = document.querySelector('figure');
    if (expect.kind === 'report' && !answer) say('the page answers nothing');
    if (answer && answer.getBoundingClientRect().bottom > innerHeight) say('the answer is not on the first screen');
    if (expect.kind === 'report' && innerWidth > 1000 && shows && shows.getBoundingClientRect().bottom > innerHeight) say('the chart of the answer is not on the first screen');
    all('details').forEach(part => { part.open = true; });
    if (document.documentElement.scrollWidth > innerWidth) say('the page is too wide once everything is unfolded');
    const figures = all('figure');
    const ground = getComputedStyle(document.body).backgroundColor;
    for (const figure of figures) {
      const svg = figure.querySelector('svg.plot');
      if (!svg) { say(`no chart: ${name(figure)}`); continue; }
      if (all('svg:not(.plot, .swatch, .view)', figure).length > 0) say(`a chart without the style of charts: ${name(figure)}`);
      const marks = all('polyline, rect.bar, circle.bar, path.bar, path.cross, rect.cell, line.cable, circle.dot', svg).filter(mark => {
        const box = mark.getBoundingClientRect();
        return box.width + box.height > 0;
      });
      if (marks.length === 0) say(`nothing is drawn: ${name(figure)}`);
      if (!svg.getAttribute('aria-label') || !svg.querySelector('desc')?.textContent) say(`no words for: ${name(figure)}`);
      overlaps(svg);
      visible(svg, ground);
      identical(svg);
    }
    all('figure[data-zoom]').forEach(zoom);
    for (const element of all('.tools button, .toc a, summary')) {
      const box = element.getBoundingClientRect();
      if (box.height < 43.5) say(`"${element.textContent}" is ${box.height} pixels high, too small for a finger`);
    }
    const back = getComputedStyle(document.body).backgroundColor;
    for (const what of ['body', '.about', '.verdict p', '.note', '.paper', '.paper.off', '.toc a', 'summary']) {
      const element = document.querySelector(what);
      if (element && contrast(getComputedStyle(element).color, back) < 4.5) say(`${what} has a contrast below 4.5`);
    }
    for (const text of all('svg.plot .xt text').slice(0, 1)) if (contrast(getComputedStyle(text).fill, back) < 4.5) say('ticks have a contrast below 4.5');
    for (const line of all('svg.plot .line')) if (contrast(getComputedStyle(line).stroke, back) < 2.9) { say(`a line has a contrast below 3: ${line.getAttribute('class')}`); break; }
    if (expect.dark !== undefined && (luminance(back) < 0.1) !== expect.dark) say(`the background is ${back}`);
    const fetched = performance.getEntriesByType('resource').map(entry => entry.name);
    if (fetched.length > 0) say(`fetched: ${fetched.join(' ')}`);
    const first = document.querySelector('main > section');
    if (expect.kind !== 'history' && !/Valid:|INVALID/.test(first?.textContent)) say('the page does not say whether the runs are valid');
    if (expect.kind === 'report' && first?.id !== 'summary') say('the summary is not first');
    if (expect.kind !== 'report' && !first?.classList.contains('verdict')) say('the verdict is not first');
    if (expect.kind !== 'history' && !/commit/.test(document.querySelector('.made')?.textContent)) say('the page does not say what was run');
    const kinds = `${figures.length} charts, ${all('figure[data-zoom]').length} with zoom`;
    parent.postMessage({checked: [...(window.failures ?? []), ...wrong], kinds}, '*');
  });
})();
