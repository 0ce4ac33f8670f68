"use strict";
(() => {
  const NUMBER = "\u0000";
  const MISSING = 0xffffffff;
  const ROW = 28;
  const element = (id) => document.getElementById(id);
  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- data -------------------------------------------------------------------------------------------------------

  const inflate = async (text) => {
    const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };

  // Columns are stored byte plane by byte plane, which deflates better.
  const readColumns = (bytes, descriptions) => {
    const types = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };
    const columns = {};
    let at = 0;
    for (const { name, type, length } of descriptions) {
      const width = type === "bf16" ? 2 : types[type].BYTES_PER_ELEMENT;
      const whole = new Uint8Array(length * (type === "bf16" ? 4 : width));
      const shift = type === "bf16" ? 2 : 0;
      const step = type === "bf16" ? 4 : width;
      for (let plane = 0; plane < width; plane++)
        for (let index = 0; index < length; index++) whole[index * step + plane + shift] = bytes[at + plane * length + index];
      at += width * length;
      columns[name] = type === "bf16" ? new Float32Array(whole.buffer) : new types[type](whole.buffer);
    }
    return columns;
  };

  let meta, columns, names, lower, count, numberColumns;

  const load = async () => {
    const raw = JSON.parse(element("data").textContent);
    meta = JSON.parse(new TextDecoder().decode(await inflate(raw.meta)));
    columns = readColumns(await inflate(raw.columns), meta.columns);
    count = meta.count;
    numberColumns = [];
    for (let place = 0; columns[`n${place}`]; place++) numberColumns.push(columns[`n${place}`]);
    meta.pieces = meta.templates.map((template) => template.split("."));
    names = new Array(count);
    for (let index = 0; index < count; index++) names[index] = pieces(index).join(".");
    const kinds = meta.kinds.map((kind) => kind.name.toLowerCase());
    lower = names.map((name, index) => `${name.toLowerCase()} ${kinds[columns.kind[index]]} ${shape(index)}`);
  };

  const pieces = (index) => {
    const own = meta.pieces[columns.template[index]];
    if (!meta.numbered[columns.template[index]]) return own;
    let place = 0;
    return own.map((piece) => (piece === NUMBER ? String(numberColumns[place++][index]) : piece));
  };
  const shape = (index) => (columns.shape[index] === MISSING ? "" : `[${meta.shapes[columns.shape[index]].join(", ")}]`);
  const values = (index) =>
    columns.shape[index] === MISSING ? NaN : meta.shapes[columns.shape[index]].reduce((all, size) => all * size, 1);

  // ---- words ------------------------------------------------------------------------------------------------------

  const scaled = (value, units) => {
    let unit = 0;
    while (value >= 999.5 && unit < units.length - 1) (value /= 1000), unit++;
    const digits = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return `${value.toFixed(digits)} ${units[unit]}`.trim();
  };
  const size = (bytes) => scaled(bytes, ["B", "KB", "MB", "GB", "TB", "PB"]);
  const amount = (value) => (Number.isNaN(value) ? "" : scaled(value, ["", "K", "M", "B", "T"]));
  const real = (value) => {
    if (Number.isNaN(value)) return "";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    const text = Number(value.toPrecision(meta.digits));
    const large = Math.abs(text) >= 1e5 || (text !== 0 && Math.abs(text) < 1e-3);
    return (large ? text.toExponential() : String(text)).replaceAll("-", "−");
  };
  const decibels = (value) => (Number.isNaN(value) ? "" : value === Infinity ? "exact" : `${value.toFixed(1)} dB`);

  // ---- colours ----------------------------------------------------------------------------------------------------

  const kindColour = (kind) => style(`--k${kind % 8}`);
  const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const ramp = (share) => {
    const place = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
    const low = Math.min(Math.floor(place), RAMP.length - 2);
    const mix = RAMP[low].map((value, channel) => Math.round(value + (RAMP[low + 1][channel] - value) * (place - low)));
    return `rgb(${mix.join(" ")})`;
  };
  const diverging = (share, zero) => {
    const [low, high] = [[37, 99, 186], [200, 62, 45]];
    const end = share < 0 ? low : high;
    return zero.map((value, channel) => Math.round(value + (end[channel] - value) * Math.min(Math.abs(share), 1)));
  };

  const bars = (rows) => {
    const box = make("div", "bars");
    for (const { label, share, value, colour, act } of rows) {
      const cell = make(act ? "button" : "span", "label");
      // Long names break after a dot.
      label.split(/(?<=\.)/).forEach((piece, place) => cell.append(...(place ? [make("wbr"), piece] : [piece])));
      if (act) {
        cell.type = "button";
        cell.addEventListener("click", act);
      }
      const track = make("span", "track");
      const fill = make("div", "fill");
      fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
      fill.style.background = colour;
      track.append(fill);
      box.append(cell, track, make("span", "value", value));
    }
    return box;
  };

  // ---- overview ---------------------------------------------------------------------------------------------------

  const showKinds = () => {
    const whole = meta.kinds.reduce((sum, kind) => sum + kind.bytes, 0) || 1;
    const row = (kind, place) => ({
      label: kind.name,
      share: kind.bytes / whole,
      value: `${((kind.bytes / whole) * 100).toFixed(1)} %  ·  ${size(kind.bytes)}`,
      colour: kindColour(place),
    });
    const box = element("kinds");
    box.replaceChildren(make("h3", "", "Stored as"), bars(meta.kinds.slice(0, 12).map(row)));
    const largest = [];
    for (let index = 0; index < count; index++) {
      let place = largest.length;
      while (place > 0 && columns.bytes[largest[place - 1]] < columns.bytes[index]) place--;
      if (place < 6) largest.splice(place, 0, index);
      if (largest.length > 6) largest.pop();
    }
    const most = columns.bytes[largest[0]] || 1;
    const tensor = (index) => ({
      label: names[index], share: columns.bytes[index] / most, value: size(columns.bytes[index]),
      colour: kindColour(columns.kind[index]), act: () => reveal(index),
    });
    if (largest.length) box.append(make("h3", "", "Largest tensors"), bars(largest.map(tensor)));
  };

  // ---- treemap ----------------------------------------------------------------------------------------------------

  let path = [];
  const TILES = 48;
  const FEW = 14;

  const children = (front) => {
    const found = new Map();
    for (let index = 0; index < count; index++) {
      const own = pieces(index);
      if (own.length <= front.length || front.some((piece, place) => own[place] !== piece)) continue;
      const key = own[front.length];
      let child = found.get(key);
      if (!child) found.set(key, (child = { key, bytes: 0, tensors: 0, kinds: new Map(), last: true, index }));
      child.bytes += columns.bytes[index];
      child.tensors++;
      if (own.length > front.length + 1) child.last = false;
      child.kinds.set(columns.kind[index], (child.kinds.get(columns.kind[index]) || 0) + columns.bytes[index]);
    }
    return [...found.values()].map((child) => ({ ...child, path: [...front, child.key] })).sort((a, b) => b.bytes - a.bytes);
  };

  // The parts of a module; while they are few, the largest are replaced by their own parts.
  const parts = (front) => {
    let tiles = children(front);
    while (tiles.length < FEW) {
      const place = tiles.findIndex((tile) => !tile.last);
      if (place < 0) break;
      const inner = children(tiles[place].path);
      if (tiles.length + inner.length > 2 * TILES) break;
      tiles.splice(place, 1, ...inner);
      tiles.sort((a, b) => b.bytes - a.bytes);
    }
    const rest = tiles.splice(TILES);
    if (rest.length)
      tiles.push({
        key: `${rest.length} more`, last: true, rest: true, kinds: rest[0].kinds, index: rest[0].index, path: [...front, `${rest.length} more`],
        bytes: rest.reduce((sum, child) => sum + child.bytes, 0), tensors: rest.reduce((sum, child) => sum + child.tensors, 0),
      });
    return tiles;
  };

  // Squarified: rows of tiles along the shorter side, each as square as possible.
  const squarify = (items, width, height) => {
    const total = items.reduce((sum, item) => sum + item.bytes, 0) || 1;
    const areas = items.map((item) => Math.max((item.bytes / total) * width * height, 1e-6));
    const tiles = [];
    let [x, y, w, h, at] = [0, 0, width, height, 0];
    while (at < areas.length) {
      const side = Math.max(Math.min(w, h), 1e-6);
      let end = at, sum = 0, worst = Infinity;
      while (end < areas.length) {
        const next = sum + areas[end];
        const ratio = Math.max((side * side * areas[at]) / (next * next), (next * next) / (side * side * areas[end]));
        if (ratio > worst) break;
        (worst = ratio), (sum = next), end++;
      }
      const thick = sum / side;
      let offset = 0;
      for (let place = at; place < end; place++) {
        const length = areas[place] / thick;
        tiles.push(w >= h ? { x, y: y + offset, w: thick, h: length } : { x: x + offset, y, w: length, h: thick });
        offset += length;
      }
      if (w >= h) (x += thick), (w -= thick);
      else (y += thick), (h -= thick);
      at = end;
    }
    return tiles;
  };

  const showTree = (focus) => {
    const box = element("treemap");
    const crumbs = element("crumbs");
    crumbs.replaceChildren();
    [meta.name, ...path].forEach((name, depth) => {
      if (depth) crumbs.append(" › ");
      const crumb = make("button", "", name);
      crumb.type = "button";
      crumb.addEventListener("click", () => ((path = path.slice(0, depth)), showTree(true)));
      crumbs.append(crumb);
    });
    const found = parts(path);
    const tiles = squarify(found, box.clientWidth, box.clientHeight);
    box.replaceChildren();
    found.forEach((child, place) => {
      const tile = tiles[place];
      if (tile.w < 2 || tile.h < 2) return;
      const button = make("button", "");
      button.type = "button";
      const [across, down] = [100 / box.clientWidth, 100 / box.clientHeight];
      Object.assign(button.style, {
        left: `${tile.x * across}%`, top: `${tile.y * down}%`, width: `${tile.w * across}%`, height: `${tile.h * down}%`,
      });
      const kind = [...child.kinds].sort((a, b) => b[1] - a[1])[0][0];
      button.style.background = kindColour(kind);
      const name = child.path.slice(path.length).join(".");
      const brief = child.path.slice(Math.max(path.length, child.path.length - (/^\d+$/.test(child.key) ? 2 : 1))).join(".");
      if (tile.w > 44 && tile.h > 20) button.append(make("span", "", brief));
      if (tile.w > 70 && tile.h > 40) button.append(make("small", "", size(child.bytes)));
      const label = `${name}: ${size(child.bytes)}, ${child.tensors} tensor${child.tensors === 1 ? "" : "s"}, mostly ${meta.kinds[kind].name}`;
      button.title = label;
      button.setAttribute("aria-label", label);
      button.addEventListener("click", () => {
        if (child.rest) return search(path.join("."));
        if (child.last) return reveal(child.index);
        path = child.path;
        for (let only = children(path); only.length === 1 && !only[0].last; only = children(path)) path = only[0].path;
        showTree(true);
      });
      box.append(button);
    });
    if (focus) box.querySelector("button")?.focus({ preventScroll: true });
  };

  // ---- heat map ---------------------------------------------------------------------------------------------------

  const MEASURES = [
    ["storage", "storage", null],
    ["bits", "bits per weight", (index) => (columns.bytes[index] * 8) / values(index)],
    ["deviation", "standard deviation", (index) => columns.deviation[index]],
    ["sqnr", "error (SQNR, worst of the cell)", (index) => columns.sqnr[index]],
  ];
  let heat = { cells: [], rows: [], layers: 0, at: [0, 0] };

  const lists = () => {
    const found = new Map();
    meta.pieces.forEach((own, template) => {
      const place = meta.numbered[template] ? own.indexOf(NUMBER) : -1;
      if (place > 0) found.set(own.slice(0, place).join("."), 0);
    });
    for (let index = 0; index < count; index++) {
      const own = meta.pieces[columns.template[index]];
      const place = meta.numbered[columns.template[index]] ? own.indexOf(NUMBER) : -1;
      if (place > 0) {
        const list = own.slice(0, place).join(".");
        found.set(list, found.get(list) + columns.bytes[index]);
      }
    }
    return [...found].sort((a, b) => b[1] - a[1]).map(([list]) => list);
  };

  const gather = (list) => {
    const rows = new Map();
    let layers = 0;
    const rowOf = meta.pieces.map((own, template) => {
      const place = meta.numbered[template] ? own.indexOf(NUMBER) : -1;
      if (place <= 0 || own.slice(0, place).join(".") !== list) return null;
      return own.slice(place + 1).map((piece) => (piece === NUMBER ? "*" : piece)).join(".").replace(/\.weight$/, "") || "(itself)";
    });
    for (let index = 0; index < count; index++) {
      const name = rowOf[columns.template[index]];
      const layer = name === null ? MISSING : columns.n0[index];
      if (layer >= 4096) continue;
      layers = Math.max(layers, layer + 1);
      let row = rows.get(name);
      if (!row) rows.set(name, (row = { name, bytes: 0, cells: new Map() }));
      row.bytes += columns.bytes[index];
      const cell = row.cells.get(layer);
      if (cell) cell.push(index);
      else row.cells.set(layer, [index]);
    }
    const sorted = [...rows.values()].sort((a, b) => b.bytes - a.bytes).slice(0, 48);
    return { rows: sorted, layers };
  };

  const showHeat = () => {
    const measure = MEASURES.find(([key]) => key === element("measure").value) || MEASURES[0];
    const list = element("list").value;
    const { rows, layers } = gather(list);
    const canvas = element("heat");
    heat = { rows, layers, at: [0, 0], list, measure };
    if (!rows.length) return element("layers").setAttribute("hidden", "");
    const font = "12.5px ui-monospace, monospace";
    const paint = canvas.getContext("2d");
    paint.font = font;
    const available = canvas.parentElement.clientWidth;
    const longest = Math.max(...rows.map((row) => paint.measureText(row.name).width));
    const left = Math.min(Math.ceil(longest) + 12, Math.max(120, available * 0.42));
    const cell = Math.max(8, Math.min(32, Math.floor((available - left - 4) / layers)));
    const high = 20;
    const [width, height] = [left + layers * cell + 2, 20 + rows.length * high];
    const ratio = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: Math.ceil(width * ratio), height: Math.ceil(height * ratio) });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    paint.scale(ratio, ratio);
    paint.font = font;
    paint.textBaseline = "middle";
    const read = measure[2];
    const numbers = rows.map((row) => new Map([...row.cells].map(([layer, cells]) => [layer, cellValue(cells, measure)])));
    const finite = read ? numbers.flatMap((row) => [...row.values()]).filter(Number.isFinite) : [];
    const [low, top] = [finite.reduce((a, b) => Math.min(a, b), Infinity), finite.reduce((a, b) => Math.max(a, b), -Infinity)];
    const every = Math.max(1, Math.ceil(26 / cell));
    paint.fillStyle = style("--soft");
    paint.textAlign = "center";
    for (let layer = 0; layer < layers; layer += every) paint.fillText(String(layer), left + (layer + 0.5) * cell, 9);
    paint.textAlign = "left";
    rows.forEach((row, place) => {
      const y = 20 + place * high;
      paint.fillStyle = style("--ink");
      paint.fillText(shorten(paint, row.name, left - 10), 0, y + high / 2);
      for (let layer = 0; layer < layers; layer++) {
        const value = numbers[place].get(layer);
        if (value === undefined) paint.fillStyle = style("--none");
        else if (!read) paint.fillStyle = kindColour(value);
        else if (Number.isNaN(value)) paint.fillStyle = style("--none");
        else paint.fillStyle = ramp(value === Infinity ? 1 : top > low ? (value - low) / (top - low) : 0.5);
        paint.fillRect(left + layer * cell, y + 1, Math.max(1, cell - (cell > 4 ? 1 : 0)), high - 2);
      }
    });
    Object.assign(heat, { left, cell, high, width, height, numbers });
    const scale = element("scale");
    scale.replaceChildren();
    if (!read) {
      for (const kind of new Set(numbers.flatMap((row) => [...row.values()]))) {
        const item = make("span", "");
        const swatch = make("span", "swatch");
        swatch.style.background = kindColour(kind);
        item.append(swatch, meta.kinds[kind].name);
        scale.append(item);
      }
    } else if (finite.length) {
      const strip = make("span", "ramp");
      for (let step = 0; step < 24; step++) {
        const piece = make("span", "");
        piece.style.background = ramp(step / 23);
        strip.append(piece);
      }
      const word = measure[0] === "sqnr" ? decibels : real;
      scale.append(word(low), strip, word(top));
    }
    canvas.setAttribute("aria-label", `Heat map of ${measure[1]}: ${rows.length} modules in ${layers} layers of ${list}`);
    drawCursor();
  };

  const cellValue = (cells, [key, , read]) => {
    if (!read) {
      const bytes = new Map();
      for (const index of cells) bytes.set(columns.kind[index], (bytes.get(columns.kind[index]) || 0) + columns.bytes[index]);
      return [...bytes].sort((a, b) => b[1] - a[1])[0][0];
    }
    const found = cells.map(read).filter((value) => !Number.isNaN(value));
    if (!found.length) return NaN;
    return key === "sqnr" ? found.reduce((a, b) => Math.min(a, b), Infinity) : found.reduce((a, b) => a + b, 0) / found.length;
  };

  const shorten = (paint, text, room) => {
    if (paint.measureText(text).width <= room) return text;
    let kept = text.length;
    while (kept > 4 && paint.measureText(`…${text.slice(-kept)}`).width > room) kept--;
    return `…${text.slice(-kept)}`;
  };

  let cursor = null;
  const drawCursor = () => {
    const canvas = element("heat");
    if (!cursor) {
      cursor = make("div", "");
      Object.assign(cursor.style, { position: "absolute", pointerEvents: "none", border: "2px solid var(--ink)", borderRadius: "3px" });
      canvas.parentElement.style.position = "relative";
      canvas.parentElement.append(cursor);
    }
    cursor.hidden = document.activeElement !== canvas && !heat.hovered;
    const [layer, row] = heat.at;
    Object.assign(cursor.style, {
      left: `${heat.left + layer * heat.cell - 1}px`, top: `${20 + row * heat.high}px`,
      width: `${heat.cell + 1}px`, height: `${heat.high}px`,
    });
  };

  const readCell = () => {
    const [layer, row] = heat.at;
    const line = heat.rows[row];
    if (!line) return;
    const cells = line.cells.get(layer);
    const [key, word] = heat.measure;
    let text = `${heat.list}.${layer}.${line.name}: `;
    if (!cells) text += "no tensor";
    else {
      const value = heat.numbers[row].get(layer);
      const shown = key === "storage" ? meta.kinds[value].name : key === "sqnr" ? decibels(value) : `${real(value)} ${word}`;
      text += `${cells.length > 1 ? `${cells.length} tensors` : shape(cells[0])}, ${shown || "not measured"}`;
    }
    element("cell").textContent = text;
    drawCursor();
  };

  const heatEvents = () => {
    const canvas = element("heat");
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      const layer = Math.floor((event.clientX - box.left - heat.left) / heat.cell);
      const row = Math.floor((event.clientY - box.top - 20) / heat.high);
      if (layer < 0 || row < 0 || layer >= heat.layers || row >= heat.rows.length) return false;
      heat.at = [layer, row];
      return true;
    };
    const open = () => {
      const line = heat.rows[heat.at[1]];
      const cells = line && line.cells.get(heat.at[0]);
      if (!cells) return;
      if (cells.length === 1) return reveal(cells[0]);
      search(`${heat.list}.${heat.at[0]}. ${line.name.split("*").join(" ")}`);
    };
    canvas.addEventListener("mousemove", (event) => {
      heat.hovered = place(event);
      if (heat.hovered) readCell();
    });
    canvas.addEventListener("mouseleave", () => ((heat.hovered = false), drawCursor()));
    canvas.addEventListener("click", (event) => place(event) && open());
    canvas.addEventListener("focus", readCell);
    canvas.addEventListener("blur", drawCursor);
    canvas.addEventListener("keydown", (event) => {
      const [layer, row] = heat.at;
      const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
      if (event.key === "Enter") open();
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      heat.at = [
        Math.min(Math.max(layer + move[0], 0), heat.layers - 1),
        Math.min(Math.max(row + move[1], 0), heat.rows.length - 1),
      ];
      readCell();
    });
  };

  // ---- errors -----------------------------------------------------------------------------------------------------

  const showErrors = () => {
    if (!meta.compared) return;
    element("errors").hidden = element("to-errors").hidden = false;
    element("compared").textContent = meta.compared.text;
    const modules = new Map();
    const worst = [];
    for (let index = 0; index < count; index++) {
      const value = columns.sqnr[index];
      if (Number.isNaN(value)) continue;
      const own = meta.pieces[columns.template[index]].map((piece) => (piece === NUMBER ? "*" : piece));
      const name = own.join(".");
      const module = modules.get(name) || { name, sum: 0, tensors: 0, exact: 0, low: Infinity };
      if (value === Infinity) module.exact++;
      else (module.sum += value), module.tensors++;
      module.low = Math.min(module.low, value);
      modules.set(name, module);
      if (value !== Infinity) worst.push(index);
    }
    worst.sort((a, b) => columns.sqnr[a] - columns.sqnr[b]);
    const most = 60;
    const colour = (value) => (value < 10 ? style("--k5") : value < 25 ? style("--k1") : style("--k2"));
    const byModule = [...modules.values()].sort((a, b) => a.low - b.low).slice(0, 14).map((module) => {
      const mean = module.tensors ? module.sum / module.tensors : Infinity;
      return {
        label: module.name, share: mean === Infinity ? 1 : mean / most, colour: colour(mean),
        value: mean === Infinity ? "exact" : `${decibels(mean)}, worst ${decibels(module.low)}`,
        act: () => search(module.name.split("*").join(" ")),
      };
    });
    const largest = worst.slice(0, 14).map((index) => ({
      label: names[index], share: columns.sqnr[index] / most, colour: colour(columns.sqnr[index]),
      value: decibels(columns.sqnr[index]), act: () => reveal(index),
    }));
    element("by-module").replaceChildren(bars(byModule));
    element("worst").replaceChildren(largest.length ? bars(largest) : make("p", "hint", "All compared values are equal."));
  };

  // ---- table ------------------------------------------------------------------------------------------------------

  let shown, selected = -1, sorting = ["name", 1], fields = [];

  const defineFields = () => {
    const has = (name) => columns[name] !== undefined;
    const number = (name, title, width, words) =>
      has(name) ? [{ key: name, title, width, read: (index) => columns[name][index], words, num: true }] : [];
    fields = [
      { key: "name", title: "Name", width: 0, read: null, words: (index) => fitted(names[index], fields[0].width), cls: "name" },
      { key: "shape", title: "Shape", width: 130, read: values, words: shape },
      { key: "kind", title: "Storage", width: 128, read: (index) => columns.kind[index], words: (index) => meta.kinds[columns.kind[index]].name },
      { key: "bytes", title: "Size", width: 86, read: (index) => columns.bytes[index], words: (index) => size(columns.bytes[index]), num: true },
      ...number("min", "Min", 92, (index) => real(columns.min[index])),
      ...number("max", "Max", 92, (index) => real(columns.max[index])),
      ...number("mean", "Mean", 96, (index) => real(columns.mean[index])),
      ...number("deviation", "Deviation", 96, (index) => real(columns.deviation[index])),
      ...number("sqnr", "SQNR", 84, (index) => decibels(columns.sqnr[index])),
      ...number("largest", "Max diff.", 92, (index) => real(columns.largest[index])),
    ];
    const longest = names.reduce((most, name) => Math.max(most, name.length), 8);
    const others = fields.reduce((sum, field) => sum + field.width, 0);
    const room = element("grid").clientWidth - others - 2;
    fields[0].width = Math.max(Math.min(longest * 7.6 + 20, Math.max(room, 300)), 120, Math.min(room, 560));
    const head = element("head");
    head.replaceChildren();
    for (const field of fields) {
      const cell = make("div", `c${field.num ? " num" : ""}`);
      cell.setAttribute("role", "columnheader");
      cell.style.width = `${field.width}px`;
      cell.style.padding = "0";
      const button = make("button", "", field.title);
      button.type = "button";
      button.addEventListener("click", () => {
        sorting = [field.key, sorting[0] === field.key ? -sorting[1] : field.num || field.key === "shape" ? -1 : 1];
        sort();
      });
      cell.append(button);
      field.head = cell;
      head.append(cell);
    }
  };

  // A name in the room there is; its end says more than its start.
  const fitted = (name, width) => {
    const most = Math.floor((width - 16) / 7.6);
    return name.length <= most ? name : `…${name.slice(1 - most)}`;
  };

  const sort = () => {
    const [key, direction] = sorting;
    const field = fields.find((candidate) => candidate.key === key) || fields[0];
    if (!field.read) shown.sort((a, b) => (a - b) * direction);
    else {
      const read = field.read;
      const keys = new Float64Array(count);
      for (const index of shown) keys[index] = read(index);
      // Tensors without a value come last.
      shown.sort((a, b) => {
        const [x, y] = [keys[a], keys[b]];
        const missing = Number.isNaN(x) - Number.isNaN(y);
        return missing || (x === y ? 0 : (x - y) * direction) || a - b;
      });
    }
    for (const other of fields) {
      const state = other === field ? (direction > 0 ? "ascending" : "descending") : "none";
      other.head.setAttribute("aria-sort", state);
      other.head.firstChild.textContent = other.title + (other === field ? (direction > 0 ? " ▲" : " ▼") : "");
    }
    element("grid").scrollTop = 0;
    selected = -1;
    draw();
  };

  const filter = () => {
    const started = performance.now();
    const words = element("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (let index = 0; index < count; index++) if (words.every((word) => lower[index].includes(word))) found.push(index);
    shown = Uint32Array.from(found);
    sort();
    element("found").textContent = `${shown.length.toLocaleString("en")} of ${count.toLocaleString("en")}`;
    document.documentElement.dataset.searchMs = String(performance.now() - started);
  };

  const search = (text) => {
    element("search").value = text;
    filter();
    element("tensors").scrollIntoView();
    element("search").focus({ preventScroll: true });
  };

  const reveal = (index) => {
    if (!shown.includes(index)) {
      element("search").value = "";
      filter();
    }
    select(shown.indexOf(index));
    element("tensors").scrollIntoView();
    element("grid").focus({ preventScroll: true });
  };

  const draw = (all) => {
    const grid = element("grid");
    const body = element("body");
    const extra = 6;
    const first = all ? 0 : Math.max(0, Math.floor(grid.scrollTop / ROW) - extra);
    const last = all ? Math.min(shown.length, 400) : Math.min(shown.length, first + Math.ceil(grid.clientHeight / ROW) + 2 * extra);
    body.style.height = `${(all ? last : shown.length) * ROW}px`;
    grid.setAttribute("aria-rowcount", String(shown.length + 1));
    const rows = [];
    for (let place = first; place < last; place++) {
      const index = shown[place];
      const row = make("div", "row");
      row.id = `row-${place}`;
      row.setAttribute("role", "row");
      row.setAttribute("aria-rowindex", String(place + 2));
      row.setAttribute("aria-selected", String(place === selected));
      row.style.top = `${place * ROW}px`;
      for (const field of fields) {
        const cell = make("div", `c${field.num ? " num" : ""}${field.cls ? ` ${field.cls}` : ""}`, field.words(index));
        cell.setAttribute("role", "gridcell");
        cell.style.width = `${field.width}px`;
        if (field.cls) cell.title = names[index];
        row.append(cell);
      }
      row.addEventListener("click", () => select(place));
      rows.push(row);
    }
    body.replaceChildren(...rows);
    if (selected >= 0) grid.setAttribute("aria-activedescendant", `row-${selected}`);
    else grid.removeAttribute("aria-activedescendant");
  };

  const select = (place) => {
    if (!shown.length) return;
    selected = Math.min(Math.max(place, 0), shown.length - 1);
    const grid = element("grid");
    const head = element("head").offsetHeight;
    const top = selected * ROW;
    if (top < grid.scrollTop) grid.scrollTop = top;
    else if (top + ROW > grid.scrollTop + grid.clientHeight - head) grid.scrollTop = top + ROW - grid.clientHeight + head;
    draw();
    detail(shown[selected]);
  };

  // ---- one tensor -------------------------------------------------------------------------------------------------

  const facts = (rows) => {
    const table = make("table", "facts");
    const body = make("tbody", "");
    for (const [label, value] of rows) {
      if (value === "" || value === undefined) continue;
      const row = make("tr", "");
      row.append(make("th", "", label), make("td", "", value));
      body.append(row);
    }
    table.append(body);
    return table;
  };

  const detail = (index) => {
    const box = element("detail");
    const near = meta.approximate ? "about " : "";
    const value = (name) => (columns[name] ? real(columns[name][index]) : "");
    const special = meta.special[index];
    const rows = [
      ["Shape", shape(index)],
      ["Values", Number.isNaN(values(index)) ? "unknown" : values(index).toLocaleString("en")],
      ["Stored", `${meta.kinds[columns.kind[index]].name}, ${size(columns.bytes[index])}, ${((columns.bytes[index] * 8) / values(index)).toFixed(2)} bits per weight`],
      ["Range", value("min") && `${near}${value("min")} to ${value("max")}`],
      ["Mean, deviation", value("deviation") && `${near}${value("mean") || "?"}, ${value("deviation")}`],
      ["Not finite", special ? `${special[0].toLocaleString("en")} NaN, ${special[1].toLocaleString("en")} infinite` : ""],
      ["SQNR", columns.sqnr ? decibels(columns.sqnr[index]) : ""],
      ["Largest difference", value("largest")],
    ];
    const split = make("div", "split");
    const [left, right] = [make("div", ""), make("div", "")];
    left.append(facts(rows));
    const bins = histogram(index);
    if (bins) left.append(make("h3", "", "Histogram"), bins);
    const picture = draftPicture(index);
    if (picture) right.append(...picture);
    split.append(left, right);
    box.replaceChildren(make("h3", "", names[index]), split);
  };

  const histogram = (index) => {
    const place = columns.hist_tensor ? columns.hist_tensor.indexOf(index) : -1;
    if (place < 0) return null;
    const bins = columns.hist_bins.subarray(place * 32, place * 32 + 32);
    const [start, width] = [columns.hist_start[place], columns.hist_width[place]];
    let used = 32;
    while (used > 1 && !bins[used - 1]) used--;
    const space = "http://www.w3.org/2000/svg";
    const drawing = document.createElementNS(space, "svg");
    drawing.setAttribute("class", "histogram");
    drawing.setAttribute("viewBox", "0 0 460 170");
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", `Histogram from ${real(start)} to ${real(start + used * width)}`);
    const step = 460 / used;
    for (let bin = 0; bin < used; bin++) {
      const rect = document.createElementNS(space, "rect");
      const high = bins[bin] ? Math.max(1.5, (bins[bin] / 255) * 145) : 0;
      for (const [name, value] of [["x", bin * step + 0.5], ["y", 148 - high], ["width", Math.max(step - 1, 0.5)], ["height", high]])
        rect.setAttribute(name, String(value));
      drawing.append(rect);
    }
    [[0, "start", start], [230, "middle", start + (used / 2) * width], [460, "end", start + used * width]].forEach(([x, anchor, value]) => {
      const text = document.createElementNS(space, "text");
      text.setAttribute("x", String(x));
      text.setAttribute("y", "165");
      text.setAttribute("text-anchor", anchor);
      text.textContent = real(value);
      drawing.append(text);
    });
    return drawing;
  };

  const draftPicture = (index) => {
    let picture = meta.pictures.find((candidate) => candidate.tensor === index);
    const parts = [];
    if (!picture) {
      picture = meta.pictures.find((candidate) => columns.template[candidate.tensor] === columns.template[index]);
      if (!picture) return [make("p", "hint", "No picture: the page has pictures of the largest tensor of each kind only.")];
      const button = make("button", "", names[picture.tensor]);
      button.type = "button";
      button.addEventListener("click", () => reveal(picture.tensor));
      const hint = make("p", "hint", "The page has a picture of this tensor in another layer: ");
      hint.append(button);
      return [hint];
    }
    const { rows, columns: wide, low, high, at, of, signed } = picture;
    const canvas = make("canvas", "picture");
    Object.assign(canvas, { width: wide, height: rows });
    const paint = canvas.getContext("2d");
    const image = paint.createImageData(wide, rows);
    const zero = style("--dark") === "1" ? [28, 32, 39] : [250, 249, 246];
    const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
    for (let place = 0; place < rows * wide; place++) {
      const level = columns.pictures[at + place] / 255;
      const value = low + level * (high - low);
      const colour = signed ? diverging(value / most, zero) : ramp(level).match(/\d+/g).map(Number);
      image.data.set([...colour, 255], place * 4);
    }
    paint.putImageData(image, 0, 0);
    canvas.setAttribute("role", "img");
    const word = signed ? "Values" : "Root mean square of the values in each cell";
    const text = `${word}, ${real(low)} to ${real(high)}; ${of}`;
    canvas.setAttribute("aria-label", text);
    canvas.style.aspectRatio = `${wide} / ${Math.max(rows, Math.ceil(wide / 12))}`;
    parts.push(make("h3", "", "Picture"), canvas, make("p", "hint", text));
    return parts;
  };

  // ---- start ------------------------------------------------------------------------------------------------------

  const redraw = () => {
    showKinds();
    showTree(false);
    showHeat();
    showErrors();
    if (selected >= 0) detail(shown[selected]);
  };

  const events = () => {
    element("search").addEventListener("input", filter);
    element("grid").addEventListener("scroll", () => requestAnimationFrame(() => draw()), { passive: true });
    element("grid").addEventListener("keydown", (event) => {
      if (event.target !== element("grid")) return;
      const page = Math.max(1, Math.floor(element("grid").clientHeight / ROW) - 2);
      const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
      const move = moves[event.key];
      if (move === undefined) return;
      event.preventDefault();
      select(Math.abs(move) === Infinity ? (move < 0 ? 0 : shown.length - 1) : selected + move);
    });
    element("treemap").addEventListener("keydown", (event) => {
      if (event.key !== "Backspace" || !path.length) return;
      event.preventDefault();
      path.pop();
      showTree(true);
    });
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
      if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        element("search").focus();
      }
      if (event.key === "Escape" && event.target === element("search")) {
        element("search").value = "";
        filter();
      }
    });
    element("measure").addEventListener("change", showHeat);
    element("list").addEventListener("change", showHeat);
    let waiting = 0;
    window.addEventListener("resize", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => (showTree(false), showHeat(), defineFields(), sort()), 120);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    window.addEventListener("beforeprint", () => draw(true));
    window.addEventListener("afterprint", () => draw());
    heatEvents();
  };

  const start = async () => {
    await load();
    defineFields();
    for (const [key, title] of MEASURES) {
      const column = key === "deviation" || key === "sqnr" ? columns[key] : columns.kind;
      if (column) element("measure").append(new Option(title, key));
    }
    const found = lists();
    for (const list of found) element("list").append(new Option(list, list));
    element("list-label").hidden = found.length < 2;
    if (!found.length) element("layers").hidden = true;
    filter();
    showKinds();
    showTree(false);
    if (found.length) showHeat();
    showErrors();
    events();
    document.documentElement.dataset.ready = String(performance.now());
  };

  start().catch((error) => {
    const box = element("failure");
    box.hidden = false;
    box.textContent = `The data of this page cannot be shown: ${error.message}`;
    throw error;
  });
})();
