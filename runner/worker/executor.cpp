#include "runner/worker/executor.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>

#include "runner/shared/disk/new_file.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/graph/run_order.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/text/units.h"
#include "runner/worker/create_stage.h"
#include "runner/worker/kept_artifacts.h"
#include "runner/worker/node_context.h"
#include "runner/worker/nodes_to_run.h"

namespace runner {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

/// True if planning may simply run the node, because there is nothing in it to plan and later nodes
/// cannot be planned without its outputs.
bool is_cheap(const Node& node) {
  const auto family = family_of(node.kind);
  return family == Family::kData || family == Family::kModel || family == Family::kMemory;
}

/// Thrown if a node is not run because it needs more memory than its budget allows.
struct DoesNotFit {
  Diagnostic error;
};

/// True if the results of other runs are looked up for any node.
bool may_reuse(const Graph& graph, const RunOptions& options) {
  if (!options.reuse || options.reuse->which == ReuseOptions::Which::kNone) return false;
  return options.reuse->which == ReuseOptions::Which::kAll ||
         std::ranges::any_of(graph.nodes, &Node::cacheable);
}

/// Returns those `outputs` that have consumers.
Outputs only(const std::set<std::string>& wanted, Outputs outputs) {
  std::erase_if(outputs, [&](const auto& output) { return !wanted.contains(output.first); });
  return outputs;
}

bool same_complaint(const Diagnostic& a, const Diagnostic& b) {
  return a.code == b.code && a.pointer == b.pointer && a.message == b.message;
}

}  // namespace

Executor::Executor(Graph graph, std::span<const StageKind* const> kinds, ExecutorWorld world)
    : graph_(std::move(graph)),
      keys_(node_keys(graph_)),
      order_(run_order(graph_)),
      kinds_(kinds),
      world_(std::move(world)) {}

Executor::~Executor() = default;

Diagnostics Executor::create() {
  Diagnostics errors;
  for (const Node& node : graph_.nodes) {
    auto stage = create_stage(node, kinds_);
    if (stage) {
      stages_.push_back(*std::move(stage));
      continue;
    }
    for (const Diagnostic& error : stage.errors()) {
      // Items of a foreach share their options, so they have the same errors.
      const bool is_known = std::ranges::any_of(
          errors, [&](const auto& known) { return same_complaint(known, error); });
      if (!is_known) errors.push_back(error);
    }
  }
  return errors;
}

/// Returns null if nothing can be reused: if reuse was not requested, or if a stage cannot
/// determine what its results depend on. In the latter case, `unread` contains the errors.
std::unique_ptr<Reuse> Executor::make_reuse(const RunOptions& options, Diagnostics& unread) const {
  if (!options.reuse) return nullptr;
  std::vector<StageFacts> facts;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    try {
      facts.push_back({stages_[i]->fingerprint(), stages_[i]->uses_seed()});
    } catch (const Canceled&) {
      throw;
    } catch (...) {
      unread.push_back(stage_failure(graph_.nodes[i]));
    }
  }
  if (!unread.empty()) return nullptr;
  return std::make_unique<Reuse>(graph_, std::move(facts), options);
}

