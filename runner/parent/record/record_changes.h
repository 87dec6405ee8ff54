#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runner/shared/graph/graph.h"

namespace runner {

/// Something that differs between the record of a run and the world in which it is to be had again.
struct RecordChange {
  /// The inputs and the code decide what is computed, the rest only how it is rounded.
  enum class Weight {
    kBits,   ///< the result may have other bits
    kWhole,  ///< the result may be another one altogether
  };
  Weight weight = Weight::kBits;
  std::string what;     ///< "build", "threads", "input /data/root"
  std::string text;     ///< "the build was 0.1.0-ab and is now 0.1.0-cd"
  std::string pointer;  ///< into the recipe; empty: not of an option
};

/// Where the environment.json `now` differs from `before`, in what bears on a result: the build, the worker's versions,
/// the processor's model and instruction sets, device and threads, determinism, the recorded variables but that of a
/// Slurm job, and the inputs. What only one of them says is passed over, but for variables. Records may come from a
/// file that anything may have happened to.
std::vector<RecordChange> environment_changes(const nlohmann::ordered_json& before, const nlohmann::ordered_json& now);

/// The nodes of `graph` whose kinds had another version when the graph.json `before` was written: the same options mean
/// something else since.
std::vector<RecordChange> kind_changes(const nlohmann::ordered_json& before, const Graph& graph);

/// [{"what", "text", "weight": "bits" | "whole"}]
nlohmann::ordered_json to_json(const std::vector<RecordChange>& changes);

}  // namespace runner
