// Explains a reason to a user who does not know it, for reasons without a message of their own.
import { spelled } from "./format.js";

const SENTENCES = {
  AgentStarting: "Its agent is starting",
  DependencyWaiting: "Waits for gateways that come first",
  DesignerSessionActive: "Somebody works on it in a designer",
  GatewayFilesModified: "Somebody changed files on the gateway",
  GatewayStarting: "The gateway is starting",
  NeverSynced: "Nothing was delivered to it yet",
  Paused: "Paused: it stays as it is",
  PendingApproval: "Waits for approval",
  PlanPending: "Its plan waits for approval",
  RolledBack: "Rolled back, and stays there",
  SidecarMissing: "Its pod has no agent: restart the pod",
  SyncInProgress: "Another sync is at work",
  Waiting: "Its agent has not said anything yet",
  WaitingForPrimary: "Waits for its primary gateway",
  WaitingForStage: "Waits for an earlier stage",
  WaitingForTurn: "Waits for its turn",
  WaitingForWindow: "Waits for its maintenance window",
};

export function sentenceOf(reason) {
  return SENTENCES[reason] ?? (reason ? spelled(reason) : "");
}
