#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace runner {

/// A number of bytes, and its owner.
struct NamedBytes {
  std::string name;
  std::int64_t bytes = 0;
  std::string note = {};  ///< how the number was obtained, or why it is 0; may be empty
  bool operator==(const NamedBytes&) const = default;
};

/// A tensor that is live at the peak.
struct AliveTensor {
  std::string owner;  ///< as in MemoryPlan::owners
  std::string name;   ///< for a parameter, gradient or input: its own name; for an activation: the
                      ///< module's path
  std::string operation;  ///< the operation that created it, such as "aten::linear"; may be empty
  std::vector<std::int64_t> shape;
  std::string dtype;  ///< "float32"
  std::int64_t bytes = 0;
  bool operator==(const AliveTensor&) const = default;
};

/// The start of a phase on the live-bytes curve.
struct PhaseMark {
  std::string phase;  ///< such as "forward", "loss", "backward", "clip", "optimizer" or "evaluate"
  std::size_t point = 0;  ///< index into MemoryPlan::curve
  bool operator==(const PhaseMark&) const = default;
};

/// Another way of computing the same step.
struct PlanAlternative {
  std::vector<std::string> overrides;  ///< overrides that select it: "memory.micro_batch=8"
  std::string exactness;               ///< "bit", "exact" or "declared"
  std::int64_t needed = 0;             ///< in bytes, like MemoryPlan::needed
  double relative_flops = 1;           ///< FLOPs of a step, relative to the plan
  std::string refused = {};            ///< why it is not possible; empty if it is
  double relative_operations =
      1;  ///< operations launched in a step, relative to the plan; each one has overhead
  bool operator==(const PlanAlternative&) const = default;
};

/// The choice made automatically by a plan, if the recipe allows it.
struct PlanChoice {
  std::vector<std::string> overrides;  ///< overrides that select it explicitly; empty for the whole
                                       ///< batch at once, nothing recomputed
  std::string exactness;               ///< "bit" or "exact"
  std::string summary;                 ///< "micro_batch 26 (5 parts), 3 of 12 blocks recomputed"
  std::int64_t whole = 0;              ///< bytes needed to compute the whole batch at once
  double relative_time = 1;  ///< estimated time of a step, relative to the whole batch at once
  std::string time_model;    ///< version of the time model
  bool is_replayed = false;  ///< true if the choice was made when the run first started
  bool operator==(const PlanChoice&) const = default;
};

/// How an option set in the recipe affects the peak.
struct OptionEffect {
  std::string option;      ///< as in the recipe, "memory.empty_cache_every"
  std::string value;       ///< "50"
  std::int64_t bytes = 0;  ///< how much the option lowers the peak; negative if it raises it
  std::string note = {};   ///< "it returns unused blocks, and lowers no peak"
  bool operator==(const OptionEffect&) const = default;
};

/// The name of the plan term for caches: memory that the plans leave free and that artifacts may
/// use.
inline constexpr std::string_view kCacheTerm = "cache";

/// The result of a node's dry run: the memory that the node needs at its peak, how it is used, and
/// the alternatives. All sizes are in bytes. Recorded as nodes/<id>/plan.json.
struct MemoryPlan {
  std::string node;
  std::string device;         ///< "cpu", "cuda:0", or the name of a device that is not present
  int threads = 0;            ///< CPU threads; the temporary memory of CPU kernels grows with them
  std::int64_t live = 0;      ///< peak bytes live in tensors
  std::int64_t reserved = 0;  ///< peak bytes that the allocator reserves to hold them
  std::int64_t needed =
      0;  ///< reserved bytes, memory of kernels and loaders, a margin, and held bytes
  std::optional<std::int64_t> budget;  ///< the limit for `needed`; nullopt: unknown
  std::string budget_from;             ///< "memory.budget", "--budget", "the machine's memory", …
  bool must_fit = true;  ///< false: runs even if it does not fit (on_oom_policy: legacy)
  std::string peak_phase, peak_operation;
  std::vector<NamedBytes>
      owners;  ///< live bytes at the peak, by owner: parameter, gradient, optimizer_state, …
  std::vector<NamedBytes>
      terms;  ///< terms of `needed`, by name; notes mark parts of `live` or `reserved`
  std::string terms_version;  ///< version of the formulas for the terms
  std::vector<NamedBytes>
      held;  ///< outputs of earlier nodes kept during this node: "train.1.checkpoint"
  std::vector<AliveTensor> largest;  ///< the ten largest tensors live at the peak
  std::vector<std::int64_t>
      curve;  ///< live bytes over a step, evenly downsampled; includes the peak
  std::vector<PhaseMark> phases;
  std::vector<OptionEffect> options;
  std::vector<PlanAlternative> alternatives;  ///< alternatives considered, cheapest first
  double flops = 0;                           ///< FLOPs of one step
  std::int64_t operations = 0;                ///< operations launched in one step; 0: unknown
  double traffic = 0;                         ///< bytes written in one step; 0: unknown
  double moved = 0;                           ///< bytes copied between host and GPU in one step
  nlohmann::ordered_json
      step;  ///< how a batch is computed: {"micro_batch", "two_pass", "precision", …}
  std::optional<PlanChoice> choice;  ///< nullopt if the recipe sets everything
  std::string measured;              ///< the dry run's error, if real steps were measured instead
  std::string reuse;  ///< "hit", "miss: data.image_size was 56 and is now 70"; empty if
                      ///< nothing is reused

  std::int64_t held_bytes() const;
  bool fits() const { return !budget || needed <= *budget; }
  bool may_run() const { return fits() || !must_fit; }
  bool operator==(const MemoryPlan&) const = default;
};

nlohmann::ordered_json to_json(const MemoryPlan& plan);
/// Parses the result of to_json(). Throws std::runtime_error for any other JSON.
MemoryPlan memory_plan_from_json(const nlohmann::ordered_json& json);

/// Returns {"node", "needed", "held"} for the node at which the run needs the most memory. "held"
/// is the part of it that is taken up by results needed by other nodes.
nlohmann::ordered_json run_peak(const MemoryPlan& plan);

/// Returns "chosen: micro_batch 26 (5 parts): 1.9 GiB instead of 6.4 GiB, in about 2% more time;
/// equal in exact arithmetic".
std::string choice_text(const MemoryPlan& plan);

/// Returns "measured by running real steps, since a dry run fails: RuntimeError: … (my_net.py:12)".
std::string measured_text(const MemoryPlan& plan);

/// Returns "12.0 MiB of it held by earlier nodes".
std::string held_text(const MemoryPlan& plan);

/// Returns "memory.micro_batch=8 memory.two_pass=on"; "as written" if there are no overrides.
std::string override_text(const std::vector<std::string>& overrides);

/// Returns "(105, 64, 112, 112)".
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Returns "layer1.0.conv1 (105, 64, 112, 112) float32, 321.6 MiB", with the owner instead of the
/// name if the tensor has none.
std::string tensor_text(const AliveTensor& tensor);

}  // namespace runner