Diagnostics Executor::plan(const RunOptions& options, const DryRunOptions& dry, bool strict,
                           std::string_view device) {
  assert(stages_.size() == graph_.nodes.size());
  dry_ = dry;
  // Determining what stages depend on in addition to their options requires reading their data, so
  // it is done only on request.
  Diagnostics unread;
  const std::unique_ptr<Reuse> reuse =
      may_reuse(graph_, options) ? make_reuse(options, unread) : nullptr;
  planned_.assign(graph_.nodes.size(), {});
  left_memory_ = LeftMemory(options.cache, std::string(build_id()));
  std::vector<bool> runs(graph_.nodes.size(), true);
  KeptArtifacts artifacts(graph_, options.trained, runs);
  Diagnostics errors;
  for (const std::size_t i : order_) {
    const Node& node = graph_.nodes[i];
    DryNode& dry_node = planned_[i];
    dry_node.node = node.id;
    const auto is_unknown = [&](const Edge& edge) {
      return planned_[edge.from].state == DryNode::State::kUnknown;
    };
    if (std::ranges::any_of(node.inputs, is_unknown)) continue;
    dry_node.state = DryNode::State::kRuns;
    if (reuse) {
      if (const auto run = reuse->find(i)) {
        dry_node.state = DryNode::State::kReused;
        dry_node.why = run->string();
      } else if (const auto why = reuse->why_anew(i)) {
        dry_node.why = *why;
      }
    }
    try {
      const Given given = take(i, artifacts, device);
      if (auto stand_ins = plan_node(i, given, options, device)) {
        warn_of_measured(dry_node.plan, node.pointer);
        artifacts.put(i, *stand_ins);
        left_memory_.add(i, only(given.wanted, *stand_ins));
        const bool must_fit = !dry.wants_certificate;
        if (must_fit && dry_node.plan && !dry_node.plan->may_run())
          errors.push_back(does_not_fit(*dry_node.plan, node.pointer));
      } else if (is_cheap(node)) {
        DryContext context = dry_context(i, given, options, device);
        Outputs outputs = stages_[i]->run(given.inputs, context);
        artifacts.put(i, outputs);
        left_memory_.add(i, only(given.wanted, outputs));
        dry_node.done = {std::move(outputs), std::move(context.said()), context.division()};
      } else {
        dry_node.state = DryNode::State::kUnknown;
        continue;
      }
      if (reuse) reuse->note(i, {stages_[i]->fingerprint(), stages_[i]->uses_seed()});
    } catch (const Canceled&) {
      throw;
    } catch (const StageError&) {
      // The stage reports the same errors when it runs, but a resumed or reused node may not run.
      const bool will_run = !options.resume && dry_node.state != DryNode::State::kReused;
      const Diagnostics refusals = stage_failures(node);
      dry_node.state = DryNode::State::kUnknown;
      dry_node.why = refusals.front().message;
      if (strict || will_run) errors.insert(errors.end(), refusals.begin(), refusals.end());
    } catch (...) {
      dry_node.state = DryNode::State::kUnknown;
      if (strict) errors.push_back(stage_failure(node));
    }
  }
  left_memory_.share(planned_, device);
  // A resumed run may not need the missing inputs.
  for (const Diagnostic& error : options.resume ? Diagnostics() : unread) {
    if (std::ranges::none_of(errors,
                             [&](const auto& known) { return same_complaint(known, error); }))
      errors.push_back(error);
  }
  return errors;
}

Executor::Given Executor::take(std::size_t index, KeptArtifacts& artifacts,
                               std::string_view device) const {
  std::set<std::string> wanted = artifacts.wanted(index);
  Inputs inputs = artifacts.take(graph_.nodes[index]);
  std::vector<NamedBytes> held = artifacts.held_elsewhere(inputs, device);
  return {std::move(inputs), std::move(wanted), std::move(held)};
}

DryContext Executor::dry_context(std::size_t index, const Given& given, const RunOptions& options,
                                 std::string_view device) {
  DryNode& dry = planned_[index];
  std::optional<NodeLayout> taken;
  if (dry.state == DryNode::State::kReused) taken = RunLayout(dry.why).node(dry.node);
  DryContext context(node_facts(index, graph_, options, device, given.wanted, taken), dry_,
                     given.held, shelf_, world_, dry);
  if (!options.plans.empty()) context.replay(RunLayout(options.plans).node(dry.node).plan());
  const std::filesystem::path& recorded =
      options.record().empty() ? options.resumed : options.record();
  if (options.resume && !recorded.empty())
    context.replay(RunLayout(recorded).node(dry.node).plan());
  return context;
}

/// Plans node `index` into planned_ and returns stand-ins for its outputs; nullopt if the node is
/// too cheap to plan.
std::optional<Outputs> Executor::plan_node(std::size_t index, const Given& given,
                                           const RunOptions& options, std::string_view device) {
  DryContext context = dry_context(index, given, options, device);
  return stages_[index]->plan(given.inputs, context);
}

/// Warns once for all nodes of a stage.
void Executor::warn_of_measured(const std::optional<MemoryPlan>& plan, const std::string& pointer) {
  if (!plan || plan->measured.empty() || !warned_of_.insert(pointer).second) return;
  world_.emit(Reported{{ErrorCode::kMeasuredPlan,
                        {},
                        pointer,
                        "the plan of '" + plan->node + "' was " + measured_text(*plan),
                        "other values may need more memory, which is still limited by the budget; "
                        "--strict rejects such plans",
                        {},
                        Severity::kWarning}});
}

