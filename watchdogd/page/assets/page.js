"use strict";
(() => {
  const COLOURS = ["#3b82f6", "#e07a3f", "#2e9e6b", "#b45bcf", "#d1495b", "#8a8f98", "#c9a227", "#17a2b8"];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let plots = [];

  const scaled = (value, step, names) => {
    let power = 0;
    while (Math.abs(value) >= step && power < names.length - 1) { value /= step; power += 1; }
    return `${+value.toPrecision(3)}${names[power]}`;
  };
  const seconds = (value) => {
    for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "m"]]) {
      if (Math.abs(value) >= size) { return `${+(value / size).toPrecision(3)}${name}`; }
    }
    return `${+value.toPrecision(3)}s`;
  };
  const figure = (unit) => (value) => {
    if (value == null) { return "–"; }
    if (unit === "B") { return scaled(value, 1000, [" B", " kB", " MB", " GB", " TB", " PB", " EB"]); }
    if (unit === "s") { return seconds(value); }
    return `${scaled(value, 1000, ["", "k", "M", "G", "T"])}${unit ? ` ${unit}` : ""}`;
  };

  const plot = (box, chart) => {
    const style = getComputedStyle(document.body);
    const axis = { stroke: style.getPropertyValue("--soft"), grid: { stroke: style.getPropertyValue("--line"), width: 1 } };
    const text = figure(chart.unit);
    const series = chart.lines.map((line, index) => ({
      label: line.label,
      stroke: line.dashed ? style.getPropertyValue("--soft") : COLOURS[index % COLOURS.length],
      width: 1.5,
      dash: line.dashed ? [6, 4] : undefined,
      spanGaps: true,
      points: { show: chart.columns[0].length < 3 },
      value: (_, value) => text(value),
    }));
    const options = {
      width: box.clientWidth,
      height: 180,
      series: [{}, ...series],
      axes: [axis, { ...axis, size: 70, values: (_, ticks) => ticks.map(text) }],
      legend: { show: chart.lines.length <= 8 },
    };
    return new uPlot(options, chart.columns, box);
  };

  const draw = () => {
    plots.forEach(([, made]) => made.destroy());
    const charts = new Map(JSON.parse(document.getElementById("data").textContent).map((chart) => [chart.id, chart]));
    plots = [...document.querySelectorAll(".plot")]
      .filter((box) => charts.has(box.dataset.chart) && box.clientWidth > 0)
      .map((box) => [box, plot(box, charts.get(box.dataset.chart))]);
  };

  const filter = () => {
    const words = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const items = [...document.querySelectorAll(".item")];
    items.forEach((item) => {
      const text = item.textContent.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
    });
    const shown = items.filter((item) => !item.hidden).length;
    document.getElementById("found").textContent = words.length ? `${shown} of ${items.length} shown` : "";
  };

  const renew = async () => {
    try {
      const answer = await fetch(location.pathname, { cache: "no-store" });
      if (!answer.ok) { throw new Error(`the page answered ${answer.status}`); }
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const open = new Map([...document.querySelectorAll("details")].map((each) => [each.id, each.open]));
      const focused = document.activeElement && document.activeElement.closest("details");
      document.title = fresh.title;
      document.querySelector("header p").replaceWith(fresh.querySelector("header p"));
      document.getElementById("main").replaceWith(fresh.getElementById("main"));
      document.querySelectorAll("details").forEach((each) => { if (open.has(each.id)) { each.open = open.get(each.id); } });
      if (focused) { document.getElementById(focused.id)?.querySelector("summary").focus(); }
      filter();
      draw();
    } catch (error) {
      document.getElementById("found").textContent = `this page is old: ${error.message}`;
    }
  };

  document.getElementById("filter").addEventListener("input", filter);
  dark.addEventListener("change", draw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  const every = Number(document.body.dataset.live);
  if (every) { setInterval(renew, every * 1000); }
  draw();
})();
