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

// Hides the rows that do not contain what was typed above their table.
function filterRows(label) {
  const wanted = label.querySelector('input').value.toLowerCase();
  for (const row of label.nextElementSibling?.tBodies?.[0]?.rows ?? [])
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
}

// Adds a filter to each long table that has none, and filters all rows.
function addFilters() {
  for (const table of document.querySelectorAll('main table')) {
    if (table.tBodies[0].rows.length < 25 || table.previousElementSibling?.matches('.rows'))
      continue;
    const label = document.createElement('label'), input = document.createElement('input');
    label.className = 'rows';
    label.append('filter these rows', input);
    input.type = 'search';
    input.addEventListener('input', () => filterRows(label));
    table.before(label);
  }
  document.querySelectorAll('main .rows').forEach(filterRows);
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

// True if the nodes, without those inside them, differ only in what the reader has opened or hidden.
function isSame(node, fresh) {
  const copy = node.cloneNode();
  for (const name of ['open', 'hidden']) copy.removeAttribute?.(name);
  return copy.isEqualNode(fresh.cloneNode());
}

// Makes the contents of a node equal to those of a newer one, and keeps what is the same: filters,
// selections and open blocks stay as they are.
function renew(node, fresh) {
  const old = [...node.childNodes].filter(one => !one.matches?.('.rows'));
  const wanted = [...fresh.childNodes];
  wanted.forEach((one, i) => {
    if (i >= old.length) node.append(one);
    else if (!isSame(old[i], one)) old[i].replaceWith(one);
    else if (!one.matches?.('form')) renew(old[i], one);
  });
  old.slice(wanted.length).forEach(one => one.remove());
}

// For a page with events: shows the progress of a run, and renews what has changed.
const main = document.querySelector('main'), progress = document.getElementById('progress');
let isLoading = false, hasChanged = false;
async function reload() {
  hasChanged = isLoading;
  if (isLoading) return;
  isLoading = true;
  try {
    const reply = await fetch(location.href);
    const page = new DOMParser().parseFromString(await reply.text(), 'text/html');
    const fresh = page.querySelector('main');
    renew(main, fresh);
    addFilters();
    if (fresh.dataset.events) main.dataset.events = fresh.dataset.events;
    else delete main.dataset.events;
    follow();
  } finally {
    isLoading = false;
    if (hasChanged) reload();
  }
}

// Hidden pages have no connection: a browser opens only six to a server.
let events = null;
function follow() {
  if (document.hidden || !main.dataset.events) {
    events?.close();
    events = null;
  } else if (!events || events.readyState === EventSource.CLOSED) {
    events = new EventSource(main.dataset.events);
    events.addEventListener('progress', event => progress.textContent = event.data);
    events.addEventListener('report', reload);
    events.addEventListener('end', () => {
      delete main.dataset.events;
      reload();
    });
  }
}
document.addEventListener('visibilitychange', follow);
follow();
})();
)js";
}

}  // namespace runner
