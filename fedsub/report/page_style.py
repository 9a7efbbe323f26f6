"""What a run's page looks like beyond all pages: figures in its own colours, side by side."""

from __future__ import annotations

STYLE = """\
.top { max-width: 84rem; margin: 0 auto; padding: 2rem 1.25rem 0; }
main { max-width: 84rem; padding-top: 0; }
main:focus { outline: none; }
.skip { position: absolute; left: -999rem; }
.skip:focus { position: static; display: inline-block; padding: 0.5rem 1.25rem; }
a { color: var(--focus); }
nav ul { display: flex; flex-wrap: wrap; gap: 0.3rem 1.2rem; list-style: none; padding: 0; }
nav li a { display: inline-block; padding: 0.2rem 0; }
h3 { font-size: 1rem; margin: 0 0 0.4rem; overflow-wrap: anywhere; }
.figures {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr));
  gap: 1.75rem 2rem; margin: 1.25rem 0; align-items: start;
}
figure { margin: 0; min-width: 0; }
figure svg { display: block; width: 100%; max-width: 44rem; height: auto; }
.file { color: var(--soft); font-size: 0.94rem; }
caption { max-width: min(46rem, calc(100vw - 2.5rem)); }
.numbers td:last-child { padding-right: 0.2rem; }
.numbers td.words { white-space: normal; min-width: 11rem; vertical-align: top; }
.numbers td.words:last-child { min-width: 18rem; }
details { margin-top: 1.25rem; }
@media (max-width: 30rem) {
  .facts th, .facts td { display: block; padding-right: 0; }
  .facts th { border-bottom: 0; padding-bottom: 0; }
}
"""
