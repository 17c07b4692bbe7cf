globalThis.pictures = (() => {
  const pixels = async (source) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const ink = new OffscreenCanvas(image.width, image.height).getContext("2d");
    ink.drawImage(image, 0, 0);
    return ink.getImageData(0, 0, image.width, image.height);
  };

  // Name, left, top, width and height of each element that is seen.
  const boxes = (wanted) => [...document.querySelectorAll(wanted)].filter((each) => each.clientHeight).map((each) => {
    const box = each.getBoundingClientRect();
    const words = each.textContent.trim().split(/\s+/).slice(0, 4).join(" ");
    const [left, top] = [box.x + scrollX, box.y + scrollY].map((edge) => Math.max(Math.floor(edge), 0));
    return [`${each.tagName.toLowerCase()} '${words}'`, left, top, Math.ceil(box.width), Math.ceil(box.height)];
  });

  // Width, height, palette, and each dot as its place there: the areas' colours as they are, others in sixteen
  // steps a channel.
  const indexed = async (source) => {
    const { width, height, data } = await pixels(source);
    const counts = new Map();
    const exact = (at) => (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
    for (let at = 0; at < data.length; at += 4) { counts.set(exact(at), (counts.get(exact(at)) || 0) + 1); }
    const kept = new Set([...counts].sort((one, other) => other[1] - one[1]).slice(0, 16).map(([colour]) => colour));
    const palette = new Map();
    const dots = new Uint8Array(width * height);
    for (let at = 0; at < data.length; at += 4) {
      const [red, green, blue] = [0, 1, 2].map((part) => 17 * Math.round(data[at + part] / 17));
      const colour = kept.has(exact(at)) ? exact(at) : (red << 16) | (green << 8) | blue;
      if (!palette.has(colour)) { palette.set(colour, palette.size); }
      dots[at / 4] = palette.get(colour);
    }
    let text = "";
    for (let at = 0; at < dots.length; at += 8192) { text += String.fromCharCode(...dots.subarray(at, at + 8192)); }
    return [width, height, [...palette.keys()], btoa(text)];
  };

  // Of each region the share of dots that are another colour.
  const compare = async ([before, now, regions]) => {
    const [one, other] = [await pixels(before), await pixels(now)];
    const [was, is] = [one, other].map((each) => `${each.width}x${each.height}`);
    if (was !== is) { return [[`it was ${was}, it is ${is}`, 1]]; }
    const differs = (at) => [0, 1, 2].some((part) => Math.abs(one.data[at + part] - other.data[at + part]) > 48);
    return regions.map(([name, left, top, width, height]) => {
      let count = 0;
      for (let row = top; row < Math.min(top + height, one.height); row += 1) {
        for (let column = left; column < Math.min(left + width, one.width); column += 1) {
          count += differs(4 * (row * one.width + column));
        }
      }
      return [name, count / (width * height)];
    });
  };
  return { boxes, indexed, compare };
})();
