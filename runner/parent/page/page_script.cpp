#include "runner/parent/page/document.h"

namespace runner {

std::string_view page_script() {
  return R"js((() => {
'use strict';
const tip = document.createElement('div');
tip.className = 'tip';
tip.hidden = true;
document.body.append(tip);

// The point of a curve closest to x.
function nearest(line, x) {
  let best = null;
  for (const point of line.points)
    if (!best || Math.abs(point.x - x) < Math.abs(best.x - x)) best = point;
  return best;
}

// The values of a chart's curves at the pointer; empty outside of the plot.
function values(chart, event) {
  const [x0, y0, x1, y1, low, bottom, high, top, isLogarithmic] =
      chart.dataset.scale.split(' ').map(Number);
  const box = chart.getBoundingClientRect();
  const x = (event.clientX - box.left) * chart.viewBox.baseVal.width / box.width;
  if (x < x0 || x > x1) return '';
  const lines = [...chart.querySelectorAll('polyline[data-name]')].map(line => {
    const point = nearest(line, x);
    const step = Math.round(low + (point.x - x0) / (x1 - x0) * (high - low));
    const height = bottom + (point.y - y0) / (y1 - y0) * (top - bottom);
    const value = isLogarithmic ? 10 ** height : height;
    return `${line.dataset.name}: ${Number(value.toPrecision(4))} at step ${step}`;
  });
  return lines.join('\n');
}

document.addEventListener('pointermove', event => {
  const chart = event.target.closest?.('svg[data-scale]');
  tip.textContent = chart ? values(chart, event) : '';
  tip.hidden = !tip.textContent;
  if (tip.hidden) return;
  const space = document.documentElement.clientWidth - tip.offsetWidth - 4;
  tip.style.left = `${Math.max(0, Math.min(event.clientX + 12, space))}px`;
  tip.style.top = `${event.clientY + 16}px`;
});

// Adds a filter to each long table.
function addFilters() {
  for (const table of document.querySelectorAll('main table')) {
    const rows = [...table.tBodies[0].rows];
    if (rows.length < 25) continue;
    const label = document.createElement('label'), input = document.createElement('input');
    label.append('filter these rows', input);
    input.type = 'search';
    input.addEventListener('input', () => {
      const wanted = input.value.toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
    table.before(label);
  }
}
addFilters();

// On paper, everything is open.
let closed = [];
addEventListener('beforeprint', () => {
  closed = [...document.querySelectorAll('details:not([open])')];
  for (const one of closed) one.open = true;
});
addEventListener('afterprint', () => {
  for (const one of closed) one.open = false;
});

const address = new URL(location.href);
if (address.searchParams.has('token')) {
  address.searchParams.delete('token');
  history.replaceState(null, '', address);
}

// For a run in progress: shows its progress, and reloads its report when it has changed.
const main = document.querySelector('main'), progress = document.getElementById('progress');
let isLoading = false, hasChanged = false;
async function reload() {
  hasChanged = isLoading;
  if (isLoading) return;
  isLoading = true;
  try {
    const reply = await fetch(location.href);
    const page = new DOMParser().parseFromString(await reply.text(), 'text/html');
    const open = [...main.querySelectorAll('details')].map(one => one.open);
    main.replaceChildren(...page.querySelector('main').childNodes);
    main.querySelectorAll('details').forEach((one, i) => one.open = open[i] ?? false);
    addFilters();
  } finally {
    isLoading = false;
    if (hasChanged) reload();
  }
}
if (main.dataset.events) {
  const events = new EventSource(main.dataset.events);
  events.addEventListener('progress', event => progress.textContent = event.data);
  events.addEventListener('report', reload);
  events.addEventListener('end', () => {
    events.close();
    reload();
  });
}
})();
)js";
}

}  // namespace runner
