#include "runner/worker/node_context.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/disk/file_digests.h"
#include "runner/shared/disk/new_file.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/error/system_limit.h"
#include "runner/shared/record/recorded_run.h"
#include "runner/shared/stage/determinism.h"
#include "runner/shared/stage/family.h"
#include "runner/shared/stage/run_layout.h"
#include "runner/shared/stage/stage.h"
#include "runner/shared/text/units.h"
#include "runner/shared/value/parse_json.h"
#include "runner/shared/weights/strict_json.h"

namespace runner {
namespace {

namespace fs = std::filesystem;

/// Returns the folder of node `id` in the run being resumed or repeated; empty if the node did not
/// get far enough there.
fs::path earlier_folder(const std::string& id, const RunOptions& options) {
  std::error_code error;
  const fs::path& resumed = options.record().empty() ? options.resumed : options.record();
  for (const fs::path& run : {options.resume ? resumed : fs::path(), options.divisions}) {
    if (run.empty()) continue;
    const NodeLayout layout = RunLayout(run).node(id);
    if (fs::exists(layout.division(), error) || fs::exists(layout.finished(), error))
      return layout.folder();
  }
  return {};
}

}  // namespace

NodeFacts node_facts(std::size_t index, const Graph& graph, const RunOptions& options,
                     std::string_view device, std::set<std::string> wanted,
                     const std::optional<NodeLayout>& taken) {
  const Node& node = graph.nodes[index];
  NodeFacts facts{.seed = node.seed,
                  .recipe_hash = graph.recipe_hash,
                  .device = std::string(device),
                  .resuming = options.resume,
                  .smoke = options.smoke,
                  .reuses = taken && node.cacheable,
                  .wanted = std::move(wanted),
                  .ranks = options.ranks,
                  .restarts = options.restarts,
                  .accepts_changes = options.accepts_changes};
  if (family_of(node.kind) == Family::kData) facts.earlier = earlier_folder(node.id, options);
  if (family_of(node.kind) == Family::kEvaluate)
    facts.trained_data = trained_data(index, graph, options);
  const auto given = options.trained.find(node.id);
  if (given != options.trained.end()) facts.trained = given->second;
  else if (taken && !node.cacheable)
    facts.trained = {taken->checkpoints(), CheckpointSource::Choice::kKept, true};
  return facts;
}

void keep_division(const NodeLayout& layout, const std::function<std::string()>& division) {
  make_folders(layout.folder());
  write_atomically(layout.division(), division());
}

void DryContext::replay(const std::filesystem::path& recorded) {
  std::ifstream file = open_regular(recorded);
  if (!file) return;
  try {
    earlier_step_ = memory_plan_from_json(parse_json(file)).step;
  } catch (const std::exception& error) {
    world_.emit(
        Said{result_.node, "the earlier plan cannot be read, so the step is planned again: " +
                               recorded.string() + ": " + error.what()});
  }
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestGraph = std::size_t{64} << 20;  // bytes
constexpr std::size_t kDeepestGraph = 100;

/// Adds the data nodes where the data on `edge` originates, following it back through nodes that
/// only change data.
void add_sources(const Graph& graph, const Edge& edge,
                 std::map<std::size_t, std::set<std::string>>& parts) {
  const Node& node = graph.nodes[edge.from];
  const auto goes_on = [&](const Edge& one) {
    return one.type == ArtifactType::kDataset && one.input == edge.output;
  };
  const auto before = std::ranges::find_if(node.inputs, goes_on);
  if (before != node.inputs.end()) add_sources(graph, *before, parts);
  else parts[edge.from].insert(edge.output);
}

/// True if `node` is wired to a validation part, so it is meant to be evaluated on that part.
bool tests_validation(const Node& node) {
  return std::ranges::any_of(node.inputs, [](const Edge& edge) {
    return edge.type == ArtifactType::kDataset && edge.output == "validation";
  });
}

/// Adds the training nodes with weights that a node uses, and the nodes before them, since training
/// may start from the weights of another node.
void add_trainings(const Graph& graph, std::size_t index, std::set<std::size_t>& trainings) {
  for (const Edge& edge : graph.nodes[index].inputs)
    if (edge.type == ArtifactType::kCheckpoint && trainings.insert(edge.from).second)
      add_trainings(graph, edge.from, trainings);
}

/// Adds all strings in `value`.
void add_texts(const Value& value, std::vector<std::string>& texts) {
  if (const std::string* text = value.text()) texts.push_back(*text);
  if (const Value::List* list = value.list())
    for (const Value& element : *list) add_texts(element, texts);
  if (const Value::Map* map = value.map())
    for (const Entry& entry : *map) add_texts(entry.value, texts);
}

/// Returns the compiled graph of a recorded run; nullopt if it cannot be read.
std::optional<Graph> recorded_graph(const fs::path& run) {
  const fs::path file = RunLayout(run).records() / RunRecord::kGraph;
  const auto text = real_file_system().read(file, kLargestGraph);
  if (!text) return std::nullopt;
  try {
    Graph graph =
        graph_from_json(nlohmann::ordered_json(parse_strict_json(*text, kDeepestGraph, "it")));
    if (graph.working_folder.empty())
      if (const auto folder = working_folder_of(file.parent_path() / RunRecord::kRecipe))
        graph.working_folder = folder->string();
    return graph;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// Collects the data that networks were trained on, across runs.
class TrainedDataSearch {
 public:
  explicit TrainedDataSearch(bool knows_validation) : knows_validation_(knows_validation) {}

  /// Returns the parts that a training node uses, by data node.
  std::map<std::size_t, std::set<std::string>> parts_of(const Graph& graph,
                                                        std::size_t training) const {
    std::map<std::size_t, std::set<std::string>> parts;
    for (const Edge& edge : graph.nodes[training].inputs)
      if (edge.type == ArtifactType::kDataset) add_sources(graph, edge, parts);
    if (knows_validation_)
      for (auto& [data, names] : parts) names.erase("validation");
    return parts;
  }

  void add(const fs::path& folder, const std::set<std::string>& parts, bool is_earlier) {
    if (parts.empty()) return;
    TrainedData& one = found_[folder];
    one.folder = folder;
    one.parts.insert(parts.begin(), parts.end());
    one.is_earlier = is_earlier;
  }

  /// Finds the runs that contain the files named in the options of node `index` or of its model.
  void follow(const Graph& graph, std::size_t index) {
    const Node& node = graph.nodes[index];
    std::vector<std::string> texts;
    add_texts(node.options, texts);
    std::error_code error;
    const fs::path here =
        fs::absolute(graph.working_folder.empty() ? "." : graph.working_folder, error);
    const auto run_here = run_of(here);  // the run that contains the working folder
    for (const std::string& text : texts) {
      const fs::path path = (here / text).lexically_normal();
      const auto run = text.empty() ? std::nullopt : run_of(path);
      if (run && (run != run_here || fs::exists(path, error))) add_run(*run, path);
    }
    for (const Edge& edge : node.inputs)
      if (family_of(graph.nodes[edge.from].kind) == Family::kModel) follow(graph, edge.from);
  }

  std::vector<TrainedData> found() && {
    std::vector<TrainedData> result;
    for (auto& [folder, one] : found_) result.push_back(std::move(one));
    return result;
  }

 private:
  /// Adds the training nodes in `run` that the weights at `path` may come from: only one node if
  /// `path` is in its folder.
  void add_run(const fs::path& run, const fs::path& path) {
    const fs::path below = path.lexically_relative(RunLayout(run).nodes());
    const std::string node =
        below.empty() || *below.begin() == ".." || *below.begin() == "." ? "" : *below.begin();
    if (!seen_.insert(run / node).second) return;
    const auto graph = recorded_graph(run);
    if (!graph) return add(run, {"train"}, /*is_earlier=*/true);
    std::set<std::size_t> trainings;
    for (std::size_t i = 0; i < graph->nodes.size(); ++i) {
      if (family_of(graph->nodes[i].kind) != Family::kTrain ||
          (!node.empty() && graph->nodes[i].id != node))
        continue;
      trainings.insert(i);
      add_trainings(*graph, i, trainings);
    }
    for (const std::size_t training : trainings) {
      for (const auto& [data, names] : parts_of(*graph, training))
        add(RunLayout(run).node(graph->nodes[data].id).folder(), names, /*is_earlier=*/true);
      follow(*graph, training);
    }
  }

  const bool knows_validation_;
  std::map<fs::path, TrainedData> found_;
  std::set<fs::path> seen_;  // runs and nodes already searched
};

}  // namespace

std::vector<TrainedData> trained_data(std::size_t index, const Graph& graph,
                                      const RunOptions& options) {
  std::set<std::size_t> trainings;
  add_trainings(graph, index, trainings);
  TrainedDataSearch search(tests_validation(graph.nodes[index]));
  std::map<std::size_t, std::set<std::string>> tested;
  for (const Edge& edge : graph.nodes[index].inputs)
    if (edge.type == ArtifactType::kDataset) add_sources(graph, edge, tested);
  for (const std::size_t training : trainings) {
    const bool is_earlier = options.trained.contains(graph.nodes[training].id);
    const fs::path& run = is_earlier ? options.divisions : options.folder;
    for (auto& [data, names] : search.parts_of(graph, training)) {
      std::set<std::string> given = names;
      const std::set<std::string>& wired = tested[data];
      if (run.empty())
        std::erase_if(given, [&](const std::string& name) { return !wired.contains(name); });
      search.add(run.empty() ? fs::path() : RunLayout(run).node(graph.nodes[data].id).folder(),
                 given, is_earlier);
    }
    search.follow(graph, training);
  }
  return std::move(search).found();
}

namespace {

/// Returns the first line of an exception's text, for the user. If there is more, such as the C++
/// backtrace in LibTorch's exceptions, writes the whole text to stderr, which goes to the log.
std::string first_line_logging_rest(const char* what) {
  const std::string_view text = what;
  const std::size_t end = std::min(text.find('\n'), text.size());
  if (end < text.size()) std::fprintf(stderr, "%s\n", what);
  return std::string(text.substr(0, end));
}

/// LibTorch's exception types are not available here, so this compares messages.
bool says_out_of_memory(std::string_view what) {
  return what.find("out of memory") != what.npos || what.find("can't allocate memory") != what.npos;
}

Diagnostic as_diagnostic(const StageError& error, const Node& node) {
  return {error.code,
          {},
          (error.stage.empty() ? node.pointer : error.stage) + error.option,
          error.what(),
          error.help};
}

Diagnostic out_of_memory(const Node& node, const std::string& detail) {
  return {ErrorCode::kOutOfMemory,
          {},
          node.pointer,
          "out of memory" + (detail.empty() ? "" : ": " + detail),
          "use a smaller memory.micro_batch, train.batch_size or model"};
}

Diagnostic not_deterministic(const Node& node, const std::string& operation) {
  return {ErrorCode::kNotDeterministic,
          {},
          node.pointer,
          nondeterminism_text(operation) + " on this device",
          "set determinism: warn to continue with a warning, or determinism: off; most operations "
          "are deterministic on device=cpu"};
}

/// Memory that stays allocated throughout training, however the batches are computed, and its name
/// in messages.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLasting = {
    {{"parameter", "weights"}, {"gradient", "gradients"}, {"optimizer_state", "optimizer state"}}};

/// A plan with steps that launch this many times as many operations is noticeably slower than its
/// FLOPs suggest.
constexpr double kNoticed = 1.5;

struct Lasting {
  std::string names;  ///< "weights, gradients and optimizer state"
  std::int64_t bytes = 0;
};

Lasting lasting(const MemoryPlan& plan) {
  Lasting result;
  std::vector<std::string_view> names;
  for (const auto& [owner, name] : kLasting) {
    const auto found = std::ranges::find(plan.owners, owner, &NamedBytes::name);
    if (found == plan.owners.end()) continue;
    names.push_back(name);
    result.bytes += found->bytes;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) result.names += i + 1 < names.size() ? ", " : " and ";
    result.names += names[i];
  }
  return result;
}

const PlanAlternative* smallest(const MemoryPlan& plan) {
  const PlanAlternative* least = nullptr;
  for (const PlanAlternative& other : plan.alternatives) {
    if (other.refused.empty() && (!least || other.needed < least->needed)) least = &other;
  }
  return least;
}

std::string advice(const MemoryPlan& plan) {
  if (const PlanAlternative* other = cheapest_that_fits(plan)) {
    return override_text(other->overrides) + " fits: " + size_text(other->needed) +
           (other->relative_operations > kNoticed
                ? ", and launches " + std::to_string(std::lround(other->relative_operations)) +
                      " times as many operations"
                : "") +
           (other->exactness == "declared" ? ", and changes the training" : "");
  }
  if (const auto [names, bytes] = lasting(plan); bytes > *plan.budget)
    return names + " alone need " + size_text(bytes) +
           ": use a larger budget, another device or a smaller model";
  if (const PlanAlternative* other = smallest(plan); other && other->needed < plan.needed) {
    return "none of the alternatives fits; " + override_text(other->overrides) +
           " comes closest: " + size_text(other->needed);
  }
  return "use a larger budget, another device, a smaller batch_size or smaller images";
}

}  // namespace

Diagnostic stage_failure(const Node& node) {
  try {
    throw;
  } catch (const StageError& error) {
    return as_diagnostic(error, node);
  } catch (const std::bad_alloc&) {
    return out_of_memory(node, "");
  } catch (const std::system_error& error) {
    const std::string line = first_line_logging_rest(error.what());
    auto limit = limit_reached(error.code(), line);
    if (!limit) return {ErrorCode::kStageFailed, {}, node.pointer, line, ""};
    limit->pointer = node.pointer;
    return *std::move(limit);
  } catch (const std::exception& error) {
    const std::string line = first_line_logging_rest(error.what());
    constexpr std::string_view kSaid = "out of memory: ";
    if (says_out_of_memory(line))
      return out_of_memory(node, line.substr(line.starts_with(kSaid) ? kSaid.size() : 0));
    if (const auto operation = nondeterministic_operation(line))
      return not_deterministic(node, *operation);
    return {ErrorCode::kStageFailed, {}, node.pointer, line, ""};
  } catch (...) {
    return {ErrorCode::kStageFailed, {}, node.pointer, "an exception of unknown type", ""};
  }
}

Diagnostics stage_failures(const Node& node) {
  try {
    throw;
  } catch (const StageErrors& several) {
    Diagnostics errors;
    for (const StageError& error : several.all) errors.push_back(as_diagnostic(error, node));
    return errors;
  } catch (...) {
    return {stage_failure(node)};
  }
}

const PlanAlternative* cheapest_that_fits(const MemoryPlan& plan) {
  const auto fits = [&](const PlanAlternative& other) {
    return other.refused.empty() && (!plan.budget || other.needed <= *plan.budget);
  };
  const auto found = std::ranges::find_if(plan.alternatives, fits);
  return found == plan.alternatives.end() ? nullptr : &*found;
}

Diagnostic does_not_fit(const MemoryPlan& plan, std::string pointer) {
  assert(!plan.fits());
  Diagnostic refusal{ErrorCode::kOutOfMemory,
                     {},
                     std::move(pointer),
                     "'" + plan.node + "' needs " + size_text(plan.needed) + " at its peak, " +
                         (plan.held.empty() ? "" : held_text(plan) + ", ") + "and may use " +
                         size_text(*plan.budget) + " (" + plan.budget_from +
                         "): " + size_text(plan.needed - *plan.budget) + " too much",
                     advice(plan)};
  if (!plan.largest.empty())
    refusal.notes.push_back(
        {{}, "the largest tensor at the peak: " + tensor_text(plan.largest.front())});
  for (const NamedBytes& one : plan.held)
    refusal.notes.push_back(
        {{}, "held by an earlier node: " + one.name + ", " + size_text(one.bytes)});
  return refusal;
}

}  // namespace runner
