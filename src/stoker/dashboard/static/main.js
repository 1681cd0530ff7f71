// Entry point: connects sign-in, the event stream and the store with the parts that draw the page.
import { Announcing } from "./page/screen_reader.js";
import { Approvals } from "./actions/approvals.js";
import { Destinations } from "./destinations/destinations.js";
import { startFraming } from "./page/sticky_header.js";
import { Holding } from "./model/store.js";
import { startKeys } from "./page/keyboard.js";
import { Linking } from "./server/connection_banner.js";
import { Listening } from "./server/event_stream.js";
import { Lone } from "./fleet/single_gateway.js";
import { byId, icon, put, show } from "./page/dom.js";
import { drawUnseen } from "./server/unreadable_notice.js";
import * as notices from "./page/toasts.js";
import { Side } from "./details/panel.js";
import { SigningIn, tokenFromAddress } from "./server/sign_in.js";
import { Stopping } from "./actions/emergency_stop.js";
import { Table } from "./fleet/table.js";
import * as talking from "./server/api.js";
import { Tally } from "./fleet/summary.js";
import { startTheming } from "./page/theme.js";
import { startTicking } from "./page/clock.js";
import { title } from "./model/headline.js";
import { accountName } from "./model/format.js";

const AGAIN = 3000;
let mode = "cluster";

const holding = new Holding(draw);
const table = new Table(holding, showAll);
const tally = new Tally(choose);
const approvals = new Approvals();
const destinations = new Destinations();
const lone = new Lone();
const stopping = new Stopping(holding);
const side = new Side(holding);
const announcing = new Announcing();
const signingIn = new SigningIn(entered);
const linking = new Linking(() => listening.retry());
const listening = new Listening({
  picture: (picture) => holding.takePicture(picture),
  change: (change) => holding.takeChange(change),
  session: drawUser,
  bye: () => leave("Your session has ended. Sign in again."),
  link: (link) => linking.set(link),
});

function draw(news) {
  stopping.draw();
  if (news.whole) table.drawAll();
  else if (news.ids.size) table.drawSome(news.ids);
  if (news.whole || news.ids.size || news.stop) {
    approvals.draw(holding);
    lone.draw(holding);
    drawRights();
  }
  if (news.destinations) destinations.draw(holding);
  drawVerdict(tally.draw(holding));
  if (news.destinations || news.whole || news.ids.size) drawSections();
  if (news.whole) drawUnseen(holding.unseen);
  if (news.whole) side.follow();
  side.draw();
}

function drawVerdict(verdict) {
  if (byId("main").hidden) return;
  announcing.verdict(verdict);
  document.title = title(verdict, holding.stop.active);
}

/** Redraws regularly: the status of a destination, and so the headline, depends on how long it has lasted. */
function tick() {
  destinations.draw(holding);
  drawVerdict(tally.draw(holding));
}

/** Shows links to both sections only if there are both; a reverser alone has destinations and no gateways. */
function drawSections() {
  const both = holding.resources.size > 0 && holding.destinations.size > 0;
  show(byId("sections"), both);
  document.body.classList.toggle("both", both);
}

function drawRights() {
  const may = holding.mayAct;
  const none = holding.resources.size > 0 && !may;
  show(byId("view-only"), none);
  const sentence = "View only: your account has no permission to change anything here.";
  if (none && !byId("view-only").firstChild) byId("view-only").append(icon("eye"), sentence);
  put(byId("rights"), none ? sentence : "");
}

function drawUser({ user }) {
  put(byId("user"), accountName(user));
  put(byId("who"), `Signed in as ${user}`);
}

function choose(standing) {
  table.wanted.standing = standing;
  tally.choose(standing);
  table.drawAll();
}

function search(text) {
  if (byId("search").value !== text) byId("search").value = text;
  table.wanted.text = text;
  table.drawAll();
}

function showAll() {
  search("");
  choose("");
}

function entered(session) {
  mode = document.body.dataset.mode = session.mode;
  drawUser(session);
  put(byId("version"), session.version ? `Stoker ${session.version}` : "");
  show(byId("menu"), true);
  show(byId("main"), true);
  listening.start();
}

/** Shows the sign-in form; nothing that the session showed may stay on the page. */
function leave(why) {
  listening.stop();
  linking.set("none");
  for (const id of ["main", "menu", "sections", "stopped"]) show(byId(id), false);
  if (side.open) side.close();
  holding.forget();
  signingIn.ask(mode, why);
}

async function signOut() {
  try {
    await talking.signOut();
    leave("");
  } catch (trouble) {
    notices.failed(trouble.message);
  }
}

function begin() {
  startTheming();
  startFraming();
  startTicking(tick);
  startKeys({ side, clearSearch: showAll });
  byId("search").addEventListener("input", (event) => search(event.target.value));
  byId("search-form").addEventListener("submit", (event) => event.preventDefault());
  byId("sign-out").addEventListener("click", signOut);
  meet(tokenFromAddress());
}

/** Asks for the session; retries until the server answers. */
async function meet(token) {
  let session;
  try {
    session = await talking.session();
  } catch {
    linking.set("lost");
    setTimeout(() => meet(token), AGAIN);
    return;
  }
  mode = session.mode;
  put(byId("place"), mode === "standalone" ? "on this machine" : "in this cluster");
  if (session.signedIn) {
    entered(session);
    return;
  }
  leave("");
  if (token) await signingIn.tryToken(token);
}

begin();
