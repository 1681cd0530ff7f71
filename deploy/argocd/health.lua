-- Health of Stoker's kinds for Argo CD: the same script for each of them (argocd-cm.yaml).
-- It reads nothing but metadata.generation and status, and uses no library of Lua.

local waiting = {status = "Progressing", message = "nobody has looked at this generation yet"}

-- It is what it should be and goes on when somebody says so.
local suspended = {Paused = true, Suspended = true, PendingApproval = true}
-- It is tried again, but not without somebody who looks.
local degraded = {SyncFailed = true, SidecarMissing = true}

local function condition(type)
  for _, one in ipairs(obj.status.conditions) do
    if one.type == type then
      return one
    end
  end
end

if obj.kind == "IgnitionSyncBase" then
  return {status = "Healthy", message = "values for others to inherit"}
end
if obj.status == nil or obj.status.conditions == nil then
  return waiting
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  return waiting
end

local stalled = condition("Stalled")
if stalled ~= nil and stalled.status == "True" then
  return {status = "Degraded", message = stalled.reason .. ": " .. stalled.message}
end
local ready = condition("Ready")
if ready == nil then
  return waiting
end
if ready.status == "True" then
  return {status = "Healthy", message = ready.message}
end
local said = ready.reason .. ": " .. ready.message
if suspended[ready.reason] then
  return {status = "Suspended", message = said}
end
if degraded[ready.reason] then
  return {status = "Degraded", message = said}
end
return {status = "Progressing", message = said}
