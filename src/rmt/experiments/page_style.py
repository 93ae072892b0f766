"""The looks of a report's page: light and dark, from a telephone to a wide screen.

The hues of the models are those of Okabe and Ito, which colour-blind readers can tell apart.
"""

COLORS = """
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --faint: #5b6575; --line: #e3e7ee;
 --panel: #f6f7f9; --mark: #fff6d6; --good: #067647; --bad: #b42318; --partly: #a15c07;
 --rmt: #0072b2; --xl: #d55e00; --mt: #aa4499; --base: #5b6575; --both: #008566; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #11151c; --faint: #9aa4b5;
 --line: #2a3140; --panel: #181d27; --mark: #3a3318; --good: #47cd89; --bad: #f97066; --partly: #fdb022;
 --rmt: #56b4e9; --xl: #f0883e; --mt: #d98cc5; --base: #9aa4b5; --both: #2ed3a7; } }
.rmt { --hue: var(--rmt); } .transformer_xl { --hue: var(--xl); } .memory_transformer { --hue: var(--mt); }
.baseline { --hue: var(--base); } .transformer_xl_rmt { --hue: var(--both); }
.hue-0 { --hue: var(--rmt); } .hue-1 { --hue: var(--xl); } .hue-2 { --hue: var(--both); }
.hue-3 { --hue: var(--mt); } .hue-4 { --hue: var(--base); }
.good { color: var(--good); } .bad { color: var(--bad); } .partly { color: var(--partly); }
.none { color: var(--faint); font-weight: 400; }
"""
TEXT = """
* { box-sizing: border-box; }
html { scroll-padding-top: 12px; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 16px; }
h1 { font-size: 26px; line-height: 1.25; margin: 8px 0; } h2 { font-size: 20px; margin: 44px 0 4px; }
p { margin: 8px 0; max-width: 100ch; text-wrap: pretty; } .summary { font-size: 16px; }
small, figcaption, .legend, summary, .budget { color: var(--faint); } .budget { font-size: 14px; }
small { font-size: 12.5px; white-space: nowrap; } a { color: inherit; text-decoration-color: var(--faint); }
nav { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 12px 0; }
ul { margin: 4px 0; padding-left: 18px; font-size: 13px; } li { overflow-wrap: anywhere; }
summary { cursor: pointer; } details { margin: 4px 0; } td details { margin: 0; }
"""
TABLES = """
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; margin: 12px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: left; padding: 5px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { background: var(--panel); font-weight: 600; } tbody tr:last-child > * { border-bottom: 0; }
.place th { padding-top: 14px; font-weight: 600; } .place small { font-weight: 400; margin-left: 8px; }
.rows td:not(.how, .model) { white-space: nowrap; } .rows .files small { white-space: normal; }
.name { white-space: nowrap; } .rows .how { width: 34%; min-width: 200px; }
.rows small { display: inline-block; } .files small, .ours small + small { display: block; }
.other td, .other .name { color: var(--faint); } .other td small { opacity: .85; }
.name i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 8px;
 background: var(--hue, var(--line)); } tr:target > td { background: var(--mark); }
.segments td:not(.parts) { white-space: nowrap; }
.parts span { display: inline-block; margin-right: 14px; } .parts b { font-weight: 600; }
.claims td:first-child { width: 58%; } .cost td { white-space: nowrap; }
.cost td:last-child { white-space: normal; }
"""
CHARTS = """
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 1fr));
 gap: 16px; margin: 12px 0; }
@media (min-width: 1000px) {
 .figures:has(> :nth-child(2):last-child) { grid-template-columns: repeat(2, minmax(0, 480px)); } }
figure { margin: 0; padding: 12px; border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
figcaption { color: var(--ink); font-size: 14px; font-weight: 600; margin-bottom: 4px; }
figure > svg { width: 100%; height: auto; display: block; }
svg text { font-size: 11.5px; fill: var(--faint); } .grid { stroke: var(--line); } .plot { overflow: hidden; }
.light { --tone: color-mix(in srgb, var(--hue) 62%, var(--paper)); }
.dark { --tone: color-mix(in srgb, var(--hue) 62%, var(--ink)); }
polyline { fill: none; stroke: var(--tone, var(--hue)); stroke-width: 2; stroke-linejoin: round; }
.mark { fill: var(--tone, var(--hue)); stroke: var(--paper); stroke-width: .8; }
.bar { fill: none; stroke: var(--tone, var(--hue)); stroke-width: 1.2; }
.dash-1 polyline { stroke-dasharray: 9 3; } .dash-2 polyline { stroke-dasharray: 5 2.5; }
.dash-3 polyline { stroke-dasharray: 10 3 2 3; }
.dotted polyline { stroke-dasharray: .1 4; stroke-linecap: round; stroke-width: 1.8; }
.dotted .mark { fill: var(--paper); stroke: var(--tone, var(--hue)); stroke-width: 1.4; }
.dotted .bar { stroke-width: .9; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 12px; margin-top: 6px; }
.legend div { display: flex; flex-wrap: wrap; gap: 2px 12px; }
.legend span { display: inline-flex; align-items: center; gap: 6px; }
.outline { fill: none; stroke: var(--xl); stroke-width: 1.5; }
.key { width: 30px; height: 12px; flex: none; }
"""
TELEPHONE = """
@media (max-width: 960px) { small { white-space: normal; } main { padding: 12px; } h2 { margin-top: 36px; }
 thead { display: none; } table, tbody { display: block; } tr { display: block; padding: 8px 10px;
 border-bottom: 1px solid var(--line); } tbody tr:last-child { border-bottom: 0; }
 td, th { display: block; border: 0; padding: 0; }
 .rows tbody { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); }
 .place { grid-column: 1 / -1; }
 .rows td { display: flex; justify-content: space-between; gap: 12px; text-align: right; }
 .rows td:not(.how) { white-space: normal; }
 .rows td::before, .cost td::before, .segments td[data-label]::before { content: attr(data-label);
 color: var(--faint); flex: none; text-align: left; font-size: 13px; }
 .rows .model, .rows .how { justify-content: flex-start; text-align: left; }
 .rows .model { font-weight: 600; }
 .rows .model::before, .rows .how::before { content: none; } .rows .model small { font-weight: 400; }
 .rows .how { width: auto; min-width: 0; } .how details { min-width: 0; }
 .files small { display: inline; } .place { background: var(--panel); }
 .place th { padding-top: 0; } .place small { display: block; margin: 0; }
 .claims td:first-child { width: auto; } .segments td:first-child { font-weight: 600; white-space: normal; }
 .cost td { display: flex; justify-content: space-between; gap: 12px; white-space: normal;
 text-align: right; }
 .cost td:first-child { font-weight: 600; } .cost td:first-child::before { content: none; }
 .segments td[data-label]:empty { display: none; } .segments td::before { margin-right: 8px; } }
"""
STYLE = COLORS + TEXT + TABLES + CHARTS + TELEPHONE
