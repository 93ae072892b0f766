"""The looks of a report's page: light and dark, from a telephone to a wide screen."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --faint: #667085; --line: #e3e7ee;
 --panel: #f7f8fa;
 --good: #067647; --bad: #b42318; --partly: #a15c07; --rmt: #1f5fd6; --xl: #d9480f; --mt: #7a5af8; --base:
 #667085;
 --both: #0e9384; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --paper: #11151c; --faint: #98a2b3; --line:
 #2a3140;
 --panel: #181d27; --good: #47cd89; --bad: #f97066; --partly: #fdb022; --rmt: #84adff; --xl: #ff9c66;
 --mt: #bdb4fe;
 --base: #98a2b3; --both: #2ed3b7; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 16px; }
h1 { font-size: 26px; margin: 8px 0; } h2 { font-size: 20px; margin: 36px 0 8px; }
small, figcaption, .legend, summary { color: var(--faint); }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; margin: 12px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
th { background: var(--panel); font-weight: 600; } tr:last-child td { border-bottom: 0; }
td { white-space: nowrap; } .claims td, td li, .files { white-space: normal; }
.files { min-width: 120px; }
ul { margin: 4px 0; padding-left: 18px; font-size: 13px; } li { overflow-wrap: anywhere; }
summary { cursor: pointer; } .ours summary { color: var(--ink); }
.good { color: var(--good); } .bad { color: var(--bad); } .partly { color: var(--partly); } .none { color:
 var(--faint); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 360px), 1fr)); gap:
 16px; }
figure { margin: 0; padding: 12px; border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
svg { width: 100%; height: auto; display: block; } svg text { font-size: 11px; fill: var(--faint); }
.grid { stroke: var(--line); } polyline { fill: none; stroke: currentColor; stroke-width: 2; }
circle { fill: currentColor; } .dotted polyline { stroke-dasharray: 3 4; } .dotted circle { fill: none;
 stroke: currentColor; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 12px; }
.legend span { overflow-wrap: anywhere; } .legend i { display: inline-block; width: 16px; border-top: 2px
 solid; margin: 0 5px 4px 0; }
.legend .dotted i { border-top-style: dotted; }
svg .rmt, .legend .rmt i { color: var(--rmt); } svg .transformer_xl, .legend .transformer_xl i { color:
 var(--xl); }
svg .memory_transformer, .legend .memory_transformer i { color: var(--mt); }
svg .baseline, .legend .baseline i { color: var(--base); }
svg .transformer_xl_rmt, .legend .transformer_xl_rmt i { color: var(--both); }
@media (max-width: 600px) { main { padding: 12px; } th, td { padding: 5px 6px;
 font-size: 13px; } }
"""
