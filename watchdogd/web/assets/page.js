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
    if (Math.abs(value) >= 1e6) { return scaled(value / 1e6, 1000, [" M", " G", " T"]) + unit; }
    const shown = Math.abs(value) >= 1000 ? Math.round(value) : +value.toPrecision(3);
    return `${shown.toLocaleString("en")}${unit ? ` ${unit}` : ""}`;
  };

  // Times as the text of the page has them: those of the machine that made it, summer and winter.
  const OFFSETS = JSON.parse(document.body.dataset.offsets);
  const ahead = (time) => OFFSETS.reduce((found, [from, minutes]) => (from <= time ? minutes : found), OFFSETS[0][1]);
  const clock = (time) => {
    const at = new Date(time * 1000);
    return new Date(time * 1000 + (ahead(time) + at.getTimezoneOffset()) * 60000);
  };
  // Ticks: smallest step in seconds, label, and what is added where a year, month, day, hour or minute begins.
  const DAY = "\n{D} {MMM}";
  const TICKS = [
    [31536000, "{YYYY}", null, null, null, null, null, null, 1],
    [2419200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [86400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
    [60, "{HH}:{mm}", DAY, null, DAY, null, null, null, 1],
    [1, "{HH}:{mm}:{ss}", DAY, null, DAY, null, null, null, 1],
  ];
  const STEPS = [0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 604800];
  const hour = uPlot.fmtDate("{D} {MMM} {HH}:{mm}");
  // Empty: this line has no value at that time; !: it breaks off there. uPlot says undefined and null.
  const column = (values) => values.split(",").map((value) => (value === "" ? undefined : value === "!" ? null : Number(value)));

  const plot = (box, chart, all) => {
    const style = getComputedStyle(document.body);
    const axis = { stroke: style.getPropertyValue("--soft"), grid: { stroke: style.getPropertyValue("--line"), width: 1 } };
    const { since, at } = document.getElementById("main").dataset;
    let at_last = 0;
    const times = all[chart.times].map((step) => (at_last += step));
    const begin = Math.min(Number(since), times[0]);
    const end = Math.max(Number(at), times[times.length - 1], begin + 60);
    const text = figure(chart.unit);
    const series = chart.lines.map((line, index) => ({
      label: line.label,
      stroke: line.label === "capacity" ? style.getPropertyValue("--soft") : COLOURS[(line.dashed ? 0 : index) % COLOURS.length],
      width: 1.5,
      dash: line.dashed ? [6, 4] : undefined,
      spanGaps: false,
      points: { show: times.length < 3 },
      value: (_, value) => text(value),
    }));
    const options = {
      width: box.clientWidth,
      height: 180,
      tzDate: clock,
      scales: { x: { auto: false, min: begin, max: end }, y: chart.unit === "%" ? { range: [0, 100] } : {} },
      series: [{ label: "time", value: (_, time) => (time == null ? "–" : hour(clock(time))) }, ...series],
      axes: [{ ...axis, values: TICKS, space: 90 }, { ...axis, size: 70, values: (_, ticks) => ticks.map(text), ...(chart.unit === "s" ? { incrs: STEPS } : {}) }],
      legend: { show: chart.lines.length > 1 },
      ...(end - begin < 900 ? { padding: [null, 32, null, null] } : {}), // half of a label with seconds
    };
    return new uPlot(options, [times, ...chart.values.map(column)], box);
  };

  const draw = () => {
    plots.forEach(([, made]) => made.destroy());
    const data = JSON.parse(document.getElementById("data").textContent);
    const charts = new Map(data.charts.map((chart) => [chart.id, chart]));
    plots = [...document.querySelectorAll(".plot")]
      .filter((box) => charts.has(box.dataset.chart) && box.clientWidth > 0)
      .map((box) => [box, plot(box, charts.get(box.dataset.chart), data.times)]);
  };

  // A run's own view, by its name: #run/NAME.
  const show = () => {
    let wanted = "", found = null;
    try { wanted = decodeURIComponent(location.hash.slice(1)); } catch { /* no name */ }
    document.querySelectorAll(".view").forEach((view) => {
      view.classList.toggle("shown", view.id === wanted);
      if (view.id === wanted) { found = view; }
    });
    document.documentElement.classList.toggle("one", found !== null);
    draw();
    return found;
  };

  const filter = () => {
    const words = (document.getElementById("filter")?.value || "").toLowerCase().split(/\s+/).filter(Boolean);
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
      const sought = document.getElementById("filter")?.value;
      document.querySelector("header").replaceWith(fresh.querySelector("header"));
      document.getElementById("main").replaceWith(fresh.getElementById("main"));
      if (sought) { document.getElementById("filter").value = sought; }
      document.querySelectorAll("details").forEach((each) => { if (open.has(each.id)) { each.open = open.get(each.id); } });
      if (focused) { document.getElementById(focused.id)?.querySelector("summary").focus(); }
      filter();
      show();
    } catch (error) {
      document.getElementById("found").textContent = `this page is old: ${error.message}`;
    }
  };

  document.addEventListener("input", (event) => { if (event.target.id === "filter") { filter(); } });
  document.addEventListener("toggle", (event) => { if (event.target.open && event.target.querySelector(".plot:empty")) { draw(); } }, true);
  addEventListener("hashchange", () => { const view = show(); if (view) { view.focus(); scrollTo(0, 0); } });
  dark.addEventListener("change", draw);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
  const every = Number(document.body.dataset.live);
  if (every) { setInterval(renew, every * 1000); }
  document.documentElement.classList.add("js");
  show();
})();
