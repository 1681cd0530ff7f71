// Explains a reason to a user who does not know it, for reasons without a message of their own.
import { spelled } from "./format.js";

const SENTENCES = {
  AgentStarting: "The agent is starting",
  DependencyWaiting: "Waiting for gateways earlier in the order",
  DesignerSessionActive: "A project is open in a Designer",
  GatewayFilesModified: "Files were changed on the gateway",
  GatewayStarting: "The gateway is starting",
  NeverSynced: "Never synced",
  Paused: "Paused: no changes are applied",
  PendingApproval: "Waiting for approval",
  PlanPending: "A plan is waiting for approval",
  RolledBack: "Rolled back; does not follow the ref",
  SidecarMissing: "The pod has no agent: restart the pod",
  SyncInProgress: "Another sync is running",
  Waiting: "The agent has not reported yet",
  WaitingForPrimary: "Waiting for the primary gateway",
  WaitingForStage: "Waiting for an earlier stage",
  WaitingForTurn: "Waiting for its turn",
  WaitingForWindow: "Waiting for a maintenance window",
};

export function sentenceOf(reason) {
  return SENTENCES[reason] ?? (reason ? spelled(reason) : "");
}
