"""The console: topics, messages and groups of a cluster in a browser.

Pages are made on the server: `pages` ask `ClusterReader` and the last `Snapshot` of the `Sampler`, templates
make HTML, `charts` draw SVG. A small script of our own replaces parts of a page as they change; without it
everything but these live parts works. Pure: `history`, `charts`, `rebalances`, `paging`, `display`.
"""
