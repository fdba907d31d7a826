// Zoom of charts, the table of contents and printing. Without this script the page is complete, but its charts stand still.
'use strict';
(() => {
  const ticks = (from, to, wanted) => {
    const raw = (to - from) / wanted, power = 10 ** Math.floor(Math.log10(raw));
    if (!(raw > 0)) return [];
    const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw) ?? raw, all = [];
    for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9 && all.length < 20; i++) all.push(i * step);
    return all;
  };
  // The digits after the decimal point of multiples of `step`; below 0 for zeros before it.
  const exact = step => Math.ceil(-Math.log10(step) - 1e-6);
  const places = step => Math.min(15, Math.max(0, exact(step)));
  const decimal = (value, digits) => {
    const all = (+value.toFixed(digits) || 0).toFixed(digits);
    return (all.includes('.') ? all.replace(/\.?0+$/, '') : all).replace('-', '−');
  };
  // The text of one of the values `all` of an axis.
  const text = (value, all) => {
    const step = all[1] - all[0] || 1, size = Math.abs(value);
    if (!(size >= 1e6 || value && all.every(x => Math.abs(x) < 1e-3))) return decimal(value, Math.max(6, places(step)));
    const digits = Math.min(15, Math.max(5, Math.floor(Math.log10(size)) + exact(step)));
    return (+value.toExponential(digits)).toExponential().replace('+', '').replaceAll('-', '−');
  };

  const setup = figure => {
    const svg = figure.querySelector('svg.plot'), view = svg.querySelector('svg.view');
    const of = name => +view.getAttribute(name);
    const [left, top, width, height] = ['x', 'y', 'width', 'height'].map(of);
    const [x0, x1, w0, w1, most, fixed] = figure.dataset.zoom.split(' ').map(Number);
    const unit = figure.dataset.unit, tools = figure.querySelector('.tools'), said = figure.querySelector('output');
    // Positions in the view's units: its first view is 0 to `width`.
    const toX = u => w0 + u / width * (w1 - w0), toU = x => (x - w0) / (w1 - w0) * width;
    const lo = Math.min(0, toU(x0)), hi = Math.max(width, toU(x1));
    // So near that a tenth of a unit, to which positions are rounded, cannot be seen.
    const least = width / 40;
    let a = 0, b = width, lines = null;

    const make = (name, attributes, parent) => {
      const node = document.createElementNS(svg.namespaceURI, name);
      for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
      parent.append(node);
      return node;
    };
    // The highest point in view, lines that cross its edges included.
    const highest = () => {
      lines ??= [...view.querySelectorAll('polyline')].map(line => line.getAttribute('points').trim().split(/[ ,]/).map(Number));
      let v = height;
      for (const p of lines) for (let i = 0; i + 1 < p.length; i += 2) {
        if (p[i] >= a && p[i] <= b) v = Math.min(v, p[i + 1]);
        if (i + 3 < p.length) for (const edge of [a, b]) if (p[i] < edge && edge < p[i + 2])
          v = Math.min(v, p[i + 1] + (p[i + 3] - p[i + 1]) * (edge - p[i]) / (p[i + 2] - p[i]));
      }
      return v;
    };
    const show = (from, to) => {
      const wide = Math.min(Math.max(to - from, least), hi - lo), middle = (from + to) / 2;
      a = Math.min(Math.max(middle - wide / 2, lo), hi - wide);
      b = a + wide;
      const first = a === 0 && b === width, v = fixed || first ? 0 : height - (height - highest()) * 1.05;
      const high = Math.max(height - v, 1e-6), peak = most * high / height;
      view.setAttribute('viewBox', `${a} ${height - high} ${wide} ${high}`);
      const xs = svg.querySelector('.xt'), ys = svg.querySelector('.yt');
      xs.replaceChildren();
      ys.replaceChildren();
      const xt = ticks(toX(a), toX(b), 5), yt = ticks(0, peak, 5);
      for (const x of xt)
        make('text', {x: left + (toU(x) - a) / wide * width, y: top + height + 18, 'text-anchor': 'middle'}, xs).textContent = text(x, xt);
      for (const y of yt) {
        const at = top + height - y / peak * height;
        make('line', {class: 'grid', x1: left, x2: left + width, y1: at, y2: at}, ys);
        make('text', {x: left - 6, y: at + 4, 'text-anchor': 'end'}, ys).textContent = text(y, yt);
      }
      // To a thousandth of what is in view.
      const round = x => decimal(x, places((toX(b) - toX(a)) / 1000));
      said.textContent = `${round(toX(a))} to ${round(toX(b))} ${unit} of ${round(toX(lo))} to ${round(toX(hi))}`;
    };
    const around = (factor, at = (a + b) / 2) => show(at - (at - a) * factor, at + (b - at) * factor);
    const move = share => show(a + share * (b - a), b + share * (b - a));
    const acts = {in: () => around(0.5), out: () => around(2), left: () => move(-0.25), right: () => move(0.25),
      all: () => show(lo, hi), first: () => show(0, width)};
    tools.addEventListener('click', event => acts[event.target.dataset?.do]?.());
    svg.addEventListener('keydown', event => {
      const act = {'+': 'in', '=': 'in', '-': 'out', ArrowLeft: 'left', ArrowRight: 'right', 0: 'first', Home: 'first', End: 'all'}[event.key];
      if (act && !event.ctrlKey && !event.metaKey) { event.preventDefault(); acts[act](); }
    });
    const at = event => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      return a + ((event.clientX - box.left) * scale - left) / width * (b - a);
    };
    // A page must still scroll: the wheel zooms only with Ctrl, or where the chart has been chosen.
    svg.addEventListener('wheel', event => {
      if (!event.ctrlKey && document.activeElement !== svg) return;
      event.preventDefault();
      around(event.deltaY > 0 ? 1.25 : 0.8, at(event));
    }, {passive: false});
    const held = new Map();
    svg.addEventListener('pointerdown', event => {
      held.set(event.pointerId, at(event));
      try { svg.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone */ }
    });
    svg.addEventListener('pointermove', event => {
      if (!held.has(event.pointerId)) return;
      const now = at(event);
      if (held.size === 1) {
        const by = held.get(event.pointerId) - now;
        show(a + by, b + by);
      } else if (held.size === 2) {
        const [other] = [...held].find(([id]) => id !== event.pointerId).slice(1);
        const before = held.get(event.pointerId) - other, after = now - other;
        if (Math.abs(after) > 1e-3 && before / after > 0) around(Math.min(Math.max(before / after, 0.5), 2), other);
      }
      held.set(event.pointerId, at(event));
    });
    for (const end of ['pointerup', 'pointercancel', 'lostpointercapture']) svg.addEventListener(end, event => held.delete(event.pointerId));
    svg.addEventListener('dblclick', () => acts.first());
    svg.tabIndex = 0;
    svg.setAttribute('aria-keyshortcuts', '+ - ArrowLeft ArrowRight Home End');
    tools.hidden = false;
    show(0, width);
  };
  document.querySelectorAll('figure[data-zoom]').forEach(setup);
  const folded = document.querySelectorAll('details');
  // A link to a section unfolds it.
  const unfold = () => { const part = location.hash && document.getElementById(location.hash.slice(1))?.closest('details'); if (part) part.open = true; };
  document.querySelector('.toc')?.addEventListener('click', () => setTimeout(unfold));
  addEventListener('hashchange', unfold);
  unfold();
  addEventListener('beforeprint', () => folded.forEach(part => { part.dataset.was = part.open; part.open = true; }));
  addEventListener('afterprint', () => folded.forEach(part => { part.open = part.dataset.was === 'true'; }));
})();
