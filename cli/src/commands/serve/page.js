// The page of pktgen serve: lists runs, draws their statistics. Text of files gets into the page as text only.
'use strict';
(() => {
  const POINTS = 600, CLUSTERS = 8, COUNTERS = 8, SHOWN = 200;
  const ROWS_MS = 1000, LIST_MS = 2000, TIMEOUT_MS = 10000;

  // Elements.

  const put = (parent, children) => {
    for (const child of children.flat()) if (child !== null && child !== undefined && child !== '') parent.append(child);
    return parent;
  };
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== null) element.setAttribute(name, value);
    return put(element, children);
  };
  const draw = (tag, attributes = {}, ...children) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return put(element, children);
  };
  const main = document.querySelector('main'), contact = document.querySelector('#contact');

  // Numbers. What is not known is a dash.

  const known = value => typeof value === 'number' && Number.isFinite(value);
  const digits = value => Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3).replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
  const scaled = value => {
    if (!known(value)) return '–';
    for (const [limit, name] of [[1e9, ' G'], [1e6, ' M'], [1e3, ' k']]) if (Math.abs(value) >= limit) return digits(value / limit) + name;
    return digits(value) + ' ';
  };
  const count = value => known(value) ? value.toLocaleString('en') : '–';
  const rate = value => known(value) ? `${scaled(value).trim()}/s` : '–';
  const bits = value => known(value) ? `${scaled(value)}bit/s` : '–';
  const span = seconds => {
    if (!known(seconds)) return '–';
    for (const [limit, name] of [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs']]) if (Math.abs(seconds) >= limit) return `${digits(seconds / limit)} ${name}`;
    return `${digits(seconds * 1e9)} ns`;
  };
  const clock = seconds => known(seconds) ? `${seconds.toFixed(seconds < 10 ? 2 : seconds < 1000 ? 1 : 0)} s` : '–';
  const date = ms => known(ms) ? `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC` : null;
  const named = path => path === '' ? 'this folder' : path;

  // Requests.

  const ask = async (path, parameters) => {
    const query = new URLSearchParams(parameters).toString();
    const response = await fetch(query ? `${path}?${query}` : path, {signal: AbortSignal.timeout(TIMEOUT_MS)});
    if (!response.ok) throw Object.assign(new Error((await response.text()).trim()), {answered: true});
    return response.json();
  };
  // Calls `step` again and again, while its view is there and the page is seen. It returns after how many ms, or null for never again.
  const repeat = (view, step) => {
    const turn = async () => {
      if (view.gone) return;
      let wait = 1000;
      if (!document.hidden) {
        try {
          wait = await step();
          contact.textContent = '';
        } catch (error) {
          if (view.gone) return;
          contact.textContent = error.answered ? error.message : 'No answer from pktgen serve: what is shown may be old.';
          wait = 2000;
        }
      }
      if (wait !== null && !view.gone) setTimeout(turn, wait);
    };
    turn();
  };

  // Verdicts.

  const VERDICTS = {
    invalid: ['invalid', 'INVALID'], valid: ['valid', 'VALID'], in_progress: ['busy', 'IN PROGRESS'], killed: ['warn', 'KILLED'],
    unknown: ['warn', 'NOT ENDED'], none: ['none', 'NO VERDICT'],
  };
  const verdict = run => run.valid === false ? 'invalid' : ['in_progress', 'killed', 'unknown'].includes(run.state) ? run.state : run.valid ? 'valid' : 'none';
  const badge = what => make('span', {class: `badge ${VERDICTS[what][0]}`}, VERDICTS[what][1]);
  const inside = (sweep, run) => run.kind === 'run' && run.path !== sweep.path && (sweep.path === '' || run.path.startsWith(`${sweep.path}/`));
  const labels = run => Object.entries(run.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const about = run => [
    run.experiment, ...labels(run), run.seed ? `seed ${run.seed}` : null, run.part ? `part: ${run.part}` : null,
    known(run.runs) ? `${run.runs} runs` : null, date(run.created_ms),
  ].filter(text => text).join(' · ');
  const link = path => `#run=${encodeURIComponent(path)}`;
  const reportLink = (run, text) => make('a', {href: `/report?${new URLSearchParams({run: run.path})}`}, text);

  // The list.

  const GROUPS = [
    ['Invalid', ['invalid']], ['In progress', ['in_progress']], ['Not ended, or killed', ['killed', 'unknown']],
    ['Valid', ['valid']], ['Without a verdict', ['none']],
  ];

  const item = (run, runs) => {
    const own = run.kind === 'sweep' ? runs.filter(other => inside(run, other)) : [];
    const bad = own.filter(other => verdict(other) === 'invalid').length;
    const what = run.kind === 'sweep' && run.valid !== false ? (bad > 0 ? 'invalid' : 'none') : verdict(run);
    const sweep = own.length > 0 ? `${bad} of ${own.length} runs are invalid` : null;
    return make('li', {},
      run.kind === 'sweep' && what === 'none' ? make('span', {class: 'badge none'}, 'SWEEP') : badge(what),
      make('div', {},
        make('a', {class: 'name', href: link(run.path), 'data-key': run.path}, named(run.path)),
        run.why.map(why => make('p', {class: 'why'}, why)),
        sweep && make('p', {class: bad > 0 ? 'why' : 'soft'}, sweep),
        make('p', {class: 'soft'}, about(run))));
  };

  const listView = view => {
    let shown = '', all = new Set();
    const filter = make('input', {type: 'search', autocomplete: 'off'});
    const where = make('p', {class: 'soft'}), summary = make('div', {class: 'verdict', role: 'status'}), groups = make('div');
    let data = null;
    const render = () => {
      const focus = document.activeElement?.dataset?.key;
      const words = filter.value.toLowerCase().split(/\s+/).filter(word => word);
      const matches = run => words.every(word => `${run.path} ${about(run)} ${VERDICTS[verdict(run)][1]}`.toLowerCase().includes(word));
      const runs = data.runs.filter(run => run.kind === 'run'), sweeps = data.runs.filter(run => run.kind === 'sweep');
      const number = what => runs.filter(run => what.includes(verdict(run))).length;
      const bad = number(['invalid']), busy = number(['in_progress']), open = number(['killed', 'unknown']);
      where.textContent = `Below ${data.folder}${data.left_out ? ': more than is listed; serve a folder further down' : ''}`;
      summary.className = `verdict ${bad > 0 ? 'invalid' : runs.length > 0 ? 'valid' : ''}`;
      summary.replaceChildren(
        make('p', {}, runs.length === 0 ? 'There are no runs below this folder yet.' : bad > 0 ? `INVALID: ${bad} of ${runs.length} runs.` : `None of ${runs.length} runs is invalid.`),
        busy + open > 0 ? make('p', {}, `${busy} in progress, ${open} not ended or killed.`) : '');
      const group = (name, members) => {
        const found = members.filter(matches);
        if (found.length === 0) return null;
        const most = all.has(name) ? Infinity : SHOWN;
        const more = make('button', {type: 'button', 'data-key': `all ${name}`}, `Show all ${found.length}`);
        more.addEventListener('click', () => { all.add(name); render(); });
        return make('section', {}, make('h2', {}, `${name} (${found.length})`),
          make('ul', {class: 'runs'}, found.slice(0, most).map(run => item(run, runs))), found.length > most ? more : null);
      };
      const newest = (a, b) => (b.created_ms ?? 0) - (a.created_ms ?? 0) || a.path.localeCompare(b.path);
      const sections = GROUPS.map(([name, what]) => group(name, runs.filter(run => what.includes(verdict(run))).sort(newest)));
      sections.push(group('Sweeps', sweeps));
      const pages = data.pages.filter(page => words.every(word => page.toLowerCase().includes(word)));
      if (pages.length > 0)
        sections.push(make('section', {}, make('h2', {}, `Other pages (${pages.length})`), make('ul', {class: 'runs'},
          pages.slice(0, SHOWN).map(page => make('li', {}, make('span', {class: 'badge none'}, 'PAGE'),
            make('a', {class: 'name', 'data-key': `page ${page}`, href: `/page?${new URLSearchParams({file: page})}`}, page))))));
      groups.replaceChildren(...sections.filter(section => section));
      if (groups.childElementCount === 0 && words.length > 0) groups.append(make('p', {}, 'Nothing matches the filter.'));
      if (focus !== undefined) [...groups.querySelectorAll('[data-key]')].find(element => element.dataset.key === focus)?.focus();
    };
    filter.addEventListener('input', () => { if (data) render(); });
    show('Runs', where, summary, make('div', {class: 'tools'}, make('label', {}, 'Filter by path, experiment or verdict', filter)), groups);
    repeat(view, async () => {
      const found = await ask('/api/runs');
      if (view.gone) return null;
      const text = JSON.stringify(found);
      if (text !== shown) {
        [shown, data] = [text, found];
        render();
      }
      return found.runs.some(run => run.state === 'in_progress') ? LIST_MS : 2 * LIST_MS;
    });
  };

  // Points over time. At most POINTS are kept: when there are more, neighbours are joined, and later rows are joined alike.

  const JOINS = {
    mean: (a, b, wa, wb) => a === null ? b : b === null ? a : (a * wa + b * wb) / (wa + wb),
    max: (a, b) => a === null ? b : b === null ? a : Math.max(a, b),
  };
  class Points {
    constructor(series) {
      this.series = series;
      this.clear();
    }
    clear() {
      [this.points, this.stride, this.rows] = [[], 1, 0];
    }
    // Takes the points of series with other names: `from` has the place of each own one there, or -1.
    take({points, stride, rows}, from) {
      const pick = (all, none) => from.map(i => i < 0 ? none : all[i]);
      this.points = points.map(point => ({...point, values: pick(point.values, null), weights: pick(point.weights, 0)}));
      [this.stride, this.rows] = [stride, rows];
    }
    // The weight of a value: the time in which it is known, unless the caller states weights.
    join(a, b) {
      const values = this.series.map((series, i) => JOINS[series.join](a.values[i], b.values[i], a.weights[i], b.weights[i]));
      return {begin: a.begin, end: b.end, values, weights: a.weights.map((own, i) => own + b.weights[i])};
    }
    add(point) {
      if (this.points.length > 0 && this.rows < this.stride) {
        this.points.push(this.join(this.points.pop(), point));
        this.rows++;
      } else {
        this.points.push(point);
        this.rows = 1;
      }
      if (this.points.length > POINTS) {
        const joined = [];
        for (let i = 0; i < this.points.length; i += 2)
          joined.push(i + 1 < this.points.length ? this.join(this.points[i], this.points[i + 1]) : this.points[i]);
        // Without a partner the last has only the rows of its own.
        this.rows += this.points.length % 2 === 0 ? this.stride : 0;
        [this.points, this.stride] = [joined, 2 * this.stride];
      }
    }
  }

  // Charts.

  const DASHES = ['', '7 3', '2 3', '9 3 2 3', '14 4', '4 2', '1 5', '9 2 2 2 2 2'];
  const nice = (most, steps) => {
    const rough = most / steps, power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map(step => step * power).find(step => step >= rough) ?? rough;
  };
  const HEIGHT = 220, LEFT = 66, RIGHT = 12, TOP = 8, BOTTOM = 26;

  class Chart {
    constructor(title, series, format, note, log = false) {
      Object.assign(this, {title, series, format, log, cursor: null, points: []});
      this.plot = make('div', {class: 'plot', tabindex: 0, role: 'slider', 'aria-label': `${title}: moment`, 'aria-valuemin': 0, 'aria-valuemax': 0, 'aria-valuenow': 0});
      this.read = make('p', {class: 'soft'});
      this.table = make('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': `${title}: table`});
      this.details = make('details', {}, make('summary', {}, 'Values as a table'), this.table);
      this.figure = make('figure', {'data-chart': title}, make('figcaption', {}, title), this.plot,
        make('ul', {class: 'legend'}, series.map((one, i) => make('li', {}, this.sample(i), one.name))), this.read, make('p', {class: 'soft'}, note), this.details);
      this.details.addEventListener('toggle', () => this.fill());
      this.plot.addEventListener('keydown', event => this.key(event));
      this.plot.addEventListener('pointermove', event => this.point(event));
      this.plot.addEventListener('pointerleave', () => { if (document.activeElement !== this.plot) this.move(null); });
    }
    sample(i) {
      return draw('svg', {viewBox: '0 0 38 12', 'aria-hidden': 'true'}, draw('line', {class: `line s${i % 8}`, x1: 0, x2: 38, y1: 6, y2: 6, 'stroke-dasharray': DASHES[i % 8]}));
    }
    show(points, range) {
      // A cursor stays at its moment.
      const at = this.cursor === null ? null : this.points[this.cursor]?.end;
      [this.points, this.span] = [points, range];
      if (at !== null) this.cursor = at === undefined ? null : Math.max(0, points.findIndex(point => point.end >= at));
      this.render();
    }
    move(cursor) {
      this.cursor = cursor === null || this.points.length === 0 ? null : Math.min(Math.max(cursor, 0), this.points.length - 1);
      this.render();
    }
    key(event) {
      const last = this.points.length - 1, at = this.cursor ?? last;
      const to = {ArrowLeft: at - 1, ArrowRight: at + 1, ArrowDown: at - 1, ArrowUp: at + 1, PageDown: at - 20, PageUp: at + 20, Home: 0, End: last, Escape: null}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.move(to);
    }
    point(event) {
      if (this.points.length === 0) return;
      const box = this.plot.getBoundingClientRect(), {begin, end} = this.span;
      const t = begin + (event.clientX - box.left - LEFT) / Math.max(box.width - LEFT - RIGHT, 1) * (end - begin);
      const found = this.points.findIndex(point => point.end >= t);
      this.move(found < 0 ? this.points.length - 1 : found);
    }
    values(point) {
      return this.series.map((one, i) => `${one.name} ${this.format(point.values[i])}`).join(', ');
    }
    words() {
      const {points, cursor} = this;
      if (points.length === 0) return 'No rows yet.';
      const point = points[cursor ?? points.length - 1];
      return `${cursor === null ? 'Latest, ' : ''}${clock(point.begin)} to ${clock(point.end)}: ${this.values(point)}.`;
    }
    scale() {
      const values = this.points.flatMap(point => point.values).filter(known);
      const most = Math.max(...values, 0);
      if (!this.log) {
        const step = nice(Math.max(most, this.series[0].least ?? 1), 4), top = step * Math.max(1, Math.ceil(most / step));
        const ticks = Array.from({length: Math.round(top / step) + 1}, (_, i) => i * step);
        return {ticks, y: value => value / top};
      }
      const low = Math.floor(Math.log10(Math.max(Math.min(...values.filter(value => value > 0), 1e-6), 1e-9)));
      const high = Math.max(Math.ceil(Math.log10(Math.max(most, 1e-9))), low + 1);
      const ticks = Array.from({length: high - low + 1}, (_, i) => 10 ** (low + i));
      return {ticks, y: value => Math.max(0, (Math.log10(Math.max(value, 1e-12)) - low) / (high - low))};
    }
    render() {
      const {points} = this, words = this.words();
      if (this.read.textContent !== words) this.read.textContent = words;
      const at = this.cursor ?? Math.max(points.length - 1, 0);
      for (const [name, value] of [['valuemax', Math.max(points.length - 1, 0)], ['valuenow', at], ['valuetext', words]]) this.plot.setAttribute(`aria-${name}`, value);
      const width = Math.max(this.plot.clientWidth, 240), svg = draw('svg', {viewBox: `0 0 ${width} ${HEIGHT}`, 'aria-hidden': 'true'});
      this.plot.replaceChildren(svg);
      if (points.length > 0) this.lines(svg, width);
      this.fill();
    }
    lines(svg, width) {
      const {begin, end} = this.span, inner = width - LEFT - RIGHT, high = HEIGHT - TOP - BOTTOM, {ticks, y} = this.scale();
      const px = t => (LEFT + (t - begin) / Math.max(end - begin, 1e-9) * inner).toFixed(1);
      const py = value => (TOP + (1 - Math.min(y(value), 1)) * high).toFixed(1);
      for (const tick of ticks)
        svg.append(draw('line', {class: 'grid', x1: LEFT, x2: width - RIGHT, y1: py(tick), y2: py(tick)}), draw('text', {x: LEFT - 6, y: +py(tick) + 4, 'text-anchor': 'end'}, this.format(tick)));
      const step = nice(end - begin, Math.max(2, Math.floor(inner / 110)));
      for (let t = Math.ceil(begin / step) * step; t <= end + 1e-9; t += step)
        svg.append(draw('text', {x: px(t), y: HEIGHT - 8, 'text-anchor': t > end - step / 3 ? 'end' : 'middle'}, `${+t.toFixed(3)} s`));
      svg.append(draw('line', {class: 'axis', x1: LEFT, x2: width - RIGHT, y1: TOP + high, y2: TOP + high}));
      this.series.forEach((_, i) => {
        let path = '', runs = 0;
        const single = [];
        this.points.forEach((point, k) => {
          const value = point.values[i];
          if (!known(value)) return void (runs = 0);
          path += `${runs === 0 ? 'M' : 'L'}${px(point.end)} ${py(value)}`;
          if (runs === 0 && !known(this.points[k + 1]?.values[i])) single.push([px(point.end), py(value)]);
          runs++;
        });
        if (path) svg.append(draw('path', {class: `line s${i % 8}`, d: path, 'stroke-dasharray': DASHES[i % 8]}));
        for (const [cx, cy] of single) svg.append(draw('circle', {class: `line s${i % 8}`, cx, cy, r: 3}));
      });
      if (this.cursor !== null) {
        const x = px(this.points[this.cursor].end);
        svg.append(draw('line', {class: 'cursor', x1: x, x2: x, y1: TOP, y2: TOP + high}));
      }
    }
    // The last twenty points, while the table is open.
    fill() {
      if (!this.details.open) return this.table.replaceChildren();
      const head = make('tr', {}, make('th', {scope: 'col'}, 'Interval'), this.series.map(one => make('th', {scope: 'col', class: 'n'}, one.name)));
      const row = point => make('tr', {}, make('th', {scope: 'row'}, `${clock(point.begin)} to ${clock(point.end)}`), point.values.map(value => make('td', {class: 'n'}, this.format(value))));
      this.table.replaceChildren(make('table', {}, make('thead', {}, head), make('tbody', {}, this.points.slice(-20).reverse().map(row))));
    }
  }

  // Statistics of a run: rows become points of charts.

  const COUNTED = ['sent', 'received', 'represented', 'received_bytes', 'lost'];
  const ORDER = ['Rates', 'Lateness', 'Age-of-Model', 'Aggregation', 'Queue', 'Device counters'];
  const mean = name => ({name, join: 'mean'}), most = name => ({name, join: 'max', least: 1e-9});
  class Statistics {
    constructor() {
      this.box = make('div', {class: 'charts'});
      this.sets = new Map();
      // The latest row, and the sum of all.
      [this.latest, this.whole] = [null, null];
    }
    clear() {
      this.sets.forEach(set => set.points.clear());
      [this.latest, this.whole] = [null, null];
    }
    // A chart appears when there is something to draw.
    set(title, names, kind, format, note, log) {
      const key = names.join('\n');
      let set = this.sets.get(title);
      if (!set || set.key !== key) {
        const series = names.map(kind), points = new Points(series), chart = new Chart(title, series, format, note, log);
        if (set) {
          points.take(set.points, names.map(name => set.names.indexOf(name)));
          chart.details.open = set.chart.details.open;
          set.chart.figure.remove();
        }
        set = {key, names, points, chart};
        this.sets.set(title, set);
        ORDER.forEach(name => { if (this.sets.has(name)) this.box.append(this.sets.get(name).chart.figure); });
      }
      return set;
    }
    add(row) {
      const dt = row.end_s - row.begin_s, before = this.latest;
      this.latest = row;
      if (!(dt > 0)) return;
      const {whole} = this;
      this.whole = {begin_s: whole?.begin_s ?? row.begin_s, end_s: row.end_s};
      for (const name of COUNTED) this.whole[name] = whole === null ? row[name] : known(whole[name]) && known(row[name]) ? whole[name] + row[name] : null;
      const per = name => known(row[name]) ? row[name] / dt : null;
      const times = values => values.map(value => value === null ? 0 : dt);
      const point = (set, values, weights = times(values)) => set.points.add({begin: row.begin_s, end: row.end_s, values, weights});
      const rates = ['sent', 'received', 'represented', 'lost'];
      point(this.set('Rates', rates, mean, rate, 'Updates that left, packets that arrived, updates that these represent, frames lost outside the device; per second.'), rates.map(per));
      const late = ['late_p50_ns', 'late_p99_ns', 'late_max_ns'].map(name => known(row[name]) ? row[name] * 1e-9 : null);
      if (late.some(known) || this.sets.has('Lateness'))
        point(this.set('Lateness', ['median', '99 %', 'latest'], most, span, 'How late frames left. Logarithmic. Where points are joined, the largest.', true), late);
      this.clusters(row, before, point);
      if (known(row.queued) || this.sets.has('Queue'))
        point(this.set('Queue', ['frames waiting'], name => ({name, join: 'max', least: 4}), count, 'Frames that waited in the ports of the software device when it was last looked at. Where points are joined, the largest.'), [row.queued ?? null]);
      this.device(row, before, point);
    }
    clusters(row, before, point) {
      const clusters = (row.clusters ?? []).slice(0, CLUSTERS);
      if (clusters.length === 0) return;
      const names = clusters.map(cluster => `cluster ${cluster.id}`), more = row.clusters.length > CLUSTERS ? ' The first eight clusters.' : '';
      if (clusters.some(cluster => known(cluster.age_s)) || this.sets.has('Age-of-Model'))
        point(this.set('Age-of-Model', names, name => ({name, join: 'max', least: 1e-9}), span, `At the end of each interval; a dash before the first update arrived. Where points are joined, the largest.${more}`), clusters.map(cluster => cluster.age_s ?? null));
      const former = before?.clusters ?? [];
      const share = (cluster, i) => {
        const [packets, updates] = ['received_total', 'represented_total'].map(name => cluster[name] - (former[i]?.[name] ?? 0));
        return packets > 0 && known(updates) ? [updates / packets, packets] : [null, 0];
      };
      const shares = clusters.map(share);
      if (clusters.some(cluster => known(cluster.received_total)))
        point(
          this.set('Aggregation', names, mean, value => known(value) ? digits(value) : '–', `Updates per packet that arrived; a dash where none did. Where points are joined, the mean over their packets.${more}`),
          shares.map(([value]) => value), shares.map(([, packets]) => packets));
    }
    device(row, before, point) {
      // A counter that is missing for a time leaves a gap.
      const names = [...new Set([...this.sets.get('Device counters')?.names ?? [], ...Object.keys(row.device ?? {})])].slice(0, COUNTERS);
      if (names.length === 0) return;
      const dt = row.device_s - (before?.device_s ?? NaN);
      const per = name => dt > 0 && known(row.device?.[name]) && known(before.device?.[name]) ? (row.device[name] - before.device[name]) / dt : null;
      point(this.set('Device counters', names, mean, rate, 'What the launched device counted, per second.'), names.map(per));
    }
    render() {
      // All of them are of the same time.
      const points = this.sets.get('Rates')?.points.points ?? [];
      if (points.length > 0) this.sets.forEach(set => set.chart.show(set.points.points, {begin: points[0].begin, end: points.at(-1).end}));
    }
  }

  // The network, with what the latest row says of it; of a run that has ended, with the means of all of it.

  const network = (run, {latest, whole}) => {
    const row = run.state === 'in_progress' ? latest : whole;
    const {network: net} = run, dt = row ? row.end_s - row.begin_s : 0;
    const per = (name, factor = 1) => dt > 0 && known(row?.[name]) ? row[name] * factor / dt : null;
    const node = (name, ...lines) => make('li', {class: 'node'}, make('strong', {}, name), lines.filter(line => line).map(line => make('span', {}, line, make('br'))));
    const edge = (...lines) => make('li', {class: 'edge'}, lines.filter(line => line).map(line => typeof line === 'string' ? make('span', {}, line) : line));
    const carried = per('received_bytes', 8), share = known(net.rate_bps) && known(carried) ? carried / net.rate_bps : null;
    const external = net.device === 'external', how = [net.program && `program ${net.program}`, net.queue && `queue ${net.queue}`].filter(text => text).join(', ');
    const queued = known(row?.queued) ? `${count(row.queued)} frames waiting` : null;
    const load = share === null ? null : make('span', {}, make('meter', {min: 0, max: 1, value: Math.min(share, 1), 'aria-label': 'load of the link towards the server'}), `${digits(share * 100)} % of ${bits(net.rate_bps)}`);
    const arrives = edge(`${rate(per('received'))} received`, `${rate(per('represented'))} updates in them`, bits(carried), load);
    const workers = node('Workers', known(net.workers) ? `${count(net.workers)} in ${count(net.clusters)} clusters` : null);
    const device = node(external ? 'Device (external)' : 'Device', how, queued, net.transport ? `transport ${net.transport}` : null);
    const sends = edge(`${rate(per('sent'))} sent`, known(row?.lost) ? `${rate(per('lost'))} lost outside the device` : null);
    const of = row ? make('p', {class: 'soft'}, run.state === 'in_progress' ? `Of the latest interval, ${clock(row.begin_s)} to ${clock(row.end_s)}.` : 'Means of the whole run.') : '';
    return net.server
      ? [make('ol', {class: 'path', 'aria-label': 'network'}, workers, sends, device, arrives, node('Server')), of]
      : [make('ol', {class: 'path', 'aria-label': 'network'}, workers, sends, device, arrives, node('Workers', 'results come back')), of];
  };

  // A run.

  const FATES = [
    ['generated', 'generated'], ['withheld', 'withheld by workers'], ['sent', 'sent'], ['retransmitted', 'of these sent again'],
    ['delivered_alone', 'delivered alone'], ['delivered_merged', 'delivered in an aggregate'], ['subsumed', 'replaced by a newer one'],
    ['outranked', 'discarded for a higher reward'], ['in_flight', 'in flight at the end'], ['unaccounted', 'unaccounted for (device without books)'], ['unknown', 'missing from the balance'],
  ];
  const table = (title, rows) => rows.length === 0 ? null : make('section', {}, make('h2', {}, title), make('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title},
    make('table', {}, make('tbody', {}, rows.map(([name, value]) => make('tr', {}, make('th', {scope: 'row'}, name), make('td', {class: typeof value === 'number' ? 'n' : ''}, typeof value === 'number' ? count(value) : String(value))))))));
  const balance = run => {
    if (!run.balance) return [];
    const dropped = Object.entries(run.balance.dropped ?? {}).map(([why, n]) => [`dropped: ${why.replaceAll('_', ' ')}`, n]);
    const rows = FATES.filter(([key]) => known(run.balance[key]) && (run.balance[key] !== 0 || ['generated', 'sent', 'unknown'].includes(key))).map(([key, name]) => [name, run.balance[key]]);
    return [...rows.slice(0, -1), ...dropped, ...rows.slice(-1)];
  };

  const STATES = {
    in_progress: ['busy', 'IN PROGRESS: no verdict yet.'],
    killed: ['warn', 'KILLED: it began, and no process has it any more. pktgen analyze --recover reads what it left.'],
    unknown: ['warn', 'NOT ENDED: killed, or in progress on another machine or by an older pktgen.'],
  };
  const say = run => {
    const box = make('div', {class: 'verdict', role: 'status'});
    if (run.valid === false) {
      box.className = 'verdict invalid';
      put(box, [make('p', {}, `INVALID${run.state === 'interrupted' ? ' (interrupted)' : ''}: do not use its numbers.`), make('ul', {}, run.faults.map(text => make('li', {}, text)))]);
    } else if (STATES[run.state]) {
      const [kind, text] = STATES[run.state];
      box.className = `verdict ${kind}`;
      box.append(make('p', {}, text));
    } else if (run.valid) {
      box.className = 'verdict valid';
      box.append(make('p', {}, `VALID${run.part ? ` (as a part: ${run.part})` : ''}.`));
    } else box.append(make('p', {}, 'NO VERDICT: its manifest has none.'));
    return box;
  };
  const warnings = (run, row) => {
    const texts = run.state === 'in_progress' ? row?.warnings ?? [] : [];
    return texts.length === 0 ? null : make('div', {class: 'verdict warn'}, make('p', {}, 'WARNING, of the last second:'), make('ul', {}, texts.map(text => make('li', {}, text))));
  };

  const comparing = (run, runs) => {
    const others = runs.filter(other => other.path !== run.path && other.kind === run.kind && ['valid', 'invalid', 'none'].includes(verdict(other)));
    if (others.length === 0) return null;
    const select = make('select', {}, others.slice(0, 1000).map(other => make('option', {value: other.path}, `${named(other.path)} (${VERDICTS[verdict(other)][1].toLowerCase()})`)));
    const open = make('a', {}, 'Open the comparison');
    const aim = () => { open.href = `/report?${new URLSearchParams({run: run.path, baseline: select.value})}`; };
    select.addEventListener('change', aim);
    aim();
    return make('div', {class: 'tools'}, make('label', {}, 'Compare with the baseline', select), open);
  };

  const runView = async (view, path) => {
    const title = named(path), {runs} = await ask('/api/runs');
    if (view.gone) return;
    const listed = runs.find(run => run.path === path);
    if (!listed) return show(title, make('p', {}, 'There is no such run below this folder.'));
    if (listed.kind === 'sweep') {
      const own = runs.filter(run => inside(listed, run));
      return show(title, make('p', {class: 'soft'}, about(listed)), make('div', {class: 'tools'}, reportLink(listed, 'Report of the sweep')), comparing(listed, runs),
        make('h2', {}, `Runs (${own.length})`), make('ul', {class: 'runs'}, own.map(run => item(run, runs))));
    }
    const top = make('div'), far = make('p', {class: 'soft far'}), warned = make('div'), told = make('p', {class: 'told', role: 'status'}), net = make('div'), tail = make('div'), statistics = new Statistics();
    const live = make('section', {}, make('h2', {}, 'Network'), net, make('h2', {}, 'Statistics'), statistics.box);
    let run = null, from = 0, shown = '', said = '', ended = false;
    show(title, make('p', {class: 'soft'}, about(listed)), top, far, warned, told, live, tail);
    const refresh = () => {
      const row = statistics.latest;
      // What is read out is replaced when it changes only.
      const state = say(run), box = warnings(run, row);
      if (said !== state.textContent) {
        said = state.textContent;
        top.replaceChildren(state);
      }
      warned.replaceChildren(...[box].filter(one => one));
      const number = box ? `Warnings: ${row.warnings.length}` : '';
      if (told.textContent !== number) told.textContent = number;
      far.textContent = run.state === 'in_progress' && row ? `${clock(row.end_s)} so far${row.last ? '; its records are being checked' : ''}.` : '';
      net.replaceChildren(...network(run, statistics));
      statistics.render();
    };
    const details = () => {
      const notes = run.notes.length > 0 ? make('section', {}, make('h2', {}, 'Notes'), make('ul', {}, run.notes.map(note => make('li', {}, note)))) : null;
      const over = run.state === 'finished' || run.state === 'interrupted';
      const words = value => Array.isArray(value) ? value.join(' ') : value;
      const made = [['made by', run.tool], ['made', date(run.created_ms)], ['command', words(run.command)], ['overrides', words(run.overrides)], ['records', run.records]].filter(([, value]) => value);
      tail.replaceChildren(...[
        run.rows ? null : make('p', {}, 'It has no statistics over time. A run in real time has them with --stats 1s --stats-to run.'),
        over ? make('section', {}, make('h2', {}, 'Report'), make('div', {class: 'tools'}, reportLink(run, run.report ? 'Report' : 'Make the report')), comparing(listed, runs)) : null,
        notes, table('Where updates went', balance(run)),
        table('Counters', [...Object.entries(run.counters ?? {}), ...Object.entries(run.device_counters ?? {})].filter(([, value]) => known(value) && value !== 0).map(([name, value]) => [name.replaceAll('_', ' '), value])),
        table('Host', Object.entries(run.host ?? {})), table('What was run', made),
        make('details', {}, make('summary', {}, 'Configuration'), make('pre', {tabindex: 0}, run.config)),
      ].filter(part => part));
      live.hidden = !run.rows;
    };
    repeat(view, async () => {
      if (run === null || !ended) {
        const text = await ask('/api/run', {run: path});
        if (view.gone) return null;
        run = text;
        // What changes with each row is drawn apart.
        if (JSON.stringify(text) !== shown) {
          shown = JSON.stringify(text);
          details();
        }
        ended = ['finished', 'interrupted'].includes(run.state);
      }
      let more = run.rows;
      while (more && !view.gone) {
        const piece = await ask('/api/rows', {run: path, from});
        if (piece.from < from) statistics.clear();
        piece.rows.forEach(row => statistics.add(row));
        [from, more] = [piece.next, piece.more];
      }
      if (view.gone) return null;
      refresh();
      return ended ? null : run.state === 'killed' ? LIST_MS : ROWS_MS;
    });
    view.resized = () => statistics.render();
  };

  // Which view the address names.

  let view = {};
  const show = (title, ...parts) => {
    document.title = `${title} - pktgen`;
    const heading = make('h1', {tabindex: -1}, title);
    main.replaceChildren(heading, ...parts.filter(part => part));
    if (view.follows) heading.focus();
  };
  const route = event => {
    view.gone = true;
    view = {gone: false, follows: event !== undefined};
    contact.textContent = '';
    let path = null;
    try {
      path = location.hash.startsWith('#run=') ? decodeURIComponent(location.hash.slice(5)) : null;
    } catch {
      // No address of ours: the list.
    }
    if (path === null) return listView(view);
    const own = view;
    runView(own, path).catch(error => { if (!own.gone) show(named(path), make('p', {role: 'alert'}, `It cannot be shown: ${error.message}`)); });
  };
  addEventListener('hashchange', route);
  addEventListener('resize', () => view.resized?.());
  route();
})();