ExitCode Executor::run(const RunOptions& options, std::string_view device) {
  assert(stages_.size() == graph_.nodes.size());
  if (planned_.empty()) planned_.resize(graph_.nodes.size());
  Diagnostics unread;
  const std::unique_ptr<Reuse> reuse = make_reuse(options, unread);
  Reuse* const shared = reuse.get();
  std::vector<std::size_t> order = order_;
  const std::vector<bool> runs = as_first_decides(
      nodes_to_run(graph_, keys_, options, shared, world_), graph_, order, options, world_);
  KeptArtifacts artifacts(graph_, options.trained, runs);
  if (options.ranks.size > 1) {
    const KeptArtifacts of_all(graph_, options.trained, run_by_all(runs, graph_));
    for (std::size_t i = 0; i < runs.size(); ++i) outputs_of_all_.push_back(of_all.wanted(i));
  }
  for (const std::size_t i : order) {
    if (world_.is_canceled()) throw Canceled{};
    const ExitCode exit = runs[i] ? run_node(i, artifacts, options, device, shared)
                                  : finish_without(i, options, shared);
    if (exit != ExitCode::kDone) return exit;
  }
  return ExitCode::kDone;
}

/// Finishes a node that need not run because it has already run here, or because its files come
/// from another run.
ExitCode Executor::finish_without(std::size_t index, const RunOptions& options, Reuse* reuse) {
  const Node& node = graph_.nodes[index];
  const NodeLayout layout = RunLayout(options.folder).node(node.id);
  const std::filesystem::path folder = layout.folder();
  std::error_code error;
  // The training nodes that use this data have already run, here or elsewhere, but evaluating them
  // requires the division.
  const auto& done = planned_[index].done;
  if (done && done->division && !std::filesystem::exists(layout.division(), error))
    keep_division(layout, done->division);
  if (!reuse || !reuse->taken(index)) {
    if (const auto finished = read_finished(folder)) {
      if (!finished->reused_from.empty()) world_.emit(Reused{node.id, finished->reused_from});
      world_.emit(NodeFinished{node.id, finished->seconds, finished->peak_memory_bytes});
    }
    return ExitCode::kDone;
  }
  const Reuse::Source& taken = *reuse->taken(index);
  world_.emit(NodeStarted{node.id});
  report_reused(index, taken);
  try {
    world_.sync_metrics("");
    write_finished(
        folder,
        {.key = keys_[index], .reused_from = taken.run.string(), .reuse_key = reuse->key(index)});
    if (const auto trouble = reuse->enter(index, static_cast<std::int64_t>(taken.metrics.size())))
      world_.emit(Said{node.id, *trouble});
  } catch (const Canceled&) {
    throw;
  } catch (...) {
    const Diagnostic error = stage_failure(node);
    world_.emit(Reported{error});
    return info(error.code).exit;
  }
  world_.emit(NodeFinished{node.id, 0, 0});
  return ExitCode::kDone;
}

void Executor::report_reused(std::size_t index, const Reuse::Source& taken) {
  world_.emit(Reused{graph_.nodes[index].id, taken.run.string()});
  for (const NodeMetric& metric : taken.metrics) world_.emit(metric);
}

/// Returns the outputs from the dry run if the dry run ran the stage. Otherwise runs the stage,
/// which is now known to fit.
Outputs Executor::outputs_of(std::size_t index, const Given& given, RunContext& context,
                             const RunOptions& options, std::string_view device) {
  DryNode& dry = planned_[index];
  if (dry.done) {
    for (const std::string& line : dry.done->said) context.say(line);
    if (dry.done->division) context.divided(dry.done->division);
    return std::move(dry.done->outputs);
  }
  if (dry.state == DryNode::State::kUnknown) {
    // The data on which the plan depends did not exist until now.
    dry.node = graph_.nodes[index].id;
    plan_node(index, given, options, device);
    warn_of_measured(dry.plan, graph_.nodes[index].pointer);
    if (dry.plan) left_memory_.count_in(*dry.plan);
    if (dry.plan && !dry.plan->may_run())
      throw DoesNotFit{does_not_fit(*dry.plan, graph_.nodes[index].pointer)};
  }
  if (dry.plan) {
    if (dry.plan->choice) context.say(choice_text(*dry.plan));
    if (dry.plan->budget) {
      context.say("needs " + size_text(dry.plan->needed) + " according to the plan, of " +
                  size_text(*dry.plan->budget) + " (" + dry.plan->budget_from + ")" +
                  (dry.plan->fits()
                       ? ""
                       : ": too much, but it runs anyway (memory.on_oom_policy: legacy)"));
    }
    nlohmann::ordered_json plan = to_json(*dry.plan);
    plan["run_peak"] = run_peak(*largest_plan(planned_));
    write_atomically(NodeLayout(context.node().folder).plan(), plan.dump(2) + "\n");
  }
  return stages_[index]->run(given.inputs, context);
}

