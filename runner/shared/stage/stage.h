#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/error/stage_error.h"

namespace runner {

/// The types of artifacts that flow along the edges of the graph. Schemas refer to them in x-inputs
/// and x-outputs.
enum class ArtifactType { kDataset, kModel, kMemoryPolicy, kCheckpoint, kPredictions, kMetrics };

/// Converts to and from "dataset", "model", "memory_policy", "checkpoint", "predictions" or
/// "metrics".
std::string_view name(ArtifactType type);
std::optional<ArtifactType> artifact_type(std::string_view name);

/// The memory that an artifact occupies while it exists, in bytes.
struct HeldMemory {
  std::int64_t on_device = 0;  ///< bytes in the memory of the run's device
  std::int64_t on_host = 0;    ///< bytes in host memory, which is the device's memory if the device
                               ///< is "cpu"
};

/// A stage's output, used by other stages. Immutable once produced; freed when the last consumer
/// has run.
class Artifact {
 public:
  virtual ~Artifact() = default;
  virtual ArtifactType type() const = 0;
  /// For a stand-in, returns the memory that the real artifact will occupy.
  virtual HeldMemory held() const { return {}; }
};
using ArtifactPtr = std::shared_ptr<const Artifact>;

class ConfigReader;
class PlanContext;
class RunContext;

/// The artifacts on a stage's input ports, keyed by port name. A `many` port can have several.
class Inputs {
 public:
  using ByPort = std::map<std::string, std::vector<ArtifactPtr>, std::less<>>;
  using Sources = std::map<std::string, std::string, std::less<>>;
  /// `sources` maps each port to the stage wired to it.
  explicit Inputs(ByPort by_port, Sources sources = {})
      : by_port_(std::move(by_port)), sources_(std::move(sources)) {}

  /// Returns the artifact on `port`. The graph compiler has checked that it exists and is a T.
  template <typename T>
  std::shared_ptr<const T> get(std::string_view port) const {
    const auto artifact = find<T>(port);
    assert(artifact);
    return artifact;
  }

  /// Returns the artifact on an optional port; null if nothing is wired to it.
  template <typename T>
  std::shared_ptr<const T> find(std::string_view port) const {
    const auto found = by_port_.find(port);
    if (found == by_port_.end() || found->second.empty()) return nullptr;
    assert(found->second.front()->type() == T::kType);
    return std::static_pointer_cast<const T>(found->second.front());
  }

  /// Returns all artifacts on a `many` port, in the order of the graph's nodes.
  template <typename T>
  std::vector<std::shared_ptr<const T>> all(std::string_view port) const {
    std::vector<std::shared_ptr<const T>> result;
    const auto found = by_port_.find(port);
    if (found == by_port_.end()) return result;
    for (const ArtifactPtr& artifact : found->second)
      result.push_back(std::static_pointer_cast<const T>(artifact));
    return result;
  }

  /// True if `artifact` is on any port.
  bool has(const Artifact& artifact) const {
    return std::ranges::any_of(by_port_, [&](const auto& port) {
      return std::ranges::count(port.second, &artifact, &ArtifactPtr::get) > 0;
    });
  }

  /// Returns the name in the recipe of the stage that produced the artifact on `port`; the port's
  /// name if unknown.
  std::string source(std::string_view port) const {
    const auto found = sources_.find(port);
    return found == sources_.end() ? std::string(port) : found->second;
  }

 private:
  ByPort by_port_;
  Sources sources_;
};

/// The artifacts that a stage produces, one for each output port of its kind.
using Outputs = std::map<std::string, ArtifactPtr, std::less<>>;

/// One configured stage of a run.
class Stage {
 public:
  virtual ~Stage() = default;
  /// Does the work. Throws StageError for errors that the user can fix, and other exceptions for
  /// anything else. The executor reports both at the stage's location in the recipe.
  virtual Outputs run(const Inputs& inputs, RunContext& context) = 0;
  /// Plans the memory that run() would need for these inputs, without running it, using only
  /// descriptions, on the Meta device. Returns stand-ins for the outputs that suffice to plan later
  /// stages. Returns nullopt if the stage is too cheap to be worth planning; it is then run, and
  /// its outputs are kept for the run.
  virtual std::optional<Outputs> plan(const Inputs& /*inputs*/, PlanContext& /*context*/) {
    return std::nullopt;
  }
  /// Returns a short string that identifies the inputs, other than options, that the stage found
  /// when it was created: the files of a dataset, the bytes of weights. Two stages with the same
  /// options and fingerprint behave the same. Empty if there are none. Called again after run(),
  /// which may have created those files.
  virtual std::string fingerprint() const { return {}; }
  /// False if neither the outputs nor the files depend on NodeFacts::seed.
  virtual bool uses_seed() const { return true; }
};

/// The code of one kind. Its ports, options, defaults and help texts are in schemas/, so programs
/// without this code can check and draw a graph. Each file in stages/ defines one constant.
struct StageKind {
  std::string_view name;  ///< as written after `kind:` in a recipe, e.g. "train.supervised"
  /// Reads and checks the options. May inspect the environment, for example to see whether a folder
  /// exists, but does not modify it, load data or allocate tensors. All stages are created before
  /// the first one runs.
  Result<std::unique_ptr<Stage>> (*create)(ConfigReader& config);
};

}  // namespace runner
