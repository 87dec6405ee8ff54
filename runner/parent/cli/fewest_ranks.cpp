#include "runner/parent/cli/fewest_ranks.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "runner/parent/cli/graph_worker.h"
#include "runner/parent/cli/weights_source.h"
#include "runner/parent/devices/nvml.h"
#include "runner/parent/run/plan_request.h"
#include "runner/shared/record/node_index.h"
#include "runner/shared/text/printable.h"
#include "runner/shared/text/units.h"

namespace runner {
namespace {

constexpr int kMostOnCpu = 8, kMostElsewhere = 64;

/// The recipe with a given number of ranks, and the result of its plan.
struct TriedRanks {
  PreparedRecipe prepared;
  bool fits;
  std::string need;  // "train needs 3 GiB of 2 GiB"
};

std::string need_text(const PlanAnswer& answer) {
  const MemoryPlan* const largest = answer.largest_plan();
  if (!largest) return "nothing is planned";
  return printable(largest->node) + " needs " + size_text(largest->needed) +
         (largest->budget ? " of " + size_text(*largest->budget) : "");
}

class FewestRanks {
 public:
  FewestRanks(const RankSearch& search, const Value& recipe, std::vector<DeviceFacts> gpus,
              Console& console)
      : search_(search), gpus_(std::move(gpus)), console_(console) {
    if (!search.gpu.empty()) most_ = kMostElsewhere;
    else if (!gpus_.empty()) most_ = static_cast<int>(gpus_.size());
    else if (!device_request(recipe).is_gpu()) most_ = kMostOnCpu;
  }

  /// Doubles the number until the run fits, then bisects.
  Result<PreparedRecipe> find() {
    if (most_ == 1) return only_one();
    int too_few = 0, ranks = 1;
    for (;; ranks = std::min(2 * ranks, most_)) {
      if (auto errors = plan_with(ranks); !errors.empty()) return errors;
      if (enough_) break;
      if (ranks == most_) return nothing_fits();
      too_few = ranks;
    }
    while (ranks - too_few > 1) {
      const int middle = too_few + (ranks - too_few) / 2;
      if (auto errors = plan_with(middle); !errors.empty()) return errors;
      (enough_->prepared.graph.ranks == middle ? ranks : too_few) = middle;
    }
    if (!console_.is_quiet()) {
      const std::string why =
          less_ ? "with " + std::to_string(too_few) + ", " + less_->need : enough_->need;
      console_.err << "device.count: auto is " << ranks << ": " << why << std::endl;
    }
    return std::move(enough_->prepared);
  }

 private:
  Result<PreparedRecipe> prepare_for(int ranks) {
    NamedRecipe named = search_.recipe;
    named.overrides.push_back("device.count=" + std::to_string(ranks));
    return prepare(named, shipped_schemas(), console_.sources);
  }

  /// There is nothing to choose, so nothing is planned.
  Result<PreparedRecipe> only_one() {
    if (!console_.is_quiet())
      console_.err << "device.count: auto is 1: there is only one device for all ranks"
                   << std::endl;
    return prepare_for(1);
  }

  /// Sets enough_ or less_.
  Diagnostics plan_with(int ranks) {
    auto prepared = prepare_for(ranks);
    if (!prepared) return prepared.errors();
    Graph graph = prepared->graph;
    if (!search_.only.empty()) {
      auto part = only(graph, search_.only);
      if (!part) return part.errors();
      graph = *std::move(part);
    }
    const Value& recipe = prepared->recipe.resolved;
    const auto answer = ask(std::move(graph), recipe);
    if (!answer) return placed(answer.errors(), recipe);
    Diagnostics errors = placed(answer->diagnostics, recipe);
    std::erase_if(errors, [](const Diagnostic& one) { return one.severity != Severity::kError; });
    const auto is_memory = [](const Diagnostic& one) {
      return one.code == ErrorCode::kOutOfMemory;
    };
    const bool fits = std::ranges::none_of(errors, is_memory);
    std::erase_if(errors, is_memory);
    if (errors.empty())
      (fits ? enough_ : less_) = TriedRanks{*std::move(prepared), fits, need_text(*answer)};
    return errors;
  }

  Result<PlanAnswer> ask(Graph graph, const Value& recipe) {
    auto worker = worker_for(graph, recipe, shipped_schemas(), search_.log);
    if (!worker) return worker.errors();
    PlanRequest request{.graph = std::move(graph),
                        .budget = std::nullopt,
                        .device_model = "",
                        .alternatives = false,
                        .strict = search_.recipe.strict,
                        .reuse = search_.reuse,
                        .node_index = node_index_folder()};
    if (!gpus_.empty()) plan_on(gpus_[static_cast<std::size_t>(request.graph.ranks - 1)], request);
    if (Diagnostics errors = hold_against(request, search_.budget, search_.gpu); !errors.empty())
      return errors;
    ProgressDisplay display(console_.err, standard_error_display(console_.verbosity),
                            SecretTexts(recipe));
    return ask_for_plan(without_gpus(*worker), request, display);
  }

  Diagnostics nothing_fits() const {
    const Value& count = *at_key(less_->prepared.recipe.resolved, "device.count");
    const std::string most = std::to_string(most_);
    return {{ErrorCode::kOutOfMemory, count.where, "/device/count",
             "device.count: auto: the run does not fit with any number of ranks up to " + most +
                 ": with " + most + ", " + less_->need,
             "run `retort plan` with device.count=" + most +
                 " to see which options would reduce memory use"}};
  }

  const RankSearch& search_;
  const std::vector<DeviceFacts> gpus_;  // the best first
  Console& console_;
  int most_ = 1;
  std::optional<TriedRanks> enough_, less_;  // the smallest number that fits, and the largest that
                                             // does not
};

}  // namespace

Result<PreparedRecipe> with_fewest_ranks(PreparedRecipe prepared, const RankSearch& search,
                                         Console& console) {
  const Value& recipe = prepared.recipe.resolved;
  if (!chooses_ranks(recipe)) return prepared;
  std::vector<DeviceFacts> gpus;
  if (search.gpu.empty()) {
    Nvml nvml;
    auto found = gpus_for_ranks(device_request(recipe), device_world(nvml, console));
    if (!found) return placed(found.errors(), recipe);
    gpus = *std::move(found);
  }
  return FewestRanks(search, recipe, std::move(gpus), console).find();
}

}  // namespace runner
