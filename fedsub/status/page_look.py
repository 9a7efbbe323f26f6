"""What the page of a status looks like, and the script that keeps it true."""

from __future__ import annotations

STYLE = """\
:root { --good: #1a7f37; --bad: #b42318; --tile: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff7b72; --tile: #1d232a; } }
main { max-width: 84rem; padding: 1.25rem 1rem 3rem; }
h1 { font-size: 1.5rem; }
h2 { margin-top: 2rem; }
.verdict { font-size: 1.15rem; font-weight: 600; margin: 0.25rem 0 1rem; }
.well { color: var(--good); }
.trouble, .stopped { color: var(--bad); }
.warning ul { margin: 0.4rem 0 0; padding-left: 1.2rem; }
.warning li { overflow-wrap: anywhere; }
progress { width: 100%; height: 0.9rem; accent-color: var(--focus); }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: 0.6rem;
  margin: 0.75rem 0;
}
.tiles div { background: var(--tile); border-radius: 6px; padding: 0.5rem 0.75rem; min-width: 0; }
.tiles .wide { grid-column: span 2; }
dt { color: var(--soft); font-size: 0.85rem; }
dd { margin: 0; font-weight: 600; overflow-wrap: anywhere; }
.people { width: 100%; font-size: 0.88rem; }
.people th, .people td { vertical-align: top; padding-right: 0.5rem; }
.people tbody th, .people .why { overflow-wrap: anywhere; min-width: 6rem; }
.people .why { min-width: 11rem; }
.people .short { white-space: nowrap; }
.people .look th, .people .look td:nth-child(2) { color: var(--bad); font-weight: 600; }
.soft { color: var(--soft); font-size: 0.94rem; }
.alike { display: grid; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); gap: 1rem; }
.alike > div { min-width: 0; }
.alike ul { margin: 0.2rem 0; padding-left: 1.2rem; }
.alike li { overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 0; }
@media (max-width: 62rem) {
  .people thead { position: absolute; left: -999rem; }
  .people { font-size: 0.94rem; }
  .people tr { display: block; padding: 0.6rem 0; border-bottom: 1px solid var(--line); }
  .people tbody th, .people td {
    display: inline-block; max-width: 100%; border: 0; padding: 0.1rem 1rem 0.1rem 0;
    box-sizing: border-box; overflow-wrap: anywhere;
  }
  .people tbody th { display: block; font-size: 1.05rem; }
  .people td::before { content: attr(data-what) " "; color: var(--soft); font-weight: 400; }
  .people td.none { display: none; }
  .people .why, .people tbody th { min-width: 0; }
}
"""

#: Each event holds the parts that have changed; all of their text was escaped by the server.
SCRIPT = """\
const live = document.getElementById('live');
const stream = new EventSource('events');
// Set only where it is another, as readers by ear hear each change.
const say = text => { if (live.textContent !== text) live.textContent = text; };
stream.onmessage = event => {
  for (const [id, html] of Object.entries(JSON.parse(event.data)))
    document.getElementById(id).innerHTML = html;
  say('This page follows the run.');
};
stream.onerror = () => {
  say('Nobody answers any more: what stands here was the case before.');
};
"""