ExitCode Executor::run_node(std::size_t index, KeptArtifacts& artifacts, const RunOptions& options,
                            std::string_view device, Reuse* reuse) {
  const Node& node = graph_.nodes[index];
  Stage* const stage = stages_[index].get();
  // Frees the stage on every exit path, so that the next node can use the memory.
  struct Freed {
    std::unique_ptr<Stage>& stage;
    DryNode& planned;
    ~Freed() {
      stage.reset();
      planned.done.reset();
    }
  } const freed{stages_[index], planned_[index]};
  const TimePoint start = world_.clock();
  world_.measure_peak_live();
  world_.emit(NodeStarted{node.id});
  FinishedNode finished{.key = keys_[index]};
  try {
    // Try to reuse again, because data created by this run did not exist until now.
    const std::optional<Turn> turn =
        reuse ? reuse->take_in_turn(
                    index, world_.is_canceled,
                    [&] {
                      world_.emit(Said{node.id, "waiting: another run is computing this node"});
                    })
              : std::nullopt;
    if (world_.is_canceled()) throw Canceled{};
    if (reuse && !reuse->taken(index)) {
      if (const auto why = reuse->why_anew(index))
        world_.emit(Said{node.id, "computed again: " + *why});
    }
    const NodeLayout layout = RunLayout(options.folder).node(node.id);
    const std::optional taken_from =
        reuse && reuse->taken(index) ? std::optional(layout) : std::nullopt;
    const Given given = take(index, artifacts, device);
    NodeFacts facts = node_facts(index, graph_, options, device, given.wanted, taken_from);
    facts.folder = layout.folder();
    facts.observer = options.observer;
    facts.ranks.first_folder = RunLayout(options.record()).node(node.id).folder();
    if (!outputs_of_all_.empty()) facts.ranks.outputs_of_all = outputs_of_all_[index];
    NodeContext context(std::move(facts), index, node.id, world_, reuse);
    make_folders(layout.folder());
    // If the run stops after this, the node is not finished.
    if (!taken_from) std::filesystem::remove(layout.finished());
    const Outputs outputs = outputs_of(index, given, context, options, device);
    left_memory_.renew(index, outputs);
    for (const std::string& line : left_memory_.text(index)) context.say(line);
    artifacts.put(index, outputs);
    // On a signal, a stage may return early with incomplete outputs, which must not be used as
    // results.
    if (world_.is_canceled()) throw Canceled{};
    std::int64_t metrics = context.metrics();
    if (reuse) {
      reuse->note(index, {stage->fingerprint(), stage->uses_seed()});
      if (const auto& taken = reuse->taken(index); taken && taken->run != options.folder) {
        report_reused(index, *taken);
        metrics += static_cast<std::int64_t>(taken->metrics.size());
        finished.reused_from = taken->run.string();
      } else if (!taken) {
        std::filesystem::remove(layout.reused());  // left by an earlier attempt; no longer true
      }
      finished.reuse_key = reuse->key(index);
    }
    finished.seconds = std::chrono::duration<double>(world_.clock() - start).count();
    finished.peak_memory_bytes = world_.measure_peak_live();
    world_.sync_metrics("");
    write_finished(layout.folder(), finished);
    if (const auto trouble = reuse ? reuse->enter(index, metrics) : std::nullopt)
      context.say(*trouble);
  } catch (const Canceled&) {
    throw;
  } catch (const DoesNotFit& refused) {
    world_.emit(Reported{refused.error});
    return info(refused.error.code).exit;
  } catch (...) {
    return failed(node);
  }
  world_.emit(NodeFinished{node.id, finished.seconds, finished.peak_memory_bytes});
  return ExitCode::kDone;
}

/// Reports the failure of a node. Must be called while the stage's exception is being handled.
ExitCode Executor::failed(const Node& node) {
  std::vector<std::string> other_devices;
  Recovery incident;
  std::int64_t retries = 0;
  try {
    throw;
  } catch (const StageError& error) {
    other_devices = error.other_devices;
    incident = error.incident;
    retries = error.retries;
  } catch (const std::exception& error) {
    world_.on_failure(node.id, error);
  } catch (...) {
  }
  Diagnostic error = stage_failure(node);
  if (node.id != node.stage) error.message = node.id + ": " + error.message;
  if (other_devices.empty()) {
    world_.emit(Reported{error});
    return info(error.code).exit;
  }
  world_.emit(
      Stranded{node.id, std::move(other_devices), retries, std::move(error), std::move(incident)});
  return ExitCode::kNeedsAnotherDevice;
}

}  // namespace runner
