// The frame of the page: rooms, theme, and the address.

import { ask, complain } from "./net.js";
import { readColours } from "./plot.js";
import { runRoom } from "./run_room.js";
import { swarmRoom } from "./swarm_room.js";

const rooms = ["swarm", "run"];
const tabs = Object.fromEntries(rooms.map((name) => [name, document.getElementById(`tab-${name}`)]));
const made = {};
let current = "";

function fromAddress() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  return { name: rooms.includes(name) ? name : "swarm", query };
}

function enter(name, keepAddress = false) {
  current = name;
  for (const room of rooms) {
    tabs[room].setAttribute("aria-selected", String(room === name));
    tabs[room].tabIndex = room === name ? 0 : -1;
    document.getElementById(room).hidden = room !== name;
    made[room].shown(room === name);
  }
  if (!keepAddress) history.replaceState(null, "", `#${name}${made[name].query()}`);
}

const themes = ["auto", "light", "dark"];
const darkness = matchMedia("(prefers-color-scheme: dark)");
let theme = "auto";
const button = document.getElementById("theme");

function paint() {
  const isDark = theme === "dark" || (theme === "auto" && darkness.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  button.textContent = { auto: "Auto", light: "Light", dark: "Dark" }[theme];
  readColours();
  for (const room of Object.values(made)) room.draw();
}

button.addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % 3];
  paint();
});
darkness.addEventListener("change", paint);

try {
  paint();
  const controls = await ask("controls");
  const { name, query } = fromAddress();
  made.swarm = swarmRoom(controls, query, (text) => {
    if (current === "swarm") history.replaceState(null, "", `#swarm${text}`);
  });
  made.run = runRoom(controls.runs);
  enter(name, true);
  for (const room of rooms) tabs[room].addEventListener("click", () => enter(room));
  document.querySelector(".tabs").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = rooms[1 - rooms.indexOf(current)];
    enter(other);
    tabs[other].focus();
  });
  addEventListener("hashchange", () => {
    const now = fromAddress();
    if (now.name === "swarm" && now.query) made.swarm.load(now.query);
    enter(now.name, true);
  });
  new ResizeObserver(() => { for (const room of Object.values(made)) room.draw(); }).observe(document.querySelector("main"));
  document.documentElement.dataset.ready = "yes";
} catch (error) {
  complain(error.message);
}
