"use strict";
// Elements by name, attributes and text. Text is only ever text: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

function element(space, name, attributes = {}, ...children) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const svg = (name, attributes, ...children) => element(SVG, name, attributes, ...children);
const html = (name, attributes, ...children) => element(null, name, attributes, ...children);

function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  html("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function bytes(amount) {
  const [unit, size] = amount > 0 && amount < 2 ** 20 ? ["KiB", 2 ** 10] : ["MiB", 2 ** 20];
  return `${(amount / size).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} ${unit}`;
}

function duration(seconds) {
  const [unit, size] = seconds >= 1 ? ["s", 1] : seconds >= 1e-3 || seconds === 0 ? ["ms", 1e-3] : ["us", 1e-6];
  return `${Number((seconds / size).toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 })} ${unit}`;
}

