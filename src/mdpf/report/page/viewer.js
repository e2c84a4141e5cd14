"use strict";
// The viewer of beliefs: everything is drawn here from the numbers in the page; nothing is fetched.
(function () {
  const sets = JSON.parse(document.getElementById("beliefs").textContent);
  const colours = JSON.parse(document.getElementById("colours").textContent);
  const GRID = 120;
  const at = (id) => document.getElementById(id);
  const plane = at("plane"), course = at("course"), seen = at("seen"), slider = at("frame");
  const layers = ["density", "particles", "modes", "mean", "truth", "observation"];
  const now = { set: null, sequence: null, frame: 0, across: 0, down: null, playing: false, last: 0 };
  const cloud = document.createElement("canvas");
  cloud.width = cloud.height = GRID;

  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }
  const floats = (text) => new Float32Array(bytes(text).buffer);

  function unpack(sequence) {
    if (sequence.ready) return;
    for (const name of ["particles", "weights", "bandwidth", "mean", "ess", "modes", "masses"]) sequence[name] = floats(sequence[name]);
    sequence.known = bytes(sequence.known);
    sequence.counts = bytes(sequence.counts);
    if (sequence.states) sequence.states = floats(sequence.states);
    if (sequence.seen) {
      sequence.seen.there = bytes(sequence.seen.there);
      sequence.seen.values = sequence.seen.kind === "image" ? bytes(sequence.seen.values) : floats(sequence.seen.values);
    }
    sequence.ready = true;
  }

  // --- What is where -------------------------------------------------------------------------------------------------------------

  const isAngle = (dim) => now.set.coordinates[dim].angle;
  const extent = (dim) => now.set.extents[dim];
  const state = (values, frame) => values.subarray(frame * now.set.dim, (frame + 1) * now.set.dim);
  const flat = () => now.down !== null && !isAngle(now.across) && !isAngle(now.down);

  function frameOfPlane(size) {
    const [left, right] = extent(now.across), [bottom, top] = now.down === null ? [0, 1] : extent(now.down);
    let scaleX = size / (right - left), scaleY = size / (top - bottom);
    // Lengths look alike in both directions where both are lengths.
    if (flat()) scaleX = scaleY = Math.min(scaleX, scaleY);
    const x0 = size / 2 - scaleX * (left + right) / 2, y0 = size / 2 + scaleY * (bottom + top) / 2;
    return {
      x: (value) => x0 + scaleX * value, y: (value) => y0 - scaleY * value,
      left: -x0 / scaleX, right: (size - x0) / scaleX, bottom: (y0 - size) / scaleY, top: y0 / scaleY,
    };
  }

  // --- Density -------------------------------------------------------------------------------------------------------------------

  function kernel(dim, width) {
    if (isAngle(dim)) return (gap) => Math.exp((Math.cos(gap) - 1) / width);
    const bounded = (power) => (gap) => { const u = gap / width; return Math.abs(u) < 1 ? Math.pow(1 - u * u, power) : 0; };
    if (now.set.kernel === "epanechnikov") return bounded(1);
    if (now.set.kernel === "biweight") return bounded(2);
    return (gap) => { const u = gap / width; return u * u > 40 ? 0 : Math.exp(-0.5 * u * u); };
  }

  // The value of each particle's kernel at the points of an axis.
  function factors(dim, low, high) {
    const { particles, bandwidth } = now.sequence, { dim: d, count: n } = now.set;
    const value = kernel(dim, bandwidth[now.frame * d + dim]), out = new Float32Array(n * GRID);
    for (let i = 0; i < n; i++) {
      const centre = particles[(now.frame * n + i) * d + dim];
      for (let g = 0; g < GRID; g++) out[i * GRID + g] = value(low + (g + 0.5) * (high - low) / GRID - centre);
    }
    return out;
  }

  function density(view) {
    const n = now.set.count, across = factors(now.across, view.left, view.right), down = factors(now.down, view.bottom, view.top);
    const height = new Float32Array(GRID * GRID);
    let summit = 0;
    for (let i = 0; i < n; i++) {
      const weight = now.sequence.weights[now.frame * n + i];
      for (let row = 0; row < GRID; row++) {
        const part = weight * down[i * GRID + row];
        if (part < 1e-9) continue;
        const base = (GRID - 1 - row) * GRID;
        for (let g = 0; g < GRID; g++) height[base + g] += part * across[i * GRID + g];
      }
    }
    for (const value of height) if (value > summit) summit = value;
    const pen = cloud.getContext("2d"), image = pen.createImageData(GRID, GRID);
    for (let g = 0; g < height.length; g++) {
      const shade = summit > 0 ? Math.sqrt(height[g] / summit) : 0, sky = Math.min(1, 2 * shade), blue = Math.max(0, 2 * shade - 1);
      for (let c = 0; c < 3; c++) {
        const pale = 255 + (colours.sky[c] - 255) * sky;
        image.data[4 * g + c] = pale + (colours.blue[c] - pale) * blue;
      }
      image.data[4 * g + 3] = 255;
    }
    pen.putImageData(image, 0, 0);
  }

  // --- Drawing -------------------------------------------------------------------------------------------------------------------

  function prepare(canvas) {
    const box = canvas.getBoundingClientRect(), ratio = window.devicePixelRatio || 1;
    const width = Math.max(1, Math.round(box.width * ratio)), height = Math.max(1, Math.round(box.height * ratio));
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.width, box.height);
    pen.fillStyle = "#FFFFFF";
    pen.fillRect(0, 0, box.width, box.height);
    return [pen, box.width, box.height];
  }

  const rgb = (name) => `rgb(${colours[name].join(",")})`;
  const shown = (name) => at("show-" + name).checked;

  function pose(pen, view, values, name) {
    pen.save();
    pen.translate(view.x(values[now.across]), view.y(values[now.down]));
    const heading = now.set.coordinates.findIndex((coordinate) => coordinate.angle);
    pen.fillStyle = rgb(name);
    pen.strokeStyle = "#FFFFFF";
    pen.beginPath();
    if (heading >= 0 && flat()) {
      pen.rotate(-values[heading]);
      pen.moveTo(16, 0); pen.lineTo(-10, 9); pen.lineTo(-5, 0); pen.lineTo(-10, -9);
    } else {
      pen.arc(0, 0, 7, 0, 2 * Math.PI);
    }
    pen.closePath(); pen.fill(); pen.stroke();
    pen.restore();
  }

  function drawScene(pen, view, size) {
    const scene = now.set.scene;
    if (!flat()) return;
    pen.strokeStyle = rgb("grey"); pen.lineWidth = 1.5;
    for (const [x0, y0, x1, y1] of scene.walls || []) {
      pen.beginPath(); pen.moveTo(view.x(x0), view.y(y0)); pen.lineTo(view.x(x1), view.y(y1)); pen.stroke();
    }
    if (!scene.sensor) return;
    const x = view.x(scene.sensor[0]), y = view.y(scene.sensor[1]), data = now.sequence.seen;
    if (shown("observation") && data && data.kind === "direction" && data.there[now.frame]) {
      const sine = data.values[2 * now.frame], cosine = data.values[2 * now.frame + 1];
      pen.strokeStyle = rgb("orange"); pen.lineWidth = 2;
      pen.beginPath(); pen.moveTo(x, y); pen.lineTo(x + 3 * size * cosine, y - 3 * size * sine); pen.stroke();
    }
    pen.fillStyle = "#000000";
    pen.beginPath(); pen.moveTo(x, y - 9); pen.lineTo(x + 8, y + 6); pen.lineTo(x - 8, y + 6); pen.closePath(); pen.fill();
  }

  function drawPath(pen, view) {
    const { states, known } = now.sequence;
    pen.strokeStyle = rgb("vermilion"); pen.globalAlpha = 0.4; pen.lineWidth = 1.5; pen.beginPath();
    let pending = true;
    for (let t = Math.max(0, now.frame - 30); t <= now.frame; t++) {
      if (!known[t]) continue;
      const values = state(states, t);
      if (pending) pen.moveTo(view.x(values[now.across]), view.y(values[now.down]));
      else pen.lineTo(view.x(values[now.across]), view.y(values[now.down]));
      pending = false;
    }
    pen.stroke(); pen.globalAlpha = 1;
  }

  function drawPlane() {
    const [pen, size] = prepare(plane), view = frameOfPlane(size), { sequence, frame } = now, { dim, count } = now.set;
    if (now.down === null) { drawLine(pen, size, view); return; }
    if (shown("density")) { density(view); pen.imageSmoothingEnabled = true; pen.drawImage(cloud, 0, 0, size, size); }
    drawScene(pen, view, size);
    if (shown("truth") && sequence.states && flat()) drawPath(pen, view);
    if (shown("particles")) {
      pen.fillStyle = rgb("blue"); pen.strokeStyle = "#FFFFFF"; pen.lineWidth = 0.7; pen.globalAlpha = 0.75;
      for (let i = 0; i < count; i++) {
        const values = sequence.particles.subarray((frame * count + i) * dim, (frame * count + i + 1) * dim);
        const radius = Math.min(12, Math.max(1.2, 4.5 * Math.sqrt(sequence.weights[frame * count + i] * count) * Math.min(1, 8 / Math.sqrt(count))));
        pen.beginPath(); pen.arc(view.x(values[now.across]), view.y(values[now.down]), radius, 0, 2 * Math.PI); pen.fill(); pen.stroke();
      }
      pen.globalAlpha = 1;
    }
    if (shown("modes")) {
      pen.fillStyle = rgb("yellow"); pen.strokeStyle = "#000000"; pen.lineWidth = 1;
      for (let m = 0; m < sequence.counts[frame]; m++) {
        const values = sequence.modes.subarray((frame * now.set.room + m) * dim, (frame * now.set.room + m + 1) * dim);
        const x = view.x(values[now.across]), y = view.y(values[now.down]), r = 4 + 6 * Math.sqrt(sequence.masses[frame * now.set.room + m]);
        pen.beginPath(); pen.moveTo(x, y - r); pen.lineTo(x + r, y); pen.lineTo(x, y + r); pen.lineTo(x - r, y); pen.closePath(); pen.fill(); pen.stroke();
      }
    }
    if (shown("mean")) pose(pen, view, state(sequence.mean, frame), "black");
    if (shown("truth") && sequence.states && sequence.known[frame]) pose(pen, view, state(sequence.states, frame), "vermilion");
  }

  // A state of one coordinate: its density as a curve.
  function drawLine(pen, size, view) {
    const { sequence, frame } = now, n = now.set.count, values = factors(now.across, view.left, view.right), height = new Float32Array(GRID);
    for (let i = 0; i < n; i++) for (let g = 0; g < GRID; g++) height[g] += sequence.weights[frame * n + i] * values[i * GRID + g];
    const summit = Math.max(...height) || 1, floor = 0.9 * size;
    if (shown("density")) {
      pen.fillStyle = rgb("sky"); pen.beginPath(); pen.moveTo(0, floor);
      height.forEach((value, g) => pen.lineTo((g + 0.5) * size / GRID, floor - 0.8 * size * value / summit));
      pen.lineTo(size, floor); pen.closePath(); pen.fill();
    }
    pen.fillStyle = rgb("blue");
    if (shown("particles")) for (let i = 0; i < n; i++) {
      pen.beginPath(); pen.arc(view.x(sequence.particles[frame * n + i]), floor, Math.min(12, Math.max(1.5, 4.5 * Math.sqrt(sequence.weights[frame * n + i] * n))), 0, 2 * Math.PI); pen.fill();
    }
    if (shown("modes")) {
      pen.fillStyle = rgb("yellow"); pen.strokeStyle = "#000000"; pen.lineWidth = 1;
      for (let m = 0; m < sequence.counts[frame]; m++) {
        const x = view.x(sequence.modes[frame * now.set.room + m]), r = 4 + 6 * Math.sqrt(sequence.masses[frame * now.set.room + m]), y = floor + 12;
        pen.beginPath(); pen.moveTo(x, y - r); pen.lineTo(x + r, y); pen.lineTo(x, y + r); pen.lineTo(x - r, y); pen.closePath(); pen.fill(); pen.stroke();
      }
    }
    const line = (value, name) => { pen.strokeStyle = rgb(name); pen.lineWidth = 2; pen.beginPath(); pen.moveTo(view.x(value), 0.05 * size); pen.lineTo(view.x(value), floor); pen.stroke(); };
    if (shown("mean")) line(sequence.mean[frame], "black");
    if (shown("truth") && sequence.states && sequence.known[frame]) line(sequence.states[frame], "vermilion");
  }

  function drawCourse() {
    const [pen, width, height] = prepare(course), { sequence } = now, last = Math.max(1, sequence.length - 1), x = (t) => 4 + (width - 8) * t / last;
    const most = Math.max(2, ...sequence.counts), y = (share) => height - 4 - (height - 8) * share;
    pen.strokeStyle = rgb("orange"); pen.lineWidth = 2; pen.beginPath();
    for (let t = 0; t < sequence.length; t++) {
      const level = y(sequence.counts[t] / most);
      if (t) pen.lineTo(x(t), level);
      pen[t ? "lineTo" : "moveTo"](x(t), level);
      pen.lineTo(x(Math.min(t + 1, last)), level);
    }
    pen.stroke();
    pen.strokeStyle = rgb("blue"); pen.lineWidth = 1.5; pen.beginPath();
    for (let t = 0; t < sequence.length; t++) pen[t ? "lineTo" : "moveTo"](x(t), y(sequence.ess[t] / now.set.particles));
    pen.stroke();
    pen.strokeStyle = "#000000"; pen.lineWidth = 1; pen.beginPath(); pen.moveTo(x(now.frame), 0); pen.lineTo(x(now.frame), height); pen.stroke();
  }

  function drawSeen() {
    const data = now.sequence.seen, image = data && data.kind === "image" && shown("observation");
    seen.hidden = !image;
    if (!image) return;
    const [height, width, channels] = data.shape;
    seen.width = width; seen.height = height;
    const pen = seen.getContext("2d"), pixels = pen.createImageData(width, height), start = now.frame * height * width * channels;
    for (let p = 0; p < width * height; p++) {
      for (let c = 0; c < 3; c++) pixels.data[4 * p + c] = data.values[start + p * channels + (channels < 3 ? 0 : c)];
      pixels.data[4 * p + 3] = data.there[now.frame] ? 255 : 40;
    }
    pen.putImageData(pixels, 0, 0);
  }

  function write() {
    const { sequence, frame } = now, count = sequence.counts[frame], lines = [`Frame ${frame} of ${sequence.length - 1}`];
    lines.push(`effective sample size ${sequence.ess[frame].toFixed(1)} of ${now.set.particles}`);
    const masses = Array.from(sequence.masses.subarray(frame * now.set.room, frame * now.set.room + count)).map((mass) => Math.round(100 * mass) + " %");
    lines.push(count === 1 ? "1 live mode" : `${count} live modes: ${masses.join(", ")}`);
    if (sequence.states && sequence.known[frame]) {
      const mean = state(sequence.mean, frame), truth = state(sequence.states, frame);
      const linear = now.set.coordinates.map((_, dim) => dim).filter((dim) => !isAngle(dim));
      if (linear.length) lines.push(`mean is ${Math.hypot(...linear.map((dim) => mean[dim] - truth[dim])).toFixed(2)} off`);
    }
    const data = sequence.seen;
    if (data && data.kind === "vector" && data.there[frame]) {
      const size = data.shape[0], values = Array.from(data.values.subarray(frame * size, frame * size + Math.min(size, 6)));
      lines.push("observed " + values.map((value) => value.toFixed(2)).join(", ") + (size > 6 ? ", ..." : ""));
    }
    at("caption").textContent = lines.join(" · ");
  }

  function draw() { drawPlane(); drawSeen(); drawCourse(); write(); }

  // --- Choosing ------------------------------------------------------------------------------------------------------------------

  function go(frame) {
    now.frame = Math.min(now.sequence.length - 1, Math.max(0, frame));
    slider.value = now.frame;
    slider.setAttribute("aria-valuetext", `frame ${now.frame}`);
    draw();
  }

  function fill(select, labels, chosen) {
    select.replaceChildren(...labels.map(([value, label]) => new Option(label, value, false, String(value) === String(chosen))));
  }

  function chooseSequence(index) {
    now.sequence = now.set.sequences[index];
    unpack(now.sequence);
    slider.max = now.sequence.length - 1;
    go(Math.min(now.frame, now.sequence.length - 1));
  }

  function chooseSet(index) {
    now.set = sets[index];
    now.across = now.set.across; now.down = now.set.down;
    fill(at("sequence"), now.set.sequences.map((sequence, place) => [place, sequence.name]), 0);
    const names = now.set.coordinates.map((coordinate, dim) => [dim, coordinate.name]);
    fill(at("across"), names, now.across);
    fill(at("down"), names, now.down);
    for (const label of document.querySelectorAll(".axis")) label.hidden = now.set.dim < 3;
    at("choose-sequence").hidden = now.set.sequences.length < 2;
    chooseSequence(0);
  }

  function play(wanted) {
    now.playing = wanted;
    at("play").textContent = wanted ? "\u23F8" : "\u25B6";
    at("play").setAttribute("aria-label", wanted ? "Stop" : "Play");
    if (!wanted) return;
    if (now.frame >= now.sequence.length - 1) go(0);
    now.last = performance.now();
    requestAnimationFrame(tick);
  }

  function tick(time) {
    if (!now.playing) return;
    const pause = 1000 / Number(at("speed").value);
    if (time - now.last >= pause) {
      now.last = time;
      go(now.frame + 1);
      if (now.frame >= now.sequence.length - 1) { play(false); return; }
    }
    requestAnimationFrame(tick);
  }

  function key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const box = at("viewer").getBoundingClientRect(), visible = box.bottom > 0 && box.top < window.innerHeight;
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key === " " && visible && !["BUTTON", "INPUT", "A"].includes(event.target.tagName)) play(!now.playing);
    else if (event.key === " " && event.target === slider) play(!now.playing);
    else if (event.key in steps && visible) { play(false); go(now.frame + steps[event.key]); }
    else return;
    event.preventDefault();
  }

  function seek(event) {
    if (event.type === "pointermove" && !event.buttons) return;
    const box = course.getBoundingClientRect();
    play(false);
    go(Math.round((event.clientX - box.left - 4) / (box.width - 8) * (now.sequence.length - 1)));
  }

  function keep() {
    const link = document.createElement("a");
    link.download = `belief-${now.frame}.png`;
    link.href = plane.toDataURL("image/png");
    link.click();
  }

  fill(at("set"), sets.map((set, index) => [index, set.name]), 0);
  at("choose-set").hidden = sets.length < 2;
  at("set").addEventListener("change", (event) => chooseSet(event.target.value));
  at("sequence").addEventListener("change", (event) => chooseSequence(event.target.value));
  at("across").addEventListener("change", (event) => { now.across = Number(event.target.value); draw(); });
  at("down").addEventListener("change", (event) => { now.down = Number(event.target.value); draw(); });
  slider.addEventListener("input", () => { play(false); go(Number(slider.value)); });
  at("play").addEventListener("click", () => play(!now.playing));
  at("back").addEventListener("click", () => { play(false); go(now.frame - 1); });
  at("forward").addEventListener("click", () => { play(false); go(now.frame + 1); });
  at("keep").addEventListener("click", keep);
  course.addEventListener("pointerdown", seek);
  course.addEventListener("pointermove", seek);
  for (const name of layers) at("show-" + name).addEventListener("change", draw);
  document.addEventListener("keydown", key);
  window.addEventListener("resize", draw);
  chooseSet(0);
  document.documentElement.dataset.ready = "yes";
})();
