'use strict';
// Draws the report from the data in the page. Text of the trace goes into the page as text nodes only.
(() => {
const D = JSON.parse(document.getElementById('data').textContent);
const app = document.getElementById('app');

// ---- small things

const el = (tag, attrs, ...children) => {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k === 'class') e.className = v;
    else if (k === 'style') e.style.cssText = v;
    else if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v);
  }
  for (const c of children.flat()) if (c !== null && c !== undefined) e.append(c);
  return e;
};
const svg = (tag, attrs, ...children) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
  for (const c of children.flat()) if (c) e.append(c);
  return e;
};
const scaled = (v, factor, units) => {
  let u = 0;
  while (u + 1 < units.length && Math.abs(v) >= factor - 0.5) { v /= factor; ++u; }
  return (Math.abs(v) >= 999.5 ? v.toFixed(0) : String(Number(v.toPrecision(3)))) + ' ' + units[u];
};
const time = ns => scaled(ns, 1000, ['ns', 'us', 'ms', 's']);
const bytes = b => scaled(b, 1024, ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']);
const count = n => n.toLocaleString('en-US');
const share = (part, whole) => whole > 0 ? Number((100 * part / whole).toPrecision(3)) + ' %' : '-';
const lane = i => 'var(--' + D.lanes[i][0] + ')';
const colour = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const tierName = t => t === 1 ? 'replay' : 'tier ' + t;
const tag = (text, name) => el('span', {class: 'tag', style: 'background:var(--' + name + ')'}, text);
const tierTag = t => tag(tierName(t), t === 1 ? 'replay' : 'tier' + t);
const card = (title, ...children) => el('section', {class: 'card'}, title ? el('h2', {}, title) : null, ...children);

const tip = el('div', {class: 'tip'});
document.body.append(tip);
const showTip = (event, text) => {
  tip.textContent = text;
  tip.style.display = text ? 'block' : 'none';
  tip.style.left = Math.min(event.clientX + 14, innerWidth - 370) + 'px';
  tip.style.top = (event.clientY + 16) + 'px';
};

// A table that sorts by the column that is clicked. A cell is text, a node, or {text|node, key} with what it sorts by.
const table = (columns, rows, options = {}) => {
  const body = el('tbody');
  const value = cell => cell && typeof cell === 'object' && 'key' in cell ? cell.key : cell;
  const shown = cell => cell && typeof cell === 'object' && 'key' in cell ? (cell.node || cell.text) : cell;
  const isNumber = name => name.startsWith('>');
  // Beyond so many rows a person asks for the rest.
  let most = options.most && rows.length > options.most ? options.most : rows.length;
  const fill = () => {
    body.replaceChildren(...rows.slice(0, most).map(row => {
      const tr = el('tr', options.pick ? {class: 'pick'} : {}, row.cells.map((cell, c) =>
        el('td', isNumber(columns[c]) ? {class: 'n'} : {}, shown(cell) === undefined ? '' : shown(cell))));
      if (options.pick) tr.addEventListener('click', () => options.pick(row, tr));
      if (row.id) tr.id = row.id;
      return tr;
    }));
  };
  let sorted = -1, down = true;
  const head = el('tr', {}, columns.map((name, c) => el('th', {
    class: isNumber(name) ? 'n' : '',
    onclick: () => {
      down = sorted === c ? !down : isNumber(name);
      sorted = c;
      rows.sort((x, y) => {
        const a = value(x.cells[c]), b = value(y.cells[c]);
        return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
      });
      fill();
    }}, name.replace('>', ''))));
  fill();
  const more = most < rows.length ? el('button', {class: 'more', onclick: () => { most = rows.length; fill(); more.remove(); }}, 'show all ' + rows.length) : null;
  return el('div', {class: 'scroll'}, el('table', {}, el('thead', {}, head), body), more);
};
const T = ns => ({text: time(ns), key: ns});
const N = n => ({text: count(n), key: n});

// ---- head

const metaOf = key => (D.meta.find(m => m[0] === key) || ['', ''])[1];
app.append(el('header', {},
  el('h1', {}, 'Tessera trace'),
  el('div', {class: 'sub'}, metaOf('command') || D.title),
  el('div', {class: 'sub'}, [
    D.title, D.wall ? new Date(D.wall).toISOString().replace('T', ' ').slice(0, 19) + ' UTC' : '',
    'version ' + (metaOf('version') || 'not known'), metaOf('rank') ? 'rank ' + metaOf('rank') : '', metaOf('options'),
    D.complete ? '' : 'cut off', D.redacted ? 'redacted' : ''].filter(Boolean).join(' · '))));

const allOps = D.totals.ops + D.totals.steps;
const peak = D.memory.reduce((m, s) => Math.max(m, s[1]), 0);
const fact = (name, value, more) => el('div', {class: 'card'}, el('div', {class: 'sub'}, name), el('div', {class: 'big'}, value), el('div', {class: 'sub'}, more));
app.append(el('div', {class: 'cards', id: 'facts'},
  fact('recorded', time(D.duration), count(D.events) + ' events' + (D.lost ? ', ' + count(D.lost) + ' lost' : '')),
  fact('ops', count(allOps), share(D.totals.steps, allOps) + ' of them in versions'),
  fact('traces', count(D.places.length), count(D.places.reduce((n, p) => n + p.versions.length, 0)) + ' versions'),
  fact('building', time(D.totals.compileNs), count(D.totals.compiles) + ' builds'),
  fact('deopts', count(D.totals.deopts), D.deopts.length ? 'most: ' + D.deopts[0][1] : 'none'),
  fact('memory', bytes(peak), 'at most, on the cpu'),
  D.gpus.map(g => fact('GPU ' + g.number + ' busy', share(g.busy, g.span), g.name))));

// ---- what to look at first

const openPlace = name => {
  const i = D.places.findIndex(p => p.name === name);
  if (i >= 0) location.hash = 'trace-' + i;
};
app.append(el('section', {class: 'card', id: 'findings'}, el('h2', {}, 'What to look at first'),
  D.findings.length === 0 ? el('div', {class: 'note'}, 'Nothing stands out: no deopts to speak of, no version that is slower than tier 1.') :
  D.findings.slice(0, 8).map(([title, detail, advice, place, cost]) => el('div', {class: 'finding'},
    cost > 0 ? el('span', {class: 'cost'}, 'about ' + time(cost)) : null,
    el('b', {}, title), el('div', {}, detail), el('div', {class: 'sub'}, advice, ' ',
      place && D.places.some(p => p.name === place) ? el('a', {onclick: () => openPlace(place)}, 'show ' + place) : null)))));

// ---- tier mix

const laneTotal = D.lanes.reduce((n, l) => n + l[2], 0);
app.append(el('section', {class: 'card', id: 'mix'}, el('h2', {}, 'Where the time went'),
  el('div', {class: 'bar'}, D.lanes.map((l, i) => l[2] > 0 ? el('div', {style: 'flex:' + l[2] / laneTotal + ';background:' + lane(i), title: l[1] + ' ' + time(l[2])}) : null)),
  el('div', {class: 'legend'}, D.lanes.map((l, i) => l[2] > 0 ? el('span', {}, el('i', {style: 'background:' + lane(i)}), l[1] + ' ', el('b', {}, time(l[2])), ' ' + share(l[2], D.duration)) : null)),
  D.idle > 0 ? el('p', {class: 'note'}, 'On the thread with most ops nothing of Tessera ran for ' + time(D.idle) + ' (' + share(D.idle, D.duration) + ').') : null));

// ---- GPUs

const rate = (v, unit) => v > 0 ? scaled(v, 1000, [unit, 'k' + unit, 'M' + unit, 'G' + unit, 'T' + unit]) : '-';
const area = (points, height) => 'M' + points[0][0] + ',' + height + points.map(p => 'L' + p[0] + ',' + p[1]).join('') + 'L' + points[points.length - 1][0] + ',' + height + 'Z';
const gpuCard = g => {
  const parts = [['busy', g.busy, 'tier2', ''], ['idle: the host was behind', g.host[1] - g.waited[1], 'tier3', count(g.host[0] - g.waited[0]) + ' gaps'],
    ['idle: the program had waited for the device', g.waited[1], 'other', count(g.waited[0]) + ' gaps'], ['idle: the device itself', g.device[1], 'tier1', count(g.device[0]) + ' gaps'], ['idle', g.unknown[1], 'tier1', count(g.unknown[0]) + ' gaps, nobody knows why']].filter(p => p[1] > 0);
  const h = 54, n = Math.max(g.bins.length, 1), top = 1.0;
  const chart = svg('svg', {viewBox: '0 0 1180 ' + h, class: 'busy'}, svg('rect', {x: 0, y: 0, width: 1180, height: h, fill: 'var(--code)'}),
    g.bins.length ? svg('path', {fill: 'var(--tier2)', opacity: 0.8, d: area(g.bins.map((b, i) => [1180 * (i + 0.5) / n, h - h * Math.min(b / D.binNs, top)]), h)}) : null);
  return el('section', {class: 'card gpu', id: 'gpu-' + g.number}, el('h2', {}, 'GPU ' + g.number + ': ' + g.name),
    el('div', {class: 'bar'}, parts.map(p => el('div', {style: 'flex:' + p[1] / Math.max(g.span, 1) + ';background:var(--' + p[2] + ')', title: p[0] + ' ' + time(p[1])}))),
    el('div', {class: 'legend'}, parts.map(p => el('span', {}, el('i', {style: 'background:var(--' + p[2] + ')'}), p[0] + ' ', el('b', {}, time(p[1])), ' ' + share(p[1], g.span) + (p[3] ? ', ' + p[3] : '')))),
    el('h3', {}, 'Busy over time'), chart,
    table(['what', '>count', '>time', '>bytes', '>rate', 'what it is'], g.kinds.map(k => ({cells: [k[0].replace('_', ' '), N(k[1]), T(k[2]), {text: k[3] ? bytes(k[3]) : '', key: k[3]}, {text: k[3] ? rate(k[3] / k[2] * 1e9, 'B/s') : '', key: k[3] / k[2]}, k[4]]}))),
    g.links.length ? el('p', {class: 'note'}, 'NVLink: ' + g.links.join('; ') + '.') : null,
    el('p', {class: 'note'}, (metaOf('measures') ? 'Counters were read of ' + metaOf('measures') + '. ' : '') + (metaOf('gpu') ? 'Recorded by ' + metaOf('gpu') + '. ' : '') + (g.launch[0] ? 'From launch to start on an idle GPU: ' + time(g.launch[1] / g.launch[0]) + '. ' : '') +
      (D.gpuLost ? count(D.gpuLost) + ' records were lost: times and counts are too low.' : '')),
    g.gaps.length ? el('details', {}, el('summary', {}, 'The longest gaps'), table(['>at', '>idle for', 'why', 'after', 'before'], g.gaps.map(x => ({cells: [T(x[0]), T(x[1]), x[2], x[3], x[4]]})))) : null);
};
app.append(...D.gpus.map(gpuCard));

// ---- timeline

for (const t of D.threads) {
  const s = t.slices, n = s.length / 5;
  t.n = n; t.start = new Float64Array(n); t.ns = new Float64Array(n); t.lane = new Uint8Array(n); t.label = new Uint32Array(n); t.count = new Uint32Array(n);
  let at = 0;
  for (let i = 0; i < n; ++i) {
    at += s[5 * i]; t.start[i] = at; t.ns[i] = s[5 * i + 1]; t.lane[i] = s[5 * i + 2]; t.label[i] = s[5 * i + 3]; t.count[i] = s[5 * i + 4];
  }
  t.slices = null;
}
const markRow = 18, axisRow = 22, laneRow = 40, labelWidth = 0;
const timeline = el('canvas', {id: 'timeline', role: 'img', 'aria-label': 'timeline of threads'});
const view = {from: 0, to: Math.max(D.duration, 1)};
const draw = () => {
  const ratio = devicePixelRatio || 1, width = timeline.clientWidth || 1000, height = axisRow + markRow + D.threads.length * laneRow + 6;
  timeline.width = width * ratio; timeline.height = height * ratio; timeline.style.height = height + 'px';
  const c = timeline.getContext('2d');
  c.scale(ratio, ratio);
  c.fillStyle = colour('code'); c.fillRect(0, 0, width, height);
  const x = ns => labelWidth + (ns - view.from) / (view.to - view.from) * (width - labelWidth);
  c.font = '11px system-ui, sans-serif'; c.textBaseline = 'middle';
  // The axis: a tick about every hundred pixels, at round numbers.
  const span = view.to - view.from, raw = span / (width / 110), power = Math.pow(10, Math.floor(Math.log10(raw)));
  const tick = [1, 2, 5, 10].map(m => m * power).find(m => m >= raw);
  c.strokeStyle = colour('line'); c.fillStyle = colour('soft');
  for (let t = Math.ceil(view.from / tick) * tick; t <= view.to; t += tick) {
    c.beginPath(); c.moveTo(x(t), axisRow - 6); c.lineTo(x(t), height); c.stroke();
    c.fillText(time(t), x(t) + 4, axisRow / 2);
  }
  const colours = D.lanes.map(l => colour(l[0]));
  D.threads.forEach((t, row) => {
    const y = axisRow + markRow + row * laneRow;
    let lastX = -1, lastLane = -1;
    for (let i = 0; i < t.n; ++i) {
      const from = t.start[i], to = from + t.ns[i];
      if (to < view.from) continue;
      if (from > view.to) break;
      const x0 = Math.max(x(from), labelWidth), x1 = Math.min(x(to), width);
      if (x1 < lastX && t.lane[i] === lastLane) continue;  // another slice covers the pixel
      c.fillStyle = colours[t.lane[i]];
      c.fillRect(x0, y + 14, Math.max(x1 - x0, 0.7), laneRow - 18);
      lastX = x0 + 0.7; lastLane = t.lane[i];
      if (x1 - x0 > 60) {
        c.save(); c.beginPath(); c.rect(x0, y + 14, x1 - x0, laneRow - 18); c.clip();
        c.fillStyle = '#fff'; c.fillText(D.labels[t.label[i]] + (t.count[i] > 1 ? ' and ' + (t.count[i] - 1) + ' more' : ''), x0 + 5, y + 14 + (laneRow - 18) / 2);
        c.restore();
      }
    }
    c.fillStyle = colour('soft'); c.fillText(t.name, 4, y + 6);
  });
  // Drops first: what replaces a version comes at the same time.
  const order = ['version_drop', 'version_install', 'deopt'];
  for (const [ns, kind] of [...D.marks].sort((p, q) => order.indexOf(p[1]) - order.indexOf(q[1]))) {
    if (ns < view.from || ns > view.to) continue;
    c.fillStyle = kind === 'deopt' ? colour('warn') : kind === 'version_install' ? colour('tier2') : colour('soft');
    c.beginPath(); c.moveTo(x(ns), axisRow + 12); c.lineTo(x(ns) - 4, axisRow + 4); c.lineTo(x(ns) + 4, axisRow + 4); c.fill();
  }
};
const nsAt = event => view.from + (event.offsetX - labelWidth) / (timeline.clientWidth - labelWidth) * (view.to - view.from);
const setView = (from, to) => {
  const least = 200, span = Math.min(Math.max(to - from, least), Math.max(D.duration, least));
  view.from = Math.min(Math.max(from, 0), Math.max(D.duration - span, 0)); view.to = view.from + span;
  draw();
};
timeline.addEventListener('wheel', event => {
  event.preventDefault();
  const at = nsAt(event), factor = Math.exp(event.deltaY * 0.002);
  setView(at - (at - view.from) * factor, at + (view.to - at) * factor);
}, {passive: false});
let drag = null;
timeline.addEventListener('pointerdown', event => { drag = {x: event.offsetX, from: view.from, to: view.to}; timeline.setPointerCapture(event.pointerId); });
timeline.addEventListener('pointerup', () => { drag = null; });
timeline.addEventListener('pointermove', event => {
  if (drag) {
    const by = (event.offsetX - drag.x) / timeline.clientWidth * (drag.to - drag.from);
    return setView(drag.from - by, drag.to - by);
  }
  const ns = nsAt(event), near = (view.to - view.from) / timeline.clientWidth * 4;
  if (event.offsetY < axisRow + markRow) {
    const mark = D.marks.find(m => Math.abs(m[0] - ns) <= near);
    return showTip(event, mark ? D.labels[mark[2]] + ' at ' + time(mark[0]) : '');
  }
  const t = D.threads[Math.floor((event.offsetY - axisRow - markRow) / laneRow)];
  let text = '';
  if (t) {
    let low = 0, high = t.n;
    while (low < high) { const mid = (low + high) >> 1; if (t.start[mid] <= ns + near / 4) low = mid + 1; else high = mid; }
    for (let i = low - 1; i >= 0 && i > low - 64; --i) {
      if (t.start[i] + t.ns[i] + near / 4 < ns) continue;
      text = D.labels[t.label[i]] + (t.count[i] > 1 ? ' and ' + count(t.count[i] - 1) + ' more' : '') + ' · ' + D.lanes[t.lane[i]][1] + ' · ' + time(t.ns[i]) + ' at ' + time(t.start[i]);
      break;
    }
  }
  showTip(event, text);
});
timeline.addEventListener('pointerleave', () => showTip({clientX: 0, clientY: 0}, ''));
timeline.addEventListener('dblclick', () => setView(0, D.duration));
const zoom = factor => { const mid = (view.from + view.to) / 2, half = (view.to - view.from) / 2 * factor; setView(mid - half, mid + half); };
app.append(el('section', {class: 'card', id: 'threads'},
  el('div', {class: 'row'}, el('h2', {}, 'Timeline'), el('span', {},
    el('button', {id: 'zoom-in', onclick: () => zoom(0.5)}, 'zoom in'), ' ', el('button', {id: 'zoom-out', onclick: () => zoom(2)}, 'zoom out'), ' ', el('button', {onclick: () => setView(0, D.duration)}, 'all'))),
  timeline,
  el('p', {class: 'note'}, 'The wheel zooms, dragging moves, a double click shows all. ▼ green: a version was installed; orange: a deopt; grey: a version was dropped.')));

// ---- curves

const W = 1180, H = 190, left = 58, right = 58, bottom = 22, top = 8;
const frame = (height, from, to, left_label, right_label) => {
  const g = [];
  for (let i = 0; i <= 4; ++i) {
    const y = top + (height - top - bottom) * i / 4;
    g.push(svg('line', {x1: left, x2: W - right, y1: y, y2: y, stroke: 'var(--line)'}));
    if (left_label) g.push(svg('text', {x: left - 6, y: y + 4, 'text-anchor': 'end'}, left_label(1 - i / 4)));
    if (right_label) g.push(svg('text', {x: W - right + 6, y: y + 4}, right_label(1 - i / 4)));
  }
  for (let i = 0; i <= 6; ++i)
    g.push(svg('text', {x: left + (W - left - right) * i / 6, y: height - 6, 'text-anchor': 'middle'}, time(from + (to - from) * i / 6)));
  return g;
};
const px = (i, n) => left + (W - left - right) * i / Math.max(n, 1);
const py = (v, height) => top + (height - top - bottom) * (1 - v);
const warmUp = () => {
  const bins = D.bins, n = bins.length, shapes = frame(H, 0, D.duration, v => Math.round(v * 100) + ' %', null);
  // Time of each lane as a part of the bin; several threads may fill more than all of it.
  const own = D.lanes.map((l, i) => i).filter(i => !['record', 'compile'].includes(D.lanes[i][0]));
  const most = Math.max(D.binNs, ...bins.map(b => own.reduce((sum, i) => sum + b[i], 0)));
  for (let b = 0; b < n; ++b) {
    let base = 0;
    for (const i of own) {
      const v = bins[b][i] / most;
      if (v > 0) shapes.push(svg('rect', {x: px(b, n), y: py(base + v, H), width: px(1, n) - px(0, n) + 0.3, height: Math.max((H - top - bottom) * v, 0.2), fill: lane(i)}));
      base += v;
    }
  }
  const k = D.lanes.length, marked = D.totals.marks > 0, rates = bins.map(b => b[marked ? k + 1 : k] / D.binNs * 1e9), fastest = Math.max(...rates, 1e-9);
  for (const [stroke, width] of [['var(--card)', 4], ['var(--ink)', 1.8]]) shapes.push(svg('polyline', {points: rates.map((r, i) => px(i + 0.5, n) + ',' + py(r / fastest, H)).join(' '), fill: 'none', stroke, 'stroke-width': width, 'stroke-linejoin': 'round'}));
  for (let i = 0; i <= 4; ++i) shapes.push(svg('text', {x: W - right + 6, y: top + (H - top - bottom) * i / 4 + 4}, scaled(fastest * (1 - i / 4), 1000, ['', 'k', 'M', 'G'])));
  bins.forEach((b, i) => { if (b[k + 2] > 0) shapes.push(svg('circle', {cx: px(i + 0.5, n), cy: top + 4, r: 3, fill: 'var(--warn)'})); });
  return el('section', {class: 'card', id: 'warm-up'}, el('h2', {}, 'Warm-up'), svg('svg', {viewBox: '0 0 ' + W + ' ' + H}, shapes),
    el('p', {class: 'note'}, 'Colours: who had the time (left). Line: ' + (marked ? 'steps' : 'ops') + ' a second (right). Dots: deopts.'));
};
// ---- kernels of GPUs

const percent = v => v > 0 ? Math.round(100 * v) + ' %' : '-';
const kernelDetail = el('div', {id: 'kernel-detail'});
const showKernel = i => {
  const k = D.kernels[i], facts = [['launched by', k.by || 'not known'], ['launches', count(k.count) + (k.graph ? ', ' + count(k.graph) + ' of them by a graph' : '') + '; each ' + time(k.ns / k.count) + ', longest ' + time(k.longest)]];
  if (k.grid) facts.push(['grid', count(k.grid[0]) + ' blocks of ' + k.grid[1] + ' threads, ' + k.grid[2] + ' registers, ' + bytes(k.grid[3]) + ' of shared memory' + (k.grid[4] > 1 ? '; ' + k.grid[4] + ' grids in all, this one had most of the time' : '')]);
  if (k.occupancy) facts.push(['occupancy', percent(k.occupancy[0]) + ', limited by ' + k.occupancy[1]]);
  if (k.rate > 0) facts.push(['memory', bytes(k.bytes) + ' a launch, ' + rate(k.rate, 'B/s') + ', ' + percent(k.memory) + ' of its rate' + (k.guess ? '; with dims of another trace' : '')]);
  if (k.flops > 0) facts.push(['arithmetic', rate(k.flops, 'FLOP/s') + ', ' + percent(k.compute) + ' of the peak']);
  kernelDetail.replaceChildren(el('div', {class: 'finding'}, el('div', {class: 'row'}, el('b', {class: 'name'}, k.name), k.place && D.places.some(p => p.name === k.place) ? el('a', {onclick: () => openPlace(k.place)}, 'show ' + k.place) : null),
    el('table', {class: 'facts'}, el('tbody', {}, facts.map(f => el('tr', {}, el('td', {}, f[0]), el('td', {}, f[1]))))),
    k.verdicts.map(v => el('div', {class: 'verdict'}, el('b', {}, v[0]), el('div', {class: 'sub'}, v[1]))),
    k.measures.length ? el('details', {}, el('summary', {}, 'Counters of one launch'), table(['counter', '>value'], k.measures.map(m => ({cells: [m[0], {text: count(m[1]), key: m[1]}]})))) : null));
};
const mostKernelNs = Math.max(1, ...D.kernels.map(k => k.ns));
if (D.kernels.length) app.append(el('section', {class: 'card', id: 'kernels'}, el('h2', {}, 'Kernels and copies of GPUs'),
  table(['kernel', 'launched by', '>time', '>share', '>launches', '>each', '>memory', '>arithmetic', '>of peak', 'what holds it up'], D.kernels.map((k, i) => ({index: i, id: 'kernel-' + i, cells: [
    {node: el('span', {class: 'name', title: k.name}, el('i', {class: 'dot', style: 'background:' + lane(k.lane)}), k.name), key: k.name}, k.by,
    {node: el('span', {}, el('span', {class: 'mini', style: 'width:' + (50 * k.ns / mostKernelNs) + 'px'}), time(k.ns)), key: k.ns}, {text: share(k.ns, D.gpuBusy), key: k.ns}, N(k.count), T(k.ns / k.count),
    {text: (k.guess && k.rate > 0 ? '~' : '') + rate(k.rate, 'B/s'), key: k.rate}, {text: (k.guess && k.flops > 0 ? '~' : '') + rate(k.flops, 'FLOP/s'), key: k.flops}, {text: percent(Math.max(k.memory, k.compute)), key: Math.max(k.memory, k.compute)},
    k.verdicts.length ? k.verdicts[0][0] : '']})),
    {pick: row => showKernel(row.index), most: 25}), kernelDetail,
  el('p', {class: 'note'}, (D.kernelsInAll > D.kernels.length ? 'The ' + D.kernels.length + ' with most time, of ' + count(D.kernelsInAll) + '. ' : '') + 'Colours: the tier of who launched it. Share: of the time that GPUs were busy. Of peak: the larger of memory and arithmetic, as counters say or as the compiler counts. A click shows more.')));

const roofline = (r, index) => {
  if (!r.points.length) return null;
  const h = 380, l = 76, rt = 20, b = 42, t = 14, roofs = r.roofs.map(x => x[1]), highest = Math.max(...roofs);
  const xs = r.points.map(p => p[1]).concat(roofs.map(f => f / r.bytes)), ys = r.points.map(p => p[2]).concat(roofs);
  const low = Math.floor(Math.log10(Math.min(...xs)) - 0.3), high = Math.ceil(Math.log10(Math.max(...xs)) + 0.3), down = Math.floor(Math.log10(Math.min(...ys)) - 0.3), up = Math.log10(highest) + 0.25;
  const x = v => l + (W - l - rt) * (Math.log10(v) - low) / (high - low), y = v => t + (h - t - b) * (1 - (Math.log10(v) - down) / (up - down)), shapes = [];
  for (let e = low; e <= high; ++e) shapes.push(svg('line', {x1: x(10 ** e), x2: x(10 ** e), y1: t, y2: h - b, stroke: 'var(--line)'}), svg('text', {x: x(10 ** e), y: h - b + 16, 'text-anchor': 'middle'}, String(10 ** e)));
  for (let e = down; e <= up; ++e) shapes.push(svg('line', {x1: l, x2: W - rt, y1: y(10 ** e), y2: y(10 ** e), stroke: 'var(--line)'}), svg('text', {x: l - 6, y: y(10 ** e) + 4, 'text-anchor': 'end'}, rate(10 ** e, '')));
  shapes.push(svg('text', {x: (l + W - rt) / 2, y: h - 6, 'text-anchor': 'middle'}, 'operations for each byte'), svg('text', {x: 14, y: (t + h - b) / 2, transform: 'rotate(-90 14 ' + (t + h - b) / 2 + ')', 'text-anchor': 'middle'}, 'operations a second'));
  const ridge = highest / r.bytes, start = Math.max(10 ** low, 10 ** down / r.bytes);
  shapes.push(svg('line', {x1: x(start), y1: y(start * r.bytes), x2: x(ridge), y2: y(highest), stroke: 'var(--ink)', 'stroke-width': 1.6}));
  const slope = Math.atan2(y(highest) - y(start * r.bytes), x(ridge) - x(start)) * 180 / Math.PI, mid = start * Math.pow(ridge / start, 0.3);
  shapes.push(svg('text', {x: x(mid), y: y(mid * r.bytes) - 7, transform: 'rotate(' + slope + ' ' + x(mid) + ' ' + (y(mid * r.bytes) - 7) + ')', 'text-anchor': 'middle', class: 'ink'}, 'memory, ' + rate(r.bytes, 'B/s')));
  for (const [name, flops] of r.roofs) shapes.push(svg('line', {x1: x(flops / r.bytes), x2: W - rt, y1: y(flops), y2: y(flops), stroke: 'var(--ink)', 'stroke-width': 1.6}), svg('text', {x: W - rt - 4, y: y(flops) - 6, 'text-anchor': 'end', class: 'ink'}, name + ', ' + rate(flops, 'FLOP/s')));
  const most = Math.max(...r.points.map(p => p[3]), 1), named = new Set([...r.points].sort((p, q) => q[3] - p[3]).slice(0, 10)), labels = [];
  for (const p of [...r.points].sort((p, q) => q[3] - p[3])) {
    const radius = 3.5 + 18 * Math.sqrt(p[3] / most), words = p[0] + ' · ' + rate(p[2], 'FLOP/s') + ', ' + Number(p[1].toPrecision(3)) + ' for each byte, ' + percent(p[2] / Math.min(highest, p[1] * r.bytes)) + ' of the roof · ' + time(p[3]);
    const dot = svg('circle', {cx: x(p[1]), cy: y(p[2]), r: radius, fill: lane(p[4]), 'fill-opacity': 0.72, stroke: 'var(--card)', class: 'dot'});
    dot.addEventListener('pointermove', e => showTip(e, words));
    dot.addEventListener('pointerleave', e => showTip(e, ''));
    dot.addEventListener('click', () => p[5] && openPlace(p[5]));
    shapes.push(dot);
    // A name that would lie on another one is left to the tip; near the right edge names stand on the left.
    const right = x(p[1]) < W * 0.72, at = [x(p[1]) + (right ? radius + 4 : -radius - 4), y(p[2]) + 4];
    if (named.has(p) && labels.every(l => Math.abs(l[1] - at[1]) > 12 || Math.abs(l[0] - at[0]) > 170)) {
      labels.push(at);
      shapes.push(svg('text', {x: at[0], y: at[1], 'text-anchor': right ? 'start' : 'end'}, p[0].split(' · ')[0].slice(0, 28)));
    }
  }
  return el('section', {class: 'card', id: 'roofline-' + index}, el('h2', {}, 'Roofline of ' + r.title), svg('svg', {viewBox: '0 0 ' + W + ' ' + h}, shapes),
    el('p', {class: 'note'}, 'Area: time. Colours: the tier of who launched it. Above is faster; a point at a line cannot be faster with these bytes and operations, and one above the memory’s line works from a cache. What a kernel must do is the compiler’s count, or follows from shapes; bytes are counters’ where there are some.'));
};
app.append(...D.rooflines.map(roofline).filter(Boolean));

app.append(warmUp());

const memory = () => {
  if (D.memory.length < 2) return null;
  const h = 150, most = Math.max(...D.memory.map(s => s[1] + s[2]), 1), mx = t => left + (W - left - right) * t / Math.max(D.duration, 1);
  const area = f => 'M' + mx(D.memory[0][0]) + ',' + py(0, h) + D.memory.map(s => 'L' + mx(s[0]) + ',' + py(f(s) / most, h)).join('') + 'L' + mx(D.memory[D.memory.length - 1][0]) + ',' + py(0, h) + 'Z';
  return el('section', {class: 'card', id: 'memory'}, el('h2', {}, 'Memory of the cpu device'),
    svg('svg', {viewBox: '0 0 ' + W + ' ' + h}, frame(h, 0, D.duration, v => bytes(v * most), null), svg('path', {d: area(s => s[1] + s[2]), fill: 'var(--tier1)', opacity: 0.45}), svg('path', {d: area(s => s[1]), fill: 'var(--replay)', opacity: 0.85})),
    el('p', {class: 'note'}, 'Blue: in use. Grey: kept by the pool for reuse. A sample every 100 ms.'));
};
app.append(memory() || '');

const memoryOf = g => {
  if (g.memory.length < 2) return null;
  const h = 150, most = Math.max(...g.memory.map(s => s[1] + s[2]), 1), mx = t => left + (W - left - right) * t / Math.max(D.duration, 1);
  const shape = f => area(g.memory.map(s => [mx(s[0]), py(f(s) / most, h)]), py(0, h));
  return el('section', {class: 'card', id: 'gpu-memory-' + g.number}, el('h2', {}, 'Memory of GPU ' + g.number),
    svg('svg', {viewBox: '0 0 ' + W + ' ' + h}, frame(h, 0, D.duration, v => bytes(v * most), null), svg('path', {d: shape(s => s[1] + s[2]), fill: 'var(--tier1)', opacity: 0.45}), svg('path', {d: shape(s => s[1]), fill: 'var(--replay)', opacity: 0.85})),
    el('p', {class: 'note'}, 'Blue: in use. Grey: kept by the pool for reuse.'));
};
app.append(...D.gpus.map(memoryOf).filter(Boolean));

// ---- traces

const detail = el('div', {id: 'detail'});
const mostNs = Math.max(1, ...D.places.map(p => p.ns));
const placeRows = D.places.map((p, i) => ({id: 'row-' + i, index: i, cells: [
  {node: el('span', {class: 'place'}, p.name), key: p.name},
  {node: el('span', {}, el('span', {class: 'mini', style: 'width:' + (60 * p.ns / mostNs) + 'px'}), time(p.ns)), key: p.ns},
  N(p.runs), T(p.runs ? p.ns / p.runs : 0),
  {node: p.pinned ? tag('pinned', 'other') : tierTag(p.tier), key: p.pinned ? 0 : p.tier},
  N(p.versions.length), N(p.guards), N(p.deopts),
  {node: el('span', {class: p.gain > 1 ? 'good' : p.gain > 0 ? 'bad' : ''}, p.gain > 0 ? Number(p.gain.toPrecision(3)) + 'x' : '-'), key: p.gain},
  T(p.compile), {node: el('span', {class: p.saved < 0 ? 'bad' : ''}, time(p.saved)), key: p.saved}]}));
app.append(el('section', {class: 'card', id: 'traces'}, el('h2', {}, 'Traces'),
  D.places.length ? table(['place', '>time', '>runs', '>each', 'tier', '>versions', '>guards', '>deopts', '>gain', '>building', '>saved'], placeRows,
    {pick: row => { location.hash = 'trace-' + row.index; }}) : el('div', {class: 'note'}, 'Nothing got hot while this was recorded: everything ran in tier 1.'),
  el('p', {class: 'note'}, 'Gain: one run in tier 1 against one in the newest version that was measured. A click shows the trace.')), detail);

// Which source lines a line of IR came from: loc("file":12:3), or a name that is defined elsewhere in the text.
const locations = text => {
  const named = new Map(), of = (s, depth = 0) => {
    const found = new Set();
    for (const m of s.matchAll(/"([^"]*)":(\d+):\d+/g)) found.add(m[2]);
    if (depth < 4) for (const m of s.matchAll(/#loc\d*/g)) for (const l of named.get(m[0]) ? of(named.get(m[0]), depth + 1) : []) found.add(l);
    return found;
  };
  const lines = text.split('\n');
  for (const line of lines) { const m = /^(#loc\d*) = loc\((.*)\)$/.exec(line); if (m) named.set(m[1], m[2]); }
  return lines.filter(l => !/^#loc\d* = /.test(l)).map(l => {
    const at = l.lastIndexOf(' loc(');
    return {text: at > 0 ? l.slice(0, at) : l, lines: at > 0 ? of(l.slice(at)) : new Set()};
  });
};
// Panes whose lines light up together when they came from the same source line.
const highlight = (root, lines) => {
  for (const div of root.querySelectorAll('div[data-l]')) div.classList.toggle('hit', lines !== null && div.dataset.l.split(' ').some(l => lines.has(l)));
};
const codePane = (root, rows) => {
  const pre = el('pre');
  for (const r of rows) {
    const div = el('div', {class: 'src'}, r.no ? el('span', {class: 'no'}, r.no) : null, r.text);
    if (r.lines && r.lines.size) {
      div.dataset.l = [...r.lines].join(' ');
      div.addEventListener('mouseenter', () => highlight(root, r.lines));
      div.addEventListener('mouseleave', () => highlight(root, null));
    }
    pre.append(div);
  }
  return pre;
};
const kernels = text => {
  const rows = [];
  for (const part of text.split(/^kernel /m).slice(1)) {
    const get = name => (new RegExp('^  ' + name + ' +(.*)$', 'm').exec(part) || ['', ''])[1];
    rows.push({cells: [part.split(' ')[0], get('reads'), get('writes'), get('arithmetic'), get('intensity'), get('roofline') || 'peaks not known', get('code')]});
  }
  return rows;
};

const showTrace = index => {
  const p = D.places[index];
  for (const tr of document.querySelectorAll('#traces tr.on')) tr.classList.remove('on');
  const row = document.getElementById('row-' + index);
  if (row) row.classList.add('on');
  const root = el('section', {class: 'card detail'});
  root.append(el('div', {class: 'row'}, el('h2', {}, p.name), el('button', {onclick: () => { history.replaceState(null, '', '#'); detail.replaceChildren(); }}, 'close')));
  if (p.pinned) root.append(el('div', {class: 'finding'}, el('b', {}, 'Stays in tier 1: '), p.pinned));
  root.append(el('h3', {}, 'Ledger: what each version cost, and when it paid off'), table(
    ['>version', 'made by', 'rung', '>runs', '>one run', '>in tier 1', '>building', '>saved', 'pays', 'state', 'why'],
    p.versions.map(v => ({cells: [N(v.id), {node: tierTag(v.tier), key: v.tier}, v.rung, N(v.runs), T(v.runNs), T(v.tier1Ns), T(v.compile), {text: v.measured ? time(v.saved) : '-', key: v.saved},
      v.breakEven, v.state, [v.cause, v.note, v.refused ? 'refused ' + count(v.refused) + ' times where it begins, while another version served' : '', v.bridges ? 'left ' + count(v.bridges) + ' times for a bridge' : ''].filter(Boolean).join('; ')]}))));
  // Those of the newest version, and of older ones those that failed.
  const newest = p.versions[p.versions.length - 1];
  const guards = p.versions.flatMap(v => v.guards.filter(g => v === newest || g[2] > 0).map(g => ({cells: [N(v.id), g[0], N(g[1]), {node: el('span', {class: g[2] > 0 ? 'bad' : ''}, count(g[2])), key: g[2]}]})));
  if (guards.length) root.append(el('h3', {}, 'Guards of the newest version, and those that failed'), table(['>version', 'guard', '>checked', '>failed'], guards));
  if (p.deoptRows.length) root.append(el('h3', {}, 'Deopts'), table(['>at', '>version', 'reason', 'guard', 'expected', 'seen', 'policy', '>line'],
    p.deoptRows.map(d => ({cells: [T(d[0]), N(d[1]), d[2], d[3], d[4], d[5], d[6], N(d[7])]}))));
  const refusals = p.versions.flatMap(v => v.refusals.map(r => ({cells: [T(r[0]), N(v.id), r[1], r[2], r[3], r[4], N(r[5])]})));
  if (refusals.length) root.append(el('h3', {}, 'Refused where a version begins, while another one served'),
    table(['>at', '>version', 'guard', 'value', 'expected', 'seen', '>served by'], refusals));
  // The trace beside its source.
  const trace = p.traces[p.traces.length - 1];
  if (trace) {
    const panes = el('div', {class: 'panes'});
    const used = new Map();
    for (const s of trace.steps) if (s[2] && D.sources[s[2]]) { if (!used.has(s[2])) used.set(s[2], new Set()); used.get(s[2]).add(s[3]); }
    const source = [];
    for (const [file, lines] of used) {
      source.push({text: file});
      for (const [no, text] of Object.entries(D.sources[file]))
        if ([...lines].some(l => Math.abs(l - no) <= 3)) source.push({no, text, lines: lines.has(Number(no)) ? new Set([String(no)]) : null});
    }
    if (source.length) panes.append(el('div', {}, el('h3', {}, 'Source'), codePane(root, source)));
    panes.append(el('div', {}, el('h3', {}, 'Trace ' + trace.id + ': ' + trace.steps.length + ' steps, ' + time(trace.tier1) + ' in tier 1'),
      codePane(root, trace.steps.map(s => ({no: time(s[1]), text: s[0] || 'step', lines: new Set([String(s[3])])})))));
    root.append(panes);
  }
  // Stages of the newest version that has some, two of them side by side.
  const version = [...p.versions].reverse().find(v => v.stages.length);
  if (version) {
    const names = version.stages.map(s => s[0]).filter(s => s !== 'report'), text = name => version.stages.find(s => s[0] === name)[1];
    const report = version.stages.find(s => s[0] === 'report');
    if (report && kernels(report[1]).length) root.append(el('h3', {}, 'Kernels of version ' + version.id + ': what they must do, and the bound that follows'),
      table(['kernel', 'reads', 'writes', 'arithmetic', 'intensity', 'roofline', 'code'], kernels(report[1])));
    const pane = (name, id) => {
      const box = el('div'), select = el('select', {id}, names.map(n => el('option', n === name ? {selected: ''} : {}, n)));
      const fill = () => box.replaceChildren(codePane(root, locations(text(select.value)).slice(0, 4000)));
      select.addEventListener('change', fill);
      fill();
      return el('div', {}, el('h3', {}, 'Stage ', select), box);
    };
    if (names.length) root.append(el('h3', {}, 'Version ' + version.id + ' on its way to machine code'),
      el('p', {class: 'note'}, 'Lines that came from the same source line light up together.'),
      el('div', {class: 'panes'}, pane(names[0], 'stage-left'), names.length > 1 ? pane(names[1], 'stage-right') : null));
  } else if (p.tier > 1) {
    root.append(el('p', {class: 'note'}, 'The text of its stages is not in the file: there was no time for it (option trace_stages).'));
  }
  detail.replaceChildren(root);
};
const follow = scroll => {
  const m = /^#trace-(\d+)$/.exec(location.hash);
  if (!m || !D.places[m[1]]) return;
  showTrace(Number(m[1]));
  if (scroll) detail.scrollIntoView({block: 'start'});
};
addEventListener('hashchange', () => follow(true));

// ---- the rest

if (D.lines.length) app.append(card('Source lines in tier 1', table(['line', '>time', '>share', '>calls', '>each', 'ops', 'source'], D.lines.slice(0, 40).map(l => ({cells: [
  l[0] || 'not known', T(l[1]), {text: share(l[1], D.duration), key: l[1]}, N(l[2]), T(l[1] / l[2]), l[3], el('code', {}, ((D.sources[l[4]] || {})[l[5]] || '').trim())]})))));
if (D.ops.length) app.append(card('Ops in tier 1', table(['op', '>time', '>share', '>calls', '>each', '>longest', '>elements'], D.ops.map(o => ({cells: [
  o[0], T(o[1]), {text: share(o[1], D.duration), key: o[1]}, N(o[2]), T(o[1] / o[2]), T(o[3]), N(o[4])]})))));
if (D.deopts.length) app.append(card('Deopts', table(['place', 'reason', '>count', 'guard', 'last expected', 'seen', 'policy', 'what it means'],
  D.deopts.map(d => ({cells: [{node: el('span', {class: 'place', onclick: () => openPlace(d[0])}, d[0]), key: d[0]}, d[1], N(d[3]), d[4], d[5], d[6], d[7], d[2]]})))));
if (D.aborts.length || D.pins.length) app.append(card('Places that were not compiled',
  table(['place', 'reason', '>times', '>time', 'what it means'], D.aborts.map(a => ({cells: [a[0], a[1], N(a[3]), T(a[4]), a[2]]})).concat(
    D.pins.map(p => ({cells: [p[0], 'stays in tier 1', '', '', p[1]]}))))));
if (D.taken.length) app.append(card('Memory that pools took from the system and gave back', table(['memory of the', 'what', '>times', '>bytes', '>time', '>longest', 'why'],
  D.taken.map(m => ({cells: [m[0], m[1], N(m[3]), {text: bytes(m[4]), key: m[4]}, T(m[5]), T(m[6]), m[2]]})))));
if (D.stages.length) app.append(card('Generating code', table(['part', '>times', '>time', 'what it is'], D.stages.map(s => ({cells: [s[0], N(s[2]), T(s[3]), s[1]]})))));

follow(false);
draw();
addEventListener('resize', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
document.body.dataset.ready = 'true';
})();
