#include "runner/parent/run/plan_request.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "runner/parent/devices/choose_device.h"
#include "runner/shared/error/diagnostic.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/json_fields.h"

namespace runner {
namespace {

Diagnostic misused_plan(std::string message,
                        std::string help = "write a size such as 8GiB, 512MiB or 8GB") {
  return {ErrorCode::kUsage, {}, "", std::move(message), std::move(help)};
}

/// Returns the error for a `budget` that is not a size.
Diagnostic no_size(const std::string& budget) {
  if (bytes_from(budget + "GiB"))
    return misused_plan("--budget " + budget + " has no unit", "did you mean '" + budget + "GiB'?");
  return misused_plan("--budget is not a size: '" + budget + "'");
}

/// Removes the recipe's own budgets above `most` bytes.
void forget_budgets(Graph& graph, std::int64_t most) {
  for (Node& node : graph.nodes) {
    if (family_of(node.kind) != Family::kMemory) continue;
    Value* budget = node.options.find("budget");
    const auto bytes = budget && budget->reveal() ? bytes_from(*budget->reveal()) : std::nullopt;
    if (bytes && *bytes > most) budget->data = std::string("auto");
  }
}

}  // namespace

using Json = nlohmann::ordered_json;

Json to_json(const PlanRequest& request) {
  Json budget;
  if (request.budget) budget = {{"bytes", request.budget->bytes}, {"from", request.budget->name}};
  return {{"protocol", kProtocolVersion},
          {"request", "plan"},
          {"graph", to_json(request.graph)},
          {"checkpoints", to_json(request.trained)},
          {"reuse", name(request.reuse)},
          {"index", request.node_index.string()},
          {"budget", std::move(budget)},
          {"device_model", request.device_model},
          {"alternatives", request.alternatives},
          {"certify", request.certify},
          {"strict", request.strict}};
}

Diagnostics hold_against(PlanRequest& request, const std::string& budget, const std::string& gpu) {
  Diagnostics errors;
  if (!gpu.empty()) {
    if (const auto found = device_model(gpu)) {
      const DeviceModel& device = **found;
      request.device_model = device.name;
      request.graph.device = "cuda";
      request.budget = {request.device_model, device.memory};
      forget_budgets(request.graph, device.memory);
    } else {
      errors.push_back(found.errors().front());
    }
  }
  if (budget.empty()) return errors;
  const auto bytes = bytes_from(budget);
  if (!bytes) errors.push_back(no_size(budget));
  else if (*bytes == 0) errors.push_back(misused_plan("--budget is 0 bytes: nothing fits"));
  if (!errors.empty()) return errors;
  forget_budgets(request.graph, 0);
  if (!request.budget || *bytes < request.budget->bytes) request.budget = {"--budget", *bytes};
  return errors;
}

std::set<std::string> nodes_to_run(const Graph& graph, std::span<const NodeReuse> reuse) {
  std::vector<bool> feeds_one(graph.nodes.size(), false),
      feeds_one_that_runs(graph.nodes.size(), false);
  std::set<std::string> running;
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {  // backwards: consumers come after producers
    const Node& node = graph.nodes[i];
    const bool is_reused = std::ranges::any_of(
        reuse, [&](const NodeReuse& one) { return one.node == node.id && one.state == "hit"; });
    const bool runs = !is_reused && (!feeds_one[i] || feeds_one_that_runs[i]);
    if (runs) running.insert(node.id);
    for (const Edge& edge : node.inputs) {
      feeds_one[edge.from] = true;
      if (runs) feeds_one_that_runs[edge.from] = true;
    }
  }
  return running;
}

const MemoryPlan* PlanAnswer::largest_plan() const {
  const auto largest = std::ranges::max_element(plans, {}, &MemoryPlan::needed);
  return largest == plans.end() ? nullptr : &*largest;
}

PlanAnswer plan_answer_from_json(Json json) {
  const JsonFields fields(json, "the answer");
  PlanAnswer answer;
  for (const Json& plan : fields.list("plans")) answer.plans.push_back(memory_plan_from_json(plan));
  for (const Json& certificate : fields.list("certificates"))
    answer.certificates.push_back(certificate_from_json(certificate));
  for (const Json& node : fields.list("reuse")) {
    const JsonFields one(node, "a node of the answer");
    answer.reuse.push_back(
        {one.text("node"), one.text("state"), one.has("why") ? one.text("why") : ""});
  }
  if (fields.has("memory")) {
    const Json object = fields.object("memory");
    const JsonFields memory(object, "the memory in the answer");
    answer.memory = NamedBytes{memory.text("name"), memory.count("bytes")};
    json.erase("memory");
  }
  answer.json = std::move(json);
  return answer;
}

Result<PlanAnswer> ask_for_plan(const WorkerCommand& worker, const PlanRequest& request,
                                ProgressDisplay& display) {
  WorkerReply reply = reply_of_worker(worker, to_json(request), shown_conversation(display));
  display.clear();
  if (!reply.answer) return std::move(reply.diagnostics);
  try {
    PlanAnswer answer = plan_answer_from_json(*std::move(reply.answer));
    answer.diagnostics = std::move(reply.diagnostics);
    return answer;
  } catch (const std::runtime_error& error) {
    return Diagnostic{ErrorCode::kProtocol,
                      {},
                      "",
                      std::string("the worker's answer is not valid: ") + error.what(),
                      "this is a bug in Retort"};
  }
}

Conversation shown_conversation(ProgressDisplay& display, std::string name) {
  Conversation conversation;
  conversation.on_event = [&display, name = std::move(name)](const Event& event, WorkerProcess&) {
    const auto shown = [&](const std::string& node) { return name.empty() ? node : name; };
    if (const auto* at = std::get_if<NodeProgress>(&event))
      display.progress(shown(at->node), at->progress);
    if (const auto* said = std::get_if<Said>(&event)) display.say(shown(said->node), said->line);
    if (const auto* logged = std::get_if<Logged>(&event))
      display.log(logged->level, shown(logged->node), logged->line);
  };
  conversation.on_output = [&display](std::string_view text) { display.detail(text); };
  conversation.on_resize = [&display] { display.resize(); };
  conversation.tick = [&display] { return display.tick(); };
  return conversation;
}

WorkerReply reply_of_worker(const WorkerCommand& command, const nlohmann::ordered_json& request,
                            const Conversation& conversation, const OtherRanks& others) {
  WorkerReply reply;
  Conversation listening = conversation;
  listening.on_event = [&](const Event& event, WorkerProcess& process) {
    if (const auto* given = std::get_if<Answer>(&event)) reply.answer = given->json;
    else if (const auto* reported = std::get_if<Reported>(&event))
      reply.diagnostics.push_back(reported->diagnostic);
    else if (conversation.on_event) conversation.on_event(event, process);
  };
  const auto ending = supervise_ranks(command, request, std::move(listening), others);
  Diagnostics failures = ending ? ending->errors : ending.errors();
  if (ending && says_stopped(ending->exit))
    failures.push_back(stopped_by(ending->exit == ExitCode::kInterrupted ? SIGINT : SIGTERM));
  const bool says_why = reply.answer || exit_code(reply.diagnostics) != ExitCode::kDone;
  if (failures.empty() && !says_why)
    failures.push_back(
        {ErrorCode::kProtocol, {}, "", "the worker did not answer", "this is a bug in Retort"});
  if (!failures.empty()) reply.answer.reset();
  reply.diagnostics.insert(reply.diagnostics.end(), failures.begin(), failures.end());
  return reply;
}

Result<nlohmann::ordered_json> ask_worker(const WorkerCommand& command,
                                          const nlohmann::ordered_json& request,
                                          const Conversation& conversation,
                                          const OtherRanks& others) {
  WorkerReply reply = reply_of_worker(command, request, conversation, others);
  if (exit_code(reply.diagnostics) != ExitCode::kDone) return std::move(reply.diagnostics);
  return *std::move(reply.answer);
}

}  // namespace runner
