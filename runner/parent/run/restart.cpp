#include "runner/parent/run/restart.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "runner/shared/error/diagnostic.h"

namespace runner {
namespace {

constexpr std::string_view kPolicy = "memory.policy";
constexpr std::int64_t kMostStalled = 2;

bool is_killed(const Ending& ending) { return ending.killed_by == SIGKILL; }
bool is_lost(const Ending& ending) { return ending.exit == ExitCode::kDeviceLost; }

}  // namespace

RestartRule::RestartRule(const Graph& graph, TakeOtherGpu other_gpu, std::string device)
    : graph_(graph), other_gpu_(std::move(other_gpu)), name_(std::move(device)) {}

void RestartRule::see(const Event& event) {
  if (const auto* ready = std::get_if<Ready>(&event)) device_ = ready->device;
  if (const auto* started = std::get_if<NodeStarted>(&event)) node_ = started->node;
  if (const auto* stranded = std::get_if<Stranded>(&event)) stranded_ = *stranded;
  if (const auto* finished = std::get_if<NodeFinished>(&event)) {
    if (finished_.insert(finished->node).second) stalled_ = 0;
  }
  if (const auto* resumed = std::get_if<Resumed>(&event)) {
    const auto known = resumed_.find(resumed->node);
    if (known == resumed_.end() || resumed->metrics > known->second) stalled_ = 0;
    resumed_[resumed->node] = resumed->metrics;
  }
  // A second save by the same worker means that its first one is complete.
  if (const auto* flush = std::get_if<Flush>(&event);
      flush && !flush->node.empty() && ++saves_ > 1) {
    stalled_ = -1;
    has_moved_ = false;
  }
}

std::optional<Restart> RestartRule::after(const Ending& ending) {
  if (says_stopped(ending.exit) || device_.empty()) return {};
  if (ending.exit == ExitCode::kNeedsAnotherDevice && stranded_)
    return move(*std::exchange(stranded_, std::nullopt));
  if (is_lost(ending) || is_killed(ending)) return repeat(is_lost(ending));
  return {};
}

Diagnostics RestartRule::errors_of(const Ending& ending) const {
  if (ending.exit == ExitCode::kNeedsAnotherDevice && stranded_) return {stranded_->error};
  if (!is_lost(ending)) return {};
  Diagnostic error{ErrorCode::kDeviceLost, {}, "", "", ""};
  error.message = "the device '" + here() + "' failed and cannot be used again by the same process";
  error.help = deaths_ > 0 ? "it failed again after the run was restarted: try a different device"
                           : "set memory.max_retries to restart the run automatically";
  return {error};
}

/// Moves the run to the first available device that the recipe allows.
std::optional<Restart> RestartRule::move(Stranded stranded) {
  std::string in_vain;  // why there is no other GPU
  for (const std::string& to : stranded.to) {
    if (to == "cpu" && here() != "cpu")
      return move_to({.taken = {.why = "the memory of " + here() + " ran out"}, .record = {}},
                     stranded, in_vain);
    if (to != "gpu" || !other_gpu_) continue;
    auto other = other_gpu_();
    if (other) return move_to(*std::move(other), stranded, in_vain);
    const ExitCode exit = exit_code(other.errors());
    if (says_stopped(exit)) {
      stopped_ = exit;
      return {};
    }
    const Diagnostic& why = other.errors().front();
    in_vain = "no other GPU: " + why.message;
    stranded.error.notes.push_back({{}, in_vain});
    stranded.error.notes.insert(stranded.error.notes.end(), why.notes.begin(), why.notes.end());
  }
  stranded_ = std::move(stranded);  // read by errors_of()
  return {};
}

Restart RestartRule::move_to(OwnDevice device, const Stranded& stranded,
                             const std::string& in_vain) {
  deaths_ = stalled_ = saves_ = 0;
  has_moved_ = true;
  const std::string from = std::exchange(name_, device.text());
  Restart restart{.restarts = {.retries = stranded.retries, .has_moved = true},
                  .node = stranded.node};
  restart.recovery = stranded.incident;
  restart.recovery.from = from.empty() ? device_ : from;
  restart.recovery.to = name_;
  restart.line = "continues on " + name_ + " instead of " + restart.recovery.from + ": " +
                 stranded.error.message;
  if (device.taken.select == "cpu")
    restart.line += "; the CPU is slower, and its results differ in their last bits";
  if (!in_vain.empty()) restart.line += "; " + in_vain;
  restart.device = std::move(device);
  return restart;
}

/// Continues from the last checkpoint.
std::optional<Restart> RestartRule::repeat(bool is_lost) {
  const Options said = options();
  if (!said.replans || (said.max_retries && deaths_ >= *said.max_retries)) return {};
  stalled_ = std::max<std::int64_t>(stalled_, 0) + (stalled_ < 0 ? 0 : 1);
  const bool is_stuck = stalled_ >= kMostStalled;
  if (is_stuck && (is_lost || device_ != "cpu")) return {};
  ++deaths_;
  saves_ = 0;
  Restart restart{
      .restarts = {.plans = is_stuck ? stalled_ - kMostStalled + 1 : 0, .has_moved = has_moved_},
      .node = node_};
  const std::string count = ", restart " + std::to_string(deaths_) +
                            (said.max_retries ? " of " + std::to_string(*said.max_retries) : "");
  restart.line =
      (is_lost ? "the device '" + here() + "' failed" : std::string("the worker was killed")) +
      ": continuing from the last checkpoint" +
      (is_stuck ? ", in a way that needs less memory" : "") + count;
  restart.recovery = {.cause = is_lost ? "device lost" : "killed", .from = here(), .to = here()};
  return restart;
}

RestartRule::Options RestartRule::options() const {
  const auto node = std::ranges::find(graph_.nodes, node_, &Node::id);
  const Node* policy = nullptr;
  for (const Node& one : graph_.nodes) {
    if (one.kind == kPolicy && !policy) policy = &one;
  }
  if (node != graph_.nodes.end()) {
    for (const Edge& edge : node->inputs) {
      if (graph_.nodes[edge.from].kind == kPolicy) policy = &graph_.nodes[edge.from];
    }
  }
  Options options;
  if (!policy) return options;
  const Value* const most = policy->options.find("max_retries");
  if (most && most->text()) options.max_retries.reset();
  else if (most) options.max_retries = std::get<std::int64_t>(most->data);
  const Value* const order = policy->options.find("on_oom");
  if (order && order->list())
    options.replans =
        std::ranges::any_of(*order->list(), [](const Value& one) { return one.says("replan"); });
  return options;
}

}  // namespace runner
